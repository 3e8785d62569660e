import CRDT
import Foundation
import GRDB

/// Restores into the SQLite log. Each call is one transaction.
extension SQLiteOperationLog: RestorableLog {
    /// One insert.
    public func beginRestore(
        of database: DatabaseID, after start: Offset, hash: UInt64, as logID: LogID?
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

    /// One lookup.
    public func number(of database: DatabaseID) async throws -> Int64? {
        try await reading { try Self.number(of: database, $0) }
    }

    /// One scan of the names.
    public func drafts() async throws -> [DatabaseID] {
        try await reading { db in
            try String.fetchAll(db, sql: "SELECT id FROM databases WHERE instr(id, ':') > 0 ORDER BY number")
                .map { DatabaseID($0) }.filter(RestoreDraft.isOne)
        }
    }

    /// An update per database; the rows of removed ones go afterwards.
    public func rename(_ renamings: [Renaming]) async throws {
        try await writing { writer throws(LogWriter.Failure) in
            try writer.change { db in
                for renaming in renamings {
                    guard try Self.number(of: renaming.database, db) == renaming.number else {
                        throw renaming.refusal
                    }
                    guard let name = renaming.name else {
                        _ = try LogErasure.takeName(db, renaming.database)
                        continue
                    }
                    guard try Self.number(of: name, db) == nil else { throw RestoreDraft.taken(name) }
                    try db.execute(
                        sql: "UPDATE databases SET id = ? WHERE number = ?",
                        arguments: [name.text, renaming.number])
                }
            }
        }
        if renamings.contains(where: { $0.name == nil }) { try await removeErased() }
    }

    private static func number(of database: DatabaseID, _ db: Database) throws -> Int64? {
        let sql = "SELECT number FROM databases WHERE id = ?"
        return try Int64.fetchOne(db, sql: sql, arguments: [database.text])
    }

    /// A lock of the wake file, which ends with the process.
    public func reserveDrafts() async throws {
        guard wakeFile.reserve() else {
            throw OperationLogError(
                .contended, "another process restores into this log, or moves databases to or from it")
        }
    }

    /// Gives the lock back.
    public func releaseDrafts() async { wakeFile.release() }

    /// One look at the lock of those who have the log open.
    public func hasOtherUsers() async throws -> Bool { wakeFile.hasOtherListeners }
}
