import CRDT
import DQL

/// A tentative write to a projection: a statement runs on a snapshot, and its writes stay in memory, over
/// the snapshot, until they become an operation for the log.
///
/// Invariants: every edit bears one stamp, which exceeds everything folded (rule 1); reads show the edits.
/// The states held are bounded in bytes.
public final class ProjectionDraft: DocumentWriter {
    /// A document with its edits so far.
    private struct Edited {
        var state: EncodedState
        var isLive: Bool
        /// True if the snapshot has it live, so that a scan visits it there.
        let wasLive: Bool
    }

    /// Warnings for the statement's result: documents above the soft limit.
    public var warnings: [String] { draft.warnings }
    private var draft = OperationDraft()
    private let snapshot: ProjectionSnapshot
    private let stamp: Stamp
    private let sequence: SequenceNumber
    private var edited: [DocumentKey: Edited] = [:]
    private var heldBytes = 0

    init(
        on snapshot: ProjectionSnapshot, as actor: ActorID, sequence: SequenceNumber, wallMilliseconds: UInt64
    ) {
        precondition(sequence > 0, "sequences count from 1")
        var clock = HybridClock(latest: snapshot.clock)
        stamp = Stamp(time: clock.next(wallMilliseconds: wallMilliseconds), actor: actor)
        self.snapshot = snapshot
        self.sequence = sequence
    }

    /// See `DocumentSource`; shows the edits, in the order of the ids like the snapshot.
    public func scan(_ collection: CollectionName, _ visit: (DocumentRecord) throws -> Bool) throws {
        let fresh = edited.filter { $0.value.isLive && !$0.value.wasLive }
            .filter { $0.key.collection == collection }.sorted { $0.key.id < $1.key.id }
        var next = 0
        var goesOn = true
        try snapshot.scan(collection) { record in
            while next < fresh.count, fresh[next].key.id < record.id {
                next += 1
                goesOn = try show(fresh[next - 1].value, fresh[next - 1].key, visit)
                guard goesOn else { return false }
            }
            let key = DocumentKey(collection: collection, id: record.id)
            guard let own = edited[key] else {
                goesOn = try visit(record)
                return goesOn
            }
            if own.isLive { goesOn = try show(own, key, visit) }
            return goesOn
        }
        for (key, own) in fresh[next...] {
            guard goesOn else { return }
            goesOn = try show(own, key, visit)
        }
    }

    /// See `DocumentSource`; shows the edits.
    public func lookup(
        _ collection: CollectionName, _ id: DocumentID, _ visit: (DocumentRecord) throws -> Void
    ) throws {
        let key = DocumentKey(collection: collection, id: id)
        guard let own = edited[key] else { return try snapshot.lookup(collection, id, visit) }
        if own.isLive { try show(own, key, visit) }
    }

    /// See `DocumentWriter`.
    public func exists(_ collection: CollectionName, _ id: DocumentID) throws -> Bool {
        var isThere = false
        try lookup(collection, id) { _ in isThere = true }
        return isThere
    }

    /// See `DocumentWriter`.
    public func edit(
        _ collection: CollectionName, _ id: DocumentID, _ body: (inout DocumentEditor) throws -> Void
    ) throws {
        let length = collection.text.utf8.count
        guard length > 0, length <= CRDT.Limits.collectionNameBytes else {
            throw ProjectionError(
                .invalidCollection,
                "a collection name has 1 to \(CRDT.Limits.collectionNameBytes) bytes, not \(length)")
        }
        let key = DocumentKey(collection: collection, id: id)
        let own = edited[key]
        let before = try own?.state ?? snapshot.state(of: key)
        let document = try ProjectionError.reading { () throws(CRDTError) in
            guard let before else { return Document() }
            return try Document(decoding: before)
        }
        var editor = DocumentEditor(document: document, pending: draft[key], stamp: stamp)
        let wasLive = own?.wasLive ?? editor.exists
        try body(&editor)
        guard editor.hasChanges else { return }
        let state = editor.document.encoded()
        if let refusal = draft.refusal(of: key, bytes: state.count, before: before?.count ?? 0) {
            throw ProjectionError(.documentTooLarge, refusal)
        }
        heldBytes += state.count - (own?.state.count ?? 0)
        guard heldBytes <= PostgresLimits.draftBytes else {
            throw ProjectionError(
                .transactionTooLarge,
                "the transaction changes more than \(PostgresLimits.draftBytes) bytes of documents")
        }
        edited[key] = Edited(state: state, isLive: editor.document.isLive, wasLive: wasLive)
        draft.note(editor.pending, of: key)
    }

    /// Always fails: a projection has no local copy to drop, and callers refuse EVICT before.
    public func evict(_ collection: CollectionName, _ ids: [DocumentID]) throws {
        throw ProjectionError(.storageFailed, "EVICT does not apply to a projection")
    }

    /// The operation with all edits; nil when there are none.
    func operation() throws -> Operation? {
        guard let made = draft.operation(stamp, sequence: sequence) else { return nil }
        if let refusal = OperationDraft.refusal(operationBytes: made.bytes.count) {
            throw ProjectionError(.transactionTooLarge, refusal)
        }
        return made.operation
    }

    private func show<Result>(
        _ own: Edited, _ key: DocumentKey, _ visit: (DocumentRecord) throws -> Result
    ) throws -> Result {
        try own.state.withUnsafeBytes { raw in
            try visit(DocumentRecord(id: key.id, document: try DocumentReader(raw)))
        }
    }
}
