import GRDB
import GRDBSQLite

/// A statement of the connection's cache, stepped directly: in every append, GRDB's arguments and rows
/// would cost more than the statement itself.
///
/// Used only inside the access that made it. Columns count from 0, parameters from 1.
struct FastStatement {
    private let statement: Statement
    private let handle: SQLiteStatement
    private let database: Database

    init(_ sql: String, _ database: Database) throws {
        statement = try database.cachedStatement(sql: sql)
        handle = statement.sqliteStatement
        self.database = database
        sqlite3_reset(handle)
    }

    func bind(_ parameter: Int32, _ value: Int64) { sqlite3_bind_int64(handle, parameter, value) }
    func bind(_ parameter: Int32, bits: UInt64) {
        sqlite3_bind_int64(handle, parameter, Int64(bitPattern: bits))
    }
    func bind(_ parameter: Int32, _ value: String) {
        var value = value
        value.withUTF8 {
            _ = sqlite3_bind_text64(
                handle, parameter, $0.baseAddress, UInt64($0.count), transient, UInt8(SQLITE_UTF8))
        }
    }

    /// Runs a statement that returns no row.
    func run() throws {
        defer { sqlite3_reset(handle) }
        while try step() {}
    }

    /// Runs a body while bytes are bound without a copy.
    func withBound(_ parameter: Int32, _ bytes: [UInt8], _ body: () throws -> Void) throws {
        try bytes.withUnsafeBytes { raw in
            sqlite3_bind_blob64(handle, parameter, raw.baseAddress, UInt64(raw.count), nil)
            defer { sqlite3_bind_null(handle, parameter) }
            try body()
        }
    }

    /// The reader's value for the first row; nil when there is none. A damaged column reads as zero or
    /// empty.
    func first<Value>(_ read: (FastStatement) throws -> Value) throws -> Value? {
        defer { sqlite3_reset(handle) }
        return try step() ? read(self) : nil
    }

    /// Hands out the rows one by one until there are no more or the reader returns false.
    func each(_ read: (FastStatement) throws -> Bool) throws {
        defer { sqlite3_reset(handle) }
        while try step(), try read(self) {}
    }

    func int(_ column: Int32) -> Int64 { sqlite3_column_int64(handle, column) }
    func bits(_ column: Int32) -> UInt64 { UInt64(bitPattern: int(column)) }
    func text(_ column: Int32) -> String { String(decoding: raw(column), as: UTF8.self) }
    /// The number of bytes in a column.
    func count(_ column: Int32) -> Int { Int(sqlite3_column_bytes(handle, column)) }
    func bytes(_ column: Int32) -> [UInt8] { [UInt8](raw(column)) }

    /// Valid until the next step.
    private func raw(_ column: Int32) -> UnsafeRawBufferPointer {
        UnsafeRawBufferPointer(
            start: sqlite3_column_blob(handle, column), count: Int(sqlite3_column_bytes(handle, column)))
    }

    private func step() throws -> Bool {
        switch sqlite3_step(handle) {
        case SQLITE_ROW: return true
        case SQLITE_DONE: return false
        case let code:
            throw DatabaseError(resultCode: ResultCode(rawValue: code), message: database.lastErrorMessage)
        }
    }
}

/// Makes SQLite copy a bound value. (The C macro SQLITE_TRANSIENT is a cast that Swift does not import.)
private let transient = unsafeBitCast(-1, to: sqlite3_destructor_type.self)
