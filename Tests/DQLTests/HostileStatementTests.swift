import CRDT
import DQL
import DQLCorpus
import Testing

/// Statements made to cost more than their length: their cost has to grow with it, or they are refused.
@Suite("Hostile statements")
struct HostileStatementTests {
    private func repeated(_ count: Int, _ separator: String, _ unit: (Int) -> String) -> String {
        (0..<count).map(unit).joined(separator: separator)
    }

    @Test("a statement of a thousand mistakes earns as many warnings as somebody reads")
    func warnings() throws {
        let condition = repeated(1_000, " OR ") { _ in "a = NULL" }
        let statement = try StatementCompiler.compile("SELECT * FROM c WHERE \(condition)")
        #expect(statement.warnings.count == DQLLimits.warnings)
    }

    @Test(
        "thousands of parts of a condition on one field, or on as many, are planned in time",
        .timeLimit(.minutes(1)))
    func wideConditions() throws {
        let store = MemoryStore()
        _ = try store.execute("INSERT INTO c DOCUMENTS ({'_id': 1, 'a': 1})")
        for condition in [
            repeated(6_000, " OR ") { "a = \($0)" }, repeated(6_000, " AND ") { "a != \($0 + 2)" },
            "a = 1 OR " + repeated(6_000, " OR ") { "b\($0) = 1" },
        ] {
            #expect(try store.rows("SELECT RAW _id FROM c WHERE \(condition)") == [1])
        }
    }

    @Test("so do its arrays in lists of one parameter")
    func listedArrays() throws {
        let condition = repeated(100, " OR ") { "a IN (:p\($0))" }
        let arguments = ObjectValue((0..<100).map { (key: "p\($0)", value: [1]) })
        let result = try MemoryStore().execute("SELECT * FROM c WHERE \(condition)", arguments)
        #expect(result.warnings.count == DQLLimits.warnings)
        #expect(result.warnings.first?.position == SourcePosition(line: 1, column: 29))
    }

    @Test("a warning about what SELECT names is given once, however often ORDER BY names it")
    func projectedWarnings() throws {
        let result = try MemoryStore().execute("SELECT a = NULL AS x FROM c ORDER BY x, x, NOT x")
        #expect(result.warnings.map(\.code) == [.nullComparison])
    }

    @Test("a warning within a group key's neighbour is given once")
    func groupedWarnings() throws {
        let result = try MemoryStore().execute("SELECT (a = NULL) AND b AS x FROM c GROUP BY a, b")
        #expect(result.warnings.map(\.code) == [.nullComparison])
    }

    @Test("parameters of group keys, aggregates and terms beside them keep their places")
    func parameters() throws {
        let store = MemoryStore()
        _ = try store.execute("INSERT INTO c DOCUMENTS ({'_id': 1, 'a': 1}), ({'_id': 2, 'a': 1})")
        let rows = try store.rows(
            "SELECT a + :x AS s, SUM(a * :y) AS t, :z AS z FROM c GROUP BY a + :x HAVING COUNT(*) > :w"
                + " ORDER BY t + :v",
            ["x": 10, "y": 3, "z": "z", "w": 1, "v": 0])
        #expect(rows == [.object(["s": 11, "t": 6, "z": "z"])])
    }

    @Test("what ORDER BY names keeps its own variables apart from those around it")
    func projectedVariables() throws {
        let store = MemoryStore()
        _ = try store.execute("INSERT INTO c DOCUMENTS ({'_id': 1, 'l': [1, 2]}), ({'_id': 2, 'l': [2, 0]})")
        let rows = try store.rows(
            "SELECT RAW _id FROM c ORDER BY ARRAY v + w FOR v IN l END, _id")
        #expect(rows == [1, 2])
        let named = try store.rows(
            "SELECT _id, ARRAY v FOR v IN l END AS x FROM c"
                + " ORDER BY x[1], ARRAY [v, x[1]] FOR v IN x END, x")
        #expect(named.map { $0["_id"] } == [2, 1])
    }

    @Test("a statement has a limited number of different aggregates")
    func aggregates() {
        let sums = repeated(DQLLimits.aggregates + 1, ",") { "SUM(\($0))" }
        let error = failure(of: "SELECT RAW [\(sums)] FROM c")
        #expect(error?.code == .tooManyTerms)
        #expect(failure(of: "SELECT RAW [\(repeated(2_000, ",") { _ in "SUM(a)" })] FROM c") == nil)
    }

    @Test("thousands of group keys and projections find one another", .timeLimit(.minutes(1)))
    func groupKeys() throws {
        let count = DQLLimits.clauseTerms
        let keys = repeated(count, ",") { "a\($0) + 1" }
        let rows = try MemoryStore().rows(
            "SELECT \(keys), COUNT(*) AS n FROM c GROUP BY \(keys) ORDER BY a7 + 1, n".replacing(
                "SELECT a0 + 1,", with: "SELECT "))
        #expect(rows == [])
        let names = repeated(count, ",") { "\($0) AS n\($0)" }
        let order = repeated(count, ",") { "n\(count - 1 - $0)" }
        #expect(failure(of: "SELECT \(names) FROM c ORDER BY \(order)") == nil)
        #expect(failure(of: "SELECT a + 2 FROM c GROUP BY a + 1")?.code == .ungroupedProjection)
        #expect(failure(of: "SELECT a.b + 1, d IN (1, 'x') FROM c GROUP BY a.b + 1, d IN (1, 'x')") == nil)
    }

    @Test(
        "a legacy query cannot grow beyond its length",
        arguments: [
            "length(length(x)) == 1", "size([length(x)]) == 1", "contains(lower(contains(x, 'a')), 'a')",
            "contains(x, contains(x, 'a'))",
        ])
    func legacyGrowth(_ query: String) {
        let error = #expect(throws: DQLError.self) { try LegacyQuery.parse(query) }
        #expect(error?.code == .unsupportedClause)
        #expect(error?.position != nil)
    }

    @Test("LIKE takes time linear in the text, whatever the pattern", .timeLimit(.minutes(1)))
    func like() throws {
        let many = String(repeating: "a", count: 200_000)
        let half = String(repeating: "a", count: 100_000)
        let rows = try MemoryStore().rows(
            "SELECT RAW [:many LIKE :within, :many LIKE :atEnd, :many LIKE :present] FROM system:dual",
            [
                "many": .string(many), "within": .string("%\(half)b%"), "atEnd": .string("%\(half)b"),
                "present": .string("%\(half)%a%_\(half.dropLast(2))"),
            ])
        #expect(rows == [[false, false, true]])
    }

    @Test("long texts count as work: a statement is cancelled within a row")
    func work() throws {
        var options = ExecutionOptions()
        options.interruption = { .timeout }
        let error = #expect(throws: DQLError.self) {
            try StatementCompiler.compile("SELECT RAW char_length(repeat('x', 1000000)) FROM system:dual")
                .rows(
                    in: MemoryStore(), options: options)
        }
        #expect(error?.code == .timeout)
    }

    @Test("a subscription's condition cannot make texts without end", .timeLimit(.minutes(1)))
    func subscriptions() throws {
        let store = MemoryStore()
        _ = try store.execute("INSERT INTO c DOCUMENTS ({'_id': 1})")
        let query = try SubscriptionQuery(
            statement: "SELECT * FROM c WHERE array_length(ARRAY repeat('x', 5000000) FOR v IN "
                + "split(repeat('a,', 100000), ',') END) = 1")
        var matches: [Bool] = []
        try store.scan("c") {
            matches.append(try query.matches($0))
            return true
        }
        #expect(matches == [false])
    }
}
