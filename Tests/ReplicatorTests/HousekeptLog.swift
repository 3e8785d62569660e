import CLibPQ
import Foundation
import GRDB
import OperationLog
import Postgres
import Testing

/// The drivers whose logs are kept short: what the conformance suite is for a log, the tests of housekeeping
/// are for what a service makes of it.
enum HousekeptLog: Sendable, CustomTestStringConvertible {
    case sqlite
    /// The server that `make test` has started; a PostgreSQL database of its own for each test.
    case postgres(server: String, name: String)

    static var all: [HousekeptLog] {
        guard let server = ProcessInfo.processInfo.environment["MIMEO_TEST_POSTGRES"] else {
            return [.sqlite]
        }
        let name = "kept_\(UUID().uuidString.lowercased().replacing("-", with: "_"))"
        return [.sqlite, .postgres(server: server, name: name)]
    }

    var testDescription: String {
        switch self {
        case .sqlite: "SQLite"
        case .postgres: "PostgreSQL"
        }
    }

    /// Runs the body with an empty log.
    func use(in folder: URL, _ body: (any OperationLog) async throws -> Void) async throws {
        switch self {
        case .sqlite: try await body(SQLiteOperationLog(path: Self.path(in: folder)))
        case .postgres(let server, let name):
            try run("CREATE DATABASE \(name)", at: server)
            defer {
                #expect(throws: Never.self) { try run("DROP DATABASE \(name) WITH (FORCE)", at: server) }
            }
            try await body(PostgresOperationLog(url: url))
        }
    }

    /// Changes the content of the snapshot's chunks behind the log's back.
    func damageSnapshot(in folder: URL) throws {
        switch self {
        case .sqlite:
            try edit(
                "UPDATE chunks SET bytes = CAST(substr(bytes, 1, length(bytes) / 2) || x'0102' AS BLOB)",
                in: folder)
        case .postgres:
            try run(
                "UPDATE mimeo_log.chunks SET bytes = substr(bytes, 1, length(bytes) / 2) || '\\x0102'",
                at: url)
        }
    }

    /// The bytes of the log's file, the write-ahead log written back into it; or of its tables.
    func size(in folder: URL) throws -> UInt64 {
        switch self {
        case .sqlite:
            try edit("PRAGMA wal_checkpoint(TRUNCATE)", in: folder)
            let attributes = try FileManager.default.attributesOfItem(atPath: Self.path(in: folder))
            return attributes[.size] as? UInt64 ?? 0
        case .postgres:
            let tables = """
                SELECT sum(pg_total_relation_size(c.oid)) FROM pg_class c
                JOIN pg_namespace n ON n.oid = c.relnamespace
                WHERE n.nspname = 'mimeo_log' AND c.relkind = 'r'
                """
            return try UInt64(run(tables, at: url)) ?? 0
        }
    }

    /// PostgreSQL's own housekeeping beside ours would keep it from freeing what it sees.
    func holdAutovacuum() throws {
        guard case .postgres = self else { return }
        try run(
            """
            DO $$ DECLARE place regclass; BEGIN
            FOR place IN SELECT c.oid FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
                WHERE n.nspname = 'mimeo_log' AND c.relkind = 'r'
            LOOP EXECUTE format('ALTER TABLE %s SET (autovacuum_enabled = off)', place); END LOOP; END $$
            """, at: url)
    }

    private static func path(in folder: URL) -> String {
        folder.appendingPathComponent("log.sqlite").path
    }

    private var url: String {
        guard case .postgres(let server, let name) = self, var place = URLComponents(string: server) else {
            preconditionFailure("only PostgreSQL has a URL")
        }
        place.path = "/\(name)"
        return place.string ?? server
    }

    private func edit(_ statement: String, in folder: URL) throws {
        let connection = try DatabaseQueue(path: Self.path(in: folder))
        try connection.writeWithoutTransaction { try $0.execute(sql: statement) }
        try connection.close()
    }

    /// Runs a statement on a connection of its own.
    /// - Returns: its first value, or nothing.
    @discardableResult
    private func run(_ statement: String, at url: String) throws -> String {
        let connection = PQconnectdb(url)
        defer { PQfinish(connection) }
        let result = PQexec(connection, statement)
        defer { PQclear(result) }
        let isDone = [PGRES_COMMAND_OK, PGRES_TUPLES_OK].contains(PQresultStatus(result))
        try #require(isDone, Comment(rawValue: String(cString: PQerrorMessage(connection))))
        return PQntuples(result) > 0 ? String(cString: PQgetvalue(result, 0, 0)) : ""
    }
}
