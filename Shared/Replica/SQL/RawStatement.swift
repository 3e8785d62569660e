import CRDT
import GRDB
import GRDBSQLite

/// A prepared statement stepped directly: blobs bind and read without a detour through `Data`, and rows
/// cost no allocation.
///
/// Bound to one connection and used only inside the database access that made it. Column indexes start at
/// 0, parameters at 1.
struct RawStatement: ~Copyable {
    private let statement: Statement
    private let handle: SQLiteStatement
    private let database: Database

    /// A statement from the connection's cache, with values for its first parameters. Must be finished before
    /// the same SQL is requested again.
    init<each Value: StatementValue>(
        cached sql: String, _ database: Database, _ values: repeat each Value
    ) throws {
        self.init(try database.cachedStatement(sql: sql), database)
        bindFirst(repeat each values)
    }

    /// A statement of its own: for scans, during which any other statement may run.
    init<each Value: StatementValue>(
        fresh sql: String, _ database: Database, _ values: repeat each Value
    ) throws {
        self.init(try database.makeStatement(sql: sql), database)
        bindFirst(repeat each values)
    }

    /// The connection's cached statement, or one of its own if that one is being stepped: for frequent
    /// scans that are sometimes nested.
    init<each Value: StatementValue>(
        reused sql: String, _ database: Database, _ values: repeat each Value
    ) throws {
        try self.init(reusing: database.cachedStatement(sql: sql), database)
        bindFirst(repeat each values)
    }

    /// Like `reused`, for a statement that was looked up before.
    init(reusing known: Statement, _ database: Database) throws {
        let isBusy = sqlite3_stmt_busy(known.sqliteStatement) != 0
        self.init(isBusy ? try database.makeStatement(sql: known.sql) : known, database)
    }

    private init(_ statement: Statement, _ database: Database) {
        self.statement = statement
        self.database = database
        handle = statement.sqliteStatement
        sqlite3_reset(handle)
    }

    deinit {
        sqlite3_reset(handle)
        sqlite3_clear_bindings(handle)
    }

    func bind(_ index: Int32, _ value: Int64) { sqlite3_bind_int64(handle, index, value) }
    func bind(_ index: Int32, bits value: UInt64) {
        sqlite3_bind_int64(handle, index, Int64(bitPattern: value))
    }

    func bind(_ index: Int32, _ bytes: [UInt8]) {
        if bytes.isEmpty {
            sqlite3_bind_zeroblob(handle, index, 0)
        } else {
            bytes.withUnsafeBytes { bind(index, $0) }
        }
    }

    func bind(_ index: Int32, _ bytes: UnsafeRawBufferPointer) {
        sqlite3_bind_blob64(handle, index, bytes.baseAddress, UInt64(bytes.count), transient)
    }

    private func bindFirst<each Value: StatementValue>(_ values: repeat each Value) {
        var place: Int32 = 1
        repeat (each values).bind(to: self, at: &place)
    }

    /// Binds bytes without a copy: they must stay in place until the statement was stepped and reset.
    func bind(_ index: Int32, inPlace bytes: UnsafeRawBufferPointer) {
        guard bytes.count > 0 else { return bind(index, []) }
        sqlite3_bind_blob64(handle, index, bytes.baseAddress, UInt64(bytes.count), nil)
    }

    func bind(_ index: Int32, _ text: String) {
        var text = text
        text.withUTF8 {
            _ = sqlite3_bind_text64(
                handle, index, $0.baseAddress, UInt64($0.count), transient, UInt8(SQLITE_UTF8))
        }
    }

    /// Advances to the next row; false when there is none.
    func step() throws -> Bool {
        switch sqlite3_step(handle) {
        case SQLITE_ROW: return true
        case SQLITE_DONE: return false
        case let code:
            throw DatabaseError(resultCode: ResultCode(rawValue: code), message: database.lastErrorMessage)
        }
    }

    /// Resets to before the first row; the bound values stay.
    func reset() { sqlite3_reset(handle) }

    /// Returns whether there is a row.
    consuming func hasRow() throws -> Bool { try step() }

    /// Runs a statement that returns no row, and resets it.
    func runInPlace() throws {
        while try step() {}
        reset()
    }

    /// Runs a statement that returns no row.
    consuming func run() throws { while try step() {} }

    /// The number of rows changed by the connection's last statement. (GRDB's own checks its queue each
    /// time.)
    var changes: Int { Int(sqlite3_changes(sqlite3_db_handle(handle))) }
    /// The number of the row that the connection inserted last.
    var insertedNumber: Int64 { sqlite3_last_insert_rowid(sqlite3_db_handle(handle)) }

    /// Runs a statement that returns no row, with two blobs bound without a copy.
    func run(_ first: Int32, _ id: [UInt8], _ second: Int32, _ bytes: [UInt8]) throws {
        try id.withUnsafeBytes { id in
            try bytes.withUnsafeBytes { bytes in
                bind(first, inPlace: id)
                bind(second, inPlace: bytes)
                while try step() {}
                sqlite3_reset(handle)
                sqlite3_clear_bindings(handle)
            }
        }
    }

    func int(_ column: Int32) -> Int64 { sqlite3_column_int64(handle, column) }
    func bits(_ column: Int32) -> UInt64 { UInt64(bitPattern: sqlite3_column_int64(handle, column)) }
    func isNull(_ column: Int32) -> Bool { sqlite3_column_type(handle, column) == SQLITE_NULL }

    /// The column's bytes in SQLite's own memory, valid until the next step. (Reads them through one value
    /// object, which is safe only for a connection used by one thread at a time.)
    func blob(_ column: Int32) -> UnsafeRawBufferPointer {
        let value = sqlite3_column_value(handle, column)
        let pointer = sqlite3_value_blob(value)
        return UnsafeRawBufferPointer(start: pointer, count: Int(sqlite3_value_bytes(value)))
    }

    func bytes(_ column: Int32) -> [UInt8] { [UInt8](blob(column)) }

    func text(_ column: Int32) -> String { String(decoding: blob(column), as: UTF8.self) }

    /// The key of a document, whose collection is in a column and whose id in the next one.
    func key(_ column: Int32) -> DocumentKey {
        DocumentKey(
            collection: CollectionName(text(column)), id: DocumentID(trusted: bytes(column + 1)))
    }
}

/// A value of a statement's parameters. A document's key takes two of them: collection and id.
protocol StatementValue {
    /// Binds the value from a parameter on, and passes what it takes.
    func bind(to statement: borrowing RawStatement, at place: inout Int32)
}

extension String: StatementValue {
    func bind(to statement: borrowing RawStatement, at place: inout Int32) {
        statement.bind(place, self)
        place += 1
    }
}

extension [UInt8]: StatementValue {
    func bind(to statement: borrowing RawStatement, at place: inout Int32) {
        statement.bind(place, self)
        place += 1
    }
}

extension Int64: StatementValue {
    func bind(to statement: borrowing RawStatement, at place: inout Int32) {
        statement.bind(place, self)
        place += 1
    }
}

extension UInt64: StatementValue {
    func bind(to statement: borrowing RawStatement, at place: inout Int32) {
        statement.bind(place, bits: self)
        place += 1
    }
}

extension DocumentKey: StatementValue {
    func bind(to statement: borrowing RawStatement, at place: inout Int32) {
        statement.bind(place, collection.text)
        statement.bind(place + 1, id.bytes)
        place += 2
    }
}

extension Database {
    /// Runs a statement that returns no row.
    func run<each Value: StatementValue>(_ sql: String, _ values: repeat each Value) throws {
        try RawStatement(cached: sql, self, repeat each values).run()
    }

    /// Returns whether a query finds a row.
    func holds<each Value: StatementValue>(_ sql: String, _ values: repeat each Value) throws -> Bool {
        try RawStatement(cached: sql, self, repeat each values).hasRow()
    }
}

// GRDB compiles these statements each time, which costs as much as a small write.
extension Database {
    /// Runs the body in an immediate transaction, and commits it unless the body throws.
    func inImmediateTransaction<Result>(_ body: () throws -> Result) throws -> Result {
        try RawStatement(cached: "BEGIN IMMEDIATE", self).run()
        do {
            let result = try body()
            // Fails if SQLite has rolled back by itself, after an error that the body ignored.
            try RawStatement(cached: "COMMIT", self).run()
            return result
        } catch {
            if isInsideTransaction { try? RawStatement(cached: "ROLLBACK", self).run() }
            throw error
        }
    }

    /// Runs a part of a transaction, which is undone when the body throws or returns false.
    func inPart(_ body: () throws -> Bool) throws {
        try RawStatement(cached: "SAVEPOINT part", self).run()
        do {
            if try !body() { try RawStatement(cached: "ROLLBACK TO part", self).run() }
            try RawStatement(cached: "RELEASE part", self).run()
        } catch {
            // After some errors SQLite has rolled back the whole transaction by itself.
            if isInsideTransaction {
                try? RawStatement(cached: "ROLLBACK TO part", self).run()
                try? RawStatement(cached: "RELEASE part", self).run()
            }
            throw error
        }
    }
}

/// Makes SQLite copy a bound value. (The C macro SQLITE_TRANSIENT is a cast that Swift does not import.)
private let transient = unsafeBitCast(-1, to: sqlite3_destructor_type.self)
