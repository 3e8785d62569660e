import CRDT
import Foundation
import Testing

@testable import OperationLog
@testable import Postgres

/// The drivers that must keep the contract. The conformance suite runs on each; a driver on another
/// database joins by a case here.
enum LogDriver: Sendable, CustomTestStringConvertible {
    case sqlite
    case postgres

    /// All of them; PostgreSQL where `make test` has started one.
    static let allCases: [LogDriver] = PostgresServer.url == nil ? [.sqlite] : [.sqlite, .postgres]

    var testDescription: String { "\(self)" }

    /// Runs the body with a fresh log that has a database "db", and a way to open the same log again as
    /// another process would. Everything is closed and removed at the end.
    func withLog(
        _ body: (_ log: any OperationLog, _ openAnother: () throws -> any OperationLog) async throws -> Void
    ) async throws {
        switch self {
        case .sqlite:
            try await withTemporaryPath { path in
                let log = try SQLiteOperationLog(path: path)
                try await log.createDatabase("db")
                try await body(log) { try SQLiteOperationLog(path: path) }
                await log.close()
            }
        case .postgres:
            try await PostgresServer.withDatabase { url in
                let log = try PostgresOperationLog(url: url)
                try await log.createDatabase("db")
                try await body(log) { try PostgresOperationLog(url: url) }
                await log.close()
            }
        }
    }
}

/// The PostgreSQL that `make test` has started.
enum PostgresServer {
    static let url = ProcessInfo.processInfo.environment["MIMEO_TEST_POSTGRES"]

    /// Runs the body with the URL of an empty PostgreSQL database, which is dropped at the end.
    static func withDatabase(_ body: (_ url: String) async throws -> Void) async throws {
        let name = "log_\(UUID().uuidString.lowercased().replacing("-", with: "_"))"
        let serverURL = try #require(url)
        var components = try #require(URLComponents(string: serverURL))
        components.path = "/\(name)"
        let server = try Connection(url: serverURL)
        try server.run("CREATE DATABASE \(name)")
        defer { #expect(throws: Never.self) { try server.run("DROP DATABASE \(name) WITH (FORCE)") } }
        try await body(try #require(components.string))
    }
}

/// Runs the body with the path of a log that does not exist yet, in a folder of its own.
func withTemporaryPath(_ body: (_ path: String) async throws -> Void) async throws {
    let folder = FileManager.default.temporaryDirectory.appendingPathComponent("log-\(UUID().uuidString)")
    try FileManager.default.createDirectory(at: folder, withIntermediateDirectories: true)
    defer { try? FileManager.default.removeItem(at: folder) }
    try await body(folder.appendingPathComponent("log.sqlite").path)
}

/// A request whose bytes say who wrote it, so that every operation differs.
func request(
    _ actor: UInt64, _ sequence: SequenceNumber, key: String = "key", text: String = "", size: Int = 0,
    touches: [Touch] = [], condition: AppendCondition? = nil
) -> AppendRequest {
    let bytes = Array("\(actor)/\(sequence)/\(text)".utf8) + [UInt8](repeating: 7, count: size)
    let record = OperationRecord(
        actor: ActorID(actor), sequence: sequence, timestamp: 1_000 + sequence.rawValue, bytes: bytes)
    return AppendRequest(record: record, authorKey: key, touches: touches, condition: condition)
}

/// Operations `sequences` of an actor.
func requests(_ actor: UInt64, _ sequences: ClosedRange<UInt64>, size: Int = 0) -> [AppendRequest] {
    sequences.map { request(actor, SequenceNumber($0), size: size) }
}

/// The code that a body throws; nil if it throws nothing.
func code(_ body: () async throws -> Void) async throws -> OperationLogErrorCode? {
    do {
        try await body()
        return nil
    } catch let error as OperationLogError {
        return error.code
    }
}

/// All entries of a database, read in small steps.
func readAll(
    _ log: any OperationLog, _ database: DatabaseID = "db", after start: Offset = 0, step: Int = 7
) async throws -> [LogEntry] {
    var entries: [LogEntry] = []
    while true {
        let after = entries.last?.offset ?? start
        let next = try await log.read(database, after: after, limit: ReadLimit(operations: step))
        guard !next.isEmpty else { return entries }
        entries += next
    }
}

/// Waits until the condition holds, at most ten seconds; whether it came to hold.
func eventually(_ condition: () async throws -> Bool) async throws -> Bool {
    let deadline = ContinuousClock.now + .seconds(60)
    while ContinuousClock.now < deadline {
        if try await condition() { return true }
        try await Task.sleep(for: .milliseconds(2))
    }
    return false
}

/// Options of a log that stays poisoned for the length of a test.
func withoutRecovery() -> SQLiteOperationLog.Options {
    var options = SQLiteOperationLog.Options()
    options.recoveryPause = .seconds(3_600)
    return options
}
