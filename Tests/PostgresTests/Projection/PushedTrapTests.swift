import CRDT
import DQL
import DQLCorpus
import Testing

/// Each operator and function that SQL has another idea of, with values on both sides of the difference.
@Suite(
    "Traps on the way into PostgreSQL",
    .enabled(if: TestDatabase.serverURL != nil, "`make test` starts a PostgreSQL"))
struct PushedTrapTests {
    /// A condition on `a`, beside which `b` is 5, with the values that fulfil it and such that do not.
    private struct Trap: Sendable {
        let condition: String
        var yes: [Value?] = []
        var no: [Value?] = []

        init(_ condition: String, yes: [Value?] = [], no: [Value?] = []) {
            (self.condition, self.yes, self.no) = (condition, yes, no)
        }
    }

    private static let comparisons: [Trap] = [
        // `->>` makes texts of all types.
        Trap("a = '5'", yes: ["5"], no: [5]),
        Trap("a = 'true'", yes: ["true"], no: [true]),
        Trap("a = 'null'", yes: ["null"], no: [.null, nil]),
        Trap("a = '[1]'", yes: ["[1]"], no: [[1]]),
        Trap("a = 1", yes: [1, 1.0], no: ["1", true]),
        Trap("a = [1, 2]", yes: [[1, 2.0]], no: [[2, 1], [[1, 2]]]),
        Trap("a = {'x': 1, 'y': 2}", yes: [["y": 2, "x": 1]], no: [["x": 1]]),
        // NOT of an unknown answer is unknown.
        Trap("a != 'x'", yes: ["y"], no: [5, .null, nil]),
        Trap("NOT (a = 5)", yes: [6], no: ["x", .null, nil]),
        // jsonb orders types otherwise, and compares texts by the database's collation.
        Trap("a < 5", yes: [4, 4.5, .int(.min)], no: ["1", true, .null, nil, [], 5]),
        Trap("a > 5", yes: [6, .int(.max)], no: ["6", [6], ["k": 6], true]),
        Trap("a > 9007199254740992", yes: [9_007_199_254_740_993], no: [9_007_199_254_740_992, 0x1p53]),
        Trap("a < 'a'", yes: ["", "A", "B"], no: ["a", "ä", "b", 1]),
        Trap("a >= 'a'", yes: ["a", "b", "z", "ä"], no: ["B", "Z", 1]),
        Trap("a < true", yes: [false], no: [true, 0]),
        Trap("a < [2]", yes: [[], [1], [1, 5]], no: [[2], [3], 1]),
        Trap(
            "a < {'b': 1}", yes: [.object(ObjectValue()), ["a": 9]], no: [["b": 1], ["aa": 1, "b": 0], 1]),
        Trap("a = null", no: [.null, nil, 0]),
        Trap("a = b", yes: [5, 5.0], no: ["5", .null, nil]),
        Trap("a < b", yes: [4, 4.5], no: [5, "4", false]),
        // The server computes the same for all documents before it asks for the type of `a`.
        Trap("a <= CASE WHEN NULL = b THEN b ELSE false END", yes: [false], no: [true, 1, nil]),
        Trap("CASE WHEN contains(b, 1) THEN b ELSE 'x' END > a", yes: ["a"], no: ["y", 1, .null, nil]),
        Trap("a", yes: [true], no: [1, "true", false]),
        Trap("NOT a", yes: [false], no: [0, .null, nil]),
        Trap("a IS NULL", yes: [.null], no: [nil, 0]),
        Trap("a IS NOT NULL", yes: [nil, 0], no: [.null]),
        Trap("a IS MISSING", yes: [nil], no: [.null]),
        Trap("a BETWEEN 1 AND 'z'", no: [5, "b"]),
        Trap("NOT (a BETWEEN 5 AND 'z')", yes: [4], no: [6, "b"]),
        Trap("a IN (1, 'a')", yes: [1.0, "a"], no: ["1", .null, nil]),
        Trap("a NOT IN (1)", yes: ["x", 2], no: [1.0, .null, nil]),
        Trap("a NOT IN (1, null)", no: [2, "x"]),
    ]

    private static let collections: [Trap] = [
        // `?` finds keys of objects, and `@>` takes a scalar for an array of it.
        Trap("'k' IN a", yes: [["k"], [.null, "k"]], no: ["k", ["k": 1], [["k"]], [.null]]),
        Trap("NOT ('k' IN a)", yes: [["x"]], no: [["x", .null], "x", ["x": 1]]),
        Trap("array_contains(a, 'x')", yes: [["x"], ["x", .null]], no: ["x", ["x": 1], [["x"]]]),
        // Containment is not equality.
        Trap("array_contains(a, [1])", yes: [[[1]]], no: [[[1, 2]], [1]]),
        Trap("ANY v IN a SATISFIES v = {'k': 1} END", yes: [[["k": 1]]], no: [[["k": 1, "l": 2]]]),
        Trap(
            "ANY v IN a SATISFIES v.k = 1 END", yes: [[["k": 1]], ["z": ["k": 1.0]]],
            no: [[["k": [1]]], ["k": 1], [[["k": 1]]]]),
        Trap("EVERY v IN a SATISFIES v > 1 END", yes: [[2], [], ["z": 2]], no: [[1], [2, "x"], 5, .null]),
        Trap("NOT (ANY v IN a SATISFIES v = b END)", yes: [[4], []], no: [[5.0], 4, nil]),
        // A path does not walk into arrays.
        Trap("a.k = 1", yes: [["k": 1]], no: [[["k": 1]], "k"]),
        Trap("a['k'] = 1", yes: [["k": 1]], no: [["k", 1]]),
        Trap("a[0] = 1", yes: [[1]], no: [1, ["0": 1], [[1]]]),
        Trap("a[-1] = 1", yes: [[2, 1]], no: [[1, 2], 1]),
        Trap("array_length(a) > 1", yes: [[1, 2]], no: ["ab", ["k": 1, "l": 2], [1]]),
    ]

    private static let texts: [Trap] = [
        Trap("a LIKE 'a\\\\_b'", yes: ["a_b"], no: ["axb"]),
        Trap("a LIKE '_'", yes: ["ä", "𝄞"], no: ["", "ab", 1]),
        // PostgreSQL refuses an escape at the end of a pattern.
        Trap("a LIKE '%\\\\'", yes: ["a\\"], no: ["a", 5]),
        Trap("a LIKE 'a%b'", yes: ["a\nb"], no: ["a\nc"]),
        Trap("a NOT LIKE 'a%'", yes: ["b"], no: ["ab", 5, nil]),
        Trap("a ILIKE 'K%'", yes: ["kx", "KX", "\u{212A}x"], no: ["x", 5]),
        Trap("a SIMILAR TO '(a|b)+'", yes: ["ab"], no: ["abc", 5]),
        Trap("regexp_like(a, '^a+$')", yes: ["aa"], no: ["ab", 1]),
        Trap("contains(a, '')", yes: ["", "x"], no: [5, [""]]),
        Trap("pos(a, 'b') = 1", yes: ["äb"], no: ["b", "xxb"]),
        Trap("starts_with(a, '%')", yes: ["%x"], no: ["x", 5]),
        Trap("ends_with(a, '')", yes: ["x", ""], no: [1]),
        Trap("char_length(a) = 1", yes: ["ä", "👩"], no: ["ab", 1]),
        Trap("byte_length(a) = 2", yes: ["ä"], no: ["a"]),
        Trap("substr(a, 1) = ''", yes: ["a"], no: ["", "ab", 1]),
        // Libraries have other ideas of letters beyond ASCII.
        Trap("lower(a) = 'k'", yes: ["K", "k", "\u{212A}"], no: ["x", 1]),
        Trap("upper(a) = 'SS'", yes: ["ss", "ß"], no: ["s"]),
        Trap("a || 'x' = '1x'", yes: ["1"], no: [1, .null, nil]),
        Trap("CAST(a AS string) = '1.0'", yes: ["1.0", 1.0], no: [1, "1"]),
    ]

    private static let numbers: [Trap] = [
        Trap("is_number(a)", yes: [1, 1.5], no: ["1", .null]),
        Trap("type(a) = 'integer'", yes: [1], no: [1.0, "1"]),
        Trap("abs(a) = 9223372036854775808.0", yes: [.int(.min)], no: [.int(.max)]),
        Trap("ceil(a) = 2", yes: [1.5, 2], no: ["1.5", 2.5]),
        // Integers that overflow become doubles; division truncates, and leaves the sign of the left side.
        Trap("a + 1 = 9223372036854775808.0", yes: [.int(.max)], no: [1]),
        Trap("a / 2 = -1", yes: [-2, -3], no: [-1, -3.0, "x"]),
        Trap("a % 2 = -1", yes: [-1, -3], no: [1, -2]),
        Trap("a / 0 IS NULL", yes: [1, 0.5, .null], no: ["x", nil]),
        // Where a double has no place for a product, PostgreSQL raises an error.
        Trap("a * 1e-160 > 0", yes: [1, 1e-100], no: [0, -1, 1e-200]),
        Trap("a + 0.1 = 0.30000000000000004", yes: [0.2], no: [0.19999999999999998]),
        Trap("date_trunc(a, 'day') = 86400000", yes: [86_400_001], no: [86_399_999, "x"]),
        Trap("date_trunc(a, 'hour') = -3600000", yes: [-1, -3_600_000], no: [0]),
        Trap("coalesce(a, 1) = 1", yes: [nil, .null, 1], no: [2, "1"]),
        Trap("decode(a, null, 1, MISSING, 2, 3) = 2", yes: [nil], no: [.null, 2]),
        Trap("CASE WHEN a > 1 THEN 1 ELSE 0 END = 0", yes: [1, "x", .null, nil], no: [2]),
    ]

    @Test("each value is found, or not, as the language says", arguments: [nil, "de-DE"])
    func bothSides(collation: String?) async throws {
        try await TestDatabase.use(collation: collation) { url in
            let (naive, real) = (MemoryStore(), try ProjectionEngine(url: url, database: "traps"))
            let traps = Self.comparisons + Self.collections + Self.texts + Self.numbers
            var documents: [Value] = []
            for (place, trap) in traps.enumerated() {
                for (kind, values) in [("yes", trap.yes), ("no", trap.no)] {
                    for (number, value) in values.enumerated() {
                        var fields: ObjectValue = [
                            "_id": .string("\(place) \(kind) \(number)"), "trap": .int(Int64(place)), "b": 5,
                        ]
                        fields["a"] = value
                        documents.append(.object(fields))
                    }
                }
            }
            for engine in [naive, real] as [any StatementEngine] {
                _ = try engine.execute(
                    "INSERT INTO c DOCUMENTS (:all)", ["all": .array(documents)], strict: false)
            }
            for (place, trap) in traps.enumerated() {
                let wanted = trap.yes.indices.map { #"{"_id":"\#(place) yes \#($0)"}"# }.sorted()
                let statement = "SELECT _id FROM c WHERE trap = \(place) AND (\(trap.condition))"
                for engine in [naive, real] as [any StatementEngine] {
                    let found = try engine.rows(statement).map { JSONText.print($0) }.sorted()
                    #expect(found == wanted, "\(trap.condition) on \(type(of: engine))")
                }
            }
        }
    }

    @Test("joins by ids pair the same documents in the same order as one lookup after the other")
    func joins() async throws {
        try await TestDatabase.use { url in
            let (naive, real) = (MemoryStore(), try ProjectionEngine(url: url, database: "joins"))
            let left = (0..<600).map { number -> Value in
                let other: [Value] = [.int(Int64(number % 40)), .double(Double(number % 7)), "none", .null]
                return ["_id": .int(Int64(number)), "r": other[number % 4], "n": .int(Int64(number % 5))]
            }
            let right = (0..<40).map { number -> Value in
                let long = String(repeating: "x", count: number == 8 ? 70_000 : 3)
                return ["_id": .int(Int64(number)), "s": .int(Int64(number % 3)), "t": .string(long)]
            }
            for engine in [naive, real] as [any StatementEngine] {
                for (name, documents) in [("l", left), ("r", right)] {
                    _ = try engine.execute(
                        "INSERT INTO \(name) DOCUMENTS (:all)", ["all": .array(documents)], strict: false)
                }
            }
            for statement in [
                "SELECT l._id AS a, r._id AS b, char_length(r.t) AS t FROM l JOIN r ON r._id = l.r",
                "SELECT l._id AS a, r._id AS b FROM l JOIN r ON l.r = r._id AND r.s > l.n - 3 WHERE l.n < 4",
                "SELECT l._id AS a, r._id AS b FROM l LEFT JOIN r ON r._id = l.r AND r.s = 1",
                "SELECT l._id AS a, r._id AS b FROM l JOIN r ON r._id = l.r LIMIT 17 OFFSET 5",
                "SELECT a._id AS a, b.s AS b FROM l a JOIN r b ON b._id = a.r JOIN l c ON c._id = b.s",
                "SELECT r.s, COUNT(*) AS n FROM l JOIN r ON r._id = l.r GROUP BY r.s",
                "SELECT l._id AS a, r.s AS b FROM l JOIN r ON r._id = l.r ORDER BY r.s DESC, l.n LIMIT 9",
            ] {
                let wanted = PushedStatementTests.outcome(statement, ObjectValue(), on: naive, inOrder: true)
                #expect(wanted.count > 2)
                #expect(
                    PushedStatementTests.outcome(statement, ObjectValue(), on: real, inOrder: true) == wanted,
                    "\(statement)")
            }
        }
    }
}
