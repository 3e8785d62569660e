import Foundation
import TestSupport
import Testing

@testable import CRDT

/// The laws of rules.md over random histories. `MIMEO_SEEDS=1000000` runs that many instead of 10,000,
/// from seed `MIMEO_FROM` on; `MIMEO_SEED=7` runs that one alone.
@Suite("Random histories")
struct HistoryTests {
    private static let workers = ProcessInfo.processInfo.activeProcessorCount

    private static var seeds: Range<UInt64> {
        let environment = ProcessInfo.processInfo.environment.mapValues { UInt64($0) }
        if case let one?? = environment["MIMEO_SEED"] { return one..<one + 1 }
        let first = environment["MIMEO_FROM", default: 0] ?? 0
        return first..<first + (environment["MIMEO_SEEDS", default: nil] ?? 10_000)
    }

    @Test("every history keeps the laws and agrees with the oracle at every step")
    func laws() async {
        let failed = await History.firstFailure(Self.seeds, workers: Self.workers)
        #expect(failed == nil, "\(failed.map { History(seed: $0).report() } ?? "")")
    }

    @Test("a broken rule is found and its history shrinks to a few steps", arguments: Sabotage.allCases)
    func sabotage(_ sabotage: Sabotage) async throws {
        let found = await History.firstFailure(0..<sabotage.isFoundWithin, workers: Self.workers, sabotage)
        let seed = try #require(found, "\(sabotage) goes unnoticed")
        let small = History(seed: seed).shrunk(sabotage)
        #expect(small.failure(sabotage) != nil)
        #expect(small.failure() == nil)
        #expect(small.steps.count <= 8, "\(small)")
    }
}
