import CRDT
import OperationLog

/// One build of a database's projection: a schema of tables, filled from one log from its beginning.
///
/// A database has one that readers use and at most one more that is being built beside it; the leader
/// removes others. The row is a value as it was read; it changes by batches, in their transactions.
struct Generation: Sendable, Equatable {
    /// The layout of the tables made by this build. Another number in a row means: rebuild.
    static let currentLayout: Int64 = 2
    /// The first layout, whose tables tell of a whole document, and not of a key, that it was put in other
    /// words. Such tables are kept up to date until they are rebuilt; SQL decides nothing on them.
    static let plainLayout: Int64 = 1

    let number: Int32
    let layout: Int64
    /// The position up to which the log is folded into it.
    var position: LogPosition
    /// The greatest timestamp folded.
    var clock: Timestamp
    /// The greatest offset of the last change of a tombstone that was reaped later; 0 while none was.
    var reapFloor: Offset
    /// Changes with the catalog of its indexes.
    var indexVersion: UInt64

    /// How many columns `columns` has.
    static let columnCount = 8

    /// The columns that `init(_:_:column:)` reads, of a generation with this alias.
    static func columns(of name: String) -> String {
        """
        \(name).number::int8, \(name).layout, \(name).log_id, \(name)."offset", \(name).hash, \
        \(name).clock, \(name).reap_floor, \(name).index_version
        """
    }

    /// Reads `columns`, beginning at a column; nil where they are NULL.
    init?(_ rows: Rows, _ row: Int, column: Int = 0) throws(ProjectionError) {
        guard !rows.isNull(row, column) else { return nil }
        guard let logID = LogID(bytes: rows.bytes(row, column + 2)) else {
            throw ProjectionError(.damaged, "a generation's log id is damaged")
        }
        number = Int32(rows.int8(row, column))
        layout = rows.int8(row, column + 1)
        position = LogPosition(
            logID: logID, offset: Offset(rows.bits(row, column + 3)), hash: rows.bits(row, column + 4))
        clock = rows.bits(row, column + 5)
        reapFloor = Offset(rows.bits(row, column + 6))
        indexVersion = rows.bits(row, column + 7)
    }

    /// The step that locks the row of a generation, and reads `columns`: before a transaction writes to its
    /// tables.
    static func lock(_ number: Int32) -> Connection.Step {
        Connection.Step(
            """
            SELECT \(columns(of: "g")) FROM mimeo_projection.generations g
            WHERE g.number = $1::int4 FOR UPDATE
            """, [.int8(Int64(number))])
    }

    /// Creates an empty generation at a position, in the open transaction.
    static func make(at start: LogPosition, _ connection: Connection) throws -> Int32 {
        let rows = try connection.query(
            """
            INSERT INTO mimeo_projection.generations
                (layout, log_id, "offset", hash, clock, reap_floor)
            VALUES ($1, $2, $3, $4, 0, 0) RETURNING number::int8
            """,
            [
                .int8(currentLayout), .bytes(start.logID.bytes),
                .int8(Int64(bitPattern: start.offset.rawValue)), .int8(Int64(bitPattern: start.hash)),
            ])
        let number = Int32(rows.int8(0, 0))
        try connection.run("CREATE SCHEMA \(ProjectionNames.schema(number))")
        return number
    }
}
