import Foundation
import TestSupport
import Testing

@testable import Transport

/// Histories of small peers drawn from seeds. `MIMEO_SEED` repeats one.
@Suite("A mesh of small peers", .serialized, .timeLimit(.minutes(10)))
struct MeshWorldTests {
    /// Seeds that found a fault once, or one when a rule was taken out by hand.
    static let kept: [UInt64] = [
        165, 1_001, 1_003, 1_008, 1_428, 2_050, 660_000_037, 660_000_165, 660_000_461, 880_000_336,
        1_065_239_256,
    ]

    /// The same, as reaping worlds.
    static let keptReaping: [UInt64] = [900_001_121]

    /// Other ones in each run, three of four of them reaping worlds; a failure names its own.
    static var seeds: Range<UInt64> { Depth.seeds(fast: 60, deep: 3_000) }

    @Test("comes to hold the same, whatever happens before", arguments: [0, 1, 2, 3])
    func histories(_ part: UInt64) async throws {
        let seeds = Self.seeds.filter { $0 % 4 == part }
        for seed in part == 0 ? Self.kept : [] { _ = try await play(seed) }
        for seed in part == 0 ? Self.keptReaping : [] { _ = try await play(seed, reaps: true) }
        var reaped = 0
        for seed in seeds where try await play(seed, reaps: part != 3) { reaped += 1 }
        print("the server reaped in \(reaped) of \(seeds.count) worlds")
    }

    /// Returns whether the server reaped.
    private func play(_ seed: UInt64, reaps: Bool = false) async throws -> Bool {
        try await withTemporaryDirectory { folder in
            let world = try await MeshWorld(seed: seed, in: folder, reaps: reaps)
            do {
                try await world.run(steps: 45)
            } catch {
                Issue.record("\(error)\n\(world.history.joined(separator: "\n"))")
            }
            try await world.close()
            return world.hasReaped
        }
    }
}
