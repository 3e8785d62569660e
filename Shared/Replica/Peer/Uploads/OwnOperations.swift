import CRDT
import Exchange
import GRDB

/// The peer's own part of the operation log: what it wrote, until the server has acknowledged it.
///
/// Acknowledged operations leave only the last one's sequence, timestamp and checksum, for the comparison at
/// the next handshake (rule 9). A server that was restored gets the documents back as states.
enum OwnOperations {
    /// `bytes` are all of it, or its header where `refers` tells the changes (`StoredOperation`).
    static func insert(
        _ operation: Operation, _ bytes: [UInt8], refers: [UInt8]? = nil, position: UInt64,
        _ database: Database
    ) throws {
        let statement = try RawStatement(
            cached: "INSERT INTO operation (position, actor, sequence, bytes, refers) VALUES (?, ?, ?, ?, ?)",
            database, position, operation.actor.rawValue, operation.sequence.rawValue, bytes)
        if let refers { statement.bind(5, refers) }
        try statement.run()
        guard operation.sequence == 1 else { return }
        let first = try RawStatement(
            cached: "INSERT OR IGNORE INTO acknowledged (actor, sequence) VALUES (?, 0)", database)
        first.bind(1, bits: operation.actor.rawValue)
        try first.run()
    }
}

/// The progress of one of the store's own actors: its issued and its acknowledged operations.
public struct OwnActor: Sendable, Equatable {
    /// The actor; the current one or an earlier one of this store.
    public let actor: ActorID
    /// The sequence of its last operation here.
    public let sequence: SequenceNumber
    /// The checksum of that operation's bytes (rule 9).
    public let hash: UInt64
    /// The greatest sequence the server has acknowledged; 0 for none.
    public let acknowledged: SequenceNumber
}

/// One own operation as stored.
public struct OwnOperation: Sendable, Equatable {
    /// The commit that made it.
    public let commit: UInt64
    /// Its sequence.
    public let sequence: SequenceNumber
    /// Its encoding.
    public let bytes: [UInt8]
}

extension OwnOperations {
    /// The actors that have written anything that is remembered here.
    /// Own changes of a document that nobody has acknowledged, in their order.
    static func deltas(of key: DocumentKey, _ database: Database) throws -> [Delta] {
        let statement = try RawStatement(
            fresh: "SELECT \(StoredOperation.columns) FROM operation ORDER BY position", database)
        var deltas: [Delta] = []
        while try statement.step() {
            let operation = try Operation(decoding: StoredOperation(statement).whole(database))
            for change in operation.changes where change.collection == key.collection && change.id == key.id {
                deltas.append(try Delta(decoding: change.delta, stamp: operation.stamp))
            }
        }
        return deltas
    }

    static func actors(_ database: Database) throws -> Set<ActorID> {
        let all = try RawStatement(
            fresh: "SELECT actor FROM acknowledged UNION SELECT actor FROM operation", database)
        var actors: Set<ActorID> = []
        while try all.step() { actors.insert(ActorID(all.bits(0))) }
        return actors
    }

    /// Forgets an actor's operations up to a sequence, as far as there are any, and remembers the last of
    /// them.
    static func truncate(_ actor: ActorID, through sequence: SequenceNumber, _ database: Database) throws {
        let last = try RawStatement(
            cached: """
                SELECT sequence, \(StoredOperation.columns) FROM operation WHERE actor = ? AND sequence <= ?
                ORDER BY sequence DESC LIMIT 1
                """, database)
        last.bind(1, bits: actor.rawValue)
        last.bind(2, bits: sequence.rawValue)
        guard try last.step() else { return }
        let stored = StoredOperation(last, from: 1)
        // The server has it. Where it cannot be read here any more, its checksum is unknown, and the next
        // handshake gives the store a new actor (rule 9).
        let hash = (try? stored.whole(database)).map { hash64($0) } ?? 0
        let update = try RawStatement(
            cached: "UPDATE acknowledged SET sequence = ?2, timestamp = ?3, hash = ?4 WHERE actor = ?1",
            database)
        update.bind(1, bits: actor.rawValue)
        update.bind(2, bits: last.bits(0))
        update.bind(3, bits: try OperationHeader.peek(stored.bytes).timestamp)
        update.bind(4, bits: hash)
        try update.run()
        let removal = try RawStatement(
            cached: "DELETE FROM operation WHERE actor = ? AND sequence <= ?", database)
        removal.bind(1, bits: actor.rawValue)
        removal.bind(2, bits: sequence.rawValue)
        try removal.run()
    }

    /// As `truncate`, of what the server holds, and forgets earlier actors that have nothing left to send.
    static func forget(
        _ actor: ActorID, through sequence: SequenceNumber, _ current: ActorID, _ database: Database
    ) throws {
        try truncate(actor, through: sequence, database)
        try forgetRetired(but: current, keeping: ReplicaLimits.retiredActors, database)
    }

    /// The place of an actor's history; nil when nothing is remembered of it.
    static func place(of actor: ActorID, _ database: Database) throws -> HistoryPlace? {
        let statement = try RawStatement(
            cached: "SELECT sequence, timestamp, hash FROM acknowledged WHERE actor = ?", database,
            actor.rawValue)
        guard try statement.step() else { return nil }
        return HistoryPlace(
            actor: actor, sequence: SequenceNumber(statement.bits(0)), timestamp: statement.bits(1),
            hash: statement.bits(2))
    }

    /// The encoding of one own operation that is not acknowledged.
    static func bytes(of actor: ActorID, _ sequence: SequenceNumber, _ database: Database) throws -> [UInt8]?
    {
        let statement = try RawStatement(
            cached: "SELECT \(StoredOperation.columns) FROM operation WHERE actor = ? AND sequence = ?",
            database, actor.rawValue, sequence.rawValue)
        return try statement.step() ? StoredOperation(statement).whole(database) : nil
    }

    /// The sequence of an actor's last operation that is not acknowledged; nil when there is none.
    static func last(of actor: ActorID, _ database: Database) throws -> SequenceNumber? {
        let statement = try RawStatement(
            cached: "SELECT MAX(sequence) FROM operation WHERE actor = ?", database, actor.rawValue)
        guard try statement.step(), !statement.isNull(0) else { return nil }
        return SequenceNumber(statement.bits(0))
    }

    /// The documents of all operations that are not acknowledged.
    static func documents(_ database: Database) throws -> Set<DocumentKey> {
        var keys: Set<DocumentKey> = []
        let statement = try RawStatement(fresh: "SELECT \(StoredOperation.columns) FROM operation", database)
        while try statement.step() {
            let bytes = try StoredOperation(statement).whole(database)
            for change in try Operation(decoding: bytes).changes {
                keys.insert(DocumentKey(collection: change.collection, id: change.id))
            }
        }
        return keys
    }

    /// The actors with unacknowledged operations, in the order in which the store took them: writes of a
    /// later one may rest on an earlier one's. Stamps tell, for a store's only grow; commits do not, since a
    /// moved operation keeps its commit.
    static func pending(_ database: Database) throws -> [ActorID] {
        let statement = try RawStatement(
            cached: """
                SELECT actor, bytes FROM operation AS o WHERE sequence =
                    (SELECT MAX(sequence) FROM operation WHERE actor = o.actor)
                """, database)
        var actors: [(actor: ActorID, time: Timestamp)] = []
        while try statement.step() {
            actors.append(
                (ActorID(statement.bits(0)), try OperationHeader.peek(statement.bytes(1)).timestamp))
        }
        return actors.sorted { $0.time < $1.time }.map(\.actor)
    }

    /// Forgets earlier actors that have nothing left to send: all but the latest few, or all.
    static func forgetRetired(but current: ActorID, keeping count: Int, _ database: Database) throws {
        try database.run(
            """
            DELETE FROM acknowledged WHERE actor IN (
                SELECT actor FROM acknowledged AS a WHERE actor <> ?1
                    AND NOT EXISTS (SELECT 1 FROM operation WHERE actor = a.actor)
                ORDER BY sequence = 0, timestamp DESC LIMIT -1 OFFSET ?2)
            """, current.rawValue, Int64(count))
    }
}

extension PeerReplica {
    /// Every actor of this store that the server may know, in the order in which the store used them.
    public func ownActors() throws -> [OwnActor] {
        try read { transaction in
            try transaction.withDatabase { database in
                let statement = try RawStatement(
                    cached: """
                        SELECT a.actor, a.sequence, a.hash, o.sequence, a.timestamp,
                            o.position, o.bytes, o.refers
                        FROM acknowledged AS a
                        LEFT JOIN operation AS o ON o.actor = a.actor AND o.sequence =
                            (SELECT MAX(sequence) FROM operation WHERE actor = a.actor)
                        """, database)
                var actors: [(actor: OwnActor, time: Timestamp)] = []
                while try statement.step() {
                    let last = statement.isNull(3) ? nil : StoredOperation(statement, from: 5)
                    let actor = OwnActor(
                        actor: ActorID(statement.bits(0)),
                        sequence: SequenceNumber(statement.bits(last == nil ? 1 : 3)),
                        hash: try last.map { hash64(try $0.whole(database)) } ?? statement.bits(2),
                        acknowledged: SequenceNumber(statement.bits(1)))
                    let time =
                        try last.map { try OperationHeader.peek($0.bytes).timestamp }
                        ?? statement.bits(4)
                    actors.append((actor, time))
                }
                return actors.sorted { $0.time < $1.time }.map(\.actor)
            }
        }
    }

    /// The store's record of its own writes and of the server's log, for a handshake (rules 9 and 18).
    public func ownHistory() throws -> OwnHistory {
        try feed.joinServer()
        let actors = try ownActors()
        var history = OwnHistory(
            heads: actors.map { ActorHead(actor: $0.actor, sequence: $0.sequence, hash: $0.hash) },
            acknowledged: actors.filter { $0.acknowledged > 0 }.map {
                Acknowledgement(actor: $0.actor, sequence: $0.acknowledged)
            },
            seen: try seenPosition(), declined: try declinedRights())
        history.hasLinks = recording.identity != nil
        return history
    }

    /// Compares each own actor with the server's head of it (sequence 0 for an unknown actor); `hashes` are
    /// the checksums that the server reports of earlier operations (rule 9).
    public func compareHistory(
        _ heads: [ActorHead], hashes: [OperationHashes] = []
    ) throws -> [HistoryComparison] {
        try read { transaction in
            try transaction.withDatabase { database in
                try heads.map { head in
                    try Self.compare(head, hashes.first { $0.actor == head.actor }, database)
                }
            }
        }
    }

    private static func compare(
        _ head: ActorHead, _ server: OperationHashes?, _ database: Database
    ) throws -> HistoryComparison {
        let actor = head.actor
        let place =
            try OwnOperations.place(of: actor, database)
            ?? HistoryPlace(actor: actor, sequence: 0, timestamp: 0, hash: 0)
        let isCurrent = try StoreState.load(database)?.actor == actor
        let last = try OwnOperations.last(of: actor, database)
        // An actor that will not write again and has nothing to send cannot go wrong.
        guard isCurrent || last != nil else {
            return HistoryComparison(actor: actor, admitted: place.sequence, state: .open, isExact: true)
        }
        return try place.compare(
            sequence: head.sequence, hash: head.hash, last: last ?? place.sequence, isCurrent: isCurrent,
            server: server
        ) { try OwnOperations.bytes(of: actor, $0, database) }
    }

    /// The own operations of an actor after a sequence, in order, at least one if there is any, up to
    /// `maxBytes`.
    public func ownOperations(of actor: ActorID, after sequence: SequenceNumber, maxBytes: Int) throws
        -> [OwnOperation]
    {
        try read { transaction in
            try transaction.withDatabase { database in
                let statement = try RawStatement(
                    cached: """
                        SELECT sequence, \(StoredOperation.columns) FROM operation
                        WHERE actor = ? AND sequence > ? ORDER BY sequence
                        """, database, actor.rawValue, sequence.rawValue)
                var found: [OwnOperation] = []
                var size = 0
                while size < maxBytes, try statement.step() {
                    let stored = StoredOperation(statement, from: 1)
                    let bytes = try stored.whole(database)
                    size += bytes.count
                    found.append(
                        OwnOperation(
                            commit: stored.position, sequence: SequenceNumber(statement.bits(0)),
                            bytes: bytes))
                }
                return found
            }
        }
    }

    /// The greatest commit up to which every own operation is acknowledged; `.wait` waits for it.
    public func acknowledgedCommit() throws -> UInt64 {
        try read { transaction in
            try transaction.withDatabase { database in
                let statement = try RawStatement(
                    cached: "SELECT MIN(position) FROM operation", database)
                guard try statement.step(), !statement.isNull(0) else {
                    return try StoreState.load(database)?.head ?? 0
                }
                return statement.bits(0) - 1
            }
        }
    }
}

extension PeerReplica {
    /// Stops writing as an actor for which the server has another history (rule 9): the next write takes a
    /// new one.
    public func renewActor(_ actor: ActorID) throws {
        try committing { database, state in
            if state.actor == actor { try state.renewActor(store.environment, database) }
            return ((), nil)
        }
    }
}
