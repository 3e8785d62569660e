@testable import CRDT

/// One transaction of a history: statement by statement through the editor, and beside it into the oracle.
struct Transaction {
    let before: Document
    /// The stamp of its writes.
    let stamp: Stamp
    let sabotage: Sabotage?

    /// The delta and the state after it; nil when the statements changed nothing.
    func run(_ edits: [Edit], _ oracle: inout Oracle) throws -> (Delta, Document)? {
        // An editor insists on rule 1; a store that breaks it changes the stamp afterwards.
        let least = before.vector.greatestTime.map { $0 + 1 } ?? 0
        let proper = Stamp(time: max(stamp.time, least), actor: stamp.actor)
        // Each statement gets an editor of its own, as a session hands the pending edits on.
        var recorded = oracle
        recorded.begin(stamp, seeing: before.vector)
        var document = before
        var pending: DocumentEditor.Pending?
        for edit in edits {
            var editor = DocumentEditor(document: document, pending: pending, stamp: proper)
            let seeding = try (sabotage?.misread(edit, on: editor) ?? edit).perform(on: &editor)
            recorded.perform(edit, seeding)
            document = editor.document
            pending = editor.pending
        }
        guard let delta = pending?.delta(stamp: proper) else {
            try require(document == before, "a transaction without edits changed the document")
            try require(
                sabotage != nil || !recorded.hasEffect, "the editor made nothing of these statements")
            return nil
        }
        oracle = recorded
        guard let sabotage else {
            try checkShown(edits.last, in: document)
            return (try check(delta, gives: document), document)
        }
        let wrong = sabotage.written(delta, at: stamp.time)
        let after = sabotage.received(wrong, after: document, on: before)
        try checkShown(edits.last, in: after)
        return (wrong, after)
    }

    /// Checks that the last write shows, whatever stood there before (rule 1).
    private func checkShown(_ edit: Edit?, in document: Document) throws {
        guard let (path, kind) = edit?.shown else { return }
        for length in 1...path.count {
            let isEnd = length == path.count
            try require(
                document.root[path[..<length]]?.newestKind == (isEnd ? kind : .map),
                "the last write, to \(path), does not show")
        }
    }

    private func check(_ delta: Delta, gives document: Document) throws -> Delta {
        let bytes = delta.encoded()
        let decoded = try Delta(decoding: bytes, stamp: stamp)
        try require(decoded == delta, "a delta does not survive its encoding")
        try require(decoded.encoded() == bytes, "a delta has two encodings")
        var applied = before
        try require(applied.apply(decoded) == .applied, "the author's own delta does not apply")
        try require(applied == document, "the composed delta is not what the editor did")
        try require(
            applied.vector == before.vector.union(decoded.resultingVector), "the vector is not the delta's")
        return decoded
    }
}
