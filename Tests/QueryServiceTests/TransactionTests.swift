import CRDT
import Foundation
import Identity
import OperationLog
import ServiceKit
import Testing

@testable import QueryService

@Suite("Transactions over HTTP", .timeLimit(.minutes(5)))
struct TransactionTests {
    private static func send(
        _ client: QueryClient, _ statements: [Value], version: String = "v5", headers: [String: String] = [:]
    ) async throws -> QueryAnswer {
        let body: Value = ["transaction": .array(statements)]
        return try await client.post(Array(JSONText.print(body).utf8), version: version, headers: headers)
    }

    private static func results(_ answer: QueryAnswer) -> [Value] { answer.body["results"]?.arrayValue ?? [] }

    @Test(
        "each statement sees those before it, and all are one operation of the log", arguments: ["v4", "v5"])
    func oneOperation(version: String) async throws {
        try await QueryBench.each { bench in
            let log = try await bench.openLog()
            try await bench.serving(log) { client async throws in
                _ = try await client.execute("INSERT INTO c DOCUMENTS ({'_id': 0, 'n': 7})")
                let answer = try await Self.send(
                    client,
                    [
                        ["statement": "INSERT INTO c DOCUMENTS (:d)", "args": ["d": ["_id": 1, "n": 1]]],
                        ["statement": "UPDATE c SET n = n + 1 WHERE n < :most", "args": ["most": 5]],
                        ["statement": "SELECT _id, n FROM c ORDER BY _id"],
                        ["statement": "DELETE FROM c WHERE _id = 0"],
                        ["statement": "INSERT INTO d SELECT * FROM c"],
                        ["statement": "SELECT RAW COUNT(*) FROM d", "args": .null],
                    ], version: version)
                #expect(answer.status == 200 && answer.transactionID == 2, "\(answer.body)")
                let results = Self.results(answer)
                #expect(
                    results.map { $0["queryType"] } == [
                        "insert", "update", "select", "delete", "insert", "select",
                    ])
                #expect(results.allSatisfy { $0["transactionId"] == 2 })
                #expect(results[2]["items"] == [["_id": 0, "n": 7], ["_id": 1, "n": 2]])
                #expect(results[3]["mutatedDocumentIds"] == [0] && results[5]["items"] == [1])
                #expect(try await client.execute("SELECT * FROM d").rows == [#"{"_id":1,"n":2}"#])
            }
            #expect(try await log.head(of: DatabaseID(QueryBench.database)).offset == 2)
            await log.close()
        }
    }

    @Test("an error names its statement's index, and nothing is written")
    func allOrNothing() async throws {
        try await QueryBench.run { bench, client async throws in
            _ = try await client.execute("INSERT INTO c DOCUMENTS ({'_id': 1})")
            let good: Value = ["statement": "INSERT INTO c DOCUMENTS ({'_id': 2})"]
            let bad: [(Value, code: String)] = [
                (["statement": "INSERT INTO c DOCUMENTS ({'_id': 1})"], "DQL-0501"),
                (["statement": "SELECT * FROM c WHERE"], "DQL-0107"),
                (["statement": "SELECT * FROM c WHERE a = :a"], "DQL-0301"),
                (["statement": "EVICT FROM c"], "QUERY-0102"),
                (["statement": "ALTER SYSTEM SET dql_strict_mode = true"], "QUERY-0104"),
                (["statement": 5], "QUERY-0101"), ("SELECT * FROM c", "QUERY-0101"),
                (["statement": "SELECT * FROM c", "arguments": [:]], "QUERY-0101"),
            ]
            for (statement, code) in bad {
                let answer = try await Self.send(client, [good, good.replaced(2, by: 3), statement, good])
                #expect(answer.status == 400 || answer.status == 409, "\(statement)")
                #expect(answer.body["error"]?["index"] == 2, "\(statement) \(answer.body)")
                #expect(answer.code == code || code.hasPrefix("DQL"), "\(statement) \(answer.body)")
                #expect(answer.code?.prefix(3) == code.prefix(3))
            }
            #expect(try await client.execute("SELECT RAW _id FROM c").rows == ["1"])
            let reader = client.with(
                token: bench.token(
                    Grant(
                        read: .everything, write: AccessRules(queriesByCollection: ["c": ["_id != 9"]]),
                        queryLanguage: 1)))
            let other: Value = ["statement": "INSERT INTO d DOCUMENTS ({'_id': 3})"]
            let forbidden: Value = ["statement": "INSERT INTO c DOCUMENTS ({'_id': 9})"]
            for (place, statement) in [other, forbidden].enumerated() {
                let answer = try await Self.send(reader, [good, statement])
                #expect(answer.status == 403 && answer.code == "QUERY-0203", "\(place)")
                #expect(answer.body["error"]?["index"] == 1)
            }
            #expect(try await client.execute("SELECT RAW _id FROM c").rows == ["1"])
        }
    }

    @Test("a body that is no transaction is refused by name")
    func malformed() async throws {
        let bench = try QueryBench()
        let log = try await bench.openLog()
        try await bench.serving(log) { client async throws in
            let one = #"{"statement":"SELECT 1"}"#
            let many = Array(repeating: one, count: 1_001).joined(separator: ",")
            for (body, word) in [
                (#"{"transaction":[]}"#, "1 to 1000"), (#"{"transaction":{}}"#, "1 to 1000"),
                ("{\"transaction\":[\(many)]}", "1 to 1000"),
                ("{\"transaction\":[\(one)],\"statement\":\"x\"}", "in place of"),
            ] {
                let answer = try await client.post(Array(body.utf8))
                #expect(answer.status == 400 && answer.code == "QUERY-0101")
                let message = answer.body["error"]?["message"]?.stringValue ?? ""
                #expect(message.contains(word), "\(message)")
            }
            let observed = try await client.open(
                "/api/v5/store/observe", method: "POST", body: ["transaction": [["statement": "SELECT 1"]]])
            #expect(observed.status == .badRequest)
        }
        await log.close()
    }

    @Test("SELECTs alone read one snapshot, of the past too, and write nothing")
    func reading() async throws {
        try await QueryBench.run { _, client async throws in
            for number in 1...3 {
                _ = try await client.execute("INSERT INTO c DOCUMENTS ({'_id': \(number)})")
            }
            let select: Value = ["statement": "SELECT RAW _id FROM c ORDER BY _id"]
            let count: Value = ["statement": "SELECT RAW COUNT(*) FROM c"]
            let now = try await Self.send(client, [select, count])
            #expect(now.transactionID == 3)
            #expect(Self.results(now).map { $0["items"] } == [[1, 2, 3], [3]])
            let body: Value = ["transaction": [select, count], "asOf": 2]
            let past = try await client.post(Array(JSONText.print(body).utf8))
            #expect(past.transactionID == 2 && Self.results(past).map { $0["items"] } == [[1, 2], [2]])
            let write: Value = ["transaction": [select, ["statement": "DELETE FROM c"]], "asOf": 2]
            #expect(try await client.post(Array(JSONText.print(write).utf8)).code == "QUERY-0502")
        }
    }

    @Test("a transaction under an Idempotency-Key is done once, and answered with all its results")
    func idempotent() async throws {
        try await QueryBench.run { _, client async throws in
            let statements: [Value] = [
                ["statement": "INSERT INTO c DOCUMENTS ({'_id': 1, 'n': 0}) ON ID CONFLICT DO NOTHING"],
                ["statement": "UPDATE c SET n = n + 1 RETURNING n"],
            ]
            let headers = ["Idempotency-Key": "tx-1"]
            let first = try await Self.send(client, statements, headers: headers)
            let second = try await Self.send(client, statements, headers: headers)
            #expect(!first.isRepeated && second.isRepeated && first.body == second.body)
            #expect(Self.results(second).last?["items"] == [["n": 1]])
            let other = try await Self.send(client, [statements[1]], headers: headers)
            #expect(other.status == 422 && other.code == "QUERY-0105")
            let large: [Value] = (0..<12).map { number in
                let text = (0..<40).map { _ in UUID().uuidString }.joined()
                return [
                    "statement": "INSERT INTO d DOCUMENTS (:d) RETURNING t",
                    "args": ["d": ["_id": .int(Int64(number)), "t": .string(text)]],
                ]
            }
            let big = ["Idempotency-Key": "tx-2"]
            #expect(try await Self.send(client, large, headers: big).status == 200)
            let again = try await Self.send(client, large, headers: big)
            #expect(again.isRepeated && Self.results(again).count == 12)
            #expect(Self.results(again).first?["totalWarningsCount"] == 1)
            #expect(Self.results(again).first?["queryType"] == "insert")
            #expect(try await client.execute("SELECT RAW COUNT(*) FROM d").rows == ["12"])
        }
    }

    @Test("transactions of several services on one log move money and lose none")
    func concurrent() async throws {
        try await QueryBench.each { bench in
            let logs = [try await bench.openLog(), try await bench.openLog()]
            try await bench.serving(logs[0], projection: "one") { one async throws in
                try await bench.serving(logs[1], projection: "two") { two async throws in
                    _ = try await one.execute(
                        """
                        INSERT INTO accounts DOCUMENTS
                            ({'_id': 'a', 'n': 100, 'moves': 0}), ({'_id': 'b', 'n': 100, 'moves': 0})
                        """)
                    try await withThrowingTaskGroup(of: Void.self) { group in
                        for (number, client) in [one, two, one, two, one, two, one, two].enumerated() {
                            group.addTask {
                                for amount in 1...8 {
                                    let (from, to) = number % 2 == 0 ? ("a", "b") : ("b", "a")
                                    let move =
                                        "UPDATE accounts SET n = n + :by, moves = moves + 1 WHERE _id = :id"
                                    let answer = try await Self.send(
                                        client,
                                        [
                                            [
                                                "statement": .string(move),
                                                "args": ["by": .int(Int64(-amount)), "id": .string(from)],
                                            ],
                                            ["statement": "SELECT RAW SUM(n) FROM accounts"],
                                            [
                                                "statement": .string(move),
                                                "args": ["by": .int(Int64(amount)), "id": .string(to)],
                                            ],
                                        ])
                                    #expect(answer.status == 200, "\(answer.body)")
                                    let sum = Self.results(answer).dropFirst().first?["items"]
                                    #expect(sum == [.int(Int64(200 - amount))])
                                }
                            }
                        }
                        try await group.waitForAll()
                    }
                    let sums = try await two.execute("SELECT RAW SUM(n) FROM accounts").rows
                    #expect(sums == ["200"])
                    // A transaction that is lost as a whole leaves the sum as it was.
                    #expect(try await two.execute("SELECT RAW moves FROM accounts").rows == ["64", "64"])
                }
            }
            for log in logs { await log.close() }
        }
    }
}

extension Value {
    /// The same statement with another digit.
    fileprivate func replaced(_ old: Int, by new: Int) -> Value {
        let text = self["statement"]?.stringValue ?? ""
        return ["statement": .string(text.replacing("\(old)", with: "\(new)"))]
    }
}
