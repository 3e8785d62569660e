import TestSupport
import Testing

@testable import CRDT

@Suite("Counters")
struct CounterTests {
    @Test("increments of two actors add up, whatever the order in which they meet")
    func sum() throws {
        let left = try edited(at: 10, by: 1) { try $0.increment(["c"], by: 5) }
        let right = try edited(at: 11, by: 2) { try $0.increment(["c"], by: -2) }
        #expect(left.merged(right).value["c"] == 3)
        #expect(left.merged(right) == right.merged(left))
        let again = try edited(left.merged(right), at: 20, by: 1) { try $0.increment(["c"], by: 10) }
        #expect(again.value["c"] == 13)
        #expect(again.root["c"]?.counter?[ActorID(1)]?.point.total == 15)
    }

    @Test("a RESTART discards what its writer had seen; a concurrent increment survives")
    func restart() throws {
        let start = try edited(at: 10, by: 1) { try $0.increment(["c"], by: 5) }
        let restarted = try edited(start, at: 20, by: 2) { try $0.restart(["c"], with: 100) }
        #expect(restarted.value["c"] == 100)
        let more = try edited(start, at: 30, by: 1) { try $0.increment(["c"], by: 7) }
        #expect(more.value["c"] == 12)
        #expect(more.merged(restarted).value["c"] == 107)
        let after = try edited(restarted, at: 40, by: 1) { try $0.increment(["c"], by: 5) }
        #expect(after.value["c"] == 105)
    }

    @Test("what a transaction does to a counter is one net effect")
    func composition() throws {
        let start = try edited(at: 10, by: 1) { try $0.increment(["c"], by: 5) }
        let undone = try edited(start, at: 20, by: 1) {
            try $0.increment(["c"], by: 5)
            try $0.unset(["c"])
        }
        #expect(undone.value["c"] == nil)
        #expect(undone.root["c"]?.counter?.entries.map(\.point.total) == [5])
        let again = try edited(undone, at: 30, by: 1) { try $0.increment(["c"], by: 1) }
        #expect(again.value["c"] == 1)
        let both = try edited(start, at: 20, by: 1) {
            try $0.restart(["c"], with: 100)
            try $0.increment(["c"], by: 5)
        }
        #expect(both.value["c"] == 105)
        let reversed = try edited(start, at: 20, by: 1) {
            try $0.increment(["c"], by: 5)
            try $0.restart(["c"], with: 100)
        }
        #expect(reversed.value["c"] == 100)
    }
}

/// The document after one transaction; its delta, decoded anew, gives the same.
func edited(
    _ document: Document = Document(), at time: Timestamp, by actor: UInt64,
    _ body: (inout DocumentEditor) throws -> Void
) throws -> Document {
    let stamp = Stamp(time: time, actor: ActorID(actor))
    var editor = DocumentEditor(document: document, stamp: stamp)
    try body(&editor)
    var applied = document
    if let delta = editor.pending.delta(stamp: stamp) {
        let decoded = try Delta(decoding: delta.encoded(), stamp: stamp)
        #expect(decoded == delta)
        #expect(applied.apply(decoded) == .applied)
    }
    #expect(applied == editor.document)
    #expect(try Document(decoding: applied.encoded()) == applied)
    return editor.document
}

extension Document {
    func merged(_ other: Document) -> Document {
        var result = self
        result.merge(other)
        return result
    }
}
