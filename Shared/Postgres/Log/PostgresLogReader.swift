import CRDT
import OperationLog

/// Reads of the PostgreSQL log. Everything returned was verified against the chain.
enum PostgresLogReader {
    /// A database's row.
    struct Head {
        let number: Int64
        let logID: LogID
        let offset: Offset
        let hash: UInt64
        /// The place through which entries were removed.
        let truncated: Offset
        let truncatedHash: UInt64

        var position: LogPosition { LogPosition(logID: logID, offset: offset, hash: hash) }
    }

    /// The head, checked against its last entry in one statement, so that both are of the same moment.
    static func head(_ connection: Connection, _ database: DatabaseID) throws -> Head {
        try head(try connection.query(headStep(database)), database)
    }

    /// The head, and what steps for the database's number answer. Their answers may be later than the head.
    /// It is one round trip where the number is known.
    private static func head(
        _ connection: Connection, _ database: DatabaseID, and steps: (_ number: Int64) -> [Connection.Step]
    ) throws -> (head: Head, answers: [Rows]) {
        if let number = connection.knownLogs[database] {
            let answers = try connection.pipeline([headStep(database)] + steps(number))
            let head = try head(answers[0], database)
            if head.number == number { return (head, Array(answers.dropFirst())) }
        }
        let head = try head(connection, database)
        if connection.knownLogs.count >= PostgresLimits.knownTables { connection.knownLogs = [:] }
        connection.knownLogs[database] = head.number
        return (head, try connection.run(steps(head.number)))
    }

    private static func headStep(_ database: DatabaseID) -> Connection.Step {
        Connection.Step(
            """
            SELECT d.number, d.log_id, d.head, d.hash, o.hash, d.truncated, d.truncated_hash
            FROM mimeo_log.databases d
            LEFT JOIN mimeo_log.operations o ON o.database = d.number AND o."offset" = d.head
            WHERE d.id = $1
            """, [.text(database.text)])
    }

    private static func head(_ rows: Rows, _ database: DatabaseID) throws -> Head {
        guard rows.count == 1 else {
            throw OperationLogError(.unknownDatabase, "no database has this id", database: database)
        }
        guard let logID = LogID(bytes: rows.bytes(0, 1)) else {
            throw OperationLogError(.corrupt, "the log id is damaged", database: database, offset: 0)
        }
        let head = Head(
            number: rows.int8(0, 0), logID: logID, offset: Offset(rows.bits(0, 2)), hash: rows.bits(0, 3),
            truncated: Offset(rows.bits(0, 5)), truncatedHash: rows.bits(0, 6))
        let last: UInt64? =
            if head.offset == 0 {
                ChainHash.start(logID)
            } else if head.offset == head.truncated {
                head.truncatedHash
            } else {
                rows.isNull(0, 4) ? nil : rows.bits(0, 4)
            }
        guard last == head.hash else {
            throw OperationLogError(
                .corrupt, "the last entry is missing or is not the one the head names", database: database,
                offset: head.offset)
        }
        return head
    }

    /// Runs a body that reads below a head in several statements. Between two of them a truncation may
    /// remove the entries that the next one looks for; then the head is read again and the body repeated.
    /// Entries that are missing but were not removed are damage.
    private static func below<Result>(
        _ first: Head, _ connection: Connection, _ database: DatabaseID, _ body: (Head) throws -> Result
    ) throws -> Result {
        do {
            return try body(first)
        } catch let error as OperationLogError where error.code == .corrupt {
            let now = try head(connection, database)
            guard now.truncated > first.truncated else { throw error }
            return try below(now, connection, database, body)
        }
    }

    /// The position at an offset; nil beyond the head.
    static func position(
        _ connection: Connection, _ database: DatabaseID, at offset: Offset
    ) throws -> LogPosition? {
        try below(try head(connection, database), connection, database) { head in
            try position(connection, database, head, at: offset)
        }
    }

    private static func position(
        _ connection: Connection, _ database: DatabaseID, _ head: Head, at offset: Offset
    ) throws -> LogPosition? {
        guard offset <= head.offset else { return nil }
        guard offset > 0 else {
            return LogPosition(logID: head.logID, offset: 0, hash: ChainHash.start(head.logID))
        }
        guard offset > head.truncated else {
            return try keptHash(connection, head, at: offset).map {
                LogPosition(logID: head.logID, offset: offset, hash: $0)
            }
        }
        let limit = ReadLimit(operations: 1)
        let answers = try connection.run(entrySteps(head.number, after: offset.previous, limit))
        let entries = try entries(answers, database, head, after: offset.previous, limit)
        return LogPosition(logID: head.logID, offset: offset, hash: entries[0].hash)
    }

    /// Entries after an offset, within the limit.
    static func entries(
        _ connection: Connection, _ database: DatabaseID, after offset: Offset, limit: ReadLimit
    ) throws -> [LogEntry] {
        let (head, answers) = try head(connection, database) { entrySteps($0, after: offset, limit) }
        guard offset <= head.offset else {
            throw OperationLogError(
                .offsetBeyondHead, "offset \(offset) is beyond the head, which is at \(head.offset)",
                database: database, offset: offset)
        }
        var first: [Rows]? = answers
        return try below(head, connection, database) { head in
            let answers = try first ?? connection.run(entrySteps(head.number, after: offset, limit))
            first = nil
            guard offset >= head.truncated else {
                let snapshot = try PostgresSnapshots.finished(connection, head)?.position.offset
                throw OperationLogError.truncated(database, head.truncated, snapshot: snapshot)
            }
            return try entries(answers, database, head, after: offset, limit)
        }
    }

    /// The frontiers of the given actors, without those that are not registered.
    static func frontier(
        _ connection: Connection, _ database: DatabaseID, _ actors: [ActorID]
    ) throws -> [ActorID: FrontierEntry] {
        let (_, answers) = try head(connection, database) { number in
            // An actor is in both tables for a moment, and the greater sequence counts.
            let step = Connection.Step(
                """
                SELECT DISTINCT ON (actor) actor, sequence, "timestamp", hash,
                    max(key) OVER (PARTITION BY actor)
                FROM (
                    SELECT actor, sequence, "timestamp", hash, key FROM mimeo_log.actors
                    WHERE database = $1 AND actor = ANY ($2)
                    UNION ALL
                    SELECT actor, sequence, "timestamp", content, key FROM mimeo_log.operations
                    WHERE database = $1 AND actor = ANY ($2)
                        AND "offset" > (SELECT settled FROM mimeo_log.databases WHERE number = $1)
                ) AS standing ORDER BY actor, sequence DESC
                """,
                [.int8(number), .int8Array(actors.map { Int64(bitPattern: $0.rawValue) })])
            return [step]
        }
        let rows = answers[0]
        var frontier: [ActorID: FrontierEntry] = [:]
        for row in 0..<rows.count {
            frontier[ActorID(rows.bits(row, 0))] = FrontierEntry(
                sequence: SequenceNumber(rows.bits(row, 1)), timestamp: rows.bits(row, 2),
                hash: rows.bits(row, 3), authorKey: rows.text(row, 4))
        }
        return frontier
    }

    /// The heads of all databases, unverified: good for a hint.
    static func heads(_ connection: Connection) throws(PostgresError) -> [(DatabaseID, Offset)] {
        let rows = try connection.query("SELECT id, head FROM mimeo_log.databases WHERE strpos(id, ':') = 0")
        return (0..<rows.count).map { (DatabaseID(rows.text($0, 0)), Offset(rows.bits($0, 1))) }
    }

    /// The server measures the entries, so that no more than the limit (plus one entry) is transferred.
    private static let select = """
        SELECT "offset", actor, sequence, "timestamp", hash, bytes FROM (
            SELECT "offset", actor, sequence, "timestamp", hash, bytes,
                sum(octet_length(bytes)) OVER (ORDER BY "offset") - octet_length(bytes) AS before
            FROM mimeo_log.operations WHERE database = $1 AND "offset" > $2 AND "offset" <= $3
        ) AS entries WHERE before < $4 ORDER BY "offset"
        """

    /// The steps whose answers `entries` takes: the hash at an offset, and what follows it.
    private static func entrySteps(
        _ number: Int64, after offset: Offset, _ limit: ReadLimit
    ) -> [Connection.Step] {
        let through = Int64(bitPattern: offset.rawValue).addingReportingOverflow(Int64(limit.operations))
        return [
            Connection.Step(
                "SELECT hash FROM mimeo_log.operations WHERE database = $1 AND \"offset\" = $2",
                [.int8(number), .int8(Int64(bitPattern: offset.rawValue))]),
            Connection.Step(
                select,
                [
                    .int8(number), .int8(Int64(bitPattern: offset.rawValue)),
                    .int8(through.overflow ? .max : through.partialValue), .int8(Int64(limit.bytes)),
                ]),
        ]
    }

    private static func entries(
        _ answers: [Rows], _ database: DatabaseID, _ head: Head, after offset: Offset, _ limit: ReadLimit
    ) throws -> [LogEntry] {
        guard offset < head.offset else { return [] }
        var chain = ChainReader(
            database: database, after: offset, hash: try hash(answers[0], database, head, at: offset),
            limit: limit)
        let through = offset.advanced(by: min(limit.operations, offset.distance(to: head.offset)))
        let rows = answers[1]
        for row in 0..<rows.count where Offset(rows.bits(row, 0)) <= through {
            let record = OperationRecord(
                actor: ActorID(rows.bits(row, 1)), sequence: SequenceNumber(rows.bits(row, 2)),
                timestamp: rows.bits(row, 3), bytes: rows.bytes(row, 5))
            let entry = LogEntry(
                offset: Offset(rows.bits(row, 0)), hash: rows.bits(row, 4), record: record)
            guard try chain.take(entry) else { break }
        }
        return try chain.finish(through: through)
    }

    private static func hash(
        _ rows: Rows, _ database: DatabaseID, _ head: Head, at offset: Offset
    ) throws -> UInt64 {
        guard offset > 0 else { return ChainHash.start(head.logID) }
        if offset == head.truncated { return head.truncatedHash }
        guard rows.count == 1 else {
            throw OperationLogError(.corrupt, "the entry is missing", database: database, offset: offset)
        }
        return rows.bits(0, 0)
    }

    /// The hash of a removed entry; nil when it is not kept.
    private static func keptHash(_ connection: Connection, _ head: Head, at offset: Offset) throws -> UInt64?
    {
        if offset == head.truncated { return head.truncatedHash }
        let rows = try connection.query(
            """
            SELECT hashes[$2 - first + 1] FROM mimeo_log.hashes
            WHERE database = $1 AND first <= $2 ORDER BY first DESC LIMIT 1
            """, [.int8(head.number), .int8(Int64(bitPattern: offset.rawValue))])
        return rows.count == 1 && !rows.isNull(0, 0) ? rows.bits(0, 0) : nil
    }
}
