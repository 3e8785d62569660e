import CRDT
import DQL
import Identity
import Testing

@testable import QueryService

@Suite(
    "Joins on a projection in PostgreSQL",
    .enabled(if: PostgresDatabase.serverURL != nil, "`make test` starts a PostgreSQL"))
struct JoinRightsTests {
    private static let statements = [
        "SELECT o._id AS o, c._id AS c FROM orders o JOIN customers c USE INDEX '' ON o.k = c.k",
        "SELECT o._id AS o, c._id AS c FROM orders o LEFT JOIN customers c USE INDEX '' ON o.k = c.k",
        "SELECT o._id AS o, c._id AS c FROM orders o JOIN customers c ON c._id = o.c LIMIT 3",
        "SELECT COUNT(*) AS n FROM orders o LEFT JOIN customers c ON c._id = o.c",
        "SELECT c.k, COUNT(*) AS n FROM orders o JOIN customers c USE INDEX '' ON o.k = c.k GROUP BY c.k",
        "SELECT o._id AS o FROM orders o JOIN customers c USE INDEX '' ON o.k = c.k ORDER BY c.k LIMIT 2",
        "SELECT a._id AS a, b._id AS b FROM orders a JOIN orders b USE INDEX '' ON a.k = b.k",
    ]

    /// Rights to all, to some documents of one side or of both, and to one side alone.
    private static let grants: [Grant] = [
        .everything,
        Grant(
            read: AccessRules(queriesByCollection: ["orders": ["_id LIKE 'a%'"], "customers": ["true"]]),
            queryLanguage: 1),
        Grant(
            read: AccessRules(queriesByCollection: ["orders": ["true"], "customers": ["_id LIKE 'a%'"]]),
            queryLanguage: 1),
        Grant(
            read: AccessRules(
                queriesByCollection: ["orders": ["_id LIKE 'b%'"], "customers": ["_id = 'a1'"]]),
            queryLanguage: 1),
        Grant(read: AccessRules(queriesByCollection: ["orders": ["true"]]), queryLanguage: 1),
    ]

    @Test("nobody finds a partner, or counts one, whom he may not read, on either side of a join")
    func rights() async throws {
        try await PostgresDatabase.use { url in
            let (bench, there) = (try QueryBench(), try QueryBench(postgres: url))
            let logs = [try await bench.openLog(), try await there.openLog()]
            try await bench.serving(logs[0]) { judge async throws in
                try await there.serving(logs[1]) { client async throws in
                    for target in [judge, client] {
                        for (collection, field) in [("orders", "c"), ("customers", "x")] {
                            let documents = ["a1", "a2", "b1", "b2"].enumerated().map { place, id -> Value in
                                // No body has the last one's text.
                                let key: Value = place == 3 ? "\u{0}" : .int(Int64(place % 2))
                                return ["_id": .string(id), "k": key, field: place < 2 ? "b1" : "a1"]
                            }
                            let answer = try await target.execute(
                                "INSERT INTO \(collection) DOCUMENTS (:all)", ["all": .array(documents)])
                            #expect(answer.status == 200, "\(answer.body)")
                        }
                    }
                    for (place, grant) in Self.grants.enumerated() {
                        let user = client.with(token: there.token(grant))
                        let other = judge.with(token: bench.token(grant))
                        for statement in Self.statements {
                            let wanted = try await other.execute(statement)
                            let found = try await user.execute(statement)
                            #expect(found.code == wanted.code, "\(place): \(statement)")
                            // The last grant reads none of the customers.
                            guard wanted.status == 200 else {
                                #expect(place == Self.grants.count - 1 && statement.contains("customers"))
                                continue
                            }
                            #expect(found.rows == wanted.rows, "\(place): \(statement)")
                            // SQL neither counts nor bounds what is not read as a whole.
                            let plan = try await user.execute("EXPLAIN " + statement).rows.joined()
                            let cut = plan.contains(#""part":"group""#) || plan.contains(#""part":"top""#)
                            #expect(!cut || place == 0, "\(place): \(plan)")
                            #expect(cut || plan.contains(#""part":"join""#), "\(place): \(plan)")
                        }
                    }
                    let plan = try await client.execute("EXPLAIN " + Self.statements[0])
                    #expect("\(plan.body)".contains("postgres"), "\(plan.body)")
                }
            }
            for log in logs { await log.close() }
        }
    }

    @Test("a join that waits for PostgreSQL ends when it is cancelled")
    func cancelled() async throws {
        try await PostgresDatabase.use { url in
            let bench = try QueryBench(postgres: url)
            let log = try await bench.openLog()
            try await bench.serving(log) { client async throws in
                _ = try await client.execute("INSERT INTO c DOCUMENTS ({'_id': 1, 'a': 1})")
                _ = try await client.execute("INSERT INTO d DOCUMENTS ({'_id': 1, 'a': 1})")
                let join = "SELECT c._id AS n FROM c JOIN d USE INDEX '' ON c.a = d.a"
                #expect(try await client.execute(join).rows == [#"{"n":1}"#])
                do {
                    let blocker = try PostgresDatabase.begin("LOCK TABLE mimeo_g1.c2", at: url)
                    let waiting = """
                        SELECT count(*)::text FROM pg_locks
                        WHERE relation = 'mimeo_g1.c2'::regclass AND NOT granted
                        """
                    async let answer = client.execute(join)
                    while try PostgresDatabase.sql(waiting, at: url) == "0" {
                        try await Task.sleep(for: .milliseconds(20))
                    }
                    for row in try await client.send("/api/v5/requests").body["requests"]?.arrayValue ?? [] {
                        let id = row["id"]?.intValue ?? 0
                        #expect(
                            try await client.send("/api/v5/requests/\(id)", method: "DELETE").status == 200)
                    }
                    #expect(try await answer.code == "QUERY-0402")
                    #expect(try PostgresDatabase.sql(waiting, at: url) == "0")
                    withExtendedLifetime(blocker) {}
                }
                #expect(try await client.execute(join).rows == [#"{"n":1}"#])
            }
            await log.close()
        }
    }
}
