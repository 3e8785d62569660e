import CRDT
import Foundation
import OperationLog
import ServiceKit
import Testing

@testable import QueryService

@Suite("Routes for administrators", .timeLimit(.minutes(5)))
struct AdminTests {
    private static let credential = String(repeating: "k", count: 43)
    private static let base = "/admin/query-service/databases"
    private static let own = "\(base)/\(QueryBench.database)"

    private typealias Ask = @Sendable (_ path: String, _ method: String) async throws -> QueryAnswer

    /// A service of each kind, and a function that asks for a path with the admin credential.
    private static func run(
        bounds: QueryServicePart.Bounds = QueryServicePart.Bounds(),
        _ body:
            @escaping @Sendable (QueryClient, Ask)
            async throws -> Void
    ) async throws {
        try await QueryBench.run(bounds: bounds) { bench, client async throws in
            try credential.write(toFile: bench.adminFile, atomically: true, encoding: .utf8)
            try await body(client) { path, method in
                try await client.send(path, method: method, bearer: credential)
            }
        }
    }

    @Test("each needs the admin credential and a database that exists")
    func credentials() async throws {
        try await Self.run { client, ask async throws in
            for path in ["projection", "collections", "collections/c/shape", "indexes", "peers", "slow"] {
                #expect(try await client.send("\(Self.own)/\(path)").status == 401, "\(path)")
                #expect(try await ask("\(Self.base)/none/\(path)", "GET").code == "QUERY-0201", "\(path)")
            }
            #expect(try await client.send(Self.base).status == 401)
            #expect(try await client.send("\(Self.own)/rebuilds", method: "POST").status == 401)
            #expect(try await ask("\(Self.own)/slow?limit=0", "GET").code == "SRV-0400")
            #expect(try await ask("\(Self.own)/collections/c/shape?sample=10001", "GET").code == "SRV-0400")
        }
    }

    @Test("collections have their documents, their bytes and their indexes, also after deletions")
    func collections() async throws {
        try await Self.run { client, ask async throws in
            for number in 0..<30 {
                let text = "INSERT INTO ships DOCUMENTS ({'_id': \(number), 'name': 'Fram'})"
                _ = try await client.execute(text)
            }
            _ = try await client.execute(
                "INSERT INTO ports DOCUMENTS ({'_id': 'a', 'x': :x})",
                [
                    "x": .string(String(repeating: "x", count: 5_000))
                ])
            _ = try await client.execute("DELETE FROM ships WHERE _id < 5")
            let answer = try await ask("\(Self.own)/collections", "GET")
            let rows = answer.body["collections"]?.arrayValue ?? []
            #expect(rows.map { $0["name"] } == ["ports", "ships"])
            #expect(rows.map { $0["documents"] } == [1, 25])
            #expect(5_000...5_200 ~= rows.first?["bytes"]?.intValue ?? 0)
            #expect(25 * 20...25 * 120 ~= rows.last?["bytes"]?.intValue ?? 0)
            #expect(rows.allSatisfy { $0["indexes"] == 0 && $0["isInternal"] == false })
            #expect(answer.body["transactionId"] == 32)
            let indexes = try await ask("\(Self.own)/indexes?collection=ships", "GET")
            let index = try #require(indexes.body["indexes"]?.arrayValue?.first)
            #expect(index["collection"] == "ships" && index["name"] == "_id" && index["kind"] == "primary")
            #expect(indexes.body["indexes"]?.arrayValue?.count == 1)
        }
    }

    @Test("the shape of a collection tells each key's frequency, kinds and an example, from a sample")
    func shape() async throws {
        try await Self.run { client, ask async throws in
            let long = String(repeating: "é", count: 300)
            _ = try await client.execute(
                """
                INSERT INTO COLLECTION m (hits COUNTER, `a.b` MAP) DOCUMENTS
                ({'_id': 1, 'n': 1, 'tags': ['x'], 'm': {'deep': {'er': true}}}),
                ({'_id': 2, 'n': 'two', 'text': :long, 'a.b': {'c': null}}), ({'_id': 'three', 'n': 1.5})
                """, ["long": .string(long)])
            _ = try await client.execute("UPDATE m APPLY hits INCREMENT BY 4 WHERE _id = 1")
            let answer = try await ask("\(Self.own)/collections/m/shape", "GET")
            #expect(answer.body["sampled"] == 3 && answer.body["more"] == false)
            let keys = answer.body["keys"]?.arrayValue ?? []
            func key(_ path: Value) -> Value? { keys.first { $0["path"] == path } }
            #expect(key(["_id"])?["kinds"] == ["integer": 2, "string": 1])
            #expect(key(["n"])?["count"] == 3)
            #expect(key(["n"])?["kinds"] == ["float": 1, "integer": 1, "string": 1])
            #expect(key(["m", "deep", "er"])?["kinds"] == ["boolean": 1])
            #expect(key(["m", "deep", "er"])?["example"] == true)
            #expect(key(["a.b", "c"])?["kinds"] == ["null": 1])
            #expect(key(["hits"])?["kinds"] == ["counter": 1] && key(["hits"])?["example"] == 4)
            #expect(key(["tags"])?["example"] == ["x"])
            #expect(key(["text"])?["example"]?.stringValue == long.prefix(120) + "…")
            #expect(keys.prefix(2).map { $0["path"] } == [["_id"], ["n"]])
            #expect(try await ask("\(Self.own)/collections/none/shape", "GET").body["sampled"] == 0)
        }
    }

    @Test("a sample of a large collection has old documents and new ones")
    func spread() async throws {
        try await Self.run { client, ask async throws in
            let all = (0..<2_000).map { (number: Int64) -> Value in
                ["_id": .int(number), "k\(number / 200)": 1]
            }
            _ = try await client.execute("INSERT INTO big DOCUMENTS (:all)", ["all": .array(all)])
            _ = try await client.execute("DELETE FROM big WHERE _id >= 400 AND _id < 600")
            let answer = try await ask("\(Self.own)/collections/big/shape?sample=100", "GET")
            #expect(answer.body["sampled"] == 100)
            let keys = answer.body["keys"]?.arrayValue ?? []
            let paths = Set(keys.compactMap { $0["path"]?.arrayValue?.first?.stringValue })
            // PostgreSQL takes whole blocks of a table that it has not counted yet.
            #expect(paths.count > 2 || PostgresDatabase.serverURL != nil)
            #expect(!paths.contains("k2"))
        }
    }

    @Test("a slow statement is listed with its counts and credential, without a value")
    func slow() async throws {
        var bounds = QueryServicePart.Bounds()
        bounds.slowStatement = .zero
        try await Self.run(bounds: bounds) { client, ask async throws in
            for number in 0..<8 {
                _ = try await client.execute("INSERT INTO c DOCUMENTS ({'_id': \(number), 'n': \(number)})")
            }
            _ = try await client.execute(
                "SELECT * FROM c -- mine\n WHERE n > 5 AND s != 'secret' OR n = :n", ["n": 3])
            _ = try await client.execute("SELECT * FROM c WHERE n > 'secret")
            let rows = try await ask("\(Self.own)/slow?limit=2", "GET").body["statements"]?.arrayValue ?? []
            #expect(rows.count == 2)
            #expect(rows.first?["statement"] == "SELECT * FROM c WHERE n >…")
            #expect(rows.first?["code"]?.stringValue?.hasPrefix("DQL-") == true)
            let select = try #require(rows.last)
            #expect(select["statement"] == "SELECT * FROM c WHERE n > ? AND s != ? OR n = :n")
            #expect(select["rows"] == 1 && select["code"] == .null)
            // PostgreSQL may look at documents itself, and hand over those that match.
            let fewest: Int64 = PostgresDatabase.serverURL == nil ? 8 : 1
            #expect(fewest...8 ~= select["documents"]?.intValue ?? 0)
            #expect(select["credential"] == "user:ada")
            let text = JSONText.print(.array(rows))
            #expect(!text.contains("secret") && !text.contains("mine"))
        }
    }

    @Test("statements below the limit are not listed, and the list is bounded")
    func slowBound() async throws {
        var bounds = QueryServicePart.Bounds()
        bounds.slowStatement = .seconds(600)
        try await Self.run(bounds: bounds) { client, ask async throws in
            _ = try await client.execute("SELECT * FROM c")
            #expect(try await ask("\(Self.own)/slow", "GET").body["statements"] == [])
        }
        let pool = EvaluationPool()
        let log = SlowStatementLog(from: .zero)
        for number in 0..<(Limits.slowStatementsKept + 5) {
            let evaluation = try pool.statement("SELECT 1", of: "a", in: "x")
            log.note(evaluation, "SELECT * FROM c\(number)", rows: 0, error: nil, milliseconds: 0)
            pool.finish(evaluation)
        }
        let rows = log.rows(of: "x", limit: .max)
        #expect(rows.count == Limits.slowStatementsKept)
        #expect(rows.first?["statement"] == .string("SELECT * FROM c\(Limits.slowStatementsKept + 4)"))
    }

    @Test("a rebuild folds the log again: the same documents, another generation, and its progress is shown")
    func rebuild() async throws {
        try await Self.run { client, ask async throws in
            let closed = try await ask("\(Self.own)/projection", "GET")
            #expect(closed.body["isOpen"] == false && closed.body["offset"] == .null)
            for number in 0..<20 {
                _ = try await client.execute("INSERT INTO c DOCUMENTS ({'_id': \(number)})")
            }
            let before = try await ask("\(Self.own)/projection", "GET")
            #expect(before.body["offset"] == 20 && before.body["lag"] == 0)
            #expect(before.body["worker"] == "leads")
            #expect(before.body["rebuild"] == .null)
            let begun = try await ask("\(Self.own)/rebuilds", "POST")
            #expect(begun.status == 202 && begun.body["rebuild"]?["through"] == 20)
            let generation = before.body["generation"]?.intValue ?? 0
            var state = begun.body
            for _ in 0..<1_000 where state["rebuild"] != .null || state["generation"] == .int(generation) {
                try await Task.sleep(for: .milliseconds(20))
                state = try await ask("\(Self.own)/projection", "GET").body
            }
            #expect(state["generation"]?.intValue ?? 0 > generation && state["offset"] == 20)
            #expect(state["rebuild"] == .null)
            #expect(try await client.execute("SELECT RAW COUNT(*) FROM c").rows == ["20"])
            #expect(try await client.execute("INSERT INTO c DOCUMENTS ({'_id': 20})").status == 200)
            let all = try await ask(Self.base, "GET").body["databases"]?.arrayValue ?? []
            #expect(all.map { $0["id"] } == [.string(QueryBench.database)])
            #expect(all.first?["offset"] == 21 && all.first?["isOpen"] == true)
        }
    }
}
