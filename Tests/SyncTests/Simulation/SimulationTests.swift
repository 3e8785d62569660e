import Foundation
import Testing

@Suite("Simulated peers, servers and networks")
struct SimulationTests {
    /// `MIMEO_SEEDS` sets how many; `MIMEO_SEED` runs one.
    static let count = UInt64(ProcessInfo.processInfo.environment["MIMEO_SEEDS"] ?? "") ?? 300
    static let only = UInt64(ProcessInfo.processInfo.environment["MIMEO_SEED"] ?? "")
    static var seeds: [UInt64] { only.map { [$0] } ?? Array(1...count) }

    @Test("after any chaos everybody converges, nothing is lost, nothing foreign was sent")
    func convergence() { Self.run([]) }

    @Test("a connection that only the peer has lost does no harm")
    func ghosts() { Self.run([.ghosts]) }

    @Test("a write that is refused is set aside, and every other one reaches the server")
    func refusedWrites() { Self.run([.refusals, .ghosts]) }

    @Test("a clock that is a day away holds nothing up for ever")
    func clocks() { Self.run([.clocks, .ghosts]) }

    @Test("a store that was rolled back goes on, and what it still has reaches the server")
    func rolledBackStores() { Self.run([.rollBacks, .ghosts]) }

    @Test("a server restored to an earlier state gets back what it lost")
    func restoredServer() { Self.run([.restores]) }

    @Test(
        "what was deleted and reaped while a peer was away does not come back, what it wrote meanwhile stays")
    func reaping() { Self.run([.reaping, .ghosts]) }

    @Test("a right that is lost hides what it let read at once, and one that is given shows it")
    func grants() { Self.run([.grants, .ghosts]) }

    @Test("all of it at once")
    func everything() {
        Self.run(
            [.restores, .rollBacks, .refusals, .clocks, .ghosts, .reaping, .grants])
    }

    private static func run(_ faults: World.Faults) {
        var failures: [String] = []
        for seed in seeds {
            do {
                var world = try World(seed: seed, faults: faults)
                try world.run(steps: 600)
            } catch {
                failures.append("seed \(seed): \(error)")
            }
        }
        #expect(failures.isEmpty, "\(failures.count) of \(seeds.count): \(failures.prefix(5))")
    }
}
