import CRDT
import GRDB

/// Removes whole databases from the log's file, one step per transaction, so that other databases' appends
/// continue in between.
///
/// The row of an erased database stays, under a name that no database can have: its number is the key of rows
/// in other tables and in every process's memory, and is never used again. `erasing:N` says that rows of it
/// are left, `erased:N` that none is. Deleted content is overwritten with zeros (`secure_delete`).
enum LogErasure {
    /// Takes the database's name away: from now on nobody finds it.
    /// - Returns: the offset of its last entry; nil when there is no such database.
    static func begin(_ db: Database, _ database: DatabaseID) throws -> Offset? {
        guard database.isValidInLog else { return nil }
        return try takeName(db, database)
    }

    /// The same for a name that only this module gives.
    static func takeName(_ db: Database, _ database: DatabaseID) throws -> Offset? {
        let row = try Row.fetchOne(
            db, sql: "SELECT number, head FROM databases WHERE id = ?", arguments: [database.text])
        guard let row, let number = Int64.fromDatabaseValue(row[0]) else { return nil }
        try db.execute(
            sql: """
                UPDATE databases SET id = 'erasing:' || number, logID = zeroblob(16), hash = 0,
                    truncatedHash = 0, settledHash = 0 WHERE number = ?
                """, arguments: [number])
        return Offset(LogReader.unsigned(row, 1))
    }

    /// Removes at most `LogLimits.truncationStep` rows of a database that is being erased.
    /// - Returns: whether there may be more to remove, of this or another database.
    static func step(_ db: Database) throws -> Bool {
        let sql = "SELECT number FROM databases WHERE id > 'erasing:' AND id < 'erasing;' LIMIT 1"
        guard let number = try Int64.fetchOne(db, sql: sql) else { return false }
        for table in ["operations", "hashes"] {
            try db.execute(
                sql: """
                    DELETE FROM \(table) WHERE position IN (
                        SELECT position FROM \(table) WHERE position BETWEEN ?1 AND ?2 LIMIT ?3)
                    """,
                arguments: [
                    number << LogKey.offsetBits, (number + 1) << LogKey.offsetBits &- 1,
                    LogLimits.truncationStep,
                ])
            if db.changesCount > 0 { return true }
        }
        try db.execute(
            sql: """
                DELETE FROM actors WHERE database = ?1 AND actor IN (
                    SELECT actor FROM actors WHERE database = ?1 LIMIT ?2)
                """, arguments: [number, LogLimits.truncationStep])
        if db.changesCount > 0 { return true }
        try db.execute(sql: "DELETE FROM snapshots WHERE database = ?", arguments: [number])
        if try LogSnapshots.dropStep(db) { return true }
        try db.execute(sql: "DELETE FROM leases WHERE database = ?", arguments: [number])
        try db.execute(
            sql: "UPDATE databases SET id = 'erased:' || number, head = 0, truncated = 0, settled = 0 "
                + "WHERE number = ?",
            arguments: [number])
        return true
    }
}

extension SQLiteOperationLog {
    /// A transaction per `LogLimits.truncationStep` rows, then a checkpoint that empties the write-ahead log.
    @discardableResult
    public func eraseDatabase(_ database: DatabaseID) async throws -> Offset? {
        let last = try await writing { writer throws(LogWriter.Failure) in
            try writer.change { try LogErasure.begin($0, database) }
        }
        try await removeErased()
        try await scrub()
        return last
    }

    /// Removes the rows of all databases that have lost their names.
    func removeErased() async throws {
        while try await writing({ writer throws(LogWriter.Failure) in
            try writer.change { try LogErasure.step($0) }
        }) { try Task.checkCancellation() }
    }

    /// Copies the write-ahead log into the file and truncates it: its frames still have the removed content.
    /// - Throws: `LOG-0302` while readers need the frames.
    public func scrub() async throws {
        let deadline = ContinuousClock.now + LogLimits.busyTimeout
        while true {
            do {
                return try await writing { writer throws(LogWriter.Failure) in try writer.checkpoint() }
            } catch let error as OperationLogError where error.code == .busy && ContinuousClock.now < deadline
            {
                try await Task.sleep(for: LogLimits.erasureRetry)
            }
        }
    }
}
