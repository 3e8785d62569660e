import DQL
import DQLCorpus
import Foundation
import TestSupport
import Testing

@Suite("The corpus on the replica")
struct CorpusOnReplicaTests {
    @Test("every case gives what it says, on a store on disk", arguments: Corpus.files)
    func givesWhatItSays(_ file: String) throws {
        try withEngines(for: file) { test, engine in
            for step in test.steps {
                let outcome = Outcome(of: step, on: engine, strict: test.isStrict)
                #expect(outcome.differences(from: step) == [], "\(test): \(step.statement)")
            }
        }
    }

    @Test("in the other mode the replica gives what the naive evaluator gives", arguments: Corpus.files)
    func agreesInTheOtherMode(_ file: String) throws {
        try withEngines(for: file) { test, engine in
            let store = MemoryStore()
            for step in test.steps {
                let naive = Outcome(of: step, on: store, strict: !test.isStrict)
                let real = Outcome(of: step, on: engine, strict: !test.isStrict)
                #expect(real.summary == naive.summary, "\(test): \(step.statement)")
            }
        }
    }

    /// Hands each case of a file an engine that nothing was written to yet.
    private func withEngines(
        for file: String, _ body: (CorpusCase, ReplicaEngine) throws -> Void
    ) throws {
        try withTemporaryDirectory { folder in
            var engine = try ReplicaEngine(folder: folder.appendingPathComponent("0"))
            for (number, test) in Corpus.sample.filter({ $0.file == file }).enumerated() {
                if !engine.isUntouched {
                    try engine.close()
                    engine = try ReplicaEngine(folder: folder.appendingPathComponent("\(number)"))
                }
                try body(test, engine)
            }
            try engine.close()
        }
    }
}
