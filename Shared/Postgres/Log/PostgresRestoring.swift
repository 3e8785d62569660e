import CRDT
import OperationLog

/// Restores into the PostgreSQL log.
extension PostgresOperationLog: RestorableLog {
    /// One function call and one update.
    public func beginRestore(
        of database: DatabaseID, after start: Offset, hash: UInt64, as logID: LogID
    ) async throws -> DatabaseID {
        let draft = try RestoreDraft(of: database, after: start, hash: hash, as: logID)
        let isMade = try await changing { connection in
            let results = try connection.transaction([
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

    /// One transaction; the rows of replaced databases are removed afterwards.
    public func publish(_ drafts: [DatabaseID], replacing replaced: [DatabaseID]) async throws {
        let targets = drafts.map { RestoreDraft.target(of: $0) }
        let taken = try await databases().filter { targets.contains($0) && !replaced.contains($0) }
        if let first = taken.first { throw RestoreDraft.taken(first) }
        // A database that was made since breaks the uniqueness of names, and nothing is stored.
        try await changing { connection in
            _ = try connection.transaction(
                replaced.map { Self.nameTaking($0) }
                    + zip(drafts, targets).map { draft, target in
                        Connection.Step(
                            "UPDATE mimeo_log.databases SET id = $2 WHERE id = $1",
                            [.text(draft.text), .text(target.text)])
                    })
        }
        try await removeErased()
    }

    /// One update per draft, then its removal.
    public func discardDrafts() async throws {
        let names = try await reading { connection in
            let rows = try connection.query(
                "SELECT id FROM mimeo_log.databases WHERE starts_with(id, $1)", [.text(RestoreDraft.prefix)])
            return (0..<rows.count).map { rows.text($0, 0) }
        }
        try await changing { connection in
            _ = try connection.transaction(names.map { Self.nameTaking(DatabaseID($0)) })
        }
        try await removeErased()
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
