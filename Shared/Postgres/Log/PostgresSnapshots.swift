import CRDT
import OperationLog

/// Snapshots in the PostgreSQL log. Every change is one statement.
enum PostgresSnapshots {
    /// The finished snapshot of a database.
    static func finished(_ connection: Connection, _ head: PostgresLogReader.Head) throws -> LogSnapshot? {
        let rows = try connection.query(
            """
            SELECT number, "offset", hash, chunks, bytes, sum FROM mimeo_log.snapshots
            WHERE database = $1 AND is_finished ORDER BY number DESC LIMIT 1
            """, [.int8(head.number)])
        return rows.count == 1 ? snapshot(rows, head.logID) : nil
    }

    static func begin(
        _ connection: Connection, _ database: DatabaseID, at position: LogPosition
    ) throws -> SnapshotDraft {
        guard try PostgresLogReader.position(connection, database, at: position.offset) == position else {
            throw OperationLogError(
                .offsetBeyondHead, "the log does not have the place to snapshot", database: database,
                offset: position.offset)
        }
        let rows = try connection.query(
            """
            WITH home AS (SELECT number FROM mimeo_log.databases WHERE id = $1), dropped AS (
                DELETE FROM mimeo_log.snapshots
                WHERE database IN (SELECT number FROM home) AND NOT is_finished
            )
            INSERT INTO mimeo_log.snapshots (database, "offset", hash, chunks, bytes, sum, is_finished)
            SELECT number, $2, $3, 0, 0, $4, false FROM home RETURNING number
            """,
            [
                .text(database.text), .int8(Int64(bitPattern: position.offset.rawValue)),
                .int8(Int64(bitPattern: position.hash)),
                .int8(Int64(bitPattern: SnapshotSum.start(position))),
            ])
        return SnapshotDraft(number: rows.bits(0, 0), position: position)
    }

    static func add(
        _ connection: Connection, _ chunk: [UInt8], to draft: SnapshotDraft, _ database: DatabaseID
    ) throws {
        // The sum continues as in `SnapshotSum.next`.
        let rows = try connection.query(
            """
            WITH draft AS (
                UPDATE mimeo_log.snapshots SET chunks = chunks + 1, bytes = bytes + octet_length($3),
                    sum = ((sum << 29) | ((sum >> 35) & 536870911)) # $2
                WHERE number = $1 AND NOT is_finished RETURNING number, chunks - 1 AS place
            )
            INSERT INTO mimeo_log.chunks SELECT number, place, $2, $3 FROM draft RETURNING number
            """,
            [
                .int8(Int64(draft.number)), .int8(Int64(bitPattern: SnapshotSum.chunk(chunk))),
                .bytes(chunk),
            ])
        guard rows.count == 1 else { throw OperationLogError.noSnapshot(database, draft.number) }
    }

    static func finish(
        _ connection: Connection, _ draft: SnapshotDraft, _ database: DatabaseID
    ) throws -> LogSnapshot {
        let logID = try PostgresLogReader.head(connection, database).logID
        let rows = try connection.query(
            """
            WITH done AS (
                UPDATE mimeo_log.snapshots s SET is_finished = true FROM mimeo_log.databases d
                WHERE s.number = $1 AND d.id = $2 AND s.database = d.number AND NOT s.is_finished
                    AND NOT EXISTS (
                        SELECT 1 FROM mimeo_log.snapshots later WHERE later.database = d.number
                            AND later.is_finished AND later."offset" > s."offset")
                RETURNING s.*
            ), gone AS (
                DELETE FROM mimeo_log.snapshots s USING done
                WHERE s.database = done.database AND s.number < done.number
            )
            SELECT number, "offset", hash, chunks, bytes, sum FROM done
            """, [.int8(Int64(draft.number)), .text(database.text)])
        guard rows.count == 1 else { throw OperationLogError.noSnapshot(database, draft.number) }
        return snapshot(rows, logID)
    }

    static func chunk(
        _ connection: Connection, _ index: Int, of snapshot: LogSnapshot, _ database: DatabaseID
    ) throws -> [UInt8] {
        // One statement, so that a snapshot replaced meanwhile does not look damaged.
        let rows = try connection.query(
            """
            SELECT s.number, s."offset", s.hash, s.chunks, s.bytes, s.sum, d.log_id, c.hash, c.bytes
            FROM mimeo_log.snapshots s JOIN mimeo_log.databases d ON d.number = s.database
            LEFT JOIN mimeo_log.chunks c ON c.snapshot = s.number AND c.number = $3
            WHERE d.id = $1 AND s.number = $2
            """, [.text(database.text), .int8(Int64(snapshot.number)), .int8(Int64(index))])
        guard rows.count == 1, let logID = LogID(bytes: rows.bytes(0, 6)),
            Self.snapshot(rows, logID) == snapshot
        else { throw OperationLogError.noSnapshot(database, snapshot.number) }
        guard !rows.isNull(0, 7) else {
            throw OperationLogError.damagedSnapshot(database, snapshot.position.offset)
        }
        let bytes = rows.bytes(0, 8)
        guard SnapshotSum.chunk(bytes) == rows.bits(0, 7) else {
            throw OperationLogError.damagedSnapshot(database, snapshot.position.offset)
        }
        return bytes
    }

    private static func snapshot(_ rows: Rows, _ logID: LogID) -> LogSnapshot {
        LogSnapshot(
            number: rows.bits(0, 0),
            position: LogPosition(logID: logID, offset: Offset(rows.bits(0, 1)), hash: rows.bits(0, 2)),
            chunks: Int(clamping: rows.bits(0, 3)), bytes: Int(clamping: rows.bits(0, 4)),
            checksum: rows.bits(0, 5))
    }
}
