import CRDT
import GRDB

/// What a peer stores in one transaction when the server has told it something: documents, and how far that
/// reaches.
public struct Reception: Sendable {
    /// The documents, in the order of the log.
    public var updates: [DocumentUpdate]
    /// Subscription keys whose cursors advance to the position.
    public var cursors: [(key: [UInt8], position: LogPosition)]
    /// A subscription whose catch-up ends with this: its staged documents become visible, and its cursor
    /// becomes the position whatever it was (a restored log is shorter).
    public var publishes: [UInt8]?
    /// Documents that are no longer wanted: their states were asked for and are among the updates.
    public var settles: [DocumentKey]
    /// The position of the server's log that this stands for.
    public var seen: LogPosition?

    /// A reception of these parts.
    public init(
        updates: [DocumentUpdate] = [], cursors: [(key: [UInt8], position: LogPosition)] = [],
        publishes: [UInt8]? = nil, settles: [DocumentKey] = [], seen: LogPosition? = nil
    ) {
        self.updates = updates
        self.cursors = cursors
        self.publishes = publishes
        self.settles = settles
        self.seen = seen
    }
}

extension Replica {
    /// What became of a reception.
    public enum ReceptionOutcome: Sendable, Equatable {
        /// Everything is stored, durable and visible; the cursors have advanced.
        case stored
        /// A delta's base is not covered here (rule 3): nothing of the reception is visible, no cursor has
        /// moved, these documents are noted durably as wanted. Receive the same again once their states
        /// have come.
        case wanting([DocumentKey])
    }

    /// Stores what a server has sent, all or nothing. Throws CRDT errors for bytes that do not decode:
    /// nothing is stored then.
    public func receive(_ reception: Reception) throws -> ReceptionOutcome {
        precondition(role == .peer, "a materialization changes by folding its log only")
        return try committing { database, state in
            var merger = Merger(database: database, state: state)
            try database.inSavepoint {
                if let key = reception.publishes { try merger.mergeStaged(key) }
                for update in reception.updates { try merger.merge(update) }
                guard merger.missing.isEmpty else { return .rollback }
                for key in reception.settles { try Wanted.settle(key, database) }
                for cursor in reception.cursors where keepsCursor(of: cursor.key) {
                    let replaces = cursor.key == reception.publishes
                    try Cursors.advance(cursor.key, to: cursor.position, replaces: replaces, database)
                }
                if let position = reception.seen { try Seen.note(position, replaces: false, database) }
                return .commit
            }
            guard merger.missing.isEmpty else {
                for key in merger.missing { try Wanted.note(key, database) }
                return (.wanting(merger.missing), nil)
            }
            state = merger.state
            guard !merger.changed.isEmpty else { return (.stored, nil) }
            state.head += 1
            return (.stored, Commit(number: state.head, documents: merger.changed, actor: nil, wanted: []))
        }
    }

    /// Keeps a page of a catch-up aside, durable but invisible, until `publishes` names its subscription.
    public func stage(_ states: [DocumentUpdate], for subscription: [UInt8]) throws {
        try committing { database, state in
            for update in states {
                guard case .state(let bytes) = update.content else {
                    preconditionFailure("a catch-up page holds full states only")
                }
                // Checked now, so that publishing cannot fail on what somebody sent.
                if let latest = try Document(decoding: bytes).vector.greatestTime {
                    try state.observe(latest)
                }
                let statement = try RawStatement(
                    cached: """
                        INSERT INTO staged (subscription, number, collection, id, state) VALUES
                        (?1, (SELECT COALESCE(MAX(number), 0) + 1 FROM staged WHERE subscription = ?1),
                        ?2, ?3, ?4)
                        """, database)
                statement.bind(1, subscription)
                statement.bind(2, update.key.collection)
                statement.bind(3, update.key.id.bytes)
                statement.bind(4, bytes)
                try statement.run()
            }
            return ((), nil)
        }
    }

    /// Forgets what was staged, for a subscription or for all: a catch-up that starts over.
    public func discardStaged(for subscription: [UInt8]? = nil) throws {
        try committing { database, _ in
            if let subscription {
                let statement = try RawStatement(
                    cached: "DELETE FROM staged WHERE subscription = ?", database)
                statement.bind(1, subscription)
                try statement.run()
            } else {
                try RawStatement(cached: "DELETE FROM staged", database).run()
            }
            return ((), nil)
        }
    }
}

/// Merges what others wrote into the documents tables, within one transaction.
struct Merger {
    let database: Database
    var state: StoreState
    private var collections = Collections()
    /// Documents whose stored state changed.
    private(set) var changed: [DocumentKey] = []
    /// Documents with a delta whose base is not covered, each once.
    private(set) var missing: [DocumentKey] = []
    private var isMissing: Set<DocumentKey> = []

    init(database: Database, state: StoreState) {
        self.database = database
        self.state = state
    }

    mutating func mergeStaged(_ subscription: [UInt8]) throws {
        let statement = try RawStatement(
            fresh: "SELECT collection, id, state FROM staged WHERE subscription = ? ORDER BY number", database
        )
        statement.bind(1, subscription)
        while try statement.step() {
            let key = DocumentKey(collection: statement.text(0), id: DocumentID(trusted: statement.bytes(1)))
            try merge(DocumentUpdate(key: key, content: .state(statement.bytes(2))))
        }
        let removal = try RawStatement(cached: "DELETE FROM staged WHERE subscription = ?", database)
        removal.bind(1, subscription)
        try removal.run()
    }

    mutating func merge(_ update: DocumentUpdate) throws {
        let table = try collections.requireNumber(of: update.key.collection, database)
        let stored = try DocumentRows.state(table, update.key.id, database)
        var document = try stored.map { try Document(decoding: $0) } ?? Document()
        switch update.content {
        case .state(let bytes):
            let incoming = try Document(decoding: bytes)
            guard !document.vector.covers(incoming.vector) else { return }
            if stored == nil {
                document = incoming
            } else {
                document.merge(incoming)
            }
        case .delta(let stamp, let bytes):
            switch document.apply(try Delta(decoding: bytes, stamp: stamp)) {
            case .applied: break
            case .duplicate: return
            case .baseMissing:
                if isMissing.insert(update.key).inserted { missing.append(update.key) }
                return
            }
        }
        if let latest = document.vector.greatestTime { try state.observe(latest) }
        try DocumentRows.put(
            table, update.key.id, live: document.isLive, position: state.head + 1, state: document.encoded(),
            database)
        changed.append(update.key)
    }
}
