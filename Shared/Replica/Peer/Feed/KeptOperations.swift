import CRDT
import Exchange
import GRDB

/// Own operations of a store that has links and no server (decision 0103). Links are told documents, so only
/// the latest operations are kept. A store that gets a server later brings it all documents instead, and
/// writes on as another actor.
enum KeptOperations {
    private static let trimmed = "trimmed"
    /// Commits between two looks at the bounds.
    static let interval: UInt64 = 256

    /// Deletes the oldest operations beyond the bounds.
    static func bound(
        operations: Int = ReplicaLimits.ownOperations, bytes: Int = ReplicaLimits.ownOperationBytes,
        _ database: Database
    ) throws {
        let statement = try RawStatement(
            cached: "SELECT position, length(bytes) FROM operation ORDER BY position DESC", database)
        var (count, size) = (0, 0)
        var cut: UInt64?
        while cut == nil, try statement.step() {
            count += 1
            size += Int(statement.int(1))
            if count > operations || size > bytes { cut = statement.bits(0) }
        }
        statement.reset()
        guard let cut else { return }
        let removal = try RawStatement(cached: "DELETE FROM operation WHERE position <= ?", database)
        removal.bind(1, bits: cut)
        try removal.run()
        let mark = try RawStatement(
            cached: "INSERT OR REPLACE INTO setting (key, value) VALUES (?, x'01')", database)
        mark.bind(1, trimmed)
        try mark.run()
    }

    /// Returns whether operations were deleted that no server has.
    static func areTrimmed(_ database: Database) throws -> Bool {
        try database.holds("SELECT 1 FROM setting WHERE key = ?", trimmed)
    }

    /// A server is met: all that is here is listed for it, as what links have brought.
    static func join(_ state: inout StoreState, withheld: WithheldCollections, _ database: Database) throws {
        try RawStatement(cached: "DELETE FROM operation", database).run()
        let mark = try RawStatement(cached: "DELETE FROM setting WHERE key = ?", database)
        mark.bind(1, trimmed)
        try mark.run()
        let head = max(state.head, 1)
        if try Settled.commit(database) >= head { try Settled.note(head - 1, database) }
        for name in try Collections.names(database) where !withheld.contains(name) {
            var collections = Collections()
            guard let table = try collections.number(of: name, database) else { continue }
            let all = try RawStatement(
                fresh: """
                    INSERT INTO met (collection, id, entered, meshed)
                    SELECT ?1, id, 0, ?2 FROM documents_\(table) WHERE true
                    ON CONFLICT (collection, id) DO UPDATE SET meshed = ?2
                    """, database)
            all.bind(1, name.text)
            all.bind(2, bits: head)
            try all.run()
        }
    }
}

extension PeerFeed {
    /// A store without a server keeps its latest operations only; called with the write lock, after a
    /// commit's operation.
    func boundOperations(_ head: UInt64, _ database: Database) throws {
        guard head.isMultiple(of: KeptOperations.interval), recording.isWithoutServer else { return }
        try KeptOperations.bound(database)
    }

    /// Operations were deleted while there was no server: now that there is one, it is given the documents.
    func joinServer() throws {
        let areTrimmed = try replica.read { try $0.withDatabase { try KeptOperations.areTrimmed($0) } }
        guard areTrimmed else { return }
        let withheld = replica.withheld
        try replica.committing { database, state in
            try KeptOperations.join(&state, withheld: withheld, database)
            try state.renewActor(store.environment, database)
            return ((), nil)
        }
    }

    /// A cursor of another peer names a commit of this feed that this store does not have, or has with
    /// another content: the file was put back to an earlier state while it was closed. Others hold stamps of
    /// its actor that are not known here, so it writes on as another one.
    /// - Returns: whether it does that now, for the first time since the store was opened.
    package func noticePutBack(_ place: LogPosition) throws -> Bool {
        let isNews = recording.notePlace(place, head: replica.head)
        if isNews { try replica.renewActor(replica.actor) }
        return isNews
    }
}
