import CRDT
import DQL
import DQLCorpus
import TestSupport
import Testing

/// Joins whose pairs SQL finds, beside the evaluator's nested loops.
@Suite(
    "Joins inside PostgreSQL",
    .enabled(if: TestDatabase.serverURL != nil, "`make test` starts a PostgreSQL"))
struct PushedJoinTests {
    /// Documents with values of every type on both sides, so that each side of a pair is in doubt somewhere,
    /// and both are. One of each collection is deleted again.
    private static func documents(_ random: inout SplitMix64, count: Int) -> Value {
        let keys: [Value?] =
            PushedStatementTests.values + [1, 1.0, 5, "a", "a", true, [1], ["k": 1], nil, .null]
        var documents: [Value] = []
        for number in 0..<count {
            var fields: [(key: String, value: Value)] = [(key: "_id", value: .int(Int64(number)))]
            for name in ["k", "a"] {
                guard let value = keys[Int.random(in: 0..<keys.count, using: &random)] else { continue }
                if case .string(let text) = value, text.utf8.count > 1_000 { continue }
                fields.append((key: name, value: value))
            }
            fields.append((key: "n", value: .int(Int64.random(in: 0...9, using: &random))))
            fields.append((key: "g", value: .string(["x", "y", "5", ""][number % 4])))
            // A reference to a document of the other side: some exist, some do not.
            fields.append(
                (key: "other", value: .int(Int64.random(in: 0...(Int64(count) + 3), using: &random))))
            documents.append(.object(ObjectValue(fields)))
        }
        return .array(documents)
    }

    private static func engines(
        _ url: String, _ database: DatabaseID, _ random: inout SplitMix64, counts: (Int, Int) = (60, 45)
    ) throws -> (MemoryStore, ProjectionEngine) {
        let (naive, real) = (MemoryStore(), try ProjectionEngine(url: url, database: database))
        let sides = [("l", documents(&random, count: counts.0)), ("r", documents(&random, count: counts.1))]
        for engine in [naive, real] as [any StatementEngine] {
            for (name, documents) in sides {
                _ = try engine.execute(
                    "INSERT INTO \(name) DOCUMENTS (:all)", ["all": documents], strict: false)
                _ = try engine.execute("DELETE FROM \(name) WHERE _id = 7", ObjectValue(), strict: false)
            }
        }
        return (naive, real)
    }

    private static func expect(
        _ statement: String, _ naive: MemoryStore, _ real: ProjectionEngine, _ comment: String = ""
    ) {
        let wanted = PushedStatementTests.outcome(statement, ObjectValue(), on: naive, inOrder: true)
        let found = PushedStatementTests.outcome(statement, ObjectValue(), on: real, inOrder: true)
        #expect(found == wanted, "\(comment) \(statement)")
    }

    /// Statements with the part of theirs that runs in PostgreSQL, and whether it decides.
    private static let statements: [(text: String, part: String?, decides: String?)] = [
        ("SELECT l._id, r._id AS p FROM l JOIN r@ ON l.k = r.k", "join", "exact"),
        ("SELECT l._id, r._id AS p FROM l LEFT JOIN r@ ON l.k = r.k", "join", "exact"),
        ("SELECT l._id, r._id AS p FROM l LEFT OUTER JOIN r@ ON r.k = l.a AND r.n > 3", "join", "exact"),
        ("SELECT l._id, r._id AS p FROM l@ RIGHT JOIN r ON l.k = r.k", "join", "exact"),
        ("SELECT l._id, r.a FROM l JOIN r@ ON l.k = r.k AND l.a = r.a", "join", "exact"),
        ("SELECT l._id, r.a FROM l JOIN r@ ON l.k = r.k WHERE l.n > 2 AND r.n < 8", "join", "exact"),
        ("SELECT l._id, r.a FROM l JOIN r@ ON l.k = r.k WHERE l.n > 2 OR r.a = 5", "join", "exact"),
        ("SELECT l._id, r._id AS p FROM l JOIN r@ ON l.k = r.k AND l.n < r.n", "join", "rechecked"),
        ("SELECT l._id, r._id AS p FROM l JOIN r@ ON l.k = r.k AND NOT (l.a = r.a)", "join", "exact"),
        ("SELECT l._id FROM l JOIN r@ ON l.k = r.k AND serialize_json(r.a) = '1'", "join", "rechecked"),
        ("SELECT l._id FROM l LEFT JOIN r@ ON l.k = r.k AND serialize_json(r.a) = '1'", "join", "rechecked"),
        ("SELECT l._id FROM l LEFT JOIN r@ ON l.k = r.k WHERE r._id IS MISSING", "join", "rechecked"),
        ("SELECT l._id FROM l LEFT JOIN r@ ON l.k = r.k AND l.n > 5 WHERE l.a > 0", "join", "exact"),
        ("SELECT l._id FROM l LEFT JOIN r@ ON l.k = r.k AND false", "join", "exact"),
        ("SELECT l._id, r._id AS p FROM l JOIN r@ ON lower(l.k) = r.k", "join", "exact"),
        ("SELECT l._id, r._id AS p FROM l JOIN r@ ON l.n + 1 = r.n", "join", "exact"),
        ("SELECT l._id, r._id AS p FROM l JOIN r@ ON l.n < r.n AND l.g = 'x' AND r.g = '5'", nil, nil),
        ("SELECT l._id, r._id AS p FROM l JOIN r@ ON l.k IN [r.k, 5]", nil, nil),
        ("SELECT a._id, b._id AS p FROM l a JOIN l b@ ON a.k = b.k AND a._id != b._id", "join", "exact"),
        ("SELECT * FROM l JOIN nothing r@ ON l.k = r.k", "join", "exact"),
        ("SELECT l._id FROM l LEFT JOIN nothing r@ ON l.k = r.k", "join", "exact"),
        ("SELECT r._id FROM nothing l JOIN r@ ON l.k = r.k", "join", "exact"),
        (
            "SELECT l._id, r._id AS p, x._id AS q FROM l JOIN r@ ON l.k = r.k "
                + "LEFT JOIN l x@ ON x.k = r.a", "join", "exact"
        ),
        ("SELECT l._id, r._id AS p FROM l JOIN r@ ON l.k = r.k LIMIT 9 OFFSET 3", "join", "exact"),
        ("SELECT l._id, r._id AS p FROM l LEFT JOIN r@ ON l.k = r.k LIMIT 30 OFFSET 20", "join", "exact"),
        (
            "SELECT l._id, r._id AS p FROM l JOIN r@ ON l.n = r.n ORDER BY r.g DESC, l.n LIMIT 12", "top",
            "exact"
        ),
        (
            "SELECT l._id, r._id AS p FROM l JOIN r@ ON l.n = r.n ORDER BY r.a, l.k DESC LIMIT 12", "top",
            "exact"
        ),
        ("SELECT l._id, r._id AS p FROM l LEFT JOIN r@ ON l.k = r.k ORDER BY r.n LIMIT 15", "top", "exact"),
        ("SELECT l._id, r._id AS p FROM l JOIN r@ ON l.k = r.k ORDER BY r.n", "join", "exact"),
        ("SELECT COUNT(*) AS c FROM l JOIN r@ ON l.n = r.n", "group", "exact"),
        (
            "SELECT COUNT(*) AS c FROM l LEFT JOIN r ON l.other = r._id WHERE r._id IS MISSING", "group",
            "exact"
        ),
        ("SELECT COUNT(*) AS c, COUNT(r.a) AS d FROM l JOIN r@ ON l.k = r.k", "group", "exact"),
        (
            "SELECT r.g, COUNT(*) AS c, SUM(l.n) AS s FROM l JOIN r@ ON l.n = r.n GROUP BY r.g", "group",
            "exact"
        ),
        (
            "SELECT l.g, MIN(r.n) AS m, MEDIAN(r.n) AS d FROM l LEFT JOIN r ON l.other = r._id GROUP BY l.g "
                + "HAVING COUNT(*) > 2 ORDER BY l.g", "group", "exact"
        ),
        ("SELECT r.k, COUNT(*) AS c FROM l JOIN r@ ON l.n = r.n GROUP BY r.k", "group", "exact"),
        ("SELECT DISTINCT l.g, r.g AS h FROM l JOIN r@ ON l.n = r.n WHERE r.n > 4", "group", "exact"),
        ("SELECT l._id, r.n FROM l JOIN r ON r._id = l.other", "join", "exact"),
        ("SELECT l._id, r.n FROM l LEFT JOIN r ON r._id = l.k", "join", "exact"),
    ]

    /// A collection that is read without an index needs leave; here that is an `@` behind its name.
    private static func written(_ text: String) -> String { text.replacing("@", with: " USE INDEX ''") }

    @Test("each join gives the evaluator's pairs in its order, whichever side is in doubt")
    func everyJoin() async throws {
        let seed = Depth.seed
        var random = SplitMix64(seed: seed)
        try await TestDatabase.use { url in
            let (naive, real) = try Self.engines(url, "joins", &random)
            for (text, part, decides) in Self.statements {
                let statement = Self.written(text)
                Self.expect(statement, naive, real, "\(seed):")
                let found = try PushedStatementTests.part(of: statement, ObjectValue(), on: real)
                #expect(found?["part"]?.stringValue == part, "\(statement)")
                #expect(found?["decides"]?.stringValue == decides, "\(statement)")
            }
        }
    }

    @Test("joins drawn at random, on documents drawn at random, agree with the evaluator")
    func drawn() async throws {
        let seed = Depth.seed
        var random = SplitMix64(seed: seed)
        try await TestDatabase.use { url in
            for round in 0..<Depth.pick(fast: 1, deep: 20) {
                let (naive, real) = try Self.engines(
                    url, DatabaseID("joins-\(round)"), &random, counts: (40, 30))
                for _ in 0..<Depth.pick(fast: 12, deep: 250) {
                    Self.expect(Self.statement(&random), naive, real, "\(seed):")
                }
            }
        }
    }

    /// Conditions on the documents of one side, whose name is put in the place of `$`.
    private static let sided = [
        "$.a = 5", "$.a = 'a'", "$.a = 1.0", "$.a < 5", "$.a >= 'a'", "$.a IS NULL", "$.a IS MISSING",
        "$.a IS NOT NULL", "NOT ($.a = 5)", "$.a != 'x'", "$.a IN (1, 'a', [1])", "$.a NOT IN (1, 'a')",
        "$.a = $.k", "$.a < $.k", "lower($.a) = 'b'", "$.a + 1 > $.n * 2 - 3", "$.a LIKE 'a%'", "$.a < [1]",
        "ANY v IN $.a SATISFIES v = 1 END", "serialize_json($.a) = '1'", "$.a SIMILAR TO '(a|b)+'",
        "coalesce($.a, 1) = 1", "type($.a) = 'missing'", "$._id > 20", "$.g = '5'",
    ]

    private static func statement(_ random: inout SplitMix64) -> String {
        func pick(_ all: [String]) -> String { all[Int.random(in: 0..<all.count, using: &random)] }
        let keys = ["k", "a", "n", "g", "other", "_id"]
        func condition(_ side: String) -> String { pick(sided).replacing("$", with: side) }
        var on = "l.\(pick(keys)) = r.\(pick(keys))"
        if Bool.random(using: &random) { on += " AND (\(condition(pick(["l", "r"]))))" }
        if Int.random(in: 0..<3, using: &random) == 0 {
            on += " AND l.\(pick(keys)) \(pick(["<", "!="])) r.n"
        }
        var text = "FROM l \(pick(["JOIN", "JOIN", "LEFT JOIN"])) r USE INDEX '' ON \(on)"
        let above = [condition("l"), condition("r"), "\(condition("l")) OR \(condition("r"))"]
        if Bool.random(using: &random) { text += " WHERE (\(pick(above)))" }
        switch Int.random(in: 0..<5, using: &random) {
        case 0:
            let key = pick(["l.g", "r.g", "r.a", "l.n"])
            return "SELECT \(key) AS k, COUNT(*) AS c, SUM(r.n) AS s \(text) GROUP BY \(key)"
        case 1: return "SELECT COUNT(*) AS c, MAX(l.n) AS m \(text)"
        case 2:
            return """
                SELECT l._id AS i, r._id AS j \(text) \
                ORDER BY \(pick(["l.a", "r.n DESC", "r.a DESC, l.n"])) LIMIT \(pick(["3", "20 OFFSET 5"]))
                """
        default:
            return "SELECT l._id AS i, r._id AS j, r.a AS a \(text)\(pick(["", "", " LIMIT 7", " OFFSET 5"]))"
        }
    }

    /// Two stores with the same documents, by collection.
    private static func engines(
        _ url: String, _ database: DatabaseID, _ documents: [(name: String, documents: [Value])]
    ) throws -> (MemoryStore, ProjectionEngine) {
        let (naive, real) = (MemoryStore(), try ProjectionEngine(url: url, database: database))
        for engine in [naive, real] as [any StatementEngine] {
            for (name, documents) in documents {
                _ = try engine.execute(
                    "INSERT INTO \(name) DOCUMENTS (:all)", ["all": .array(documents)], strict: false)
            }
        }
        return (naive, real)
    }

    @Test("what would be a text of megabytes in SQL is asked here, and the rest of the join goes along")
    func longConditions() async throws {
        try await TestDatabase.use { url in
            var documents: [Value] = []
            for number in 0..<6 {
                let place = Value.int(Int64(number))
                documents.append(["_id": place, "k": .int(Int64(number % 3)), "n": place, "a": [1, place]])
            }
            let (naive, real) = try Self.engines(url, "long", [("l", documents), ("r", documents)])
            let sum = (0..<9).map { "l.n + \($0)" }.joined(separator: " + ")
            let elements = (0..<9).map { "v + \($0)" }.joined(separator: " + ")
            let cases = [
                "(%) = $", "(%) BETWEEN $ AND 9", "char_length(%) = $", "(% = $) XOR r.n = $",
            ].map { (condition: String) -> String in
                (0..<25).reduce("l.n") { (inner: String, place: Int) -> String in
                    let test = condition.replacing("%", with: inner).replacing("$", with: "\(place)")
                    return "CASE WHEN \(test) THEN l.n ELSE r.n + 1 END"
                }
            }
            let either = (0..<30).map { "l.n = \($0)" }.joined(separator: " XOR ")
            let conditions =
                ["\(sum) > r.n", "ANY v IN l.a SATISFIES \(elements) > 40 END", either]
                + cases.map { "(\($0)) = 3" }
            for condition in conditions {
                for join in ["JOIN", "LEFT JOIN"] {
                    let on = "FROM l \(join) r USE INDEX '' ON l.k = r.k"
                    for statement in [
                        "SELECT l._id AS i, r._id AS j \(on) AND (\(condition))",
                        "SELECT l._id AS i, r._id AS j \(on) WHERE (\(condition)) LIMIT 4",
                    ] {
                        Self.expect(statement, naive, real)
                        let found = try PushedStatementTests.part(of: statement, ObjectValue(), on: real)
                        #expect(found?["part"] == "join", "\(statement)")
                        #expect((found?["sql"]?.stringValue?.utf8.count ?? 0) < 25_000, "\(statement)")
                    }
                }
            }
            for statement in [
                "SELECT l._id FROM l JOIN r USE INDEX '' ON l.k = r.k ORDER BY \(sum), r._id LIMIT 3",
                "SELECT COUNT(*) AS c FROM l JOIN r USE INDEX '' ON l.k = r.k GROUP BY \(sum)",
                "SELECT l._id FROM l WHERE ANY v IN a SATISFIES \(elements) > 40 END",
            ] { Self.expect(statement, naive, real) }
        }
    }

    @Test("two spellings of a character are two texts and two names, in doubt or not")
    func spellings() async throws {
        try await TestDatabase.use { url in
            let (one, two) = ("\u{E9}", "e\u{301}")
            let left: [Value] = [["_id": 1, "k": .string(one)], ["_id": 2, "k": .string(two)]]
            // The case of letters beyond ASCII is in doubt.
            let right: [Value] = [
                ["_id": 1, "k": .string("\u{C9}"), "a": .string(one)],
                ["_id": 2, "k": .string("E\u{301}"), "a": .string(two)], ["_id": 3, "k": .null, "a": 1],
                .object(
                    ObjectValue([
                        (key: "_id", value: 4), (key: one, value: .string(one)),
                        (key: two, value: .string(two)),
                    ])),
            ]
            let (naive, real) = try Self.engines(url, "spellings", [("l", left), ("r", right)])
            let statements: [(String, Int)] = [
                ("SELECT l._id AS i, r._id AS j FROM l JOIN r USE INDEX '' ON l.k = lower(r.k)", 2),
                ("SELECT l._id AS i, r._id AS j FROM l LEFT JOIN r USE INDEX '' ON l.k = lower(r.k)", 2),
                ("SELECT r._id FROM r WHERE r.a = '\(one)' OR r.a = '\(two)'", 2),
                ("SELECT l._id FROM l JOIN r USE INDEX '' ON l.k = r.a AND r.a IN ('\(one)', '\(two)')", 2),
                (
                    "SELECT l._id FROM l JOIN r USE INDEX '' ON l.k = r.a "
                        + "WHERE r.a = '\(one)' OR r.a = '\(two)'", 2
                ),
                ("SELECT r._id FROM r WHERE r.`\(one)` = '\(one)' AND r.`\(two)` = '\(two)'", 1),
                ("SELECT r._id FROM r WHERE r.`\(one)` = r.`\(two)`", 0),
            ]
            for (statement, count) in statements {
                Self.expect(statement, naive, real)
                #expect(try real.rows(statement).count == count, "\(statement)")
            }
        }
    }

    @Test("a large collection on the right: the first rows are looked up, and SQL goes on behind them")
    func largeRight() async throws {
        try await TestDatabase.use { url in
            let (naive, real) = (MemoryStore(), try ProjectionEngine(url: url, database: "large"))
            let left = (0..<300).map { number -> Value in
                let partner = Value.int(Int64(number * 7 % 2_300))
                // A body has no byte string: some documents are in doubt, before place 256 and behind it.
                let also: Value = number % 90 == 20 ? .binary([1]) : 1
                return [
                    "_id": .int(Int64(number)), "p": partner, "n": .int(Int64(number)),
                    "q": ["p": partner, "b": also],
                ]
            }
            let right = (0..<2_100).map { number -> Value in
                let also: Value = number % 490 == 0 ? .binary([1]) : 1
                return [
                    "_id": .int(Int64(number)), "n": .int(Int64(number % 50)), "m": .int(Int64(number % 3)),
                    "w": ["m": .int(Int64(number % 3)), "b": also],
                ]
            }
            let few = left.prefix(40).map { $0 }
            for engine in [naive, real] as [any StatementEngine] {
                for (name, documents) in [("l", left), ("few", few), ("r", right)] {
                    _ = try engine.execute(
                        "INSERT INTO \(name) DOCUMENTS (:all)", ["all": .array(documents)], strict: false)
                }
            }
            for statement in [
                "SELECT l.n, r.m FROM l JOIN r ON r._id = l.p",
                "SELECT l.n, r.m FROM l LEFT JOIN r ON r._id = l.p AND r.m > 0",
                "SELECT l.n, r.m FROM l JOIN r ON r._id = l.p LIMIT 10 OFFSET 265",
                "SELECT l.n, r.m FROM l JOIN r ON r._id = l.p LIMIT 10",
                "SELECT r.m, COUNT(*) AS c FROM l JOIN r ON r._id = l.p GROUP BY r.m",
                "SELECT l.n FROM l JOIN r ON r._id = l.p ORDER BY r.m DESC, r.n LIMIT 5",
                "SELECT COUNT(*) AS c FROM l JOIN r ON r._id = l.p WHERE l.n < 20",
                "SELECT few.n, r._id AS i FROM few JOIN r USE INDEX '' ON r.n = few.n AND r.m = 1",
                "SELECT few.n FROM few LEFT JOIN r USE INDEX '' ON r.n = few.p LIMIT 3 OFFSET 900",
                "SELECT l.n, r.m FROM l JOIN r ON r._id = l.q.p",
                "SELECT l.n, r.m FROM l LEFT JOIN r ON r._id = l.q.p AND r.w.m > 0",
                "SELECT l.n, r.m FROM l JOIN r ON r._id = l.q.p WHERE r.w.m < 2 LIMIT 20 OFFSET 170",
                "SELECT COUNT(*) AS c FROM l JOIN r ON r._id = l.q.p WHERE r.w.m < 2",
            ] { Self.expect(statement, naive, real) }
            // Behind 32 rows on the left, which an index leads from.
            _ = try real.execute("CREATE INDEX `0` ON r (n)", ObjectValue(), strict: false)
            for end in ["", " AND r.w.m > 0"] {
                for bounds in ["LIMIT 9", "LIMIT 9 OFFSET 1338", "LIMIT 60 OFFSET 880"] {
                    let head = "SELECT few.n, r._id AS i FROM few JOIN r"
                    let tail = "ON r.n = few.n\(end) \(bounds)"
                    let wanted = PushedStatementTests.outcome(
                        "\(head) USE INDEX '' \(tail)", ObjectValue(), on: naive, inOrder: true)
                    let found = PushedStatementTests.outcome(
                        "\(head) \(tail)", ObjectValue(), on: real, inOrder: true)
                    #expect(found == wanted, "\(tail)")
                }
            }
        }
    }

    @Test("with more documents in doubt than are looked up or held, the evaluator joins all")
    func muchDoubt() async throws {
        try await TestDatabase.use { url in
            let (naive, real) = (MemoryStore(), try ProjectionEngine(url: url, database: "doubt"))
            // No body holds a byte string as it is.
            let rough = (0..<1_100).map { number -> Value in
                ["_id": .int(Int64(number)), "k": .binary([UInt8(number % 200)]), "n": .int(Int64(number))]
            }
            let few = (0..<20).map { number -> Value in
                ["_id": .int(Int64(number)), "k": number % 2 == 0 ? .binary([UInt8(number)]) : "x"]
            }
            for engine in [naive, real] as [any StatementEngine] {
                for (name, documents) in [("rough", rough), ("few", few)] {
                    _ = try engine.execute(
                        "INSERT INTO \(name) DOCUMENTS (:all)", ["all": .array(documents)], strict: false)
                }
            }
            for statement in [
                "SELECT few._id AS i, rough.n FROM few LEFT JOIN rough USE INDEX '' ON few.k = rough.k",
                "SELECT few._id AS i, rough.n FROM rough JOIN few USE INDEX '' ON few.k = rough.k",
                "SELECT COUNT(*) AS c FROM rough JOIN few USE INDEX '' ON few.k = rough.k WHERE rough.n > 9",
            ] { Self.expect(statement, naive, real) }
        }
    }

    @Test("PROFILE shows the join with its SQL, its two collections and the server's estimate")
    func profile() async throws {
        var random = SplitMix64(seed: 1)
        try await TestDatabase.use { url in
            let (_, real) = try Self.engines(url, "profile", &random)
            let rows = try real.rows(
                "PROFILE SELECT l._id FROM l LEFT JOIN r USE INDEX '' ON l.n = r.n WHERE l.g = 'x'")
            let plan = try #require(rows.last?["~request_profile"]?["plan"]?["children"]?.arrayValue)
            let join = try #require(plan.first)
            #expect(join["#operator"] == "postgres" && join["part"] == "join")
            #expect(join["collection"] == "l" && join["joined"] == "r" && join["type"] == "left")
            #expect(join["on"] == "l.n = r.n")
            #expect(join["sql"]?.stringValue?.contains(" LEFT JOIN ") == true)
            #expect(join["estimate"]?["cost"] != nil)
            #expect(plan.contains { $0["#operator"] == "filter" && $0["condition"] == "l.g = 'x'" })
            let sql = "x'); DROP SCHEMA mimeo_projection CASCADE; --"
            let hostile = "SELECT l._id FROM l JOIN r USE INDEX '' ON l.`\(sql)` = r.k AND r.`\(sql)` = :v"
            #expect(try real.rows(hostile, ["v": .string(sql)]) == [])
            let part = try PushedStatementTests.part(of: hostile, ["v": .string(sql)], on: real)
            #expect(part?["sql"]?.stringValue?.contains("DROP") == false)
        }
    }
}
