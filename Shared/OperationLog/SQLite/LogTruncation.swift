import CRDT
import Foundation
import GRDB

/// Removes entries that a snapshot covers, one step per transaction, so that appends continue in between.
enum LogTruncation {
    /// Removes at most `LogLimits.truncationStep` entries.
    /// - Returns: whether there are more to remove.
    static func step(
        _ db: Database, _ database: DatabaseID, through target: Offset, keepingHashesAfter floor: Offset
    ) throws -> Bool {
        var head = try LogReader.head(db, database: database)
        guard target > head.truncated else {
            try drop(db, head, floor)
            return false
        }
        guard let snapshot = try LogSnapshots.finished(db, of: head), snapshot.position.offset >= target
        else {
            throw OperationLogError(
                .noSnapshot, "no finished snapshot covers the entries to remove", database: database,
                offset: target)
        }
        let last = min(target, head.truncated.advanced(by: LogLimits.truncationStep))
        if last > head.flushed {
            var frontier = try KnownFrontier.reading(db, database, head, since: nil)
            try frontier.flush(db, &head)
        }
        let hashes = try removedHashes(db, head, through: last, database)
        guard let lastHash = hashes.last else { preconditionFailure("a step removes at least one entry") }
        let range: StatementArguments = [
            LogKey.of(database: head.number, offset: head.truncated),
            LogKey.of(database: head.number, offset: last),
        ]
        try db.execute(
            sql: "INSERT INTO hashes (position, hashes) VALUES (?, ?)",
            arguments: [
                LogKey.of(database: head.number, offset: head.truncated.next), Data(encoded(hashes)),
            ])
        try db.execute(
            sql: "DELETE FROM operations WHERE position > ? AND position <= ?", arguments: range)
        try db.execute(
            sql: """
                UPDATE databases SET truncated = ?1, truncatedHash = ?2 WHERE number = ?3
                """,
            arguments: [Int64(bitPattern: last.rawValue), Int64(bitPattern: lastHash), head.number])
        return true
    }

    /// The hash of a removed entry; nil when it is not kept.
    static func keptHash(_ db: Database, at offset: Offset, of head: LogHead) throws -> UInt64? {
        let key = LogKey.of(database: head.number, offset: offset)
        let sql = "SELECT position, hashes FROM hashes WHERE position <= ? ORDER BY position DESC LIMIT 1"
        guard let row = try Row.fetchOne(db.cachedStatement(sql: sql), arguments: [key]),
            let first = Int64.fromDatabaseValue(row[0]), let bytes = Data.fromDatabaseValue(row[1])
        else { return nil }
        // Keys of one database are adjacent, so a key within the row's range is of the same database.
        guard key - first < Int64(bytes.count / 8) else { return nil }
        let place = Int(key - first) * 8
        return bytes.withUnsafeBytes {
            UInt64(bigEndian: $0.loadUnaligned(fromByteOffset: place, as: UInt64.self))
        }
    }

    /// The hashes of the entries to remove, in order and without a gap.
    private static func removedHashes(
        _ db: Database, _ head: LogHead, through last: Offset, _ database: DatabaseID
    ) throws -> [UInt64] {
        let rows = try Row.fetchCursor(
            db.cachedStatement(
                sql: "SELECT position, hash FROM operations WHERE position > ? AND position <= ?"),
            arguments: [
                LogKey.of(database: head.number, offset: head.truncated),
                LogKey.of(database: head.number, offset: last),
            ])
        var hashes: [UInt64] = []
        while let row = try rows.next() {
            guard LogKey.offset(of: row[0]) == head.truncated.advanced(by: hashes.count).next else { break }
            hashes.append(LogReader.unsigned(row, 1))
        }
        guard head.truncated.advanced(by: hashes.count) == last else {
            throw OperationLogError(
                .corrupt, "the entry is missing", database: database,
                offset: head.truncated.advanced(by: hashes.count).next)
        }
        return hashes
    }

    /// Drops hashes that cursors no longer need.
    private static func drop(_ db: Database, _ head: LogHead, _ floor: Offset) throws {
        let excess = head.truncated.reduced(by: LogLimits.keptHashes)
        let lowest = min(max(floor, excess), head.truncated)
        try db.execute(
            sql: """
                DELETE FROM hashes
                WHERE position > ?1 AND position <= ?2 AND position + length(hashes) / 8 - 1 <= ?2
                """,
            arguments: [
                LogKey.of(database: head.number, offset: 0),
                LogKey.of(database: head.number, offset: lowest),
            ])
    }

    private static func encoded(_ hashes: [UInt64]) -> [UInt8] {
        var bytes: [UInt8] = []
        bytes.reserveCapacity(hashes.count * 8)
        for hash in hashes { withUnsafeBytes(of: hash.bigEndian) { bytes.append(contentsOf: $0) } }
        return bytes
    }
}
