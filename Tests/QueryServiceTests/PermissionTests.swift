import CRDT
import Identity
import OperationLog
import Testing

@Suite("Permission queries in store/execute")
struct PermissionTests {
    /// Reads the documents of `orders` whose id is Ada's and all of `docs`; writes Ada's orders.
    private static let ada = Grant(
        read: AccessRules(queriesByCollection: ["orders": ["_id.user = 'ada'"], "docs": ["true"]]),
        write: AccessRules(queriesByCollection: ["orders": ["_id.user = 'ada'"]]), queryLanguage: 1)

    private func run(
        _ grant: Grant = Self.ada,
        _ body: @escaping @Sendable (_ all: QueryClient, _ ada: QueryClient) async throws -> Void
    ) async throws {
        try await QueryBench.run { bench, client async throws in
            for (user, number) in [("ada", 1), ("bob", 2), ("ada", 3)] {
                let id = "{'user': '\(user)', 'n': \(number)}"
                _ = try await client.execute("INSERT INTO orders DOCUMENTS ({'_id': \(id), 'n': \(number)})")
            }
            _ = try await client.execute(
                "INSERT INTO docs DOCUMENTS ({'_id': 1, 'n': 2}), ({'_id': 2, 'n': 3})")
            try await body(client, client.with(token: bench.token(grant)))
        }
    }

    @Test(
        "reads see what the queries allow, in every kind of statement",
        arguments: [
            ("SELECT n FROM orders", ["{\"n\":1}", "{\"n\":3}"]),
            ("SELECT COUNT(*) AS c FROM orders", ["{\"c\":2}"]),
            ("SELECT SUM(n) AS s FROM orders", ["{\"s\":4}"]),
            ("SELECT n FROM orders WHERE n = 2", []),
            ("SELECT n FROM orders WHERE _id.user = 'bob' OR true", ["{\"n\":1}", "{\"n\":3}"]),
            ("SELECT n FROM orders WHERE _id = {'user': 'bob', 'n': 2}", []),
            ("SELECT n FROM orders ORDER BY n DESC LIMIT 1", ["{\"n\":3}"]),
            ("SELECT MAX(n) AS m FROM orders GROUP BY _id.user", ["{\"m\":3}"]),
            ("SELECT d._id AS id FROM docs d WHERE d.n IN (SELECT n FROM orders)", ["{\"id\":2}"]),
            (
                "SELECT d._id AS id, o.n AS n FROM docs d JOIN orders o USE INDEX '' ON d.n = o.n",
                ["{\"id\":2,\"n\":3}"]
            ),
            (
                "SELECT name FROM system:collections ORDER BY name",
                ["{\"name\":\"docs\"}", "{\"name\":\"orders\"}"]
            ),
        ])
    func reads(statement: String, rows: [String]) async throws {
        try await run { _, ada async throws in
            let answer = try await ada.execute(statement)
            #expect(answer.status == 200, "\(answer.body)")
            #expect(answer.rows == rows.sorted(), "\(answer.body)")
        }
    }

    @Test("an index is used and says nothing of what may not be read")
    func indexes() async throws {
        try await run { all, ada async throws in
            let made = try await all.execute("CREATE INDEX by_n ON orders (n)")
            for (statement, rows) in [
                ("SELECT n FROM orders WHERE n >= 2", ["{\"n\":3}"]),
                ("SELECT n FROM orders ORDER BY n", ["{\"n\":1}", "{\"n\":3}"]),
                ("SELECT COUNT(*) AS c FROM orders WHERE n >= 1", ["{\"c\":2}"]),
                ("SELECT COUNT(*) AS c FROM orders", ["{\"c\":2}"]),
            ] {
                #expect(try await ada.execute(statement).rows == rows, "\(statement) \(made.status)")
            }
        }
    }

    @Test("writes change what the queries allow, and a statement that meets anything else changes nothing")
    func writes() async throws {
        try await run { all, ada async throws in
            // What may not be read is not met.
            #expect(try await ada.execute("UPDATE orders SET done = true").status == 200)
            #expect(
                try await all.execute("SELECT n FROM orders WHERE done").rows == ["{\"n\":1}", "{\"n\":3}"])
            let own = "INSERT INTO orders DOCUMENTS ({'_id': {'user': 'ada', 'n': 4}, 'n': 4})"
            #expect(try await ada.execute(own).status == 200)
            let foreign = "INSERT INTO orders DOCUMENTS ({'_id': {'user': 'bob', 'n': 2}, 'n': 0})"
            for statement in [
                "INSERT INTO orders DOCUMENTS ({'_id': {'user': 'bob', 'n': 5}, 'n': 5})",
                "\(foreign) ON ID CONFLICT DO NOTHING", "\(foreign) ON ID CONFLICT DO UPDATE",
                "INSERT INTO orders INITIAL DOCUMENTS ({'_id': {'user': 'bob', 'n': 6}})",
                "INSERT INTO orders DOCUMENTS ({'_id': {'user': 'ada', 'n': 9}}), ({'_id': 'x'})",
                "UPDATE docs SET n = 0", "DELETE FROM docs",
            ] {
                let answer = try await ada.execute(statement)
                #expect(answer.status == 403, "\(statement) \(answer.body)")
                #expect(answer.code == "QUERY-0203")
            }
            #expect(try await ada.execute("DELETE FROM orders WHERE true").status == 200)
            #expect(try await all.execute("SELECT n FROM orders").rows == ["{\"n\":2}"])
            #expect(try await all.execute("SELECT n FROM docs").rows == ["{\"n\":2}", "{\"n\":3}"])
        }
    }

    @Test("who reads more than it writes is refused where a statement meets what it may not write")
    func readsMore() async throws {
        let grant = Grant(
            read: .everything,
            write: AccessRules(queriesByCollection: ["orders": ["_id.user == 'ada'"]]))
        try await run(grant) { all, ada async throws in
            for statement in ["UPDATE orders SET done = true", "DELETE FROM orders WHERE n = 2"] {
                #expect(try await ada.execute(statement).code == "QUERY-0203")
            }
            #expect(try await all.execute("SELECT n FROM orders WHERE done").rows == [])
            #expect(
                try await ada.execute("UPDATE orders SET done = true WHERE _id.user = 'ada'").status == 200)
            #expect(try await all.execute("SELECT n FROM orders WHERE done").items.count == 2)
        }
    }

    @Test("RETURNING gives back what may be read")
    func returning() async throws {
        let grant = Grant(
            read: AccessRules(queriesByCollection: ["orders": ["_id.user == 'ada'"]]), write: .everything)
        try await run(grant) { _, ada async throws in
            let both = """
                INSERT INTO orders DOCUMENTS ({'_id': {'user': 'ada', 'n': 7}, 'n': 7}),
                ({'_id': {'user': 'bob', 'n': 8}, 'n': 8}) RETURNING n
                """
            #expect(try await ada.execute(both).rows == ["{\"n\":7}"])
            #expect(
                try await ada.execute("UPDATE orders SET n = n + 10 RETURNING n").rows
                    == ["{\"n\":11}", "{\"n\":13}", "{\"n\":17}"])
            #expect(try await ada.execute("DELETE FROM orders RETURNING n").rows.count == 3)
        }
    }
}
