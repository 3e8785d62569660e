import CRDT
import Identity
import OperationLog
import QueryService
import Testing

@Suite("What store/execute refuses")
struct RefusalTests {
    @Test("a missing, garbled, foreign or expired token is a 401 in the envelope")
    func tokens() async throws {
        try await QueryBench.run { bench, client async throws in
            let tokens = [nil, "garbage", "a.b.c", bench.token(age: 100), bench.token() + "x"]
            for token in tokens {
                let answer = try await client.with(token: token).execute("SELECT * FROM c")
                #expect(answer.status == 401)
                #expect(answer.code?.hasPrefix("AUTH-01") == true)
                #expect(answer.items == [])
            }
            #expect(try await client.execute("SELECT * FROM c").status == 200)
        }
    }

    @Test("a token of a database that the log does not have is a 404 and makes no projection")
    func unknownDatabase() async throws {
        try await QueryBench.run { bench, client async throws in
            let answer = try await client.with(token: bench.token(key: bench.otherKey)).execute(
                "SELECT * FROM c")
            #expect(answer.status == 404)
            #expect(answer.code == "QUERY-0201")
        }
    }

    @Test("grants are enforced per collection: reading, writing, and both for an UPDATE")
    func grants() async throws {
        try await QueryBench.run { bench, client async throws in
            _ = try await client.execute("INSERT INTO c DOCUMENTS ({'_id': 1})")
            let reader = client.with(token: bench.token(.readOnly))
            #expect(try await reader.execute("SELECT * FROM c").items.count == 1)
            for statement in ["INSERT INTO c DOCUMENTS ({'_id': 2})", "UPDATE c SET a = 1", "DELETE FROM c"] {
                let answer = try await reader.execute(statement)
                #expect(answer.status == 403)
                #expect(answer.code == "QUERY-0203")
            }
            let rules = AccessRules(queriesByCollection: ["d": ["true"]])
            let other = client.with(token: bench.token(Grant(read: rules, write: .everything)))
            #expect(try await other.execute("SELECT * FROM d").status == 200)
            for statement in ["SELECT * FROM c", "UPDATE c SET a = 1", "DELETE FROM c"] {
                let answer = try await other.execute(statement)
                #expect(answer.status == 403)
                #expect(answer.code == "QUERY-0202")
            }
            #expect(try await client.execute("SELECT * FROM c").rows == [#"{"_id":1}"#])
        }
    }

    @Test(
        "a malformed body is a 400 and the service goes on",
        arguments: [
            "", "{", "[]", "{}", #"{"statement": 1}"#, #"{"statement": "SELECT * FROM c", "args": [1]}"#,
            "\u{0}",
        ])
    func malformed(_ body: String) async throws {
        try await QueryBench.run { _, client async throws in
            let answer = try await client.post(Array(body.utf8))
            #expect(answer.status == 400)
            #expect(answer.code == "QUERY-0101")
            #expect(try await client.execute("SELECT * FROM c").status == 200)
        }
    }

    @Test("a body over the limit is a 413")
    func tooLarge() async throws {
        try await QueryBench.run { _, client async throws in
            let answer = try await client.post(Array(repeating: 0x20, count: Limits.requestBytes + 1))
            #expect(answer.status == 413)
            #expect(answer.code == "SRV-0413")
            #expect(try await client.execute("SELECT * FROM c").status == 200)
        }
    }

    @Test("EVICT is refused, and so are a document over the hard limit and a statement that does not run")
    func statements() async throws {
        try await QueryBench.run { _, client async throws in
            let evict = try await client.execute("EVICT FROM c")
            #expect(evict.status == 400)
            #expect(evict.code == "QUERY-0102")
            let text = Value.string(String(repeating: "x", count: CRDT.Limits.documentHardLimitBytes))
            let large = try await client.execute("INSERT INTO c DOCUMENTS ({'_id': 1, 't': :t})", ["t": text])
            #expect(large.status == 400)
            #expect(large.code == "QUERY-0103")
            let missing = try await client.execute("SELECT * FROM c WHERE a = :a")
            #expect(missing.status == 400)
            #expect(missing.code?.hasPrefix("DQL-") == true)
            #expect(try await client.execute("SELECT * FROM c").transactionID == 0)
        }
    }

    @Test("beyond the bound of waiting writes a write is a 503 that says when to come back; reads go on")
    func overloaded() async throws {
        var bounds = QueryServicePart.Bounds()
        bounds.waitingWrites = 0
        try await QueryBench.run(bounds: bounds) { _, client async throws in
            let answer = try await client.execute("INSERT INTO c DOCUMENTS ({'_id': 1})")
            #expect(answer.status == 503)
            #expect(answer.code == "QUERY-0303")
            #expect(answer.retryAfter == "1")
            #expect(try await client.execute("SELECT * FROM c").status == 200)
        }
    }
}
