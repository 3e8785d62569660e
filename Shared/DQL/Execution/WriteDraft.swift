import CRDT

/// A snapshot that a draft can be made on.
public protocol DraftBase: DocumentSource {
    /// The encoded state of a document, tombstones included; nil when there is none.
    func state(of key: DocumentKey) throws -> EncodedState?

    /// The states of several documents at once; nil for one that does not exist. Large ones are left out, and
    /// so are all where one at a time is as quick.
    func states(of keys: [DocumentKey]) throws -> [DocumentKey: EncodedState?]
}

extension DraftBase {
    /// None.
    public func states(of keys: [DocumentKey]) throws -> [DocumentKey: EncodedState?] { [:] }
}

/// The reason why a draft cannot be what a statement asks for.
public enum DraftRefusal: Sendable {
    /// No collection can have a name of so many bytes.
    case collectionName(bytes: Int)
    /// A document would exceed the hard limit.
    case documentTooLarge(String)
    /// The draft changes more than one operation, or the memory of one process, may hold.
    case transactionTooLarge(String)
    /// A stored document cannot be read.
    case unreadable(CRDTError)
    /// EVICT drops a local copy, and a draft has none.
    case evict
}

/// A tentative write on a snapshot: a statement runs on it, and its writes stay in memory, over the snapshot,
/// until they become an operation for a log. It takes no lock, so it may take as long as it likes.
///
/// Invariants: every edit bears one stamp, which exceeds everything in the snapshot (rule 1); reads show the
/// edits. The states held are bounded in bytes. Belongs to one thread.
public final class WriteDraft: DocumentWriter, DraftBase {
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
    private let base: any DraftBase
    private let stamp: Stamp
    private let sequence: SequenceNumber
    /// Makes the owner's own errors.
    private let refuse: (DraftRefusal) -> any Error
    private var edited: [DocumentKey: Edited] = [:]
    private var heldBytes = 0
    /// The states that were read ahead.
    private var expected: [DocumentKey: EncodedState?] = [:]

    /// - Parameters:
    ///   - latest: the greatest timestamp in the snapshot.
    ///   - refuse: makes the error to throw for a refusal.
    public init(
        on base: any DraftBase, as actor: ActorID, sequence: SequenceNumber, after latest: Timestamp,
        wallMilliseconds: UInt64, refuse: @escaping (DraftRefusal) -> any Error
    ) {
        precondition(sequence > 0, "sequences count from 1")
        var clock = HybridClock(latest: latest)
        stamp = Stamp(time: clock.next(wallMilliseconds: wallMilliseconds), actor: actor)
        self.base = base
        self.sequence = sequence
        self.refuse = refuse
    }

    /// The snapshot's indexes until the first edit: they do not know of edits. (A statement finds all its
    /// documents before it writes one.)
    public var indexed: (any IndexedSource)? { edited.isEmpty ? base.indexed : nil }

    /// The snapshot's SQL until the first edit, of which it does not know either.
    public var pushing: (any PushingSource)? { edited.isEmpty ? base.pushing : nil }

    /// See `DocumentSource`; shows the edits. In the order of the ids if the snapshot's own scan is.
    public func scan(_ collection: CollectionName, _ visit: (DocumentRecord) throws -> Bool) throws {
        let fresh = edited.filter { $0.value.isLive && !$0.value.wasLive }
            .filter { $0.key.collection == collection }.sorted { $0.key.id < $1.key.id }
        var next = 0
        var goesOn = true
        try base.scan(collection) { record in
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
        guard let own = edited[key] else {
            guard let state = expected[key] else { return try base.lookup(collection, id, visit) }
            return try state?.withUnsafeBytes { raw in
                let document = try DocumentReader(raw)
                if document.isLive { try visit(DocumentRecord(id: id, document: document)) }
            } ?? ()
        }
        if own.isLive { try show(own, key, visit) }
    }

    /// See `DraftBase`: another draft can be made on this one.
    public func state(of key: DocumentKey) throws -> EncodedState? {
        try edited[key]?.state ?? base.state(of: key)
    }

    /// See `DraftBase`.
    public func states(of keys: [DocumentKey]) throws -> [DocumentKey: EncodedState?] {
        var states = try base.states(of: keys.filter { edited[$0] == nil })
        for key in keys {
            if let own = edited[key] { states[key] = .some(own.state) }
        }
        return states
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
            throw refuse(.collectionName(bytes: length))
        }
        let key = DocumentKey(collection: collection, id: id)
        let own = edited[key]
        let before: EncodedState? =
            if let own { own.state } else if let known = expected[key] { known } else {
                try base.state(of: key)
            }
        var editor = DocumentEditor(document: try document(before), pending: draft[key], stamp: stamp)
        let wasLive = own?.wasLive ?? editor.exists
        try body(&editor)
        guard editor.hasChanges else { return }
        let state = editor.document.encoded()
        if let refusal = draft.refusal(of: key, bytes: state.count, before: before?.count ?? 0) {
            throw refuse(.documentTooLarge(refusal))
        }
        heldBytes += state.count - (own?.state.count ?? 0)
        guard heldBytes <= DQLLimits.draftBytes else {
            throw refuse(
                .transactionTooLarge(
                    "the transaction changes more than \(DQLLimits.draftBytes) bytes of documents"))
        }
        edited[key] = Edited(state: state, isLive: editor.document.isLive, wasLive: wasLive)
        draft.note(editor.pending, of: key)
    }

    /// See `DocumentWriter`.
    public func expect(_ collection: CollectionName, _ ids: ArraySlice<DocumentID>) throws {
        expected = [:]
        let keys = ids.map { DocumentKey(collection: collection, id: $0) }.filter { edited[$0] == nil }
        expected = try base.states(of: keys)
    }

    /// Always fails: a snapshot has no local copy to drop, and callers refuse EVICT before.
    public func evict(_ collection: CollectionName, _ ids: [DocumentID]) throws { throw refuse(.evict) }

    /// The operation with all edits; nil when there are none.
    public func operation() throws -> Operation? {
        guard let made = draft.operation(stamp, sequence: sequence) else { return nil }
        if let refusal = OperationDraft.refusal(operationBytes: made.bytes.count) {
            throw refuse(.transactionTooLarge(refusal))
        }
        return made.operation
    }

    private func document(_ state: EncodedState?) throws -> Document {
        guard let state else { return Document() }
        do throws(CRDTError) {
            return try Document(decoding: state)
        } catch {
            throw refuse(.unreadable(error))
        }
    }

    private func show<Result>(
        _ own: Edited, _ key: DocumentKey, _ visit: (DocumentRecord) throws -> Result
    ) throws -> Result {
        try own.state.withUnsafeBytes { raw in
            try visit(DocumentRecord(id: key.id, document: try DocumentReader(raw)))
        }
    }
}
