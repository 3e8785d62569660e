import DQL
import DQLCorpus
import Testing

@Suite(
    "The corpus on a projection in PostgreSQL",
    .enabled(if: TestDatabase.serverURL != nil, "`make test` starts a PostgreSQL"))
struct CorpusOnPostgresTests {
    @Test("every case gives what it says, and what the naive evaluator gives, in both modes")
    func givesWhatItSays() async throws {
        try await TestDatabase.use { url in
            var number = 0
            var engine = try ProjectionEngine(url: url, database: "case-0")
            for test in Corpus.cases {
                for isStrict in [test.isStrict, !test.isStrict] {
                    if !engine.isUntouched {
                        number += 1
                        engine = try ProjectionEngine(url: url, database: "case-\(number)")
                    }
                    let store = MemoryStore()
                    for step in test.steps {
                        let naive = Outcome(of: step, on: store, strict: isStrict)
                        let real = Outcome(of: step, on: engine, strict: isStrict)
                        #expect(real.summary == naive.summary, "\(test): \(step.statement)")
                        guard isStrict == test.isStrict else { continue }
                        #expect(real.differences(from: step) == [], "\(test): \(step.statement)")
                    }
                }
            }
            #expect(number > 100)
        }
    }

    @Test("every relation holds, and each of its statements gives what it gives the naive evaluator")
    func relations() async throws {
        try await TestDatabase.use { url in
            let names = Names()
            for cases in RelationCases.chunks(of: 250).prefix(2) {
                let reports = try RelationRun(documents: 12).violations(of: cases) {
                    EnginePair(MemoryStore(), try ProjectionEngine(url: url, database: names.next()))
                }
                #expect(reports == [], "\(reports.joined(separator: "\n\n"))")
            }
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
