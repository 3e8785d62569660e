import Dispatch
import Foundation
import Synchronization
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

    /// Each world is one thread's alone, and no two have anything in common.
    private static func run(_ faults: World.Faults) {
        let seeds = seeds
        let failures = Mutex<[UInt64: String]>([:])
        DispatchQueue.concurrentPerform(iterations: seeds.count) { number in
            do {
                var world = try World(seed: seeds[number], faults: faults)
                try world.run(steps: 600)
            } catch {
                failures.withLock { $0[seeds[number]] = "seed \(seeds[number]): \(error)" }
            }
        }
        let all = failures.withLock { $0.sorted { $0.key < $1.key }.map(\.value) }
        #expect(all.isEmpty, "\(all.count) of \(seeds.count): \(all.prefix(5))")
    }
}
