import CLibPQ
import CRDT
import Foundation
import GRDBSQLite
import OperationLog

/// Bytes of an operation and of a row of the bare loop.
let operationBytes = 300

/// Rows of the bare loop before those that count: its connection is a new one, and had nothing to do.
private let uncountedRows = 400

/// A request as a small write makes it: one document of one collection.
func request(_ actor: UInt64, _ sequence: SequenceNumber) throws -> AppendRequest {
    let record = OperationRecord(
        actor: ActorID(actor), sequence: sequence, timestamp: sequence.rawValue << 16,
        bytes: [UInt8](repeating: UInt8(truncatingIfNeeded: sequence.rawValue), count: operationBytes))
    let id = try DocumentID(.int(Int64(sequence.rawValue % 1_000)))
    return AppendRequest(
        record: record, authorKey: "key", touches: [.collection("c"), .document("c", id)])
}

/// Operations a second of appenders that append one operation a call and wait for it.
func appendRate(
    _ log: any OperationLog, appenders: UInt64, operations: UInt64, firstActor: UInt64
) async throws -> Double {
    let started = ContinuousClock.now
    try await withThrowingTaskGroup(of: Void.self) { group in
        for actor in firstActor..<firstActor + appenders {
            group.addTask {
                for sequence in 1...operations {
                    _ = try await log.append([try request(actor, SequenceNumber(sequence))], to: "db")
                }
            }
        }
        try await group.waitForAll()
    }
    return perSecond(Int(appenders * operations), since: started)
}

/// Rows a second of a bare loop: SQLite, WAL, `synchronous = FULL`, a prepared INSERT, a commit a row.
func bareSQLiteRate(_ path: String, rows: Int) -> Double {
    var handle: OpaquePointer?
    check(sqlite3_open(path, &handle) == SQLITE_OK, "the bare file opens")
    defer { sqlite3_close(handle) }
    for sql in [
        "PRAGMA journal_mode = WAL", "PRAGMA synchronous = FULL",
        "CREATE TABLE IF NOT EXISTS rows (id INTEGER PRIMARY KEY, bytes BLOB)",
    ] { check(sqlite3_exec(handle, sql, nil, nil, nil) == SQLITE_OK, sql) }
    var statement: OpaquePointer?
    check(
        sqlite3_prepare_v2(handle, "INSERT INTO rows (bytes) VALUES (?)", -1, &statement, nil) == SQLITE_OK,
        "the insert is prepared")
    defer { sqlite3_finalize(statement) }
    let bytes = [UInt8](repeating: 7, count: operationBytes)
    var started = ContinuousClock.now
    for row in 0..<uncountedRows + rows {
        if row == uncountedRows { started = .now }
        bytes.withUnsafeBytes {
            _ = sqlite3_bind_blob(statement, 1, $0.baseAddress, Int32($0.count), nil)
            check(sqlite3_step(statement) == SQLITE_DONE, "a row is inserted")
        }
        sqlite3_reset(statement)
    }
    return perSecond(rows, since: started)
}

/// Rows a second of a bare loop: PostgreSQL, a prepared INSERT, a commit a row.
func barePostgresRate(_ url: String, rows: Int) -> Double {
    let connection = PQconnectdb(url)
    defer { PQfinish(connection) }
    check(PQstatus(connection) == CONNECTION_OK, "the bare loop connects")
    PQclear(PQexec(connection, "SET client_min_messages = warning"))
    PQclear(
        PQexec(connection, "CREATE TABLE IF NOT EXISTS rows (id bigserial PRIMARY KEY, bytes bytea)"))
    PQclear(PQprepare(connection, "insert", "INSERT INTO rows (bytes) VALUES ($1::bytea)", 1, nil))
    let bytes = [CChar](repeating: 7, count: operationBytes)
    var started = ContinuousClock.now
    for row in 0..<uncountedRows + rows {
        if row == uncountedRows { started = .now }
        bytes.withUnsafeBufferPointer { buffer in
            var value: UnsafePointer<CChar>? = buffer.baseAddress
            var length = Int32(buffer.count)
            var format: Int32 = 1
            let result = PQexecPrepared(connection, "insert", 1, &value, &length, &format, 0)
            check(PQresultStatus(result) == PGRES_COMMAND_OK, "a row is inserted")
            PQclear(result)
        }
    }
    return perSecond(rows, since: started)
}

/// Lets a server have been at work for some time: it writes into files of its log that it has used before. A
/// new one first fills each of them with zeros, 16 MB at a time while everybody waits, which costs whoever
/// writes most a tenth or more.
func haveWritten(_ url: String) {
    let connection = PQconnectdb(url)
    defer { PQfinish(connection) }
    check(PQstatus(connection) == CONNECTION_OK, "the server can be prepared")
    let files = 48
    for sql in repeatElement("SELECT pg_logical_emit_message(false, '', ''), pg_switch_wal()", count: files)
        + ["CHECKPOINT"]
    {
        let result = PQexec(connection, sql)
        check([PGRES_COMMAND_OK, PGRES_TUPLES_OK].contains(PQresultStatus(result)), sql)
        PQclear(result)
    }
}

/// Per second, since a moment.
func perSecond(_ count: Int, since start: ContinuousClock.Instant) -> Double {
    Double(count) / ((ContinuousClock.now - start) / .seconds(1))
}

/// A benchmark that went wrong ends at once.
func check(_ condition: Bool, _ what: String) {
    guard condition else { fatalError("failed: \(what)") }
}
