import CRDT
import GRDB

/// The peer's own part of the operation log: what it wrote, until the server has it and beyond.
///
/// Nothing is removed in this version: a restored server asks for what it lost.
enum OwnOperations {
    static func insert(_ operation: Operation, _ bytes: [UInt8], position: UInt64, _ database: Database)
        throws
    {
        let statement = try RawStatement(
            cached: "INSERT INTO operation (position, actor, sequence, bytes) VALUES (?, ?, ?, ?)", database)
        statement.bind(1, bits: position)
        statement.bind(2, bits: operation.actor.rawValue)
        statement.bind(3, bits: operation.sequence)
        statement.bind(4, bytes)
        try statement.run()
        guard operation.sequence == 1 else { return }
        let first = try RawStatement(
            cached: "INSERT OR IGNORE INTO acknowledged (actor, sequence) VALUES (?, 0)", database)
        first.bind(1, bits: operation.actor.rawValue)
        try first.run()
    }
}

/// How far one of the store's own actors is: what it issued, what the server acknowledged.
public struct OwnActor: Sendable, Equatable {
    /// The actor; the current one or an earlier one of this store.
    public let actor: ActorID
    /// The sequence of its last operation here.
    public let sequence: UInt64
    /// The checksum of that operation's bytes (rule 9).
    public let hash: UInt64
    /// The greatest sequence the server has acknowledged; 0 for none.
    public let acknowledged: UInt64
}

/// One own operation as stored.
public struct OwnOperation: Sendable, Equatable {
    /// The commit that made it.
    public let commit: UInt64
    /// Its sequence.
    public let sequence: UInt64
    /// Its encoding.
    public let bytes: [UInt8]
}

extension Replica {
    /// Every actor this store has written operations as, in the order of their last commits.
    public func ownActors() throws -> [OwnActor] {
        try read { transaction in
            try transaction.withDatabase { database in
                let statement = try RawStatement(
                    cached: """
                        SELECT o.actor, o.sequence, o.bytes, a.sequence FROM acknowledged AS a
                        JOIN operation AS o ON o.actor = a.actor AND o.sequence =
                            (SELECT MAX(sequence) FROM operation WHERE actor = a.actor)
                        ORDER BY o.position
                        """, database)
                var actors: [OwnActor] = []
                while try statement.step() {
                    actors.append(
                        OwnActor(
                            actor: ActorID(statement.bits(0)), sequence: statement.bits(1),
                            hash: hash64(statement.blob(2)), acknowledged: statement.bits(3)))
                }
                return actors
            }
        }
    }

    /// The own operations of an actor after a sequence, in order, at least one if there is any, up to
    /// `maxBytes`.
    public func ownOperations(of actor: ActorID, after sequence: UInt64, maxBytes: Int) throws
        -> [OwnOperation]
    {
        try read { transaction in
            try transaction.withDatabase { database in
                let statement = try RawStatement(
                    cached: """
                        SELECT position, sequence, bytes FROM operation WHERE actor = ? AND sequence > ?
                        ORDER BY sequence
                        """, database)
                statement.bind(1, bits: actor.rawValue)
                statement.bind(2, bits: sequence)
                var found: [OwnOperation] = []
                var size = 0
                while size < maxBytes, try statement.step() {
                    let bytes = statement.bytes(2)
                    size += bytes.count
                    found.append(
                        OwnOperation(commit: statement.bits(0), sequence: statement.bits(1), bytes: bytes))
                }
                return found
            }
        }
    }

    /// Whether the store holds this operation of an own actor, by the checksum of its bytes (rule 9): where
    /// the server knows an operation that is not this store's, the store was rolled back or copied.
    public func holds(_ actor: ActorID, sequence: UInt64, hash: UInt64) throws -> Bool {
        try ownOperations(of: actor, after: sequence - 1, maxBytes: 1).first.map {
            $0.sequence == sequence && hash64($0.bytes) == hash
        } ?? false
    }

    /// Notes that the server holds an own actor's operations up to a sequence, durably. Never retreats, and
    /// never goes beyond what this store has: an operation still to be written is not acknowledged.
    public func acknowledge(_ actor: ActorID, through sequence: UInt64) throws {
        try committing { database, _ in
            let statement = try RawStatement(
                cached: """
                    UPDATE acknowledged SET sequence = MAX(sequence,
                        MIN(?2, (SELECT MAX(sequence) FROM operation WHERE actor = ?1)))
                    WHERE actor = ?1
                    """, database)
            statement.bind(1, bits: actor.rawValue)
            statement.bind(2, bits: sequence)
            try statement.run()
            return ((), nil)
        }
    }

    /// The greatest commit such that every own operation up to it is acknowledged: what `.wait` waits for.
    public func acknowledgedCommit() throws -> UInt64 {
        try read { transaction in
            try transaction.withDatabase { database in
                let statement = try RawStatement(
                    cached: """
                        SELECT MIN((
                            SELECT position FROM operation AS o
                            WHERE o.actor = a.actor AND o.sequence > a.sequence ORDER BY o.sequence LIMIT 1))
                        FROM acknowledged AS a
                        """, database)
                guard try statement.step(), !statement.isNull(0) else {
                    return try StoreState.load(database)?.head ?? 0
                }
                return statement.bits(0) - 1
            }
        }
    }
}

extension Replica {
    /// Stops writing as an actor whose history the server knows otherwise (rule 9): the next write takes a
    /// new one.
    public func renewActor(_ actor: ActorID) throws {
        try committing { database, state in
            if state.actor == actor { try state.renewActor(environment, database) }
            return ((), nil)
        }
    }
}
