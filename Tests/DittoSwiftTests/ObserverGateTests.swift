import CRDT
import DQL
import Testing

@testable import DittoSwift

@Suite("The gate of an observer")
struct ObserverGateTests {
    private func gate() throws -> ObserverGate {
        let statement = try PreparedStatement("SELECT * FROM c WHERE team = 'mine'")
        let query = ObservedQuery(statement, arguments: ObjectValue(), options: ExecutionOptions())
        return ObserverGate(try #require(query))
    }

    @Test("a document that fulfils the condition matters, before the query's documents are known and after")
    func matching() throws {
        var gate = try gate()
        let before = gate.matters(1, matches: true)
        #expect(before)
        let missed = gate.queryEnded(with: [])
        #expect(!missed)
        let after = gate.matters(1, matches: true)
        #expect(after)
    }

    @Test("one that does not matters only if it was among the query's documents")
    func known() throws {
        var gate = try gate()
        _ = gate.queryEnded(with: [2, 4, 6, 8])
        for document in 0...9 as ClosedRange<UInt64> {
            let matters = gate.matters(document, matches: false)
            #expect(matters == [2, 4, 6, 8].contains(document), "\(document)")
        }
    }

    @Test("what changed while the query ran is compared with its documents when they are known")
    func remembered() throws {
        var gate = try gate()
        let unknown = gate.matters(4, matches: false)
        #expect(!unknown)
        let wasThere = gate.queryEnded(with: [2, 4])
        #expect(wasThere)
        var other = try self.gate()
        _ = other.matters(5, matches: false)
        let wasElsewhere = other.queryEnded(with: [2, 4])
        #expect(!wasElsewhere)
    }

    @Test("what is remembered is forgotten with the next documents")
    func forgotten() throws {
        var gate = try gate()
        _ = gate.matters(4, matches: false)
        _ = gate.queryEnded(with: [2])
        let again = gate.queryEnded(with: [4])
        #expect(!again)
    }

    @Test("more changes while the query runs than are remembered matter, each")
    func tooManyChanges() throws {
        var gate = try gate()
        for document in 0..<UInt64(Limits.openDocuments) {
            let matters = gate.matters(document, matches: false)
            #expect(!matters)
        }
        let first = gate.matters(1_000_000, matches: false)
        let second = gate.matters(1_000_001, matches: false)
        #expect(first && second)
        // They have been told, so that nothing is left to be told now.
        let missed = gate.queryEnded(with: [])
        #expect(!missed)
    }

    @Test("a query of more documents than are remembered: every change matters, also one that came meanwhile")
    func tooManyDocuments() throws {
        var gate = try gate()
        _ = gate.matters(1, matches: false)
        let missed = gate.queryEnded(with: nil)
        #expect(missed)
        let matters = gate.matters(2, matches: false)
        #expect(matters)
    }

    @Test("a row that is a document and the same row as a value stand for one document")
    func rows() throws {
        let id = try DocumentID("x")
        #expect(ObserverGate.hash(KeptRow(["_id": "x", "n": 1])) == ObserverGate.hash(id))
        #expect(ObserverGate.hash(KeptRow(["n": 1])) == nil)
    }
}
