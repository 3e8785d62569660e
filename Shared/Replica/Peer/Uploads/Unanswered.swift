import CRDT
import GRDB

/// Own writes in the server's log whose answer has not come (rule 16): if the merged document differs from
/// the writer's, the server sends it in its stream. Documents of live subscriptions need no note, because
/// catching up from a cursor brings them.
enum Unanswered {
    static func note(_ key: DocumentKey, _ offset: Offset, _ database: Database) throws {
        try database.run(
            """
            INSERT INTO unanswered (collection, id, offset) VALUES (?1, ?2, ?3)
            ON CONFLICT (collection, id) DO UPDATE SET offset = max(offset, ?3)
            """, key, offset.rawValue)
    }

    /// The stream has passed an offset.
    static func settle(through offset: Offset, _ database: Database) throws {
        try database.run("DELETE FROM unanswered WHERE offset <= ?", offset.rawValue)
    }
}

extension PeerReplica {
    /// Records that the server has an own actor's operations up to a sequence, durably. Never retreats, and
    /// never exceeds this store's operations: an operation still to be written is not acknowledged.
    ///
    /// The server's answers to these writes (rule 16) come before its stream has passed `offset`; nil if
    /// they will not come, 0 if they have come. Returns the documents to fetch as a consequence, which are
    /// recorded as wanted.
    @discardableResult
    public func acknowledge(
        _ actor: ActorID, through sequence: SequenceNumber, offset: Offset? = 0
    ) throws -> [DocumentKey] {
        try committing { database, state in
            var wanted: [DocumentKey] = []
            if offset != 0 {
                for key in try unsubscribed(actor, through: sequence, database) {
                    if let offset {
                        try Unanswered.note(key, offset, database)
                    } else {
                        try Wanted.note(key, database)
                        wanted.append(key)
                    }
                }
            }
            try OwnOperations.forget(actor, through: sequence, state.actor, database)
            return (wanted, nil)
        }
    }

    /// Handles answers up to an offset that will not come: records their documents as wanted and returns
    /// them.
    public func wantUnanswered(through offset: Offset) throws -> [DocumentKey] {
        try committing { database, _ in
            var keys: [DocumentKey] = []
            let statement = try RawStatement(
                fresh: "SELECT collection, id FROM unanswered WHERE offset <= ?", database,
                Int64(clamping: offset.rawValue))
            while try statement.step() {
                keys.append(statement.key(0))
            }
            for key in keys { try Wanted.note(key, database) }
            try Unanswered.settle(through: Offset(UInt64(Int64(clamping: offset.rawValue))), database)
            return (keys, nil)
        }
    }

    /// The documents of operations about to be forgotten that belong to no live subscription's collection.
    func unsubscribed(
        _ actor: ActorID, through sequence: SequenceNumber, _ database: Database
    ) throws -> Set<DocumentKey> {
        let subscribed = subscribedCollections
        // No operation names a collection that the store has no table for.
        guard try hasCollection(outside: subscribed, database) else { return [] }
        let statement = try RawStatement(
            cached: "SELECT \(StoredOperation.columns) FROM operation WHERE actor = ? AND sequence <= ?",
            database, actor.rawValue, sequence.rawValue)
        var keys: Set<DocumentKey> = []
        while try statement.step() {
            // Mostly all of it is subscribed to: that is seen without decoding it.
            func takes(_ name: UnsafeRawBufferPointer) -> Bool {
                subscribed.contains { $0.text.utf8.elementsEqual(name) }
            }
            if statement.isNull(2) {
                if Operation.isWithin(statement.blob(1), takes) { continue }
            } else if try StoredOperation(statement).isWithin(database, takes) {
                continue
            }
            let bytes = try StoredOperation(statement).whole(database)
            for change in try Operation(decoding: bytes).changes
            where !isSubscribed(change.collection) {
                keys.insert(DocumentKey(collection: change.collection, id: change.id))
            }
        }
        return keys
    }

    private func hasCollection(outside subscribed: [CollectionName], _ database: Database) throws -> Bool {
        let names = try RawStatement(cached: "SELECT name FROM collection", database)
        while try names.step() {
            let name = CollectionName(names.text(0))
            if !subscribed.contains(name) { return true }
        }
        return false
    }
}
