import Testing

@testable import CRDT

/// The document after one transaction, each statement of which gets an editor of its own, as stores do it.
/// Its delta, encoded and decoded anew, must give the same, and the state must survive its encoding.
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

/// The delta of one transaction.
func delta(
    on document: Document, at time: Timestamp, by actor: UInt64,
    _ body: (inout DocumentEditor) throws -> Void
) throws -> Delta {
    let stamp = Stamp(time: time, actor: ActorID(actor))
    var editor = DocumentEditor(document: document, stamp: stamp)
    try body(&editor)
    return try #require(editor.pending.delta(stamp: stamp))
}

extension Document {
    func merged(_ other: Document) -> Document {
        var result = self
        result.merge(other)
        return result
    }

    func applied(_ delta: Delta) -> Document {
        var result = self
        _ = result.apply(delta)
        return result
    }
}

/// An object of these pairs.
func object(_ pairs: KeyValuePairs<String, Value>) -> ObjectValue {
    ObjectValue(pairs.map { (key: $0.key, value: $0.value) })
}
