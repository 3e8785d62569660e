import CRDT
import DQL
import GRDB

/// The documents that a peer asks the server for, because their present state is incomplete: they lack a
/// base, own writes, or parts whose fate nobody has told. And what `MergeTable` has to know for that.
struct Refetch {
    private let database: Database
    /// The subscriptions: the server follows, or lists, what is held of them.
    private let liveQueries: [SubscriptionQuery]
    /// Documents with a delta whose base is not covered, each once.
    private(set) var missing: [DocumentKey] = []
    private var isMissing: Set<DocumentKey> = []
    /// Documents to be forgotten or replaced, with own writes that the server does not have. They are asked
    /// for too: the writes may be acknowledged before a repair begins, or in a later session, and then it has
    /// nothing to move.
    private(set) var returning: Set<DocumentKey> = []
    /// Documents of which the server's present state is asked for.
    private(set) var wanted: [DocumentKey] = []
    /// Wanted documents whose fetched state lacks local writes or is older than the local one.
    private var stale: Set<DocumentKey> = []
    /// The documents of own writes that the server does not have; nil until it matters.
    private var pending: Set<DocumentKey>?
    /// True if any evicted document is remembered; nil until it matters.
    private var hasEvictions: Bool?

    init(database: Database, liveQueries: [SubscriptionQuery]) {
        self.database = database
        self.liveQueries = liveQueries
    }

    func isStale(_ key: DocumentKey) -> Bool { stale.contains(key) }

    /// The base of a delta is not here.
    mutating func lacksBase(_ key: DocumentKey) {
        if isMissing.insert(key).inserted { missing.append(key) }
    }

    /// Own writes to a document that is to be forgotten wait for the repair that moves them.
    mutating func awaitRepair(_ key: DocumentKey) throws {
        guard returning.insert(key).inserted else { return }
        try askAgain(key)
    }

    /// Asks for a document of which the state that has come is not the last word.
    mutating func askAgain(_ key: DocumentKey) throws {
        try ask(key)
        stale.insert(key)
    }

    /// A state does not say what is purged. Where it lacks something that is shown here, and that nobody has
    /// told of what became of it because it matched nothing here, the document may have been deleted and
    /// reaped meanwhile, and written again (rule 14): the server is asked.
    mutating func ask(_ key: DocumentKey) throws {
        try Wanted.note(key, database)
        wanted.append(key)
    }

    // MARK: Facts

    /// Returns whether a state with a vector lacks own writes from before an eviction. Its own writes are not
    /// sent to a store, so a document that comes without them is asked for: by then the server has them.
    mutating func lacksEvicted(_ vector: () throws -> VersionVector, _ key: DocumentKey) throws
        -> Bool
    {
        if hasEvictions == nil { hasEvictions = try Evicted.holdsAny(database) }
        guard hasEvictions == true else { return false }
        return try Evicted.isMissing(from: vector(), of: key, database)
    }

    /// Returns whether a subscription matches a document.
    func follows(_ key: DocumentKey, _ state: EncodedState) throws -> Bool {
        try state.withUnsafeBytes { try liveQueries.match(key, try DocumentReader($0)) }
    }

    /// Returns whether own writes to a document are not acknowledged.
    mutating func hasPendingWrites(_ key: DocumentKey) throws -> Bool {
        if let pending { return pending.contains(key) }
        let keys = try OwnOperations.documents(database)
        pending = keys
        return keys.contains(key)
    }
}

extension [SubscriptionQuery] {
    /// Returns whether a document matches one of them.
    func match(_ key: DocumentKey, _ document: DocumentReader) throws -> Bool {
        let record = DocumentRecord(id: key.id, document: document)
        return try contains { try $0.collection == key.collection && $0.matches(record) }
    }
}
