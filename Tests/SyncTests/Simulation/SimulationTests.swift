import Foundation
import Testing

@Suite("Simulated peers, servers and networks")
struct SimulationTests {
    /// `MIMEO_SEEDS` sets how many; `MIMEO_SEED` runs one.
    static let count = UInt64(ProcessInfo.processInfo.environment["MIMEO_SEEDS"] ?? "") ?? 300
    static let only = UInt64(ProcessInfo.processInfo.environment["MIMEO_SEED"] ?? "")
    static var seeds: [UInt64] { only.map { [$0] } ?? Array(1...count) }

    @Test("after any chaos everybody converges, nothing is lost, nothing foreign was sent")
    func convergence() { Self.run(restores: false) }

    @Test("a server restored to an earlier state gets back what it lost")
    func restoredServer() { Self.run(restores: true) }

    private static func run(restores: Bool) {
        var failures: [String] = []
        for seed in seeds {
            do {
                var world = try World(seed: seed)
                try world.run(steps: 600, restores: restores)
            } catch {
                failures.append("seed \(seed)\(restores ? " with restores" : ""): \(error)")
            }
        }
        #expect(failures.isEmpty, "\(failures.count) of \(seeds.count): \(failures.prefix(5))")
    }
}
