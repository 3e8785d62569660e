import CRDT
import GRDB

/// The log's file without queue, threads and wake-ups: the calls that `SQLiteOperationLog` makes between
/// them, one after the other. For simulations, which schedule everything themselves.
package struct SQLiteLogFile: Sendable {
    let pool: DatabasePool
    private let watching: DatabaseQueue
    let writer: LogWriter

    /// Opens or creates the file; one process and one value at a time. `now` is the clock of leases in Unix
    /// milliseconds, `random` names leased actors.
    package init(
        path: String, now: @escaping @Sendable () -> Int64, random: @escaping @Sendable () -> Int64
    ) throws {
        let opened = try openConnections(path: path, options: SQLiteOperationLog.Options())
        (pool, watching) = (opened.0, opened.watching)
        writer = LogWriter(pool: pool, writeAhead: opened.1, now: now, random: random)
    }

    /// Creates a database with this log id unless there is one.
    package func createDatabase(_ database: DatabaseID, id: LogID) throws {
        _ = try Result { () throws(LogWriter.Failure) in try writer.createDatabase(database, id: id) }
            .mapError(\.error).get()
    }

    /// Commits one group of one database; returns after it is durable, with the entries for a wake-up.
    package func commit(_ calls: [AppendCall]) -> (GroupOutcome, LogChange) {
        let (outcome, grown, note) = writer.commit(calls)
        note()
        return (outcome, LogChange(entries: grown.first?.entries ?? []))
    }

    /// As `OperationLog.head`.
    package func head(of database: DatabaseID) throws -> LogPosition {
        try read { try LogReader.head($0, database: database).position }
    }

    /// As `OperationLog.position`.
    package func position(at offset: Offset, in database: DatabaseID) throws -> LogPosition? {
        try read { try LogReader.position($0, database: database, at: offset) }
    }

    /// As `OperationLog.frontier`.
    package func frontier(
        of actors: [ActorID], in database: DatabaseID
    ) throws -> [ActorID: FrontierEntry] {
        try read { try LogReader.frontier($0, database: database, actors: actors, writer.frontiers) }
    }

    /// As `OperationLog.read`.
    package func read(
        _ database: DatabaseID, after offset: Offset, limit: ReadLimit
    ) throws -> [LogEntry] {
        try read { try LogReader.entries($0, database: database, after: offset, limit: limit) }
    }

    /// Like the pool's own `read`, which compiles its BEGIN and COMMIT each time.
    func read<Result>(_ body: (Database) throws -> Result) throws -> Result {
        try pool.unsafeRead { db in
            try db.cachedStatement(sql: "BEGIN").execute()
            defer { if db.isInsideTransaction { try? db.cachedStatement(sql: "ROLLBACK").execute() } }
            return try body(db)
        }
    }

    /// Releases every connection.
    package func close() throws {
        try watching.close()
        // As in `SQLiteOperationLog.close`.
        pool.releaseMemory()
        try pool.close()
    }
}
