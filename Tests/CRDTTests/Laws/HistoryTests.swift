import Foundation
import TestSupport
import Testing

@testable import CRDT

/// The laws that the documents promise (`Shared/CRDT/README.md`), over random histories.
@Suite("Random histories")
struct HistoryTests {
    private static let workers = ProcessInfo.processInfo.activeProcessorCount

    @Test("every history keeps the laws and agrees with the oracle at every step")
    func laws() async {
        let failed = await History.firstFailure(
            Depth.seeds(fast: 1_000, deep: 100_000), workers: Self.workers)
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
