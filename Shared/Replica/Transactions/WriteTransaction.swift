import CRDT
import DQL
import GRDB
import Machine

/// A local write transaction: one stamp, one operation, one delta per document touched.
///
/// Invariants: the stamp is drawn at the first edit, under the write lock, and exceeds everything the store
/// has seen (rule 1). The documents tables always show the transaction's own edits. An actor never writes a
/// document that was evicted while its vector held that actor (rule 10): such a transaction is rolled back
/// and run again under a new one.
public final class WriteTransaction: DocumentWriter, IndexedSource {
    let database: Database
    private let environment: Environment
    var collections: Collections
    /// The changes to documents.
    private var pending = PendingDocuments()
    private(set) var state: StoreState
    private var stamp: Stamp?
    /// True after an edit met a document that the current actor may not write again: the transaction is
    /// then rolled back whatever its closure does, and the closure runs again.
    public private(set) var needsNewActor = false
    /// Warnings for the statement's result: documents above the soft limit.
    public private(set) var warnings: [String] = []
    private(set) var evicted: [DocumentKey] = []
    /// Evicted documents that no other peer may have.
    private var untaken: Set<DocumentKey> = []
    /// The number of evicted documents that no other peer is known to have, in a store without a server.
    public var untakenEvictions: Int { evicted.count { untaken.contains($0) } }
    /// Evicted documents that match a live subscription.
    private(set) var wanted: [DocumentKey] = []
    private let liveQueries: [SubscriptionQuery]
    private let limits: DocumentLimits
    private let withheld: WithheldCollections
    private let recorder: ChangeRecorder?
    /// The actors of this transaction's edits in withheld collections, by document.
    private var withheldAuthors: [DocumentKey: ActorID] = [:]
    /// Documents that were looked up and are not in the tables, not even as tombstones.
    private var absent = AbsentDocuments()
    /// True if any document was evicted while its vector held the current actor; nil until needed.
    private var hasEvictions: Bool?
    /// The store's own actors with operations in the log or on their way there; nil until needed.
    private var earlierActors: Set<ActorID>?
    /// Shared parts of the inserted documents.
    private let series = FreshSeries()
    /// States of documents that this transaction first edited and then evicted.
    private var withdrawn: [DocumentKey: EncodedState] = [:]
    /// True after an edit, even one that was undone or changed nothing.
    private var hasEdited = false

    /// Documents that were looked up and found absent. Mostly the last one is written next.
    private struct AbsentDocuments {
        private var last: DocumentKey?
        private var others: Set<DocumentKey> = []

        mutating func insert(_ key: DocumentKey) {
            if let last { others.insert(last) }
            last = key
        }

        /// Removes a document; returns whether it was there.
        @discardableResult
        mutating func remove(_ key: DocumentKey) -> Bool {
            guard last == key else { return !others.isEmpty && others.remove(key) != nil }
            last = nil
            if !others.isEmpty { others.remove(key) }
            return true
        }
    }

    init(
        _ database: Database, _ state: StoreState, _ environment: Environment,
        liveQueries: [SubscriptionQuery], limits: DocumentLimits = DocumentLimits(),
        indexes: IndexCache? = nil, withheld: WithheldCollections = WithheldCollections(),
        recorder: ChangeRecorder? = nil
    ) {
        self.recorder = recorder
        self.database = database
        self.withheld = withheld
        collections = Collections(indexes)
        self.state = state
        self.environment = environment
        self.liveQueries = liveQueries
        self.limits = limits
    }

    /// The names of all collections that were ever written.
    public func collectionNames() throws -> [CollectionName] { try Collections.names(database) }

    /// See `ReadTransaction.scan`; shows this transaction's own edits.
    public func scan(_ collection: CollectionName, _ visit: (DocumentRecord) throws -> Bool) throws {
        guard let table = try collections.number(of: collection, database) else { return }
        try Scanner.scan(table, database, visit)
    }

    /// See `ReadTransaction.scanFields`; shows this transaction's own edits.
    public func scanFields(_ collection: CollectionName, _ visit: (DocumentRecord) throws -> Bool) throws {
        guard let table = try collections.number(of: collection, database) else { return }
        try Scanner.scanFields(table, database, visit)
    }

    /// See `ReadTransaction.lookup`; shows this transaction's own edits.
    public func lookup(
        _ collection: CollectionName, _ id: DocumentID, _ visit: (DocumentRecord) throws -> Void
    )
        throws
    {
        guard let table = try collections.number(of: collection, database) else { return }
        try Scanner.lookup(table, id, database, visit)
    }

    /// Returns whether a live document has this id.
    public func exists(_ collection: CollectionName, _ id: DocumentID) throws -> Bool {
        if let table = try collections.number(of: collection, database),
            let isLive = try DocumentRows.isLive(table, id, database)
        {
            return isLive
        }
        absent.insert(DocumentKey(collection: collection, id: id))
        return false
    }

    /// Edits one document, live or not, and writes its new state. A document that this transaction edited
    /// and then evicted comes back whole: its delta has the earlier edits too. Throws `documentTooLarge`
    /// above the hard limit.
    public func edit(
        _ collection: CollectionName, _ id: DocumentID, _ body: (inout DocumentEditor) throws -> Void
    ) throws {
        hasEdited = true
        let key = DocumentKey(collection: collection, id: id)
        let table = try collections.requireNumber(of: collection, database)
        // Also for a document that has returned since: its state may lack the actor's writes (rule 10).
        if pending[key] == nil { try checkEviction(key) }
        let isAbsent = absent.remove(key)
        let bytes = try (isAbsent ? nil : DocumentRows.state(table, id, database)) ?? takeBack(key)
        let document = try bytes.map { try Document(decoding: $0) } ?? Document()
        var editor = DocumentEditor(
            document: document, pending: pending[key]?.edits, stamp: try drawStamp(for: key))
        try body(&editor)
        guard editor.hasChanges else { return }
        let encoded = editor.document.encoded()
        try checkSize(encoded.count, key, grows: encoded.count > (bytes?.count ?? 0))
        if pending[key] == nil { recorder?.note(key, before: bytes) }
        try DocumentRows.put(
            table, id, live: editor.document.isLive, position: state.head + 1, state: encoded,
            isNew: isAbsent, database)
        pending.update(key, .edited(editor.pending))
    }

    /// See `DocumentWriter`. A document absent from the tables is written without an editor, and without a
    /// lookup before.
    public func insert(
        _ collection: CollectionName, _ id: DocumentID, _ fields: ObjectValue, declared: TypeDeclaration,
        objectsAreRegisters: Bool
    ) throws -> Bool {
        let key = DocumentKey(collection: collection, id: id)
        if declared.children.isEmpty, withdrawn.isEmpty,
            let fresh = try FreshDocument(
                fields, without: documentIDField, objectsAreRegisters: objectsAreRegisters,
                stamp: try drawStamp(for: key), in: series)
        {
            let table = try collections.requireNumber(of: collection, database)
            try checkSize(fresh.state.count, key, grows: true)
            let number = try DocumentRows.add(
                table, id, position: state.head + 1, state: fresh.state, database)
            if let number {
                absent.remove(key)
                try checkEviction(key)
                recorder?.note(key, before: nil)
                pending.append(
                    key, .inserted(fresh, DocumentPlace(table: table.number, number: number)))
                return true
            }
        }
        guard try !exists(collection, id) else { return false }
        try edit(collection, id) { editor in
            try editor.create(
                fields.without(documentIDField), declared: declared, objectsAreRegisters: objectsAreRegisters)
        }
        return true
    }

    /// Runs a part of the transaction as a whole or not at all: when it throws, its writes are undone, and
    /// the transaction can continue.
    public func atomically<Result>(_ body: () throws -> Result) throws -> Result {
        let before = (collections, state, stamp, warnings, evicted, wanted, withdrawn)
        let authors = withheldAuthors
        let mark = pending.begin()
        var result: Result?
        do {
            try database.inPart {
                result = try body()
                return true
            }
        } catch {
            (collections, state, stamp, warnings, evicted, wanted, withdrawn) = before
            withheldAuthors = authors
            collections.forgetReferences()
            pending.undo(to: mark)
            absent = AbsentDocuments()
            hasEvictions = nil
            throw error
        }
        pending.end(mark)
        guard let result else { preconditionFailure("a committed savepoint left no result") }
        return result
    }

    /// Drops documents from this store only. Nobody is told.
    ///
    /// A document that matches a live subscription is requested again at once. The cursors of all other
    /// subscriptions are dropped: they cover documents that are no longer here, so a later subscriber
    /// catches up from the start.
    public func evict(_ collection: CollectionName, _ ids: [DocumentID]) throws {
        guard let table = try collections.number(of: collection, database) else { return }
        let isWithheld = withheld.contains(collection)
        let own = isWithheld ? try Withheld.actors(of: collection, database) : []
        if isWithheld { try Withheld.leaveActor(of: collection, database) }
        for id in ids {
            guard let bytes = try DocumentRows.state(table, id, database) else { continue }
            let key = DocumentKey(collection: collection, id: id)
            try bytes.withUnsafeBytes { try noteEviction(of: key, DocumentReader($0), own) }
            if let taken = recorder?.untakenAfter,
                try DocumentRows.position(table, id, database) ?? .max > taken
            {
                untaken.insert(key)
            }
            if pending[key] != nil {
                withdrawn[key] = bytes
                pending.leaveRow(of: key)
            }
            try DocumentRows.remove(table, id, database)
            try Notes.remove(key, database)
            if evicted.isEmpty {
                let live = liveQueries.map(\.canonicalKey)
                try Cursors.forgetAll(but: live, database)
                try Staged.discardAll(but: live, database)
                try Staged.discardLinks(database)
            }
            evicted.append(key)
        }
        try LinkCursors.forget(collection, database)
    }

    /// Records the needed facts about a document before its eviction (rule 10).
    private func noteEviction(
        of key: DocumentKey, _ document: DocumentReader, _ withheldActors: Set<ActorID>
    ) throws {
        for entry in try document.vector().entries where try isOwn(entry.actor) {
            try Evicted.note(key, entry.actor, at: entry.time, database)
            if entry.actor == state.actor { hasEvictions = true }
        }
        let author = withheldAuthors[key].map { [$0] } ?? []
        let own = withheldActors.union(author)
        let isKnown = try own.isEmpty || !document.vector().without(own).isEmpty
        guard document.isLive, isKnown else { return }
        guard try liveQueries.match(key, document) else { return }
        try Wanted.note(key, database)
        wanted.append(key)
    }

    private func isOwn(_ actor: ActorID) throws -> Bool {
        if actor == state.actor { return true }
        if earlierActors == nil { earlierActors = try OwnOperations.actors(database) }
        return earlierActors?.contains(actor) ?? false
    }

    /// The result of a transaction.
    struct Made {
        /// Its operation; nil when everything is withheld.
        var own: WrittenOperation?
        /// The operations of withheld collections.
        var withheld: [(collection: CollectionName, operation: Operation)] = []
        /// The documents of all these operations.
        var documents: [DocumentKey] = []

        /// Tells a recorder the deltas, each of which is all that the transaction did to its document.
        func conclude(_ recorder: ChangeRecorder) {
            let own = own.map { [$0.operation] } ?? []
            for operation in own + withheld.map(\.operation) {
                for change in operation.changes {
                    let key = DocumentKey(collection: change.collection, id: change.id)
                    recorder.conclude(key, delta: (operation.stamp, change.delta))
                }
            }
        }
    }

    /// The operations of everything edited so far; nil when nothing was.
    func made() throws -> Made? {
        guard let stamp, !pending.isEmpty else { return nil }
        var made = Made()
        var others: [ActorID: [WrittenOperation.Change]] = [:]
        var open: [WrittenOperation.Change] = []
        if withheldAuthors.isEmpty, pending.areAllInserted {
            open = pending.all
            made.documents = open.map(\.key)
        } else {
            for change in pending.all {
                let author = withheldAuthors[change.key]
                let own = Stamp(time: stamp.time, actor: author ?? stamp.actor)
                guard let content = change.written.encoded(own) else { continue }
                made.documents.append(change.key)
                if let author {
                    others[author, default: []].append((change.key, content))
                } else {
                    open.append((change.key, content))
                }
            }
        }
        for (actor, changes) in others.sorted(by: { $0.key < $1.key }) {
            let written = WrittenOperation(
                actor: actor, sequence: try Withheld.lastSequence(of: actor, database).next,
                timestamp: stamp.time, changes: changes)
            try written.checkSize()
            made.withheld.append((changes[0].key.collection, written.operation))
        }
        if !open.isEmpty || others.isEmpty {
            let written = WrittenOperation(
                actor: stamp.actor, sequence: state.sequence.next, timestamp: stamp.time, changes: open)
            try written.checkSize()
            made.own = written
        }
        return made
    }

    /// The states of the inserted documents, in the order of the operation's changes, if the transaction did
    /// nothing else; else nil.
    var insertedStates: [EncodedState]? {
        guard !hasEdited, evicted.isEmpty, withheldAuthors.isEmpty else { return nil }
        var states: [EncodedState] = []
        states.reserveCapacity(pending.all.count)
        for change in pending.all {
            guard case .inserted(let document, _?) = change.written else { return nil }
            states.append(document.state)
        }
        return states
    }

    /// The stamp of a document's edits. In a withheld collection its actor writes nothing else.
    private func drawStamp(for key: DocumentKey) throws -> Stamp {
        let drawn = try drawStamp()
        guard withheld.contains(key.collection) else { return drawn }
        if let author = withheldAuthors[key] { return Stamp(time: drawn.time, actor: author) }
        let author = try Withheld.actor(of: key.collection, database) ?? beginWithholding(key.collection)
        withheldAuthors[key] = author
        return Stamp(time: drawn.time, actor: author)
    }

    /// A new actor for a withheld collection. It depends on earlier writes to the collection, which must be
    /// uploaded before it; so the present actor must end first.
    private func beginWithholding(_ collection: CollectionName) throws -> ActorID {
        guard try OwnOperations.last(of: state.actor, database) == nil else {
            needsNewActor = true
            throw ActorMustChange()
        }
        let actor = ActorID(environment.random())
        try Withheld.begin(actor, in: collection, database)
        return actor
    }

    private func drawStamp() throws -> Stamp {
        if let stamp { return stamp }
        let time = state.drawTime(environment)
        let drawn = Stamp(time: time, actor: state.actor)
        stamp = drawn
        return drawn
    }

    private func checkSize(_ size: Int, _ key: DocumentKey, grows: Bool) throws {
        guard size <= limits.hardBytes || !grows else {
            throw ReplicaError(
                .documentTooLarge,
                "document \"\(key.id)\" of \(size) bytes exceeds the limit of \(limits.hardBytes) bytes")
        }
        if size > limits.softBytes {
            warnings.append(
                "document \"\(key.id)\" has \(size) bytes, more than the recommended \(limits.softBytes)")
        }
    }

    /// Undoes an eviction by this same transaction.
    private func takeBack(_ key: DocumentKey) throws -> EncodedState? {
        guard let bytes = withdrawn.removeValue(forKey: key) else { return nil }
        evicted.removeAll { $0 == key }
        wanted.removeAll { $0 == key }
        try database.run(
            "DELETE FROM evicted WHERE collection = ? AND id = ? AND actor = ?", key, state.actor.rawValue)
        return bytes
    }

    private func checkEviction(_ key: DocumentKey) throws {
        if hasEvictions == nil {
            hasEvictions = try Evicted.holdsAny(database)
        }
        guard hasEvictions != false else { return }
        let statement = try RawStatement(
            cached: "SELECT 1 FROM evicted WHERE collection = ? AND id = ? AND actor = ?", database,
            key, state.actor.rawValue)
        guard try statement.step() else { return }
        needsNewActor = true
        throw ActorMustChange()
    }
}

/// Rolls a transaction back so that it runs again under a new actor. Never leaves the module.
struct ActorMustChange: Error {}
