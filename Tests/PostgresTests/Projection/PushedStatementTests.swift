import CRDT
import DQL
import DQLCorpus
import TestSupport
import Testing

@testable import Postgres

@Suite(
    "Parts of statements inside PostgreSQL",
    .enabled(if: TestDatabase.serverURL != nil, "`make test` starts a PostgreSQL"))
struct PushedStatementTests {
    /// Values of every type, on both sides of what SQL sees otherwise.
    static let values: [Value?] = [
        nil, .null, true, false, 0, 1, -1, 5, 6, .int(1 << 53), .int(1 << 53 + 1), .int(.max), .int(.min),
        1.0, 5.0, 0.5, 5.5, -0.0, 1e-05, 1e16, 0x1p60, 1e300, .double(.nan), .double(.infinity),
        .double(-.infinity), "", "a", "B", "b", "ä", "İx", "ﬁ", "5", "1.0", "true", "null", "[1]", "{}",
        "a%b",
        "a_b", "axb", "a\\", "a\nb", "a\u{0}", "a\u{0}b", "👩‍👩‍👧",
        .string(String(repeating: "k", count: 3_000)), .string(String(repeating: "ü", count: 4_500)),
        [], [1], [1.0, 2], ["x"], [.null], [.null, "x"], [[1, 2]], [["k": 1]], [["k": 1, "l": 2]],
        [["k": [1]]], ["k", 5], [[]], .object(ObjectValue()), ["k": 1], ["k": ["x"]], ["b": 5, "a": 1],
        .binary([1, 2]), [.double(.nan)], ["k": .binary([3])],
    ]

    /// A pair of engines with a document per value, and some ids of other types.
    static func engines(_ url: String, _ database: DatabaseID) throws -> (
        MemoryStore, ProjectionEngine
    ) {
        let (naive, real) = (MemoryStore(), try ProjectionEngine(url: url, database: database))
        var documents: [Value] = []
        for (number, value) in values.enumerated() {
            var fields: [(key: String, value: Value)] = [(key: "_id", value: .int(Int64(number)))]
            if let value { fields.append((key: "a", value: value)) }
            if let other = values[(number * 7 + 3) % values.count] { fields.append((key: "b", value: other)) }
            fields.append((key: "g", value: .string(["x", "y", "5", ""][number % 4])))
            fields.append(
                (key: "n", value: number % 5 == 0 ? .double(Double(number) / 10) : .int(Int64(number))))
            documents.append(.object(ObjectValue(fields)))
        }
        for id in ["text", "te\u{0}xt", ["k": 1], .binary([7])] as [Value] {
            documents.append(["_id": id, "a": 7, "m": ["deep": ["er": 5]]])
        }
        documents.append(["_id": "u", "k\u{0}": 1, "a": 5])
        for engine in [naive, real] as [any StatementEngine] {
            _ = try engine.execute(
                "INSERT INTO c DOCUMENTS (:all)", ["all": .array(documents)], strict: false)
        }
        return (naive, real)
    }

    /// Conditions, each with what PostgreSQL makes of it: it decides (`exact`), filters (`rechecked`), or has
    /// no part in it.
    static let conditions: [(text: String, decides: String?)] = [
        ("a = 'a'", "exact"), ("a = '5'", "exact"), ("a = 'true'", "exact"), ("a != 'a'", "exact"),
        ("a = '[1]'", "exact"), ("a = 'null'", "exact"),
        ("a < 'b'", "exact"), ("a <= 'b'", "exact"), ("a > 'B'", "exact"), ("a >= 'a'", "exact"),
        ("a < 'a\u{0}b'", "exact"), ("a >= 'a\u{0}b'", "exact"), ("a = 'a\u{0}'", "exact"),
        ("a != 'a\u{0}'", "exact"),
        ("a = 5", "exact"), ("a = 1.0", "exact"), ("a != 5", "exact"), ("a < 5", "exact"),
        ("a <= 5.5", "exact"),
        ("a > 5", "exact"), ("a >= 9007199254740993", "exact"), ("a < 1e300", "exact"),
        ("a > -1e300", "exact"),
        ("a > 1.152921504606846976e18", "exact"), ("a = 1152921504606846976.0", "exact"),
        ("a > 1e300", "exact"),
        ("a = true", "exact"), ("a != true", "exact"), ("a < true", "exact"), ("a >= false", "exact"),
        ("a = [1]", "exact"), ("a != [1]", "exact"), ("a < [1]", "rechecked"), ("a = {'k': 1}", "exact"),
        ("a = {'a': 1, 'b': 5.0}", "exact"), ("a > {'k': 1}", "rechecked"),
        ("a = null", "exact"), ("a != null", "exact"), ("a", "exact"), ("a = b", "exact"),
        ("a != b", "exact"),
        ("a < b", "exact"), ("a >= b", "exact"), ("a < g", "exact"), ("a IS NULL", "exact"),
        ("a IS NOT NULL", "exact"),
        ("a IS MISSING", "exact"), ("a IS NOT MISSING", "exact"), ("a BETWEEN 0 AND 5", "exact"),
        ("a BETWEEN 0 AND 'x'", "exact"), ("a IN (1, 'a', [1])", "exact"), ("a NOT IN (1, 'a')", "exact"),
        ("a IN (1, null)", "exact"), ("a NOT IN (1, null)", "exact"), ("a IN :list", "exact"),
        ("a NOT IN :list", "exact"), ("1 IN a", "exact"), ("'x' IN a", "exact"), ("'k' IN a", "exact"),
        ("[1, 2] IN a", "rechecked"), ("array_contains(a, 1)", "exact"), ("array_contains(a, 'x')", "exact"),
        ("array_contains(a, [1])", "rechecked"), ("array_contains(a, null)", "exact"),
        ("ANY v IN a SATISFIES v = 1 END", "exact"), ("ANY v IN a SATISFIES v.k = 1 END", "exact"),
        ("ANY v IN a SATISFIES v > 1 END", "exact"), ("EVERY v IN a SATISFIES v = 1 END", "exact"),
        ("a LIKE 'a%'", "exact"), ("a LIKE 'a\\\\%b'", "exact"), ("a LIKE 'a_b'", "exact"),
        ("a LIKE 'a\\\\_b'", "exact"), ("a LIKE '%\\\\'", "exact"), ("a LIKE '_'", "exact"),
        ("a LIKE '%a%b%'", "exact"), ("a NOT LIKE 'a%'", "exact"), ("a LIKE 'a!%b' ESCAPE '!'", "exact"),
        ("a ILIKE 'A%'", "exact"), ("a ILIKE 'Ä'", "rechecked"), ("a SIMILAR TO '(a|b)+'", "rechecked"),
        ("regexp_like(a, '(a+)+$')", "rechecked"), ("contains(a, 'b')", "exact"),
        ("contains(a, '')", "exact"),
        ("starts_with(a, 'a')", "exact"), ("ends_with(a, 'b')", "exact"), ("ends_with(a, '')", "exact"),
        ("char_length(a) > 2", "exact"), ("byte_length(a) = 2", "exact"), ("pos(a, 'b') = 2", "exact"),
        ("lower(a) = 'b'", "exact"), ("upper(a) != 'B'", "exact"), ("is_number(a)", "exact"),
        ("is_string(a)", "exact"), ("is_boolean(a)", "exact"), ("type(a) = 'integer'", "exact"),
        ("type(a) = 'float'", "exact"), ("type(a) = 'missing'", "exact"), ("type(a) != 'string'", "exact"),
        ("array_length(a) > 1", "exact"), ("abs(a) > 4", "exact"), ("ceil(a) = 6", "exact"),
        ("floor(a) = 5", "exact"), ("a + 1 > 5", "exact"), ("a - 1 < 0.5", "exact"),
        ("a * 2 = 10", "exact"), ("a / 2 = 2", "exact"), ("a % 2 = 1", "exact"),
        ("a + 9223372036854775807 > 0", "exact"), ("a / 0 = 1", "exact"), ("m.deep.er = 5", "exact"),
        ("a.k = 1", "exact"), ("a.k IS MISSING", "exact"), ("_id > 30", "exact"), ("_id = {'k': 1}", nil),
        ("_id LIKE 'te%'", "exact"), ("a = 1 XOR b = 1", "exact"), ("a = 5 OR b = 'a'", "exact"),
        ("a = 5 AND concat(b, 'x') = 'ax'", "exact"), ("coalesce(a, 1) = 1", "exact"),
        ("a = 5 OR coalesce(a, 1) = 1", "exact"), ("serialize_json(a) = '1'", nil),
        ("a = 5 OR serialize_json(a) = '1'", nil),
        ("a = 5 AND serialize_json(b) = '1'", "rechecked"),
        ("EVERY v IN a SATISFIES serialize_json(v) = '1' END", "rechecked"), ("a = :binary", "exact"),
        ("a != :nan", "exact"),
        ("a < :nan", "exact"), ("a >= :nan", "exact"), ("a = 5 AND b = :nan", "exact"),
    ]

    private static let arguments: ObjectValue = [
        "list": [1, "a", 5.5, [1], "a\u{0}", .double(.nan), ["k": 1]], "binary": .binary([1, 2]),
        "nan": .double(.nan),
    ]

    @Test("each condition and its negation find what the evaluator finds, decided where that is said")
    func everyCondition() async throws {
        try await TestDatabase.use { url in
            let (naive, real) = try Self.engines(url, "conditions")
            for (condition, decides) in Self.conditions {
                let used = Self.arguments.entries.filter { condition.contains(":" + $0.key) }
                let arguments = ObjectValue(used)
                for text in [condition, "NOT (\(condition))"] {
                    for statement in [
                        "SELECT _id FROM c WHERE \(text)", "SELECT COUNT(*) AS n FROM c WHERE \(text)",
                        "SELECT * FROM c WHERE \(text) ORDER BY a DESC, _id LIMIT 5",
                    ] {
                        let wanted = Self.outcome(statement, arguments, on: naive)
                        #expect(Self.outcome(statement, arguments, on: real) == wanted, "\(statement)")
                    }
                }
                let part = try Self.part(of: "SELECT _id FROM c WHERE \(condition)", arguments, on: real)
                #expect(part?["decides"]?.stringValue == decides, "\(condition)")
            }
        }
    }

    @Test("groups, aggregates, DISTINCT and ORDER BY give the evaluator's rows, in its order")
    func everyShape() async throws {
        try await TestDatabase.use { url in
            let (naive, real) = try Self.engines(url, "shapes")
            for (statement, part) in Self.shapes {
                let wanted = Self.outcome(statement, ObjectValue(), on: naive, inOrder: true)
                #expect(
                    Self.outcome(statement, ObjectValue(), on: real, inOrder: true) == wanted, "\(statement)")
                let found = try Self.part(of: statement, ObjectValue(), on: real)
                #expect(found?["part"]?.stringValue == part, "\(statement)")
            }
        }
    }

    static let shapes: [(statement: String, part: String?)] = [
        ("SELECT COUNT(*) FROM c", nil), ("SELECT COUNT(*) FROM nothing", nil),
        ("SELECT _id, a FROM c ORDER BY _id LIMIT 7", "filter"),
        ("SELECT _id, a FROM c ORDER BY _id DESC LIMIT 9 OFFSET 2", "filter"),
        ("SELECT COUNT(*), SUM(n), AVG(n), MIN(n), MAX(n), MID(n) FROM c WHERE a = 5", "group"),
        ("SELECT COUNT(a), SUM(a), AVG(a) FROM c WHERE _id < 22", "group"),
        ("SELECT COUNT(a), SUM(a), AVG(a) FROM c", "group"),
        ("SELECT MIN(a), MAX(a), MID(a) FROM c", "group"),
        ("SELECT MIN(a), MAX(a) FROM c WHERE a < 'b'", "group"),
        ("SELECT MIN(a), MAX(a) FROM c WHERE a IN (1, 1.0, 5)", "group"),
        ("SELECT SUM(a) FROM c WHERE a > 9007199254740992", "group"),
        ("SELECT SUM(n), MEDIAN(n) FROM c WHERE a = 5", "group"),
        ("SELECT g, MEDIAN(n) AS m FROM c GROUP BY g", "group"), ("SELECT MEDIAN(a) FROM c", "group"),
        ("SELECT MEDIAN(a) FROM c WHERE a IN (1, 1.0, 5, 'a')", "group"),
        ("SELECT a, MEDIAN(n) AS m, MEDIAN(DISTINCT b) AS d FROM c WHERE a > 0 GROUP BY a", "group"),
        ("SELECT MEDIAN(m) FROM c WHERE a = 7", "group"),
        ("SELECT g, COUNT(*) AS k, SUM(n) AS s FROM c GROUP BY g", "group"),
        ("SELECT g, COUNT(*) AS k FROM c GROUP BY g HAVING COUNT(*) > 17 ORDER BY k DESC, g", "group"),
        ("SELECT a, COUNT(*) AS k FROM c GROUP BY a", "group"),
        ("SELECT a, b, COUNT(*) AS k FROM c GROUP BY a, b", "group"),
        ("SELECT COUNT(DISTINCT a) AS k FROM c", "group"),
        ("SELECT g, COUNT(DISTINCT a) AS k FROM c GROUP BY g", "group"),
        ("SELECT SUM(DISTINCT n) AS s FROM c WHERE n < 9", "group"),
        ("SELECT g, SUM(n) AS s FROM c WHERE a >= 0 GROUP BY g", "group"),
        ("SELECT DISTINCT g FROM c", "group"), ("SELECT DISTINCT a FROM c", "group"),
        ("SELECT DISTINCT a, g FROM c WHERE a = 5 OR a = 1", "group"),
        ("SELECT DISTINCT g FROM c ORDER BY g DESC LIMIT 2", "group"),
        ("SELECT DISTINCT lower(g) FROM c WHERE a = 5", "group"),
        ("SELECT DISTINCT serialize_json(g) FROM c WHERE a = 5", "filter"),
        ("SELECT a FROM c ORDER BY a LIMIT 100", "top"), ("SELECT a FROM c ORDER BY a DESC LIMIT 100", "top"),
        ("SELECT _id FROM c ORDER BY a LIMIT 7", "top"), ("SELECT _id FROM c ORDER BY a DESC LIMIT 7", "top"),
        ("SELECT _id FROM c ORDER BY a DESC LIMIT 3 OFFSET 4", "top"),
        ("SELECT _id FROM c ORDER BY a NULLS FIRST LIMIT 6", "top"),
        ("SELECT _id FROM c ORDER BY a DESC NULLS LAST LIMIT 6", "top"),
        ("SELECT _id FROM c WHERE type(a) = 'array' ORDER BY a LIMIT 3", "top"),
        ("SELECT _id FROM c WHERE type(a) = 'object' ORDER BY a DESC, b LIMIT 2", "top"),
        ("SELECT _id FROM c ORDER BY g, a DESC, b LIMIT 9", "top"),
        ("SELECT _id FROM c ORDER BY lower(g) LIMIT 9", "top"),
        ("SELECT _id FROM c ORDER BY serialize_json(g) LIMIT 9", nil),
        ("SELECT _id FROM c WHERE a > 0 LIMIT 2", "filter"),
        ("SELECT _id FROM c WHERE a > 0 LIMIT 2 OFFSET 1", "filter"),
        ("SELECT _id FROM c WHERE lower(a) = 'b' ORDER BY n LIMIT 1", "top"),
        ("SELECT _id FROM c WHERE a SIMILAR TO 'b+' ORDER BY n LIMIT 1", "filter"),
        ("SELECT l._id FROM c AS l JOIN c AS r ON r._id = l.n WHERE l.a = 5 AND r.n > 1", "join"),
        ("SELECT _id FROM c WHERE _id IN (3, 1, 'text', 99, 2)", nil),
        ("SELECT _id FROM c USE IDS LIST [5, 4, 77]", nil),
        ("SELECT _id FROM c USE IDS 5, 4, 3 WHERE _id = 4", nil),
        ("SELECT _id FROM c USE IDS 5, 4 WHERE _id IN (3, 77)", nil),
    ]

    @Test("catalogs of two databases have different versions: plans are kept for all of them")
    func catalogVersions() async throws {
        try await TestDatabase.use { url in
            let databases: [DatabaseID] = ["one", "two"]
            for database in databases {
                let engine = try ProjectionEngine(url: url, database: database)
                _ = try engine.execute("CREATE INDEX `0` ON c (a)", ObjectValue(), strict: false)
            }
            let connection = try Connection(url: url)
            let found = try databases.map { database in
                try ProjectionSnapshot.run(of: database, on: connection) { snapshot in
                    (snapshot.indexVersion, snapshot.catalogVersion(of: "c"))
                }
            }
            #expect(found[0].0 == found[1].0 && found[0].0 > 0)
            #expect(found[0].1 != found[1].1)
        }
    }

    @Test("statistics that are absurd may change a plan, and no answer", arguments: ["0", "1e15"])
    func absurdStatistics(rows: String) async throws {
        try await TestDatabase.use { url in
            let (naive, real) = try Self.engines(url, "absurd")
            try Connection(url: url).run(
                """
                ANALYZE;
                UPDATE pg_class SET reltuples = \(rows), relpages = 1
                WHERE relnamespace IN (SELECT oid FROM pg_namespace WHERE nspname LIKE 'mimeo\\_g%');
                DELETE FROM pg_statistic
                """)
            for (statement, part) in Self.shapes where part != nil {
                #expect(
                    Self.outcome(statement, ObjectValue(), on: real, inOrder: true)
                        == Self.outcome(statement, ObjectValue(), on: naive, inOrder: true), "\(statement)")
            }
        }
    }

    @Test("conditions drawn at random, joined by AND, OR, NOT and XOR, count as the evaluator counts")
    func drawnConditions() async throws {
        let seed = Depth.seed
        var random = SplitMix64(seed: seed)
        try await TestDatabase.use { url in
            let (naive, real) = try Self.engines(url, "drawn")
            for _ in 0..<Depth.pick(fast: 60, deep: 5_000) {
                let condition = Self.drawn(&random, depth: 3)
                let arguments = ObjectValue(
                    Self.arguments.entries.filter { condition.contains(":" + $0.key) })
                for statement in [
                    "SELECT COUNT(*) AS n FROM c WHERE \(condition)", "SELECT _id FROM c WHERE \(condition)",
                ] {
                    let wanted = Self.outcome(statement, arguments, on: naive)
                    #expect(Self.outcome(statement, arguments, on: real) == wanted, "\(seed): \(statement)")
                }
            }
        }
    }

    private static func drawn(_ random: inout SplitMix64, depth: Int) -> String {
        let leaf = conditions[Int.random(in: 0..<conditions.count, using: &random)].text
        guard depth > 0 else { return leaf }
        let left = drawn(&random, depth: depth - 1)
        switch Int.random(in: 0..<6, using: &random) {
        case 0: return "NOT (\(left))"
        case 1: return "(\(left)) AND (\(drawn(&random, depth: depth - 1)))"
        case 2: return "(\(left)) OR (\(drawn(&random, depth: depth - 1)))"
        case 3: return "(\(left)) XOR (\(drawn(&random, depth: depth - 1)))"
        default: return leaf
        }
    }

    @Test("SQL in names and values is a name or a value, and a list of a million values is evaluated here")
    func hostileTexts() async throws {
        try await TestDatabase.use { url in
            let real = try ProjectionEngine(url: url, database: "hostile")
            let sql = "x'; DROP SCHEMA mimeo_projection CASCADE; --"
            _ = try real.execute(
                "INSERT INTO `c\"; DROP TABLE c` DOCUMENTS (:d)",
                ["d": ["_id": .string(sql), "k'; DROP": .string(sql), "k": ["$1": "$2"], "$1": 1]],
                strict: false)
            for statement in [
                "SELECT _id FROM `c\"; DROP TABLE c` WHERE `k'; DROP` = :v",
                "SELECT _id FROM `c\"; DROP TABLE c` WHERE contains(`k'; DROP`, :v)",
                "SELECT `k'; DROP` FROM `c\"; DROP TABLE c` WHERE _id = :v ORDER BY `k'; DROP` LIMIT 1",
                "SELECT `k'; DROP` AS v, COUNT(*) AS `$1` FROM `c\"; DROP TABLE c` WHERE k.`$1` = '$2' "
                    + "AND `$1` = 1 AND _id = :v GROUP BY `k'; DROP`",
            ] {
                #expect(try real.rows(statement, ["v": .string(sql)]).count == 1, "\(statement)")
            }
            let million = Value.array((0..<1_000_000).map { .int(Int64($0)) } + [.string(sql)])
            let statement = "SELECT _id FROM `c\"; DROP TABLE c` WHERE `k'; DROP` IN :v"
            #expect(try real.rows(statement, ["v": million]).count == 1)
            #expect(try Self.part(of: statement, ["v": million], on: real) == nil)
            let some = Value.array((0..<50_000).map { .int(Int64($0)) } + [.string(sql)])
            #expect(try real.rows(statement, ["v": some]).count == 1)
            #expect(try Self.part(of: statement, ["v": some], on: real) != nil)
        }
    }

    static func outcome(
        _ statement: String, _ arguments: ObjectValue, on engine: any StatementEngine, inOrder: Bool = false
    ) -> [String] {
        do {
            let result = try engine.execute(statement, arguments, strict: false)
            let rows = result.rows.map { JSONText.print($0) }
            return (inOrder ? rows : rows.sorted()) + result.warnings.map { "\($0)" }
        } catch {
            return ["\(error)"]
        }
    }

    /// The operator of EXPLAIN that runs in PostgreSQL.
    static func part(
        of statement: String, _ arguments: ObjectValue, on engine: ProjectionEngine
    ) throws -> Value? {
        let row = try engine.rows("EXPLAIN " + statement, arguments).first
        return row?["plan"]?["children"]?.arrayValue?.first { $0["#operator"] == "postgres" }
    }
}
