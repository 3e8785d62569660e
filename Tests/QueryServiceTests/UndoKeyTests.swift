import CRDT
import Identity
import Testing

@testable import QueryService

@Suite("Keys of what is undone")
struct UndoKeyTests {
    /// The statement that counts a document back.
    private static func back(_ id: Value) -> Value {
        [
            "statement": "UPDATE COLLECTION sums (n COUNTER) APPLY n INCREMENT BY -1 WHERE _id = :id",
            "args": ["id": id],
        ]
    }

    private static func undo(_ client: QueryClient, _ key: String, _ ids: [Value]) async throws -> QueryAnswer
    {
        let body: Value = ["transaction": .array(ids.map(back))]
        return try await client.post(Array(JSONText.print(body).utf8), headers: ["Idempotency-Key": key])
    }

    private static let increment = "UPDATE COLLECTION sums (n COUNTER) APPLY n INCREMENT BY 1"

    /// Three counters, which an operation has counted. Returns its offset.
    private static func begin(_ client: QueryClient) async throws -> Int64 {
        let insert =
            "INSERT INTO COLLECTION sums (n COUNTER) DOCUMENTS ({'_id': 'a', 'n': 0}), "
            + "({'_id': 'b', 'n': 0}), ({'_id': 'c', 'n': 0})"
        #expect(try await client.execute(insert).status == 200)
        let counted = try await client.execute(increment)
        return try #require(counted.transactionID)
    }

    private static func sums(_ client: QueryClient) async throws -> [Int64?] {
        try await client.execute("SELECT n FROM COLLECTION sums (n COUNTER) ORDER BY _id").items
            .map { $0["n"]?.intValue }
    }

    @Test("a document is taken back once, whoever comes second, and in whichever part")
    func once() async throws {
        try await QueryBench.run { bench, client in
            let offset = try await Self.begin(client)
            let other = client.with(token: bench.token(user: "somebody else"))
            #expect(try await Self.undo(client, "undo/\(offset)/0", ["a", "b"]).status == 200)
            for (who, part) in [(client, 0), (other, 0), (other, 7)] {
                let again = try await Self.undo(who, "undo/\(offset)/\(part)", ["b", "a"])
                #expect(again.status == 409 && again.code == "QUERY-0307" && !again.isRepeated)
            }
            // Somebody who sees more documents takes back the rest alone.
            let rest = try await Self.undo(other, "undo/\(offset)/0", ["a", "c"])
            let ids = rest.body["results"]?.arrayValue?.map { $0["mutatedDocumentIds"] }
            #expect(rest.status == 200 && ids == [[], ["c"]])
            #expect(try await Self.sums(client) == [0, 0, 0])
            // The operation before is another one.
            #expect(try await Self.undo(other, "undo/\(offset - 1)/0", ["a"]).status == 200)
            #expect(try await Self.sums(client) == [-1, 0, 0])
        }
    }

    @Test(
        "nobody takes the turn of another: with other documents, without a change, ahead, or with many keys")
    func occupied() async throws {
        var bounds = QueryServicePart.Bounds()
        bounds.keptAnswersPerUser = 3
        try await QueryBench.run(bounds: bounds) { bench, client in
            let offset = try await Self.begin(client)
            let key = ["Idempotency-Key": "undo/\(offset)/0"]
            let rules = AccessRules(queriesByCollection: ["own": ["true"], "sums": ["_id == 'nobody'"]])
            let stranger = client.with(
                token: bench.token(Grant(read: .everything, write: rules), user: "stranger"))
            let own = try await stranger.execute(
                "INSERT INTO own DOCUMENTS ({'_id': 'a'}) ON ID CONFLICT DO UPDATE", headers: key)
            #expect(own.status == 200)
            _ = try await Self.undo(stranger, "undo/\(offset)/0", ["a", "b", "c"])
            #expect(try await Self.sums(client) == [1, 1, 1])
            let nothing = try await client.execute(
                "UPDATE sums SET x = 1 WHERE _id = 'a' AND x = 'no'", headers: key)
            #expect(nothing.status == 200)
            let early = try await Self.undo(client, "undo/\(offset + 1_000)/0", ["a"])
            #expect(early.status == 400 && early.code == "QUERY-0501")
            for number in 0..<5 {
                _ = try await stranger.execute(
                    "INSERT INTO own DOCUMENTS ({'_id': \(number)})",
                    headers: ["Idempotency-Key": "undo/\(offset)/\(number)"])
            }
            #expect(try await Self.undo(client, "undo/\(offset)/0", ["a", "b", "c"]).status == 200)
            #expect(try await Self.sums(client) == [0, 0, 0])
        }
    }

    @Test("a key that names no operation is refused, and a statement that does not name its one document")
    func wrong() async throws {
        try await QueryBench.run { _, client in
            let offset = try await Self.begin(client)
            let keys = [
                "undo/", "undo/0/0", "undo/-1/0", "undo/1", "undo/1/", "undo/x/0", "undo/1/0/0",
                "undo/99999999999999999999/0",
            ]
            for key in keys {
                let answer = try await Self.undo(client, key, ["a"])
                #expect(answer.status == 400 && answer.code == "SRV-0400", "\(key)")
            }
            let statements = [
                Self.increment, "UPDATE sums SET x = 1 WHERE _id IN ('a', 'b')", "DELETE FROM sums",
            ]
            for statement in statements {
                let answer = try await client.execute(
                    statement, headers: ["Idempotency-Key": "undo/\(offset)/0"])
                #expect(answer.status == 400 && answer.code == "QUERY-0101", "\(statement)")
            }
            #expect(try await Self.sums(client) == [1, 1, 1])
        }
    }

    @Test("a statement that also writes another document leaves no mark for the one that it names")
    func beside() async throws {
        try await QueryBench.run { _, client in
            let offset = try await Self.begin(client)
            let key = ["Idempotency-Key": "undo/\(offset)/0"]
            let statements = [
                "INSERT INTO sums DOCUMENTS ({'_id': 'a'}), ({'x': 1}) ON ID CONFLICT DO NOTHING",
                "INSERT INTO sums DOCUMENTS ({'_id': 'a'}), ({'_id': lower('NEW')}) "
                    + "ON ID CONFLICT DO NOTHING",
                "UPDATE sums SET x = 1 WHERE _id IN ('a', lower('B'))",
            ]
            for statement in statements {
                let answer = try await client.execute(statement, headers: key)
                #expect(answer.status == 400 && answer.code == "QUERY-0101", "\(statement)")
            }
            #expect(try await client.execute("SELECT * FROM sums WHERE x = 1").items.isEmpty)
            #expect(try await Self.undo(client, "undo/\(offset)/0", ["a", "b", "c"]).status == 200)
            #expect(try await Self.sums(client) == [0, 0, 0])
        }
    }

    @Test("marks are no keys of a user, who has all of them left for other writes")
    func uncounted() async throws {
        var bounds = QueryServicePart.Bounds()
        bounds.keptAnswersPerUser = 2
        try await QueryBench.run(bounds: bounds) { _, client in
            let offset = try await Self.begin(client)
            for id in ["a", "b", "c"] as [Value] {
                #expect(try await Self.undo(client, "undo/\(offset)/0", [id]).status == 200)
            }
            for number in 0..<3 {
                let answer = try await client.execute(
                    "INSERT INTO own DOCUMENTS ({'_id': \(number)})",
                    headers: ["Idempotency-Key": "key-\(number)"])
                #expect((answer.status == 200) == (number < 2), "\(number)")
            }
        }
    }
}
