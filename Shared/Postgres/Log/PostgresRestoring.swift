import CRDT
import OperationLog

/// Restores into the PostgreSQL log.
extension PostgresOperationLog: RestorableLog {
    /// One function call and one update.
    public func beginRestore(
        of database: DatabaseID, after start: Offset, hash: UInt64, as logID: LogID?
    ) async throws -> DatabaseID {
        let draft = try RestoreDraft(of: database, after: start, hash: hash, as: logID)
        let isMade = try await changingDurably { connection in
            let results = try connection.run([
                Connection.Step(
                    "SELECT mimeo_log.create_database($1, $2, $3)",
                    [
                        .text(draft.name.text), .bytes(draft.logID.bytes),
                        .int8(Int64(bitPattern: draft.hash)),
                    ]),
                Connection.Step(
                    """
                    UPDATE mimeo_log.databases SET head = $2, truncated = $2, settled = $2, indexed = $2,
                        truncated_hash = $4
                    WHERE id = $1 AND log_id = $3
                    """,
                    [
                        .text(draft.name.text), .int8(Int64(bitPattern: draft.start.rawValue)),
                        .bytes(draft.logID.bytes), .int8(Int64(bitPattern: draft.truncatedHash)),
                    ]),
            ])
            return results[0].bool(0, 0)
        }
        return try draft.made(isMade)
    }

    /// One statement.
    public func register(_ actors: [ActorID: FrontierEntry], in draft: DatabaseID) async throws {
        let all = Array(actors)
        try await changing { connection in
            _ = try connection.query(
                """
                INSERT INTO mimeo_log.actors
                SELECT d.number, a.actor, a.key, a.sequence, a.stamp, a.hash
                FROM mimeo_log.databases d,
                    unnest($2, $3, $4, $5, $6) AS a (actor, key, sequence, stamp, hash)
                WHERE d.id = $1
                """,
                [
                    .text(draft.text), .int8Array(all.map { Int64(bitPattern: $0.key.rawValue) }),
                    .textArray(all.map(\.value.authorKey)),
                    .int8Array(all.map { Int64(bitPattern: $0.value.sequence.rawValue) }),
                    .int8Array(all.map { Int64(bitPattern: $0.value.timestamp) }),
                    .int8Array(all.map { Int64(bitPattern: $0.value.hash) }),
                ])
        }
    }

    /// One lookup.
    public func number(of database: DatabaseID) async throws -> Int64? {
        try await reading { try Self.number(of: database, $0) }
    }

    /// One scan of the names.
    public func drafts() async throws -> [DatabaseID] {
        try await reading { connection in
            let rows = try connection.query(
                "SELECT id FROM mimeo_log.databases WHERE strpos(id, ':') > 0 ORDER BY number")
            return (0..<rows.count).map { DatabaseID(rows.text($0, 0)) }.filter(RestoreDraft.isOne)
        }
    }

    /// One transaction; the rows of removed databases go afterwards.
    public func rename(_ renamings: [Renaming]) async throws {
        try await changingDurably { connection in
            for renaming in renamings {
                // The lock keeps the name until the end.
                guard try Self.number(of: renaming.database, connection, "FOR UPDATE") == renaming.number
                else { throw renaming.refusal }
                guard let name = renaming.name else {
                    _ = try connection.query(Self.nameTaking(renaming.database))
                    continue
                }
                // One that is made at the same time breaks the uniqueness of names, and nothing is stored.
                guard try Self.number(of: name, connection) == nil else { throw RestoreDraft.taken(name) }
                // A writer that knows a retired draft's head looks for that of the name from now on.
                let change = RestoreDraft.isOne(name) ? "id = $2, head = -1, hash = 0" : "id = $2"
                _ = try connection.query(
                    "UPDATE mimeo_log.databases SET \(change) WHERE number = $1",
                    [.int8(renaming.number), .text(name.text)])
            }
        }
        if renamings.contains(where: { $0.name == nil }) { try await removeErased() }
    }

    private static func number(
        of database: DatabaseID, _ connection: Connection, _ lock: String = ""
    ) throws -> Int64? {
        let rows = try connection.query(
            "SELECT number FROM mimeo_log.databases WHERE id = $1 \(lock)", [.text(database.text)])
        return rows.count == 1 ? rows.int8(0, 0) : nil
    }

    /// An advisory lock of the connection for long work.
    public func reserveDrafts() async throws {
        let isFree = draftMaking.withLock { isReserved in
            defer { isReserved = true }
            return !isReserved
        }
        var isMine = false
        defer { if isFree, !isMine { draftMaking.withLock { $0 = false } } }
        if isFree {
            isMine = try await keepingUp { connection in
                try connection.query("SELECT pg_try_advisory_lock(\(PostgresLogSchema.draftMaking))").bool(
                    0, 0)
            }
        }
        guard isMine else {
            throw OperationLogError(
                .contended, "another process restores into this log, or moves databases to or from it")
        }
    }

    /// Gives the lock back; a connection that was lost has done so before.
    public func releaseDrafts() async {
        _ = try? await keepingUp { connection in
            try connection.query("SELECT pg_advisory_unlock(\(PostgresLogSchema.draftMaking))").bool(0, 0)
        }
        draftMaking.withLock { $0 = false }
    }

    /// Connections to the database by programs of another name: a restore's URL has an
    /// `application_name` of its own.
    public func hasOtherUsers() async throws -> Bool {
        try await reading { connection in
            try connection.query(
                """
                SELECT EXISTS (
                    SELECT 1 FROM pg_stat_activity WHERE datname = current_database()
                        AND backend_type = 'client backend'
                        AND application_name <> current_setting('application_name'))
                """
            ).bool(0, 0)
        }
    }
}
