import CRDT
import Foundation
import GRDB

/// Snapshots in the SQLite log. A draft's row carries the checksum so far, so a missing chunk is noticed at
/// the end. The row is marked finished in the transaction that drops the previous snapshot.
enum LogSnapshots {
    /// The finished snapshot of a database.
    static func finished(_ db: Database, of head: LogHead) throws -> LogSnapshot? {
        let sql = """
            SELECT number, offset, hash, chunks, bytes, sum FROM snapshots
            WHERE database = ? AND isFinished ORDER BY number DESC LIMIT 1
            """
        guard let row = try Row.fetchOne(db, sql: sql, arguments: [head.number]) else { return nil }
        return snapshot(row, head)
    }

    /// A snapshot by its number, finished or not.
    private static func stored(_ db: Database, _ number: UInt64, of head: LogHead) throws -> LogSnapshot? {
        let sql = """
            SELECT number, offset, hash, chunks, bytes, sum FROM snapshots WHERE database = ? AND number = ?
            """
        let arguments: StatementArguments = [head.number, Int64(bitPattern: number)]
        return try Row.fetchOne(db, sql: sql, arguments: arguments).map { snapshot($0, head) }
    }

    static func begin(_ db: Database, _ database: DatabaseID, at position: LogPosition) throws
        -> SnapshotDraft
    {
        let head = try LogReader.head(db, database: database)
        guard try LogReader.position(db, database: database, at: position.offset) == position else {
            throw OperationLogError(
                .offsetBeyondHead, "the log does not have the place to snapshot", database: database,
                offset: position.offset)
        }
        try db.execute(
            sql: "DELETE FROM snapshots WHERE database = ? AND NOT isFinished", arguments: [head.number])
        try db.execute(
            sql: """
                INSERT INTO snapshots (database, offset, hash, chunks, bytes, sum, isFinished)
                VALUES (?, ?, ?, 0, 0, ?, 0)
                """,
            arguments: [
                head.number, Int64(bitPattern: position.offset.rawValue), Int64(bitPattern: position.hash),
                Int64(bitPattern: SnapshotSum.start(position)),
            ])
        return SnapshotDraft(number: UInt64(db.lastInsertedRowID), position: position)
    }

    static func add(
        _ db: Database, _ chunk: [UInt8], hash: UInt64, to draft: SnapshotDraft, _ database: DatabaseID
    ) throws {
        let sql = "SELECT chunks, sum FROM snapshots WHERE number = ? AND NOT isFinished"
        let row = try Row.fetchOne(db, sql: sql, arguments: [Int64(draft.number)])
        guard let row else { throw OperationLogError.noSnapshot(database, draft.number) }
        let number = Int64.fromDatabaseValue(row[0]) ?? 0
        let sum = SnapshotSum.next(after: LogReader.unsigned(row, 1), chunk: hash)
        try db.execute(
            sql: "INSERT INTO chunks (snapshot, number, hash, bytes) VALUES (?, ?, ?, ?)",
            arguments: [Int64(draft.number), number, Int64(bitPattern: hash), Data(chunk)])
        try db.execute(
            sql: "UPDATE snapshots SET chunks = chunks + 1, bytes = bytes + ?, sum = ? WHERE number = ?",
            arguments: [chunk.count, Int64(bitPattern: sum), Int64(draft.number)])
    }

    static func finish(_ db: Database, _ draft: SnapshotDraft, _ database: DatabaseID) throws -> LogSnapshot {
        let head = try LogReader.head(db, database: database)
        try db.execute(
            sql: """
                UPDATE snapshots SET isFinished = 1 WHERE number = ? AND database = ? AND NOT isFinished
                AND NOT EXISTS (
                    SELECT 1 FROM snapshots later WHERE later.database = snapshots.database
                    AND later.isFinished AND later.offset > snapshots.offset)
                """,
            arguments: [Int64(draft.number), head.number])
        guard db.changesCount == 1, let snapshot = try finished(db, of: head) else {
            throw OperationLogError.noSnapshot(database, draft.number)
        }
        try db.execute(
            sql: "DELETE FROM snapshots WHERE database = ? AND number < ?",
            arguments: [head.number, Int64(draft.number)])
        return snapshot
    }

    /// Removes chunks of dropped snapshots, at most `LogLimits.droppedChunks`.
    /// - Returns: whether there may be more.
    static func dropStep(_ db: Database) throws -> Bool {
        try db.execute(
            sql: """
                DELETE FROM chunks WHERE rowid IN (
                    SELECT c.rowid FROM chunks c LEFT JOIN snapshots s ON s.number = c.snapshot
                    WHERE s.number IS NULL LIMIT \(LogLimits.droppedChunks))
                """)
        return db.changesCount == LogLimits.droppedChunks
    }

    static func chunk(
        _ db: Database, _ index: Int, of snapshot: LogSnapshot, _ database: DatabaseID
    ) throws -> [UInt8] {
        let head = try LogReader.head(db, database: database)
        guard try stored(db, snapshot.number, of: head) == snapshot else {
            throw OperationLogError.noSnapshot(database, snapshot.number)
        }
        let sql = "SELECT hash, bytes FROM chunks WHERE snapshot = ? AND number = ?"
        let row: Row?
        do {
            row = try Row.fetchOne(db, sql: sql, arguments: [Int64(snapshot.number), index])
        } catch let error as DatabaseError where isDamage(error) {
            throw OperationLogError.damagedSnapshot(database, snapshot.position.offset)
        }
        guard let row, let bytes = Data.fromDatabaseValue(row[1]).map({ [UInt8]($0) }),
            SnapshotSum.chunk(bytes) == LogReader.unsigned(row, 0)
        else { throw OperationLogError.damagedSnapshot(database, snapshot.position.offset) }
        return bytes
    }

    private static func snapshot(_ row: Row, _ head: LogHead) -> LogSnapshot {
        LogSnapshot(
            number: LogReader.unsigned(row, 0),
            position: LogPosition(
                logID: head.logID, offset: Offset(LogReader.unsigned(row, 1)),
                hash: LogReader.unsigned(row, 2)),
            chunks: Int(clamping: LogReader.unsigned(row, 3)),
            bytes: Int(clamping: LogReader.unsigned(row, 4)), checksum: LogReader.unsigned(row, 5))
    }
}
