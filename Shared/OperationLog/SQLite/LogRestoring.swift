import CRDT
import Foundation
import GRDB

/// Restores into the SQLite log. Each call is one transaction.
extension SQLiteOperationLog: RestorableLog {
    /// One insert.
    public func beginRestore(
        of database: DatabaseID, after start: Offset, hash: UInt64, as logID: LogID
    ) async throws -> DatabaseID {
        let draft = try RestoreDraft(of: database, after: start, hash: hash, as: logID)
        let isMade = try await writing { writer throws(LogWriter.Failure) in
            try writer.change { db in
                try db.execute(
                    sql: """
                        INSERT INTO databases
                            (id, logID, head, hash, truncated, truncatedHash, settled, settledHash)
                        VALUES (?1, ?2, ?3, ?4, ?3, ?5, ?3, ?4) ON CONFLICT DO NOTHING
                        """,
                    arguments: [
                        draft.name.text, Data(draft.logID.bytes), Int64(bitPattern: draft.start.rawValue),
                        Int64(bitPattern: draft.hash), Int64(bitPattern: draft.truncatedHash),
                    ])
                return db.changesCount > 0
            }
        }
        return try draft.made(isMade)
    }

    /// A row per actor.
    public func register(_ actors: [ActorID: FrontierEntry], in draft: DatabaseID) async throws {
        try await writing { writer throws(LogWriter.Failure) in
            try writer.change { db in
                let head = try LogReader.head(db, database: draft)
                let insert = try FastStatement(
                    """
                    INSERT INTO actors (database, actor, key, sequence, timestamp, hash)
                    VALUES (?, ?, ?, ?, ?, ?)
                    """, db)
                for (actor, frontier) in actors {
                    insert.bind(1, head.number)
                    insert.bind(2, bits: actor.rawValue)
                    insert.bind(3, frontier.authorKey)
                    insert.bind(4, bits: frontier.sequence.rawValue)
                    insert.bind(5, bits: frontier.timestamp)
                    insert.bind(6, bits: frontier.hash)
                    try insert.run()
                }
            }
        }
    }

    /// An update per database; the rows of replaced ones are removed afterwards.
    public func publish(_ drafts: [DatabaseID], replacing replaced: [DatabaseID]) async throws {
        try await writing { writer throws(LogWriter.Failure) in
            try writer.change { db in
                for database in replaced { _ = try LogErasure.begin(db, database) }
                for draft in drafts {
                    let target = RestoreDraft.target(of: draft)
                    let sql = "SELECT EXISTS (SELECT 1 FROM databases WHERE id = ?)"
                    guard try Bool.fetchOne(db, sql: sql, arguments: [target.text]) == false else {
                        throw RestoreDraft.taken(target)
                    }
                    try db.execute(
                        sql: "UPDATE databases SET id = ? WHERE id = ?", arguments: [target.text, draft.text])
                    guard db.changesCount == 1 else {
                        throw OperationLogError(.unknownDatabase, "the draft is gone", database: target)
                    }
                }
            }
        }
        try await removeErased()
    }

    /// An update, then a transaction per `LogLimits.truncationStep` rows.
    public func discardDrafts() async throws {
        try await writing { writer throws(LogWriter.Failure) in
            try writer.change { db in
                let sql = "SELECT id FROM databases WHERE substr(id, 1, ?) = ?"
                let prefix = RestoreDraft.prefix
                for name in try String.fetchAll(db, sql: sql, arguments: [prefix.count, prefix]) {
                    _ = try LogErasure.takeName(db, DatabaseID(name))
                }
            }
        }
        try await removeErased()
    }

    /// One look at the lock of those who have the log open.
    public func hasOtherUsers() async throws -> Bool { wakeFile.hasOtherListeners }
}
