import CRDT
import DQL
import DQLCorpus
import Testing

@Suite("Corpus")
struct CorpusTests {
    @Test("every case gives what it says", arguments: Corpus.cases)
    func givesWhatItSays(_ test: CorpusCase) throws {
        let store = MemoryStore()
        for step in test.steps {
            let outcome = Outcome(of: step, on: store, strict: test.isStrict)
            #expect(outcome.differences(from: step) == [], "\(step.statement)")
        }
    }

    @Test("every case gives it with indexes too", arguments: Corpus.cases)
    func givesItWithIndexes(_ test: CorpusCase) throws {
        let store = MemoryStore(usesIndexes: true)
        for step in test.steps {
            let outcome = Outcome(of: step, on: store, strict: test.isStrict)
            #expect(outcome.differences(from: step) == [], "\(step.statement)")
        }
    }

    @Test("there are clearly more cases than the 600 that are asked for")
    func isLarge() {
        #expect(Corpus.cases.count >= 1_500)
    }

    @Test("no two cases of a file have one name")
    func namesAreUnique() {
        let names = Dictionary(grouping: Corpus.cases.map(\.description)) { $0 }
        #expect(names.filter { $0.value.count > 1 }.keys.sorted() == [])
    }

    @Test("printing and parsing again gives the same tree", arguments: Corpus.cases)
    func roundTrip(_ test: CorpusCase) throws {
        for step in test.steps {
            guard let statement = try? StatementCompiler.parse(step.statement) else { continue }
            let printed = StatementPrinter.print(statement)
            let again = try StatementCompiler.parse(printed)
            #expect(again == statement, "\(printed)")
            #expect(StatementPrinter.print(again) == printed)
        }
    }
}
