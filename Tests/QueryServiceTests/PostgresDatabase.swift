import Foundation
import Testing

@testable import Postgres

/// A PostgreSQL database of a test's own, on the server that `make test` has started.
enum PostgresDatabase {
    /// Where that server is; without it projections are tested in folders only.
    static let serverURL = ProcessInfo.processInfo.environment["MIMEO_TEST_POSTGRES"]

    /// Runs the body with the URL of an empty database, which is dropped at the end.
    static func use(_ body: (_ url: String) async throws -> Void) async throws {
        let (name, url) = try named()
        try create(name)
        defer { #expect(throws: Never.self) { try drop(name) } }
        try await body(url)
    }

    /// The name of a database that does not exist, and its URL.
    static func named() throws -> (name: String, url: String) {
        let name = "query_\(UUID().uuidString.lowercased().replacing("-", with: ""))"
        let server = try #require(serverURL)
        var components = try #require(URLComponents(string: server))
        components.path = "/\(name)"
        return (name, try #require(components.string))
    }

    static func create(_ name: String) throws { try server().run("CREATE DATABASE \(name)") }

    static func drop(_ name: String) throws {
        try server().run("DROP DATABASE IF EXISTS \(name) WITH (FORCE)")
    }

    /// Makes a role that may create schemas in the database; its name has the database's, after `role_`.
    /// - Returns: the name, and the URL with it.
    static func makeRole(at url: String) throws -> (name: String, url: String) {
        var components = try #require(URLComponents(string: url))
        let database = String(components.path.dropFirst())
        let name = "role_\(database)"
        try run("CREATE ROLE \(name) LOGIN; GRANT CREATE ON DATABASE \(database) TO \(name)", at: url)
        components.user = name
        return (name, try #require(components.string))
    }

    /// Drops a role, and what it owns in the database.
    static func drop(role: String, at url: String) throws {
        try run("DROP OWNED BY \(role); DROP ROLE \(role)", at: url)
    }

    /// Ends every connection to the database, as a server that restarts does. Connections that wait for a
    /// lock end first: whoever holds it would let them go on.
    static func endConnections(of url: String) throws {
        let name = try #require(URLComponents(string: url)).path.dropFirst()
        for condition in ["AND wait_event_type = 'Lock'", ""] {
            _ = try server().query(
                """
                SELECT pg_terminate_backend(pid, 10000) FROM pg_stat_activity
                WHERE datname = $1 \(condition)
                """, [.text(String(name))])
        }
    }

    /// Lets clients connect to the database, or not.
    static func allowConnections(_ isAllowed: Bool, of url: String) throws {
        let name = try #require(URLComponents(string: url)).path.dropFirst()
        try server().run("ALTER DATABASE \(name) ALLOW_CONNECTIONS \(isAllowed)")
    }

    /// Begins a transaction with a script; it is open as long as the result is kept. No thread waits for it.
    static func begin(_ script: String, at url: String) throws -> AnyObject {
        let connection = try Connection(url: url)
        try connection.run("BEGIN; \(script)")
        return connection
    }

    /// One text of plain SQL.
    static func sql(_ text: String, at url: String) throws -> String {
        try Connection(url: url).query(text).text(0, 0)
    }

    /// Statements without results.
    static func run(_ script: String, at url: String) throws { try Connection(url: url).run(script) }

    private static func server() throws -> Connection {
        let url = try #require(serverURL)
        return try Connection(url: url)
    }
}
