import CRDT
import OperationLog

// Snapshots, truncation and leases of the PostgreSQL log.

extension PostgresOperationLog {
    /// One lookup.
    public func truncation(of database: DatabaseID) async throws -> LogPosition {
        try await reading { connection in
            let head = try PostgresLogReader.head(connection, database)
            return LogPosition(
                logID: head.logID, offset: head.truncated,
                hash: head.truncated == 0 ? ChainHash.start(head.logID) : head.truncatedHash)
        }
    }

    /// A transaction per `LogLimits.remoteTruncationStep` entries, and per `LogLimits.forgottenTouches` of
    /// the index of last offsets; then the space is reclaimed, on a connection that no read waits for.
    public func truncate(
        _ database: DatabaseID, through offset: Offset, keepingHashesAfter floor: Offset
    ) async throws {
        let target = Int64(bitPattern: offset.rawValue)
        var head = try await reading { try PostgresLogReader.head($0, database) }
        while head.truncated < offset {
            let reached = try await changing { connection in
                try connection.query(
                    "SELECT mimeo_log.truncate($1, $2, $3)",
                    [.text(database.text), .int8(target), .int8(Int64(LogLimits.remoteTruncationStep))]
                ).int8(0, 0)
            }
            guard reached >= 0 else {
                throw OperationLogError(
                    .noSnapshot, "no finished snapshot covers the entries to remove", database: database,
                    offset: offset)
            }
            try Task.checkCancellation()
            head = try await reading { try PostgresLogReader.head($0, database) }
        }
        let (number, truncated) = (head.number, head.truncated)
        var touch: Int64? = .min
        while let start = touch {
            touch = try await changing { try Self.forget($0, number, through: truncated, from: start) }
            try Task.checkCancellation()
        }
        try await keepingUp { connection in
            // Another process may be reclaiming space too, so this waits without limit; the connection's
            // next user gets the usual limit again.
            let usual = try connection.query("SELECT current_setting('lock_timeout')").text(0, 0)
            try connection.run("SET lock_timeout = 0")
            defer { try? connection.run("SET lock_timeout = '\(usual)'") }
            let excess = truncated.reduced(by: LogLimits.keptHashes)
            _ = try connection.query(
                """
                DELETE FROM mimeo_log.hashes
                WHERE database = $1 AND first + array_length(hashes, 1) - 1 <= $2
                """, [.int8(number), .int8(Int64(bitPattern: min(max(floor, excess), truncated).rawValue))])
            try connection.run("VACUUM mimeo_log.operations_\(number)")
            try connection.run("VACUUM mimeo_log.touched")
            try connection.run("VACUUM mimeo_log.chunks")
        }
    }

    /// Examines `LogLimits.forgottenTouches` entries of the index of last offsets, and drops those up to
    /// the cut: a condition read before it is breached anyway. Holds the lock of the database's row, like
    /// every writer of the index: two that take its entries in different orders would deadlock.
    /// - Returns: the entry to continue with; nil when all were examined.
    private static func forget(
        _ connection: Connection, _ number: Int64, through truncated: Offset, from start: Int64
    ) throws -> Int64? {
        let piece = try connection.transaction([
            Connection.Step(
                "SELECT 1 FROM mimeo_log.databases WHERE number = $1 FOR UPDATE", [.int8(number)]),
            Connection.Step(
                """
                WITH piece AS (
                    SELECT touch FROM mimeo_log.touched WHERE database = $1 AND touch >= $2
                    ORDER BY touch LIMIT $3
                ), ends AS (
                    SELECT max(touch) AS last, count(*) AS looked FROM piece
                ), gone AS (
                    DELETE FROM mimeo_log.touched t WHERE t.database = $1 AND t.touch >= $2
                        AND t.touch <= (SELECT last FROM ends) AND t."offset" <= $4
                )
                SELECT last, looked FROM ends
                """,
                [
                    .int8(number), .int8(start), .int8(Int64(LogLimits.forgottenTouches)),
                    .int8(Int64(bitPattern: truncated.rawValue)),
                ]),
        ])[1]
        guard piece.int8(0, 1) == Int64(LogLimits.forgottenTouches), piece.int8(0, 0) < .max else {
            return nil
        }
        return piece.int8(0, 0) + 1
    }

    /// One lookup.
    public func snapshot(of database: DatabaseID) async throws -> LogSnapshot? {
        try await reading { connection in
            try PostgresSnapshots.finished(connection, PostgresLogReader.head(connection, database))
        }
    }

    /// One statement.
    public func beginSnapshot(
        of database: DatabaseID, at position: LogPosition
    ) async throws -> SnapshotDraft {
        try await changing { try PostgresSnapshots.begin($0, database, at: position) }
    }

    /// One statement.
    public func add(_ chunk: [UInt8], to draft: SnapshotDraft, in database: DatabaseID) async throws {
        try OperationLogError.check(chunk: chunk, database)
        try await changing { try PostgresSnapshots.add($0, chunk, to: draft, database) }
    }

    /// One statement.
    public func finish(_ draft: SnapshotDraft, in database: DatabaseID) async throws -> LogSnapshot {
        try await changing { try PostgresSnapshots.finish($0, draft, database) }
    }

    /// Three lookups.
    public func chunk(
        _ index: Int, of snapshot: LogSnapshot, in database: DatabaseID
    ) async throws -> [UInt8] {
        try await reading { try PostgresSnapshots.chunk($0, index, of: snapshot, database) }
    }

    /// One function call.
    public func lease(
        _ purpose: String, of slots: Int, for duration: Duration, in database: DatabaseID
    ) async throws -> ActorLease? {
        try OperationLogError.check(purpose: purpose, database)
        return try await changing { connection in
            _ = try PostgresLogReader.head(connection, database)
            let rows = try connection.query(
                "SELECT lease_number, lease_actor, lease_epoch FROM mimeo_log.lease($1, $2, $3, $4, $5)",
                [
                    .text(database.text), .text(purpose), .int8(Int64(slots)),
                    .int8(duration.wholeMilliseconds),
                    .int8(Int64.random(in: .min ... .max)),
                ])
            guard rows.count == 1 else { return nil }
            return ActorLease(
                purpose: purpose, number: rows.bits(0, 0), actor: ActorID(rows.bits(0, 1)),
                epoch: rows.bits(0, 2))
        }
    }

    /// One update, unless the log was moved.
    public func renew(_ lease: ActorLease, for duration: Duration, in database: DatabaseID) async throws
        -> Bool
    {
        try await changing { connection in
            let rows = try connection.transaction([
                Connection.Step("SELECT mimeo_log.arrive()"),
                Connection.Step(
                    """
                    UPDATE mimeo_log.leases SET expires = clock_timestamp() + $3 * interval '1 millisecond'
                    WHERE number = $1 AND epoch = $2 AND expires > clock_timestamp() RETURNING number
                    """,
                    [
                        .int8(Int64(lease.number)), .int8(Int64(lease.epoch)),
                        .int8(duration.wholeMilliseconds),
                    ]),
            ])
            return rows[1].count == 1
        }
    }

    /// One update.
    public func retire(_ actors: [ActorID], in database: DatabaseID) async throws {
        try await changing { connection in
            _ = try connection.query(
                """
                UPDATE mimeo_log.leases l SET actor = NULL, expires = '-infinity', epoch = l.epoch + 1
                FROM mimeo_log.databases d WHERE d.id = $1 AND l.database = d.number AND l.actor = ANY ($2)
                """, [.text(database.text), .int8Array(actors.map { Int64(bitPattern: $0.rawValue) })])
        }
    }

    /// One update.
    public func release(_ lease: ActorLease, retiring: Bool, in database: DatabaseID) async throws {
        try await changing { connection in
            _ = try connection.query(
                """
                UPDATE mimeo_log.leases SET expires = '-infinity',
                    actor = CASE WHEN $3 = 1 THEN NULL ELSE actor END
                WHERE number = $1 AND epoch = $2
                """, [.int8(Int64(lease.number)), .int8(Int64(lease.epoch)), .int8(retiring ? 1 : 0)])
        }
    }
}
