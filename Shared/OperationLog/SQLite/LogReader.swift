import CRDT
import Foundation
import GRDB

/// A database's row: its identity and the end of its log.
struct LogHead {
    let number: Int64
    let logID: LogID
    var offset: Offset
    var hash: UInt64
    /// The place through which entries were removed.
    let truncated: Offset
    let truncatedHash: UInt64
    /// The table of actors is complete up to here, with the chain hash there: the columns `settled` and
    /// `settledHash`.
    var flushed: Offset
    var flushedHash: UInt64

    var position: LogPosition { LogPosition(logID: logID, offset: offset, hash: hash) }
}

/// Reads of the SQLite log, inside the caller's transaction. Everything returned was verified against the
/// chain.
enum LogReader {
    /// The heads of all databases, unverified: good for a hint.
    static func heads(_ db: Database) throws -> [(DatabaseID, Offset)] {
        let statement = try db.cachedStatement(sql: "SELECT id, head FROM databases WHERE instr(id, ':') = 0")
        return try Row.fetchAll(statement).map { row in
            (DatabaseID(String.fromDatabaseValue(row[0]) ?? ""), Offset(unsigned(row, 1)))
        }
    }

    /// The head of a database, checked against its last entry.
    static func head(_ db: Database, database: DatabaseID) throws -> LogHead {
        let sql = """
            SELECT number, logID, head, hash, truncated, truncatedHash, settled, settledHash
            FROM databases WHERE id = ?
            """
        let statement = try FastStatement(sql, db)
        statement.bind(1, database.text)
        let found = try statement.first { row -> LogHead in
            guard let logID = LogID(bytes: row.bytes(1)) else {
                throw corrupt("the log id is damaged", database, offset: 0)
            }
            return LogHead(
                number: row.int(0), logID: logID, offset: Offset(row.bits(2)), hash: row.bits(3),
                truncated: Offset(row.bits(4)), truncatedHash: row.bits(5), flushed: Offset(row.bits(6)),
                flushedHash: row.bits(7))
        }
        guard let head = found else {
            throw OperationLogError(.unknownDatabase, "no database has this id", database: database)
        }
        let isInRange =
            head.offset.rawValue < 1 << LogKey.offsetBits && (1..<LogKey.databaseEnd).contains(head.number)
            && head.flushed <= head.offset && head.truncated <= head.flushed
        guard isInRange else {
            throw corrupt("the head is damaged", database, offset: head.offset)
        }
        guard try chainHash(db, at: head.offset, of: head) == head.hash else {
            let message = "the last entry is missing or is not the one the head names"
            throw corrupt(message, database, offset: head.offset)
        }
        return head
    }

    /// Entries after an offset, within the limit.
    static func entries(
        _ db: Database, database: DatabaseID, after offset: Offset, limit: ReadLimit
    ) throws -> [LogEntry] {
        let head = try head(db, database: database)
        guard offset <= head.offset else {
            let message = "offset \(offset) is beyond the head, which is at \(head.offset)"
            throw OperationLogError(.offsetBeyondHead, message, database: database, offset: offset)
        }
        return try entries(db, database: database, head: head, after: offset, limit: limit)
    }

    /// The position at an offset; nil beyond the head.
    static func position(_ db: Database, database: DatabaseID, at offset: Offset) throws -> LogPosition? {
        let head = try head(db, database: database)
        guard offset <= head.offset else { return nil }
        guard offset > 0 else {
            return LogPosition(logID: head.logID, offset: 0, hash: ChainHash.start(head.logID))
        }
        guard offset > head.truncated else {
            return try chainHash(db, at: offset, of: head).map {
                LogPosition(logID: head.logID, offset: offset, hash: $0)
            }
        }
        let one = ReadLimit(operations: 1)
        let entry = try entries(db, database: database, head: head, after: offset.previous, limit: one)[0]
        return LogPosition(logID: head.logID, offset: offset, hash: entry.hash)
    }

    /// The frontiers of the given actors, without those that are not registered; the index may supply a
    /// part.
    static func frontier(
        _ db: Database, database: DatabaseID, actors: [ActorID], _ index: FrontierIndex
    ) throws -> [ActorID: FrontierEntry] {
        let head = try head(db, database: database)
        let frontier = try KnownFrontier.reading(db, database, head, since: index.known(head.number))
        return try frontier.entries(of: actors, db, head)
    }

    /// An actor's key and frontier as far as the table is flushed; nil if it never appended.
    static func registration(
        _ db: Database, database number: Int64, actor: ActorID
    ) throws -> KnownFrontier.Registration? {
        let statement = try FastStatement(
            "SELECT key, sequence, timestamp, hash FROM actors WHERE database = ? AND actor = ?", db)
        statement.bind(1, number)
        statement.bind(2, bits: actor.rawValue)
        return try statement.first { row in
            let key = row.text(0)
            return KnownFrontier.Registration(
                key: key,
                frontier: FrontierEntry(
                    sequence: SequenceNumber(row.bits(1)), timestamp: row.bits(2), hash: row.bits(3),
                    authorKey: key))
        }
    }

    /// Entries after an offset up to the head, within the limit.
    static func entries(
        _ db: Database, database: DatabaseID, head: LogHead, after offset: Offset, limit: ReadLimit
    ) throws -> [LogEntry] {
        guard offset >= head.truncated else {
            let snapshot = try LogSnapshots.finished(db, of: head)?.position.offset
            throw OperationLogError.truncated(database, head.truncated, snapshot: snapshot)
        }
        guard offset < head.offset else { return [] }
        guard let hash = try chainHash(db, at: offset, of: head) else {
            throw corrupt("the entry is missing", database, offset: offset)
        }
        let sql = """
            SELECT position, actor, sequence, timestamp, hash, bytes FROM operations
            WHERE position > ? AND position <= ? ORDER BY position LIMIT ?
            """
        let through = offset.advanced(by: min(limit.operations, offset.distance(to: head.offset)))
        var chain = ChainReader(database: database, after: offset, hash: hash, limit: limit)
        do {
            let statement = try FastStatement(sql, db)
            statement.bind(1, LogKey.of(database: head.number, offset: offset))
            statement.bind(2, LogKey.of(database: head.number, offset: through))
            statement.bind(3, Int64(limit.operations))
            try statement.each { row in try chain.take(decode(row)) }
        } catch let error as DatabaseError where isDamage(error) {
            throw corrupt("the page is damaged: \(describe(error))", database, offset: chain.expected)
        }
        return try chain.finish(through: through)
    }

    /// The stored chain hash at an offset, which must not exceed the head; nil if the row is missing, or
    /// was removed so long ago that its hash is not kept.
    static func chainHash(_ db: Database, at offset: Offset, of head: LogHead) throws -> UInt64? {
        guard offset > 0 else { return ChainHash.start(head.logID) }
        if offset == head.truncated { return head.truncatedHash }
        if offset < head.truncated { return try LogTruncation.keptHash(db, at: offset, of: head) }
        let statement = try FastStatement("SELECT hash FROM operations WHERE position = ?", db)
        statement.bind(1, LogKey.of(database: head.number, offset: offset))
        return try statement.first { $0.bits(0) }
    }

    private static func decode(_ row: FastStatement) -> LogEntry {
        let record = OperationRecord(
            actor: ActorID(row.bits(1)), sequence: SequenceNumber(row.bits(2)), timestamp: row.bits(3),
            bytes: row.bytes(5))
        return LogEntry(offset: LogKey.offset(of: row.int(0)), hash: row.bits(4), record: record)
    }

    /// The note in a mark of this log: the number of a database, which outlives its erasure, and a position
    /// that is durable.
    static func note(of head: LogHead) -> (UInt64, UInt64, UInt64) {
        (UInt64(bitPattern: head.number), head.offset.rawValue, head.hash)
    }

    /// The end that the log had by its mark, and lacks; nil if it lacks none, as far as hashes are kept.
    static func loss(_ db: Database, since note: (UInt64, UInt64, UInt64)) throws -> LogLoss? {
        let (number, offset, hash) = (Int64(bitPattern: note.0), Offset(note.1), note.2)
        guard number != 0 else { return nil }
        let name = try String.fetchOne(
            db, sql: "SELECT id FROM databases WHERE number = ?", arguments: [number])
        guard let name else { return LogLoss(database: nil, head: 0, previous: offset) }
        let database = DatabaseID(name)
        // An erased database has lost its operations on purpose (`LogErasure`). Damage is found by those who
        // read the damaged part.
        guard database.isValidInLog, let head = try? head(db, database: database) else { return nil }
        let isThere =
            try offset <= head.offset && chainHash(db, at: offset, of: head).map { $0 == hash } ?? true
        return isThere ? nil : LogLoss(database: database, head: head.offset, previous: offset)
    }

    /// Reads the last place of a note's database, and throws if it cannot be read or the log lacks the place.
    static func keep(_ note: (UInt64, UInt64, UInt64), _ db: Database) throws {
        let name = try String.fetchOne(
            db, sql: "SELECT id FROM databases WHERE number = ?", arguments: [Int64(bitPattern: note.0)])
        if let name, DatabaseID(name).isValidInLog { _ = try head(db, database: DatabaseID(name)) }
        guard let loss = try loss(db, since: note) else { return }
        throw OperationLogError(
            .corrupt, "the log ends at \(loss.head), and had \(loss.previous) before", database: loss.database
        )
    }

    /// A number stored by its bits. A column of a damaged page may have any type; it reads as zero then,
    /// and fails the chain check.
    static func unsigned(_ row: Row, _ column: Int) -> UInt64 {
        UInt64(bitPattern: Int64.fromDatabaseValue(row[column]) ?? 0)
    }

    private static func corrupt(_ message: String, _ database: DatabaseID, offset: Offset)
        -> OperationLogError
    {
        OperationLogError(.corrupt, message, database: database, offset: offset)
    }
}

/// SQLite's message and extended code, without the statement's arguments.
func describe(_ error: DatabaseError) -> String {
    "\(error.message ?? "no detail") (SQLite \(error.extendedResultCode.rawValue))"
}

/// Returns whether SQLite found its own structure damaged.
func isDamage(_ error: DatabaseError) -> Bool {
    error.resultCode == .SQLITE_CORRUPT || error.resultCode == .SQLITE_NOTADB
}
