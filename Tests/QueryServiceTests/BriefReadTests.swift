import AsyncHTTPClient
import CRDT
import Foundation
import Identity
import Testing

@testable import QueryService
@testable import ServiceKit

@Suite("Reads on the event loop", .timeLimit(.minutes(5)))
struct BriefReadTests {
    private struct Told: Equatable {
        let status: Int
        /// All but those that differ between any two answers.
        let fields: [String: String]
        let text: String

        init(_ answer: TextAnswer) {
            (status, text) = (answer.status, answer.text)
            fields = answer.headers.filter { !["date", "x-request-id"].contains($0.key) }
        }
    }

    /// A field that sends a request the asynchronous way; its text names no trace.
    private static let other = ["traceparent": "none"]

    /// A service of a database with some ships, two of them large, and its pool.
    private func run(
        _ body: @escaping @Sendable (QueryBench, QueryClient, EvaluationPool) async throws -> Void
    ) async throws {
        let (bench, pool) = (try QueryBench(), EvaluationPool())
        let log = try await bench.openLog()
        try await bench.serving(log, pool: pool) { client in
            let ships = (0..<400).map(Self.ship)
            #expect(
                try await client.execute("INSERT INTO ships DOCUMENTS (:s)", ["s": .array(ships)]).status
                    == 200)
            let large = Value.string(String(repeating: "large ", count: 20_000))
            _ = try await client.execute(
                "INSERT INTO ships DOCUMENTS ({'_id': 'large', 'text': :t}), "
                    + "({'_id': '1', 'inf': 1e308 * 10})",
                ["t": large])
            for index in ["tons", "flag"] {
                #expect(
                    try await client.execute("CREATE INDEX by_\(index) ON ships (\(index))").status == 200)
            }
            try await body(bench, client, pool)
        }
        await log.close()
    }

    private static func ship(_ number: Int) -> Value {
        let place: Value = ["x": 1, "y": [true, .null]]
        let flag = number < 200 ? "many" : "f\(number)"
        return [
            "_id": .int(Int64(number)), "tons": .int(Int64(number / 4)), "flag": .string(flag),
            "name": .string("Wal \"é\"\n"), "size": .double(Double(number) / 3), "at": place,
        ]
    }

    private static func ask(
        _ client: QueryClient, _ body: Value, _ headers: [String: String] = [:], version: String = "v5"
    ) async throws -> Told {
        // The client would take packed answers by itself.
        let headers = ["Accept-Encoding": "identity"].merging(headers) { $1 }
        let response = try await client.open(
            "/api/\(version)/store/execute", headers: headers, method: "POST", body: body)
        return Told(
            TextAnswer(
                status: Int(response.status.code),
                headers: Dictionary(response.headers.map { ($0.name.lowercased(), $0.value) }) { $1 },
                text: String(buffer: try await response.body.collect(upTo: 50_000_000))))
    }

    /// Returns whether a request can be answered without an evaluation of the pool. Now and then one goes the
    /// other way without a reason of its own, and a text whose index was not ready for ten seconds, so many
    /// are tried.
    private static func isBrief(
        _ client: QueryClient, _ pool: EvaluationPool, _ body: Value, _ headers: [String: String] = [:],
        version: String = "v5", tries: Int = 20_000
    ) async throws -> Bool {
        for _ in 0..<tries {
            let before = pool.begun
            _ = try await ask(client, body, headers, version: version)
            if pool.begun == before { return true }
        }
        return false
    }

    private static let brief: [(String, Value)] = [
        ("SELECT * FROM ships WHERE _id = :i", ["i": 7]),
        ("SELECT * FROM ships WHERE _id = :i", ["i": 7, "unused": 1]),
        ("SELECT * FROM ships WHERE _id = :i", ["i": "1"]),
        ("SELECT * FROM ships WHERE _id = :i", ["i": "none"]),
        ("SELECT name, tons * 2 AS t FROM ships WHERE _id = 9", [:]),
        ("SELECT * FROM ships WHERE _id IN (1, 5, 'none', 3)", [:]),
        ("SELECT * FROM ships WHERE tons = :t", ["t": 9]),
        ("SELECT * FROM ships WHERE tons BETWEEN 4 AND 11", [:]),
        ("SELECT * FROM ships WHERE tons > 5 ORDER BY tons DESC LIMIT 3 OFFSET 2", [:]),
        ("SELECT * FROM ships WHERE flag = 'f333'", [:]),
    ]

    @Test("brief answers are those of the asynchronous way, byte for byte", arguments: ["v5", "v4"])
    func same(version: String) async throws {
        try await run { _, client, pool in
            for (statement, arguments) in Self.brief {
                let body: Value = ["statement": .string(statement), "args": arguments]
                let expected = try await Self.ask(client, body, Self.other, version: version)
                #expect(expected.status == 200 && !expected.text.isEmpty)
                // A strict statement plans each range of an index.
                if version == "v5" || statement.contains("_id") {
                    #expect(try await Self.isBrief(client, pool, body, version: version), "\(statement)")
                }
                for _ in 0..<3 {
                    #expect(
                        try await Self.ask(client, body, version: version) == expected, "\(statement)")
                }
            }
        }
    }

    private static let long: [(String, Value)] = [
        ("SELECT * FROM ships", [:]), ("SELECT * FROM ships WHERE flag = 'many'", [:]),
        // A range without documents has their types looked at, for warnings.
        ("SELECT * FROM ships WHERE tons = :t", ["t": 99_999]),
        ("SELECT * FROM ships WHERE name = 'x'", [:]), ("SELECT COUNT(*) AS n FROM ships", [:]),
        ("SELECT * FROM ships WHERE _id = 'large'", [:]), ("SELECT * FROM ships WHERE _id = :i", [:]),
        ("SELECT * FROM ships WHERE )", [:]), ("SELECT * FROM none WHERE a = 1", [:]),
        ("SELECT * FROM system:collections", [:]), ("EXPLAIN SELECT * FROM ships WHERE _id = 1", [:]),
        ("SELECT s.name FROM ships s JOIN ships t ON t._id = s.tons WHERE s._id = 8", [:]),
        ("SELECT * FROM ships WHERE _id = (SELECT RAW MIN(_id) FROM ships WHERE tons = 1)", [:]),
    ]

    @Test("whatever is long, wrong or of another shape goes the asynchronous way, with its answer")
    func others() async throws {
        try await run { _, client, pool in
            for (statement, arguments) in Self.long {
                let body: Value = ["statement": .string(statement), "args": arguments]
                let expected = try await Self.ask(client, body, Self.other)
                #expect(try await !Self.isBrief(client, pool, body, tries: 3), "\(statement)")
                #expect(try await Self.ask(client, body) == expected, "\(statement)")
            }
        }
    }

    @Test(
        "a request with a wish goes the asynchronous way, with its answer",
        arguments: [
            ["Accept": "application/x-ndjson"], ["Accept": "application/cbor"], ["Accept": "text/html"],
            ["Idempotency-Key": "k"], ["X-DITTO-TXN-ID": "1"], ["X-DITTO-TXN-ID": "x"],
            ["Accept-Encoding": "gzip"],
        ])
    func wishes(_ headers: [String: String]) async throws {
        try await run { _, client, pool in
            // More bytes than are worth packing.
            let body: Value = ["statement": "SELECT * FROM ships WHERE tons BETWEEN 4 AND 11"]
            let expected = try await Self.ask(client, body, headers.merging(Self.other) { $1 })
            // A refusal needs no evaluation.
            if expected.status == 200 {
                #expect(try await !Self.isBrief(client, pool, body, headers, tries: 3))
            }
            #expect(try await Self.ask(client, body, headers) == expected)
        }
    }

    @Test("bodies of other forms go the asynchronous way, with its answer")
    func bodies() async throws {
        try await run { _, client, pool in
            let select: Value = ["statement": "SELECT * FROM ships WHERE _id = 1"]
            for body in [
                ["transaction": [select]], ["statement": "SELECT * FROM ships WHERE _id = 1", "asOf": 1],
                ["statement": 1], ["statement": "SELECT * FROM ships WHERE _id = 1", "arguments": 1], [:],
            ] as [Value] {
                let expected = try await Self.ask(client, body, Self.other)
                #expect(try await Self.ask(client, body) == expected)
            }
            #expect(try await Self.isBrief(client, pool, select))
        }
    }

    @Test("rights that cover the collection suffice; narrower ones, and refused tokens, go the other way")
    func rights() async throws {
        try await run { bench, client, pool in
            let body: Value = ["statement": "SELECT * FROM ships WHERE _id = 7"]
            _ = try await Self.ask(client, body)
            let whole = Grant(
                read: AccessRules(queriesByCollection: ["ships": ["true"]]), write: .init(), queryLanguage: 1)
            let narrow = Grant(
                read: AccessRules(queriesByCollection: ["ships": ["_id > 5"]]), write: .init(),
                queryLanguage: 1)
            let none = Grant(
                read: AccessRules(queriesByCollection: ["cars": ["true"]]), write: .init(), queryLanguage: 1)
            for (grant, isBrief, status) in [(whole, true, 200), (narrow, false, 200), (none, false, 403)] {
                let reader = client.with(token: bench.token(grant, user: "bo"))
                let expected = try await Self.ask(reader, body, Self.other)
                #expect(expected.status == status)
                let found = try await Self.isBrief(reader, pool, body, tries: isBrief ? 200 : 3)
                #expect(found == isBrief)
                #expect(try await Self.ask(reader, body) == expected)
            }
            for token in ["x.y.z", bench.token(key: bench.otherKey), bench.token(age: 1_000)] {
                let stranger = client.with(token: token)
                let expected = try await Self.ask(stranger, body, Self.other)
                #expect(expected.status >= 400)
                #expect(try await Self.ask(stranger, body) == expected)
            }
            // A token that was good until now.
            bench.clock.advance(by: 1_000)
            #expect(try await Self.ask(client, body).status == 401)
        }
    }

    @Test("a read sees every write that was answered before, of this service and of another on the log")
    func visibility() async throws {
        let bench = try QueryBench()
        let logs = [try await bench.openLog(), try await bench.openLog()]
        let pools = [EvaluationPool(), EvaluationPool()]
        try await bench.serving(logs[0], projection: "one", pool: pools[0]) { one in
            try await bench.serving(logs[1], projection: "two", pool: pools[1]) { two in
                _ = try await one.execute("INSERT INTO c DOCUMENTS ({'_id': 1, 'n': 0})")
                let select = "SELECT * FROM c WHERE _id = 1"
                for number in 1...60 {
                    let (writer, reader) = number % 2 == 0 ? (one, two) : (two, one)
                    _ = try await writer.execute("UPDATE c SET n = n + 1 WHERE _id = 1")
                    for client in [reader, writer, reader] {
                        let answer = try await client.execute(select)
                        #expect(answer.rows == ["{\"_id\":1,\"n\":\(number)}"])
                        #expect(answer.transactionID == Int64(number) + 1)
                    }
                }
                for (client, pool) in zip([one, two], pools) {
                    #expect(try await Self.isBrief(client, pool, ["statement": .string(select)]))
                }
            }
        }
        for log in logs { await log.close() }
    }

    @Test("brief reads are counted, and listed if they were slow")
    func counted() async throws {
        let (bench, pool) = (try QueryBench(), EvaluationPool())
        let credential = String(repeating: "k", count: 43)
        try credential.write(toFile: bench.adminFile, atomically: true, encoding: .utf8)
        var bounds = QueryServicePart.Bounds()
        bounds.slowStatement = .zero
        let log = try await bench.openLog()
        try await bench.serving(log, bounds: bounds, pool: pool) { client in
            _ = try await client.execute("INSERT INTO c DOCUMENTS ({'_id': 1, 'n': 0})")
            let body: Value = ["statement": "SELECT * FROM c WHERE _id = 1"]
            #expect(try await Self.isBrief(client, pool, body))
            let path = "/admin/query-service/databases/\(QueryBench.database)/slow"
            let rows = try await client.send(path, bearer: credential).body["statements"]?.arrayValue ?? []
            let newest = try #require(rows.first)
            #expect(newest["credential"] == "user:ada" && newest["rows"] == 1 && newest["documents"] == 1)
        }
        await log.close()
    }

    @Test("a text that spent its budget is remembered by its credential, and for a while")
    func overrun() {
        let texts = OverrunTexts()
        texts.note("SELECT 1", "a")
        #expect(texts.contains("SELECT 1", "a"))
        #expect(!texts.contains("SELECT 1", "b") && !texts.contains("SELECT 2", "a"))
        for number in 0..<1_000 { texts.note("SELECT \(number)", "b") }
        #expect(texts.contains("SELECT 999", "b"))
    }

    @Test("a slow answer rests the loops if its thread has read the disk since, and not for a busy machine")
    func disk() {
        let slow = Limits.briefPatience * 2
        let rest = DiskRest()
        rest.note(Limits.briefPatience, reads: { (1, 9) })
        rest.note(slow, reads: { (1, 0) })
        #expect(!rest.isOn)
        rest.note(slow, reads: { (1, 3) })
        #expect(rest.isOn)
        let calm = DiskRest()
        calm.note(slow, reads: { (1, 0) })
        calm.note(slow, reads: { (2, 0) })
        #expect(!calm.isOn)
    }
}
