import CRDT
import DQL
import DQLCorpus
import Foundation
import TestSupport
import Testing

@testable import Replica

@Suite("The corpus on the replica")
struct CorpusOnReplicaTests {
    @Test("every case gives what it says, on a store on disk", arguments: Corpus.files)
    func givesWhatItSays(_ file: String) throws {
        try withReplicas { makeEngine in
            for test in Corpus.cases where test.file == file {
                let engine = try makeEngine()
                for step in test.steps {
                    let outcome = Outcome(of: step, on: engine, strict: test.isStrict)
                    #expect(outcome.differences(from: step) == [], "\(test): \(step.statement)")
                }
                try engine.close()
            }
        }
    }

    @Test("in the other mode the replica gives what the naive evaluator gives", arguments: Corpus.files)
    func agreesInTheOtherMode(_ file: String) throws {
        try withReplicas { makeEngine in
            for test in Corpus.cases where test.file == file {
                let engine = try makeEngine()
                let store = MemoryStore()
                for step in test.steps {
                    let naive = Outcome(of: step, on: store, strict: !test.isStrict)
                    let real = Outcome(of: step, on: engine, strict: !test.isStrict)
                    #expect(real.summary == naive.summary, "\(test): \(step.statement)")
                }
                try engine.close()
            }
        }
    }

    /// Hands out what makes empty engines in folders of their own.
    private func withReplicas(_ body: (() throws -> ReplicaEngine) throws -> Void) throws {
        try withTemporaryDirectory { folder in
            var count = 0
            try body {
                count += 1
                return try ReplicaEngine(folder: folder.appendingPathComponent("\(count)"))
            }
        }
    }
}
