import CRDT
import Foundation
import Logging
import OperationLog
import Testing

@testable import Postgres

/// A PostgreSQL database of a test's own, on the server that `make test` has started.
enum TestDatabase {
    /// Where that server is; without it there is nothing to talk to.
    static let serverURL = ProcessInfo.processInfo.environment["MIMEO_TEST_POSTGRES"]

    /// Runs the body with the URL of an empty database, which is dropped at the end.
    /// - Parameter collation: how the database orders texts, as a locale of ICU; nil for the server's way.
    static func use(collation: String? = nil, _ body: (_ url: String) async throws -> Void) async throws {
        let name = "test_\(UUID().uuidString.lowercased().replacing("-", with: "_"))"
        let serverURL = try #require(serverURL)
        var components = try #require(URLComponents(string: serverURL))
        components.path = "/\(name)"
        let server = try Connection(url: serverURL)
        let order = collation.map { " TEMPLATE template0 LOCALE_PROVIDER icu ICU_LOCALE '\($0)'" } ?? ""
        try server.run("CREATE DATABASE \(name)\(order)")
        defer { #expect(throws: Never.self) { try server.run("DROP DATABASE \(name) WITH (FORCE)") } }
        try await body(try #require(components.string))
    }

    /// Ends every connection to the database, as a server that restarts does.
    static func endConnections(of url: String) throws {
        let name = try #require(URLComponents(string: url)).path.dropFirst()
        let server = try Connection(url: try #require(serverURL))
        _ = try server.query(
            "SELECT pg_terminate_backend(pid, 10000) FROM pg_stat_activity WHERE datname = $1",
            [.text(String(name))])
    }
}

/// For what a test provokes.
let quiet = Logger(label: "test") { _ in SwiftLogNoOpLogHandler() }

/// An operation whose bytes say which it is.
func record(_ actor: UInt64, _ sequence: SequenceNumber, size: Int = 0) -> AppendRequest {
    let bytes = Array("\(actor)/\(sequence)".utf8) + [UInt8](repeating: 7, count: size)
    let record = OperationRecord(
        actor: ActorID(actor), sequence: sequence, timestamp: 1_000 + sequence.rawValue, bytes: bytes)
    return AppendRequest(record: record, authorKey: "key", touches: [])
}

/// Appends an actor's operations one by one, trying each until it is acknowledged.
/// - Returns: the last sequence that was.
@discardableResult
func appendThroughFailures(
    _ log: PostgresOperationLog, _ actor: UInt64, count: UInt64
) async throws -> UInt64 {
    for sequence in 1...count {
        while true {
            do {
                let outcome = try await log.append([record(actor, SequenceNumber(sequence))], to: "db")[0]
                switch outcome {
                case .appended, .duplicate: break
                case .gap, .conflict: Issue.record("operation \(sequence) of \(actor): \(outcome)")
                }
                break
            } catch let error as OperationLogError
                where [.outcomeUnknown, .unreachable].contains(error.code)
            {
                try await Task.sleep(for: .milliseconds(2))
            }
        }
    }
    return count
}

/// Reads the whole log, trying again while the server ends connections.
func readThroughFailures(_ log: PostgresOperationLog) async throws -> [LogEntry] {
    while true {
        do {
            return try await log.read("db", after: 0)
        } catch let error as OperationLogError where error.code == .unreachable {
            try await Task.sleep(for: .milliseconds(2))
        }
    }
}
