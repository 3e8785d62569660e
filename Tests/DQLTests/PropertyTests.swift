import DQL
import DQLCorpus
import Foundation
import Testing

@Suite("Relations on generated documents")
struct PropertyTests {
    @Test("every relation holds", arguments: RelationCases.chunks(fast: 2_000))
    func holds(_ cases: Range<Int>) throws {
        let reports = try RelationRun(documents: 9).violations(of: cases) { _ in MemoryStore() }
        #expect(reports == [], "\(reports.joined(separator: "\n\n"))")
    }
}
