import CRDT
import DQL
import DQLCorpus
import TestSupport
import Testing

@Suite(
    "The corpus on a projection in PostgreSQL",
    .enabled(if: TestDatabase.serverURL != nil, "`make test` starts a PostgreSQL"))
struct CorpusOnPostgresTests {
    @Test("every case gives what it says, and what the naive evaluator gives; some in the other mode too")
    func givesWhatItSays() async throws {
        try await TestDatabase.use { url in
            var number = 0
            var engine = try ProjectionEngine(url: url, database: "case-0")
            var shares = PushedShares()
            // DQLTests run the same sample; here a run takes every second case of it, and a deep one all.
            let step = Depth.pick(fast: 2, deep: 1)
            for (place, test) in Corpus.sample.enumerated()
            where place % step == Int(Depth.seed % 2) % step && !Self.isForPeers(test) {
                for isStrict in [test.isStrict] + (place.isMultiple(of: 8) ? [!test.isStrict] : []) {
                    if !engine.isUntouched {
                        number += 1
                        engine = try ProjectionEngine(url: url, database: DatabaseID("case-\(number)"))
                    }
                    let store = MemoryStore()
                    for step in test.steps {
                        let naive = Outcome(of: step, on: store, strict: isStrict)
                        let real = Outcome(of: step, on: engine, strict: isStrict)
                        #expect(real.summary == naive.summary, "\(test): \(step.statement)")
                        guard isStrict == test.isStrict else { continue }
                        #expect(real.differences(from: step) == [], "\(test): \(step.statement)")
                        if !isStrict { shares.add(step, on: engine) }
                    }
                }
            }
            #expect(number > 50 / step)
            print("SELECTs of the corpus: \(shares)")
            #expect(shares.whole > 0)
        }
    }

    @Test("every relation holds, and each of its statements gives what it gives the naive evaluator")
    func relations() async throws {
        try await TestDatabase.use { url in
            let names = Names()
            for cases in RelationCases.chunks(fast: 100).prefix(5) {
                let reports = try RelationRun(documents: 12).violations(of: cases) { _ in
                    EnginePair(
                        MemoryStore(), try ProjectionEngine(url: url, database: DatabaseID(names.next())))
                }
                #expect(reports == [], "\(reports.joined(separator: "\n\n"))")
            }
        }
    }

    @Test("ids of every type and length are found by ranges, by prefixes and in order")
    func idRanges() async throws {
        try await TestDatabase.use { url in
            let engine = try ProjectionEngine(url: url, database: "ids")
            #expect(try IDRangeCases.faults(on: engine, seed: Depth.seed) == [])
            for condition in ["WHERE _id > 5", "WHERE _id LIKE 'a%'", "ORDER BY _id DESC LIMIT 3"] {
                let plan = try engine.rows("EXPLAIN SELECT * FROM ids \(condition)")
                #expect("\(plan)".contains("idRangeScan"), "\(condition): \(plan)")
            }
        }
    }

    @Test("with random indexes, some older than the documents and some younger, no answer changes")
    func relationsWithIndexes() async throws {
        try await TestDatabase.use { url in
            let names = Names()
            for cases in RelationCases.chunks(fast: 100).suffix(5) {
                let reports = try RelationRun(documents: 12).violations(of: cases) { store in
                    let engine = try ProjectionEngine(url: url, database: DatabaseID(names.next()))
                    try RandomIndexes.create(on: engine, seed: UInt64(store))
                    return EnginePair(MemoryStore(), engine)
                }
                #expect(reports == [], "\(reports.joined(separator: "\n\n"))")
            }
        }
    }

    /// Returns whether a case evicts or is about indexes, which is for small peers: a projection has no copy
    /// of its own to drop, and no indexes of ours.
    private static func isForPeers(_ test: CorpusCase) -> Bool {
        // Joins need indexes.
        let joins = test.steps.contains { $0.statement.uppercased().contains(" JOIN ") }
        return test.steps.contains { step in
            let words = step.statement.uppercased()
            return (try? PreparedStatement(step.statement))?.kind == .evict
                || words.contains("INDEX") && !joins
                || ["ADVISE", "EXPLAIN", "PROFILE"].contains { words.contains($0) }
        }
    }

    /// Names new databases. Used by one thread at a time.
    private final class Names {
        private var count = 0

        func next() -> String {
            count += 1
            return "run-\(count)"
        }
    }
}
