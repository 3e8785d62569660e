import CRDT
import GRDB

/// The documents that one transaction of a peer changes by what others wrote: reads and writes their rows,
/// and lists them.
struct DocumentChanges {
    let database: Database
    /// The store's state; its clock observes every stamp that comes.
    private(set) var state: StoreState
    /// Documents whose stored state changed, in order.
    private(set) var changed: [DocumentKey] = []
    private var collections = Collections()
    private let recorder: ChangeRecorder?

    init(database: Database, state: StoreState, recorder: ChangeRecorder? = nil) {
        self.recorder = recorder
        self.database = database
        self.state = state
    }

    /// The commit that these changes will be.
    var position: UInt64 { state.head + 1 }

    /// Records a foreign timestamp; see `StoreState.observe`.
    mutating func observe(_ time: Timestamp) throws { try state.observe(time) }

    /// A document is about to change, from a state or from nothing: for links.
    func record(
        _ key: DocumentKey, before: EncodedState?, delta: (stamp: Stamp, bytes: EncodedDelta)? = nil
    ) {
        recorder?.note(key, before: before, delta: delta)
    }

    /// The table of a collection, made where there is none.
    mutating func requireTable(of key: DocumentKey) throws -> DocumentTable {
        try collections.requireNumber(of: key.collection, database)
    }

    /// The table of a collection; nil where there is none.
    mutating func table(of collection: CollectionName) throws -> DocumentTable? {
        try collections.number(of: collection, database)
    }

    /// The table of a document that is here, and its encoded state.
    mutating func stored(_ key: DocumentKey) throws -> (table: DocumentTable, state: EncodedState)? {
        guard let table = try table(of: key.collection),
            let state = try DocumentRows.state(table, key.id, database)
        else { return nil }
        return (table, state)
    }

    /// Adds the state of one insertion if the document is not here: nothing is looked up before.
    /// - Returns: whether it was added.
    mutating func add(_ state: EncodedState, _ key: DocumentKey, in table: DocumentTable) throws -> Bool {
        let isNew = try DocumentRows.add(table, key.id, position: position, state: state, database) != nil
        if isNew {
            changed.append(key)
            record(key, before: nil)
        }
        return isNew
    }

    /// The note of a document has changed, and not its state.
    mutating func touch(_ key: DocumentKey) { changed.append(key) }

    /// Puts an encoded state. `isNew`: the document is known not to be here.
    mutating func put(
        _ state: EncodedState, _ key: DocumentKey, in table: DocumentTable, isLive: Bool, isNew: Bool = false
    ) throws {
        try DocumentRows.put(
            table, key.id, live: isLive, position: position, state: state, isNew: isNew, database)
        changed.append(key)
        // Later changes in this transaction must not make the document look like one that was here before.
        if isNew { record(key, before: nil) }
    }

    /// Drops a document that is here. The actors that write here now do not write it again (rule 10).
    mutating func drop(_ key: DocumentKey, _ table: DocumentTable, _ vector: VersionVector) throws {
        try leave(key, vector)
        try DocumentRows.remove(table, key.id, database)
        changed.append(key)
    }

    /// Nothing is left of a document, or of its copies that are to come.
    mutating func remove(_ key: DocumentKey, _ table: DocumentTable, wasHere: Bool) throws {
        if wasHere { try DocumentRows.remove(table, key.id, database) }
        changed.append(key)
    }

    /// The actors that write here now do not write again a document that was theirs (rule 10).
    func leave(_ key: DocumentKey, _ vector: VersionVector) throws {
        if vector[state.actor] != nil { try Evicted.note(key, state.actor, database) }
        try Withheld.leaveActor(of: key.collection, database)
    }

    /// Shows staged documents where they will stay, unless the collection has got documents, or an index, in
    /// the meantime.
    /// - Returns: whether it has not.
    mutating func show(_ staged: StagedDocuments) throws -> Bool {
        guard try staged.become(database) else { return false }
        collections.forget(staged.collection)
        changed += try staged.ids(database).map { DocumentKey(collection: staged.collection, id: $0) }
        return true
    }
}
