import DQL
import DQLCorpus
import Foundation
import Testing

/// MIMEO_CASES=1000000 runs more cases than usual, MIMEO_SEED=N those from N on, or the one case N alone.
@Suite("Relations on generated documents")
struct PropertyTests {
    @Test("every relation holds", arguments: RelationCases.chunks(of: 5_000))
    func holds(_ cases: Range<Int>) throws {
        let reports = try RelationRun(documents: 9).violations(of: cases) { _ in MemoryStore() }
        #expect(reports == [], "\(reports.joined(separator: "\n\n"))")
    }
}
