import AsyncHTTPClient
import CRDT
import DQL
import Foundation
import Logging
import Mimeo
import NIOCore
import ServiceKit
import Synchronization
import TestSupport
import Testing

@Suite("Authorization matrix", .timeLimit(.minutes(4)))
struct AuthorizationMatrixTests {
    @Test("every route has a row, and every kind of statement")
    func complete() async throws {
        try await MatrixServer.run { server in
            #expect(server.routes == AuthorizationMatrix.routes.map(\.route).sorted())
        }
        for row in AuthorizationMatrix.routes {
            let declared = Surface.routes.first { "\($0.method.rawValue) \($0.path)" == row.route }
            #expect(declared?.role == row.role, "\(row.route)")
        }
        let kinds = Set(AuthorizationMatrix.statements.map(\.kind))
        #expect(StatementKind.allCases.map(\.rawValue).filter { !kinds.contains($0) } == [])
        for row in AuthorizationMatrix.statements {
            #expect(
                try StatementCompiler.compile(row.statement).kind.rawValue == row.kind, "\(row.statement)")
        }
    }

    @Test("every identity may do what its cell says, and nothing else")
    func cells() async throws {
        try await MatrixServer.run { server in
            for row in AuthorizationMatrix.statements {
                let cells = AuthorizationMatrix.cells(row.cells)
                #expect(cells.count == AuthorizationMatrix.columns.count)
                for (column, cell) in zip(AuthorizationMatrix.columns, cells) {
                    try await server.reset()
                    let counts = cell.contains(":")
                    let found = try await server.execute(row.statement, as: column, counts: counts)
                    #expect(found == cell, "\(row.statement) as \(column)")
                }
            }
            for row in AuthorizationMatrix.attachments {
                let blob = try await server.attach(to: row)
                let cells = AuthorizationMatrix.cells(row.cells)
                #expect(cells.count == AuthorizationMatrix.columns.count)
                for (column, cell) in zip(AuthorizationMatrix.columns, cells) {
                    for method in ["GET", "HEAD"] {
                        let found = try await server.download(blob, as: column, method)
                        #expect(found == cell, "\(method) of \(row.collection) \(row.id) as \(column)")
                    }
                }
            }
            for row in AuthorizationMatrix.routes {
                let cells = AuthorizationMatrix.cells(row.cells, role: row.role, first: row.first)
                #expect(cells.count == AuthorizationMatrix.columns.count)
                for (column, cell) in zip(AuthorizationMatrix.columns, cells) {
                    let found = try await server.status(of: row, as: column)
                    #expect(found == cell, "\(row.route) as \(column)")
                }
            }
        }
    }
}

/// A server in this process, with a database of its own for the matrix, and credentials of every kind.
private struct MatrixServer: Sendable {
    static let database = "matrix"
    let origin: String
    let routes: [String]
    private let admin: String
    private let credentials: [String: String]
    private let attachment: String
    private static let requests = Mutex(0)

    static func run(_ body: @escaping @Sendable (MatrixServer) async throws -> Void) async throws {
        try await withTemporaryDirectory { folder in
            var logger = Logger(label: "test")
            logger.logLevel = .critical
            let options = try ServiceOptions.parse([
                "--data", folder.path, "--listen", "127.0.0.1:0", "--behind-proxy", "--drain-seconds", "0",
            ])
            let configuration = try ServiceConfiguration(options, port: AllServices.defaultPort)
            let services = try AllServices(configuration, logger: logger)
            let routes = try ServiceMount.routes(of: services.parts)
            let host = try ServiceHost(configuration, parts: services.parts, logger: logger) { _ in }
            let file = folder.appendingPathComponent("auth/admin.token")
            do {
                try await host.run { address async throws in
                    let admin = try String(contentsOf: file, encoding: .utf8)
                        .trimmingCharacters(in: .whitespacesAndNewlines)
                    try await body(try await MatrixServer(address.origin, routes, admin: admin))
                }
            } catch {
                await services.close()
                throw error
            }
            await services.close()
        }
    }

    private init(_ origin: String, _ routes: [String], admin: String) async throws {
        self.origin = origin
        self.routes = routes
        self.admin = admin
        var credentials = ["admin": admin]
        func post(_ path: String, _ body: Value) async throws -> Value {
            try await Self.send(origin, "POST", path, admin, Array(JSONText.print(body).utf8)).value
        }
        func login(_ name: String, _ permissions: String, seconds: Int64 = 3_600, _ database: String)
            async throws
        {
            let secret = "0123456789abcdef-\(name)"
            let anonymous: Value = [
                "sharedToken": .string(secret), "permissions": try JSONText.parse(Array(permissions.utf8)),
                "sessionLength": .int(seconds),
            ]
            _ = try await post(
                "/admin/auth/databases/\(database)/providers",
                ["name": .string(name), "anonymous": anonymous])
            let answer = try await post(
                "/_ditto/auth/login",
                ["databaseID": .string(database), "provider": .string(name), "token": .string(secret)])
            credentials[name] = answer["accessToken"]?.stringValue
        }
        for id in [Self.database, "elsewhere"] {
            _ = try await post("/admin/auth/databases", ["id": .string(id)])
        }
        let everything = #"{"read":{"everything":true},"write":{"everything":true}}"#
        func side(_ query: String) -> String {
            let rules = #"{"queriesByCollection":{"cars":["\#(query)"]}}"#
            return #"{"read":\#(rules),"write":\#(rules),"qlVersion":1}"#
        }
        try await login("gone", everything, seconds: 1, Self.database)
        try await login("else", everything, "elsewhere")
        try await login("read", #"{"read":{"everything":true}}"#, Self.database)
        try await login("coll", side("true"), Self.database)
        try await login("ids", side("_id = 'own'"), Self.database)
        try await login("all", everything, Self.database)
        let key = try await post(
            "/admin/auth/databases/\(Self.database)/api-keys",
            ["name": "k", "permissions": try JSONText.parse(Array(everything.utf8))])
        credentials["key"] = key["key"]?.stringValue
        for role in AdminRole.allCases {
            let made = try await post(
                "/admin/auth/credentials", ["name": .string("k"), "role": .string(role.rawValue)])
            credentials["admin-\(role.rawValue)"] = made["credential"]?.stringValue
        }
        let blob = try await Self.send(
            origin, "POST", "/api/v5/attachments/upload", credentials["all"], Array("blob".utf8)
        ).value
        attachment = blob["id"]?.stringValue ?? ""
        self.credentials = credentials
        // The shortest session there is has ended when its token is refused.
        let end = ContinuousClock.now + .seconds(60)
        while try await execute("SELECT * FROM cars", as: "gone", counts: false) != "401", .now < end {
            try await Task.sleep(for: .milliseconds(100))
        }
    }

    /// Puts the documents back that statements may have changed, here and in the other database.
    func reset() async throws {
        for statement in [
            "DELETE FROM cars", "DELETE FROM boats",
            "INSERT INTO cars DOCUMENTS ({'_id': 'own', 'n': 1}), ({'_id': 'other', 'n': 2})",
            "INSERT INTO boats DOCUMENTS ({'_id': 1, 'n': 2})",
        ] {
            #expect(try await execute(statement, as: "all", counts: false) == "200")
        }
        for collection in ["cars", "boats"] {
            _ = try await execute("DELETE FROM \(collection)", as: "else", counts: false)
        }
    }

    /// The status, and with `counts` how many rows came back or documents were changed.
    func execute(_ statement: String, as column: String, counts: Bool) async throws -> String {
        let body: Value = ["statement": .string(statement)]
        let (status, value) = try await Self.send(
            origin, "POST", "/api/v5/store/execute", credentials[column], Array(JSONText.print(body).utf8))
        guard counts else { return "\(status)" }
        let changed = value["mutatedDocumentIds"]?.arrayValue?.count ?? 0
        return "\(status):\(max(value["items"]?.arrayValue?.count ?? 0, changed))"
    }

    /// An attachment that nothing but this document refers to.
    func attach(to row: AuthorizationMatrix.AttachmentRow) async throws -> String {
        let bytes = Array("of \(row.collection) \(row.id)".utf8)
        let blob = try await Self.send(
            origin, "POST", "/api/v5/attachments/upload", credentials["all"], bytes
        ).value
        let id = blob["id"]?.stringValue ?? ""
        let token = "{'id': '\(id)', 'len': \(bytes.count), 'metadata': {}}"
        let statement =
            "INSERT INTO COLLECTION \(row.collection) (photo ATTACHMENT) "
            + "DOCUMENTS ({'_id': \(row.id), 'photo': \(token)}) ON ID CONFLICT DO UPDATE"
        #expect(try await execute(statement, as: "all", counts: true) == "200:1")
        return id
    }

    func download(_ id: String, as column: String, _ method: String) async throws -> String {
        let path = "/api/v5/attachments/\(id)"
        return "\(try await Self.send(origin, method, path, credentials[column], []).status)"
    }

    func status(of row: AuthorizationMatrix.RouteRow, as column: String) async throws -> String {
        let parts = row.route.split(separator: " ").map(String.init)
        let path = parts[1].replacingOccurrences(of: ":database", with: Self.database)
            .replacingOccurrences(of: ":id", with: attachment).replacingOccurrences(of: ":", with: "")
        let answer = try await Self.send(
            origin, parts[0], path, credentials[column], Array(row.body.utf8))
        return "\(answer.status)"
    }

    /// Each request comes from an address of its own, as far as the server knows: it limits failures by it.
    private static func send(
        _ origin: String, _ method: String, _ path: String, _ credential: String?, _ body: [UInt8]
    ) async throws -> (status: Int, value: Value) {
        let number = requests.withLock { number in
            number += 1
            return number
        }
        var request = HTTPClientRequest(url: origin + path)
        request.method = .RAW(value: method)
        request.headers.add(name: "X-Forwarded-For", value: "10.0.\(number / 250).\(number % 250)")
        if let credential { request.headers.add(name: "Authorization", value: "Bearer \(credential)") }
        if method == "POST" { request.body = .bytes(body) }
        let response = try await HTTPClient.shared.execute(request, timeout: .seconds(30))
        let bytes = Array(buffer: try await response.body.collect(upTo: 10_000_000))
        return (Int(response.status.code), (try? JSONText.parse(bytes)) ?? .null)
    }
}
