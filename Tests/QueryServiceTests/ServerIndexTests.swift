import CRDT
import Identity
import QueryService
import Testing

@Suite("Indexes over HTTP", .timeLimit(.minutes(4)))
struct ServerIndexTests {
    /// A service with some ships, whose projection is in a folder, and one in PostgreSQL.
    private func run(
        _ body: @escaping @Sendable (QueryBench, QueryClient) async throws -> Void
    ) async throws {
        try await QueryBench.run { bench, client async throws in
            let ships = (0..<40).map { number -> Value in
                [
                    "_id": .int(Int64(number)), "tons": .int(Int64(number % 10)),
                    "flag": .string("f\(number % 3)"),
                ]
            }
            let insert = try await client.execute("INSERT INTO ships DOCUMENTS (:s)", ["s": .array(ships)])
            #expect(insert.status == 200)
            try await body(bench, client)
        }
    }

    private static func states(_ client: QueryClient) async throws -> [String] {
        try await client.execute("SELECT _id, state FROM system:indexes").rows
    }

    /// The plan of a statement as a text.
    private static func plan(_ statement: String, _ client: QueryClient) async throws -> String {
        JSONText.print(.array(try await client.execute("EXPLAIN \(statement)").items))
    }

    @Test("CREATE INDEX answers when the index is complete and used, DROP INDEX when it is gone")
    func createAndDrop() async throws {
        try await run { _, client async throws in
            let made = try await client.execute("CREATE INDEX by_tons ON ships (tons DESC, flag)")
            #expect(made.status == 200 && made.body["queryType"] == "createIndex", "\(made.body)")
            #expect(made.body["warnings"] == [])
            #expect(try await Self.states(client) == [#"{"_id":"ships.by_tons","state":"ready"}"#])
            let heavy = "SELECT _id FROM ships WHERE tons = 9 AND flag = 'f0'"
            #expect(try await Self.plan(heavy, client).contains("by_tons"))
            #expect(try await client.execute(heavy).rows.sorted() == [#"{"_id":39}"#, #"{"_id":9}"#])
            let first = "SELECT tons, flag FROM ships ORDER BY tons DESC, flag LIMIT 1"
            #expect(try await Self.plan(first, client).contains("by_tons"))
            #expect(try await client.execute(first).rows == [#"{"flag":"f0","tons":9}"#])
            let scan = "SELECT _id FROM ships USE INDEX '' WHERE tons = 9 AND flag = 'f0'"
            #expect(try await !Self.plan(scan, client).contains("by_tons"))
            #expect(try await client.execute("DROP INDEX by_tons ON ships").status == 200)
            #expect(try await Self.states(client) == [])
            #expect(try await !Self.plan(heavy, client).contains("by_tons"))
        }
    }

    @Test("an index on the fields of another one is made, and a warning says so; so of a name that stays")
    func equalIndexes() async throws {
        try await run { _, client async throws in
            for (statement, warning) in [
                ("CREATE INDEX first ON ships (tons DESC, flag)", nil),
                ("CREATE INDEX other ON ships (tons, flag)", nil),
                ("CREATE INDEX second ON ships (tons DESC, flag)", "the index first is on the same fields"),
                ("CREATE INDEX IF NOT EXISTS first ON ships (tons DESC, flag)", nil),
                ("CREATE INDEX IF NOT EXISTS first ON ships (flag)", "the index first is on other fields"),
                ("CREATE INDEX first ON boats (tons DESC, flag)", nil),
            ] {
                let made = try await client.execute(statement)
                #expect(made.status == 200, "\(statement)")
                let told = made.body["warnings"]?.arrayValue?.compactMap { $0["description"]?.stringValue }
                #expect(
                    made.body["warnings"]?.arrayValue?.first?["code"] == (warning == nil ? nil : "DQL-W118"),
                    "\(statement)")
                #expect(told?.count == (warning == nil ? 0 : 1), "\(statement)")
                #expect(warning.map { told?.first?.hasPrefix($0) == true } ?? true, "\(statement)")
            }
            #expect(try await Self.states(client).count == 4)
        }
    }

    @Test("a name is taken once, and a name that is not there cannot be dropped")
    func names() async throws {
        try await run { _, client async throws in
            let quoted = "`x'); DROP TABLE documents; -- \"`"
            for (statement, status, code) in [
                ("CREATE INDEX \(quoted) ON ships (tons)", 200, nil),
                ("CREATE INDEX \(quoted) ON ships (flag)", 400, "DQL-0613"),
                ("CREATE INDEX IF NOT EXISTS \(quoted) ON ships (flag)", 200, nil),
                ("CREATE INDEX \(quoted) ON `no; such` (`a'b`.`c\"d`)", 200, nil),
                ("DROP INDEX other ON ships", 400, "DQL-0614"),
                ("DROP INDEX IF EXISTS other ON ships", 200, nil),
                ("CREATE INDEX i ON __server_indexes (keys)", 403, "QUERY-0203"),
            ] as [(String, Int, String?)] {
                let answer = try await client.execute(statement)
                #expect(answer.status == status && answer.code == code, "\(statement): \(answer.body)")
            }
            let fields = try await client.execute("SELECT RAW fields FROM system:indexes ORDER BY _id").rows
            #expect(
                fields
                    == [
                        #"[{"direction":"asc","key":["a'b","c\"d"]}]"#,
                        #"[{"direction":"asc","key":["tons"]}]"#,
                    ].sorted())
        }
    }

    @Test("another service and a projection that is built again have the indexes, and drop what was dropped")
    func everywhere() async throws {
        try await QueryBench.each { try await everywhere($0) }
    }

    private func everywhere(_ bench: QueryBench) async throws {
        let log = try await bench.openLog()
        try await bench.serving(log, projection: "first") { client async throws in
            _ = try await client.execute("INSERT INTO c DOCUMENTS ({'_id': 1, 'a': 5, 'b': 1})")
            #expect(try await client.execute("CREATE INDEX by_a ON c (a)").status == 200)
            #expect(try await client.execute("CREATE INDEX by_b ON c (b)").status == 200)
            // A service that begins with an empty folder.
            try await bench.serving(log, projection: "second") { other async throws in
                // It does not answer before it has the indexes.
                let first = try await Self.states(other)
                #expect(first.allSatisfy { $0.contains("ready") } && first.count == 2, "\(first)")
                #expect(try await other.execute("DROP INDEX by_b ON c").status == 200)
                // The same name again with another key.
                #expect(try await other.execute("DROP INDEX by_a ON c").status == 200)
                #expect(try await other.execute("CREATE INDEX by_a ON c (a DESC)").status == 200)
                #expect(try await Self.settled(client) == ["c.by_a ready"])
                let fields = try await client.execute("SELECT RAW fields FROM system:indexes")
                #expect(fields.rows == [#"[{"direction":"desc","key":["a"]}]"#])
            }
        }
        await log.close()
    }

    /// The indexes once none is being built: a service may still build those that another one made.
    private static func settled(_ client: QueryClient) async throws -> [String] {
        while true {
            let rows = try await client.execute("SELECT * FROM system:indexes").items
            let states = rows.map { "\($0["_id"]?.stringValue ?? "") \($0["state"]?.stringValue ?? "")" }
            if states.allSatisfy({ $0.hasSuffix("ready") }) { return states.sorted() }
            try await Task.sleep(for: .milliseconds(10))
        }
    }

    @Test("a right to a part of a collection, or to read it, is no right to its indexes")
    func rights() async throws {
        try await run { bench, client async throws in
            #expect(try await client.execute("CREATE INDEX by_tons ON ships (tons)").status == 200)
            let whole = AccessRules(queriesByCollection: ["ships": ["true"]])
            let part = AccessRules(queriesByCollection: ["ships": ["_id = 1"]])
            let other = AccessRules(queriesByCollection: ["boats": ["true"]])
            let grants: [(Grant, create: Int, listed: Int)] = [
                (Grant(read: whole, write: whole, queryLanguage: 1), 200, 1),
                (Grant(read: whole, queryLanguage: 1), 403, 1),
                (Grant(read: part, write: whole, queryLanguage: 1), 403, 1),
                (Grant(read: whole, write: part, queryLanguage: 1), 403, 1),
                (Grant(read: other, queryLanguage: 1), 403, 0),
            ]
            for (grant, status, listed) in grants {
                let user = client.with(token: bench.token(grant, user: "bob"))
                for statement in [
                    "CREATE INDEX IF NOT EXISTS by_flag ON ships (flag)", "DROP INDEX by_flag ON ships",
                ] {
                    let answer = try await user.execute(statement)
                    #expect(answer.status == status, "\(statement): \(answer.body)")
                    #expect(status == 200 || answer.code == "QUERY-0203")
                }
                #expect(try await user.execute("SELECT * FROM system:indexes").items.count == listed)
            }
        }
    }

    @Test("ADVISE AND PROVISION makes the indexes that ADVISE names")
    func provision() async throws {
        try await run { _, client async throws in
            let answer = try await client.execute(
                "ADVISE AND PROVISION SELECT * FROM ships WHERE flag = 'f1'")
            #expect(answer.status == 200, "\(answer.body)")
            #expect(answer.items.first?["advice"]?["createdIndexes"]?.arrayValue?.count == 1)
            #expect(try await Self.states(client).count == 1)
            #expect(try await client.execute("SELECT * FROM ships WHERE flag = 'f1'").items.count == 13)
        }
    }

    @Test("of two that create one name at once one is told that it exists, and other names are there")
    func atOnce() async throws {
        try await run { _, client async throws in
            let statuses = try await withThrowingTaskGroup(of: Int.self) { group in
                for name in ["a", "a", "b", "c"] {
                    group.addTask { try await client.execute("CREATE INDEX \(name) ON ships (tons)").status }
                }
                return try await group.reduce(into: []) { $0.append($1) }
            }
            #expect(statuses.sorted() == [200, 200, 200, 400])
            #expect(try await Self.states(client).count == 3)
        }
    }

    @Test("a transaction changes no indexes")
    func elsewhere() async throws {
        try await QueryBench.run { _, client async throws in
            let create = "CREATE INDEX i ON c (a)"
            let several = try await client.post(
                Array(#"{"transaction":[{"statement":"\#(create)"}]}"#.utf8))
            #expect(several.status == 400 && several.code == "DQL-0615", "\(several.body)")
            let past = try await client.post(Array(#"{"statement":"\#(create)","asOf":0}"#.utf8))
            #expect(past.status == 400 && past.code == "QUERY-0502", "\(past.body)")
            #expect(try await client.execute("SELECT * FROM system:indexes").items == [])
        }
    }
}
