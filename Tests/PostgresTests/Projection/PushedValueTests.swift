import CRDT
import DQL
import DQLCorpus
import TestSupport
import Testing

/// Values that SQL computes from documents: each is a key of groups, a term of ORDER BY, the argument of an
/// aggregate and a side of a comparison, on documents with values of every type.
@Suite(
    "Values inside PostgreSQL",
    .enabled(if: TestDatabase.serverURL != nil, "`make test` starts a PostgreSQL"))
struct PushedValueTests {
    /// Expressions that SQL computes.
    static let values = [
        "n + 1", "a + 1", "a - 0.5", "1 - a", "-a", "a * 2", "a * 1e-160", "a / 2", "a / 0",
        "a / 1e-160", "a % 7", "a % 0", "a % 2.5", "a + b", "a * b", "a / b",
        "a || 'x'", "'x' || a || g", "a || null", "lower(a)", "upper(a)", "char_length(a)", "byte_length(a)",
        "array_length(a)", "abs(a)", "ceil(a)", "floor(a)", "type(a)", "json_type(a)", "is_number(a)",
        "is_string(a)", "is_boolean(a)", "coalesce(a, b)", "coalesce(a, 'none')", "nvl(a, 1)",
        "nvl(a, b, 'x')", "ifmissing(a, b)", "ifnull(a, b)", "ismissing(a)", "isnull(a)",
        "ismissingornull(a)", "nullif(a, b)", "nullif(a, 5)", "missingif(a, 'a')",
        "decode(a, 1, 'one', null, 'none', MISSING, 'gone', b)", "decode(a, 5, 1)", "substr(a, 1)",
        "substr(a, 0, 2)", "substr(a, 5)", "pos(a, 'b')", "contains(a, 'b')", "starts_with(a, 'a')",
        "ends_with(a, '')", "concat(a, g)", "concat(n, a)", "concat(a, b, g)", "CAST(a AS string)",
        "CAST(a AS integer)", "CAST(a AS float)",
        "date_trunc(n, 'second')", "date_trunc(a, 'day')",
        "CASE WHEN a > 1 THEN 'many' WHEN a IS NULL THEN a ELSE n END",
        "CASE WHEN NULL = a THEN a ELSE false END", "CASE a WHEN 5 THEN 'five' WHEN b THEN n END", "a[0]",
        "a[-1]", "a['k']", "a.k", "a IS NULL",
        "a IS MISSING", "1", "1.5", "'x'", "b",
    ]

    /// Chains of operators, each of which has its operands several times in its SQL.
    static let chains = [
        "a + n - 2", "a + b * 2 - n", "a - b - n", "n * n * n * n - a", "(a + 1) * (b - 1) / (n + 0.5)",
        "a / b / n * 3", "a % 7 + n % 3", "-(a + n) * 2", "a + n + b + a + n + b + a + n + b + 1",
        "(a || 'x') || (g || 'y')", "a || g || a || 'z'", "abs(a - n) + n", "lower(a || g) || a",
        "CASE WHEN a + n - 1 > b THEN a * n + 1 ELSE n - 2 - b END", "coalesce(a + n * 2, b - 1 - n, 0)",
        "9223372036854775807 + n - 1 - a", "a + 0.1 + 0.2 - 0.3",
    ]

    /// Expressions that stay with the evaluator: their digits do not say that a constant is a double, a
    /// library computes otherwise, SQL does not have the function, or there are more steps than SQL is given.
    private static let others = [
        "a / 0.0", "a * 1e150", "a << 1", "serialize_json(a)", "date_trunc(a, 'month')",
        (0..<20).map { "(a + \($0)) * (b - \($0))" }.joined(separator: " + "),
        "a = 1", "a LIKE 'a%'", "[a]", "object_keys(a)", "substr(a, -1)", "ARRAY v FOR v IN a END",
    ]

    @Test("what SQL does not compute is evaluated, and EXPLAIN says so")
    func others() async throws {
        try await TestDatabase.use { url in
            let (naive, real) = try PushedStatementTests.engines(url, "others")
            for value in Self.others {
                let statement = "SELECT _id FROM c ORDER BY \(value), _id"
                #expect(
                    PushedStatementTests.outcome(statement, ObjectValue(), on: real, inOrder: true)
                        == PushedStatementTests.outcome(statement, ObjectValue(), on: naive, inOrder: true))
                #expect(
                    try PushedStatementTests.part(of: statement, ObjectValue(), on: real) == nil, "\(value)")
            }
        }
    }

    @Test("each is what the evaluator computes, as a key, in an order, in an aggregate, and compared")
    func everyValue() async throws {
        try await TestDatabase.use { url in
            let (naive, real) = try PushedStatementTests.engines(url, "values")
            // Each run tries some of them, and a deep one all.
            let step = Depth.pick(fast: 6, deep: 1)
            for value in Self.values.dropFirst(Int(Depth.seed) % step).enumerated()
                .filter({ $0.offset.isMultiple(of: step) }).map(\.element)
            {
                for (statement, part) in Self.statements(of: value) {
                    try Self.expect(statement, part, naive, real)
                }
            }
        }
    }

    @Test("a chain of operators is computed step by step, and gives what the evaluator computes")
    func chains() async throws {
        try await TestDatabase.use { url in
            let (naive, real) = try PushedStatementTests.engines(url, "chains")
            let step = Depth.pick(fast: 3, deep: 1)
            for value in Self.chains.dropFirst(Int(Depth.seed) % step).enumerated()
                .filter({ $0.offset.isMultiple(of: step) }).map(\.element)
            {
                for (statement, part) in Self.statements(of: value) {
                    try Self.expect(statement, part, naive, real)
                }
            }
            // Elements of an array are no columns: what is made of them is not computed before.
            let nested = "SELECT _id FROM c WHERE ANY v IN a SATISFIES v + n * 2 - 1 > b - 1 END"
            #expect(
                PushedStatementTests.outcome(nested, ObjectValue(), on: real)
                    == PushedStatementTests.outcome(nested, ObjectValue(), on: naive))
            let plan = try PushedStatementTests.part(
                of: "SELECT _id FROM c WHERE a + b * 2 - n > 5", ObjectValue(), on: real)
            #expect(plan?["sql"]?.stringValue?.contains(" CROSS JOIN LATERAL ") == true)
        }
    }

    @Test("numbers near the largest and the least double raise no error in the server")
    func extremes() async throws {
        try await TestDatabase.use { url in
            let (naive, real) = (MemoryStore(), try ProjectionEngine(url: url, database: "extremes"))
            let numbers: [Value] = [1.7e308, -1.7e308, 3, 0.5, 3e-308, -0.25]
            var documents: [Value] = []
            for (place, number) in numbers.enumerated() {
                for other in numbers {
                    let id = Value.int(Int64(documents.count))
                    documents.append(["_id": id, "a": number, "b": other, "n": .int(Int64(place))])
                }
            }
            for engine in [naive, real] as [any StatementEngine] {
                _ = try engine.execute(
                    "INSERT INTO c DOCUMENTS (:all)", ["all": .array(documents)], strict: false)
            }
            for value in ["a + b", "a - b", "a * b", "a / b", "a * 10.5", "a / 0.01", "a * 2.5 + b"] {
                for (statement, part) in Self.statements(of: value) {
                    try Self.expect(statement, part, naive, real)
                }
            }
        }
    }

    private static func statements(of value: String) -> [(String, String)] {
        [
            ("SELECT \(value) AS v, COUNT(*) AS k FROM c GROUP BY \(value)", "group"),
            ("SELECT _id FROM c ORDER BY \(value) DESC", "order"),
            ("SELECT COUNT(\(value)) AS k, MAX(\(value)) AS m FROM c WHERE a < 5", "group"),
            ("SELECT _id FROM c WHERE \(value) = b OR NOT (\(value) > 2)", "filter"),
        ]
    }

    private static func expect(
        _ statement: String, _ part: String, _ naive: MemoryStore, _ real: ProjectionEngine
    ) throws {
        let wanted = PushedStatementTests.outcome(statement, ObjectValue(), on: naive, inOrder: true)
        #expect(
            PushedStatementTests.outcome(statement, ObjectValue(), on: real, inOrder: true) == wanted,
            "\(statement)")
        let found = try PushedStatementTests.part(of: statement, ObjectValue(), on: real)
        #expect(found?["part"]?.stringValue == part, "\(statement)")
        #expect(found?["decides"]?.stringValue == "exact", "\(statement)")
    }

    /// ORDER BY without LIMIT, and with one that SQL does not cut, where rows of SQL are merged with others.
    private static let orders = [
        "SELECT _id FROM c ORDER BY a", "SELECT _id FROM c ORDER BY a DESC", "SELECT * FROM c ORDER BY _id",
        "SELECT _id FROM c ORDER BY a NULLS FIRST", "SELECT _id FROM c ORDER BY a DESC NULLS LAST, b DESC",
        "SELECT _id FROM c ORDER BY g, a DESC, b", "SELECT RAW a FROM c ORDER BY b DESC",
        "SELECT _id FROM c ORDER BY a OFFSET 50", "SELECT _id FROM c ORDER BY a, b LIMIT 20000 OFFSET 7",
        "SELECT RAW a FROM c ORDER BY b LIMIT 20000 OFFSET 30", "SELECT * FROM c WHERE a = 5 ORDER BY b",
        "SELECT * FROM c WHERE a < b OR type(a) = 'array' ORDER BY a, n DESC",
        "SELECT _id FROM c WHERE ANY v IN a SATISFIES v = 1 END ORDER BY b",
        "SELECT _id FROM c ORDER BY lower(a), a % 3 DESC, _id DESC",
    ]

    @Test("rows that SQL orders come in the evaluator's order, among those that it cannot order")
    func everyOrder() async throws {
        try await TestDatabase.use { url in
            let (naive, real) = try PushedStatementTests.engines(url, "orders")
            for statement in Self.orders { try Self.expect(statement, "order", naive, real) }
        }
    }

    @Test("orders and groups drawn at random, on documents drawn at random, agree with the evaluator")
    func drawn() async throws {
        let seed = Depth.seed
        var random = SplitMix64(seed: seed)
        try await TestDatabase.use { url in
            for round in 0..<Depth.pick(fast: 1, deep: 20) {
                let (naive, real) = (
                    MemoryStore(), try ProjectionEngine(url: url, database: DatabaseID("drawn-\(round)"))
                )
                let documents = Self.documents(&random)
                for engine in [naive, real] as [any StatementEngine] {
                    _ = try engine.execute(
                        "INSERT INTO c DOCUMENTS (:all)", ["all": documents], strict: false)
                }
                for _ in 0..<Depth.pick(fast: 15, deep: 250) {
                    let statement = Self.statement(&random)
                    #expect(
                        PushedStatementTests.outcome(statement, ObjectValue(), on: real, inOrder: true)
                            == PushedStatementTests.outcome(
                                statement, ObjectValue(), on: naive, inOrder: true),
                        "\(seed): \(statement)")
                }
            }
        }
    }

    private static func documents(_ random: inout SplitMix64) -> Value {
        var documents: [Value] = []
        for number in 0..<120 {
            var fields: [(key: String, value: Value)] = [(key: "_id", value: .int(Int64(number)))]
            for name in ["a", "b"] {
                if let value = PushedStatementTests.values.randomElement(using: &random) ?? nil {
                    fields.append((key: name, value: value))
                }
            }
            let group = ["x", "y", "5", ""][Int.random(in: 0..<4, using: &random)]
            fields.append((key: "g", value: .string(group)))
            fields.append((key: "n", value: .int(Int64.random(in: -5...5, using: &random))))
            documents.append(.object(ObjectValue(fields)))
        }
        return .array(documents)
    }

    private static func statement(_ random: inout SplitMix64) -> String {
        func pick(_ all: [String]) -> String { all[Int.random(in: 0..<all.count, using: &random)] }
        let conditions = PushedStatementTests.conditions.map(\.text).filter { !$0.contains(":") }
        let condition = Bool.random(using: &random) ? " WHERE \(pick(conditions))" : ""
        if Int.random(in: 0..<3, using: &random) == 0 {
            let key = pick(values)
            return """
                SELECT \(key) AS k, COUNT(*) AS n, MIN(n) AS l, SUM(n) AS s FROM c\(condition) GROUP BY \(key)
                """
        }
        let terms = (0..<Int.random(in: 1...3, using: &random)).map { _ in
            pick(values) + pick(["", " DESC"]) + pick(["", "", " NULLS FIRST", " NULLS LAST"])
        }
        let bounds = pick(["", "", " OFFSET 3", " LIMIT 20000 OFFSET 9", " LIMIT 8", " LIMIT 30 OFFSET 20"])
        return "SELECT _id, a FROM c\(condition) ORDER BY \(terms.joined(separator: ", "))\(bounds)"
    }

    @Test("SQL in the place of any name or value is that name or value")
    func hostileTexts() async throws {
        try await TestDatabase.use { url in
            let sql = "x'); DROP SCHEMA mimeo_projection CASCADE; --"
            let (naive, real) = (MemoryStore(), try ProjectionEngine(url: url, database: "hostile"))
            var first: ObjectValue = ["_id": .string(sql), "k'); DROP": .string(sql)]
            first["list"] = .array([.string(sql), .int(1)])
            var second: ObjectValue = ["_id": 2, "k'); DROP": "$1"]
            second["o"] = .object(ObjectValue([(key: sql, value: Value.int(1))]))
            let documents = Value.array([.object(first), .object(second)])
            for engine in [naive, real] as [any StatementEngine] {
                _ = try engine.execute("INSERT INTO c DOCUMENTS (:all)", ["all": documents], strict: false)
            }
            for statement in [
                "SELECT `k'); DROP` AS `a\"; --` FROM c ORDER BY lower(`k'); DROP`), _id DESC",
                "SELECT `k'); DROP` || :v AS t, COUNT(*) AS `$1` FROM c GROUP BY `k'); DROP` || :v",
                "SELECT _id FROM c WHERE `k'); DROP` LIKE :v OR `k'); DROP` ILIKE '%DROP SCHEMA%'",
                "SELECT _id FROM c ORDER BY CASE WHEN `k'); DROP` = :v THEN :v ELSE 'a' END, _id",
                "SELECT _id FROM c WHERE ANY `e'); DROP` IN list SATISFIES `e'); DROP` = :v END",
                "SELECT _id FROM c WHERE EVERY e IN list SATISFIES concat(e, :v) = e OR e IN (:v, 1) END",
                "SELECT DISTINCT decode(`k'); DROP`, :v, :v, '$2') AS d FROM c ORDER BY d",
                "SELECT _id FROM c WHERE o[:v] = 1 OR coalesce(o, :v) = :v",
                "SELECT _id FROM c WHERE nullif(`k'); DROP`, :v) IS NULL ORDER BY pos(`k'); DROP`, :v)",
                "SELECT COUNT(DISTINCT `k'); DROP`) AS n, MAX(`k'); DROP`) AS m FROM c WHERE _id <= :v",
            ] {
                let arguments: ObjectValue = statement.contains(":v") ? ["v": .string(sql)] : ObjectValue()
                let wanted = PushedStatementTests.outcome(statement, arguments, on: naive, inOrder: true)
                #expect(!wanted.isEmpty && wanted.allSatisfy { $0.hasPrefix("{") }, "\(wanted)")
                #expect(
                    PushedStatementTests.outcome(statement, arguments, on: real, inOrder: true) == wanted)
                let part = try PushedStatementTests.part(of: statement, arguments, on: real)
                #expect(part?["sql"]?.stringValue?.contains("DROP") == false, "\(statement)")
            }
        }
    }

    @Test("no regular expression is sent to the server, where it might backtrack without end")
    func expressions() async throws {
        try await TestDatabase.use { url in
            let (naive, real) = try PushedStatementTests.engines(url, "expressions")
            for condition in [
                "regexp_like(a, '(x+x+)+y')", "a SIMILAR TO '(x+x+)+y'", "NOT regexp_like(a, '^(a|a)*$')",
                "a = 'axb' AND regexp_like(a, '(a|ax)+b')",
                "ANY v IN a SATISFIES regexp_like(v, '(x|xx)+') END",
            ] {
                let statement = "SELECT _id FROM c WHERE \(condition)"
                #expect(
                    PushedStatementTests.outcome(statement, ObjectValue(), on: real)
                        == PushedStatementTests.outcome(statement, ObjectValue(), on: naive), "\(statement)")
                let part = try #require(
                    try PushedStatementTests.part(of: statement, ObjectValue(), on: real))
                let sql = part["sql"]?.stringValue ?? ""
                #expect(!sql.contains("~") && !sql.contains("regexp") && !sql.contains("SIMILAR"), "\(sql)")
                #expect(part["decides"] == "rechecked", "\(statement)")
            }
        }
    }
}
