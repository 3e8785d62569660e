import CRDT
import Logging
import OperationLog
import ServiceKit
import Testing

@testable import QueryService

@Suite("Audit of query-service", .timeLimit(.minutes(3)))
struct QueryAuditTests {
    private static let credential = String(repeating: "k", count: 43)
    private static let own = "/admin/query-service/databases/\(QueryBench.database)"

    @Test("each admin request that may change something is an entry, also a refused one; reads are none")
    func changes() async throws {
        let bench = try QueryBench()
        let log = try await bench.openLog()
        var logger = Logger(label: "test")
        logger.logLevel = .critical
        for (text, path) in [
            (Self.credential, bench.adminFile),
            ("a key of forty-three characters or more, for tests", bench.secretsKey),
        ] {
            try text.write(toFile: path, atomically: true, encoding: .utf8)
        }
        let system = SystemDatabase(log: log, folder: "\(bench.folder)/system", logger: logger)
        try await system.open()
        try await system.write { try $0.put(DatabaseRecord(id: QueryBench.database, createdAtSeconds: 1)) }
        try await bench.serving(log, system: system) { client async throws in
            func ask(_ method: String, _ path: String) async throws -> QueryAnswer {
                try await client.send(Self.own + path, method: method, bearer: Self.credential)
            }
            let made = try await client.with(token: Self.credential).open(
                "\(Self.own)/webhooks", method: "POST", body: ["url": "http://127.0.0.1:9/secret-path"])
            let id = try JSONText.parse(
                Array(buffer: try await made.body.collect(upTo: 100_000)))["id"]?.stringValue
            #expect(try await ask("POST", "/rebuilds").status == 202)
            #expect(try await ask("DELETE", "/requests/77").status == 404)
            let deleted = try await client.with(token: Self.credential).open(
                "\(Self.own)/webhooks/\(try #require(id))", method: "DELETE")
            #expect(deleted.status == .noContent)
            for path in ["/projection", "/collections", "/requests", "/slow", "/webhooks", "/indexes"] {
                #expect(try await ask("GET", path).status == 200, "\(path)")
            }
            for method in ["POST", "GET"] {
                let path = method == "POST" ? "/rebuilds" : "/projection"
                #expect(
                    try await client.send(Self.own + path, method: method, bearer: "x").status == 401)
            }
            let base = "/admin/query-service/databases/:database"
            let entries = try await Self.entries(system)
            #expect(
                entries == [
                    "POST \(base)/webhooks ok - cars admin", "POST \(base)/rebuilds ok - cars admin",
                    "DELETE \(base)/requests/:request refused QUERY-0404 cars admin",
                    "DELETE \(base)/webhooks/:webhook ok - cars admin", "admin refused SRV-0401 - -",
                ])
            let all = try await system.audit.rows(of: "SELECT * FROM audit").rows
            #expect(!all.contains { JSONText.print($0).contains("secret-path") })
        }
        await log.close()
    }

    private static func entries(_ system: SystemDatabase) async throws -> [String] {
        let statement = "SELECT action, result, code, database, user FROM audit ORDER BY _id"
        return try await system.audit.rows(of: statement).rows.map { row in
            ["action", "result", "code", "database", "user"].map { row[$0]?.stringValue ?? "-" }
                .joined(separator: " ")
        }
    }
}
