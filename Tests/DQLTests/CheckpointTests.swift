import CRDT
import DQL
import DQLCorpus
import Synchronization
import Testing

/// Expressions whose work is not bounded by the rows: each asks on its way whether to go on, and counts the
/// memory of what it holds.
@Suite("Checks on the way through long work", .timeLimit(.minutes(2)))
struct CheckpointTests {
    private static func numbers(_ count: Int) -> Value { .array((0..<count).map { .int(Int64($0)) }) }

    private static func object(_ count: Int) -> Value {
        .object(ObjectValue((0..<count).map { (key: "k\($0)", value: .int(Int64($0))) }))
    }

    /// Letters without a pattern, so that a regular expression meets many states.
    private static func letters(_ count: Int) -> Value {
        var state: UInt64 = 88_172_645_463_325_252
        return .string(
            String(
                (0..<count).map { _ in
                    state ^= state << 13
                    state ^= state >> 7
                    state ^= state << 17
                    return state & 1 == 0 ? "a" : "b"
                }))
    }

    private static let arguments: ObjectValue = [
        "l": numbers(60), "m": numbers(3_000), "n": numbers(3_000), "o": object(2_000),
        "t": letters(20_000), "p": .string("(a|b)*a(a|b){11}c"),
    ]

    /// Expressions over the arguments, each of far more than a thousand steps and of few elements.
    static let long = [
        "ANY q IN [:m] SATISFIES ANY v IN :l SATISFIES v < 0 AND v IN q OR -1 - v IN q END END",
        "ANY v IN :l SATISFIES :m = :n AND v < 0 END",
        "ANY v IN :l SATISFIES :m BETWEEN :n AND :n AND v < 0 END",
        "ANY q IN [:o] SATISFIES ANY v IN :l SATISFIES q['none'] = v END END",
        "ANY q IN [:m] SATISFIES ANY v IN :l SATISFIES q IN (:l, 1) AND v < 0 END END",
        "ANY v IN :l SATISFIES ANY w IN :o SATISFIES w + v < 0 END END",
        "regexp_like(:t, '(a|b)*a(a|b){11}c')",
        "regexp_like(:t, :p)",
        ":t SIMILAR TO '(a|b)*a(a|b){11}c'",
        "object_length(object_concat("
            + Array(repeating: ":o", count: 60).joined(separator: ",") + ")) = 1",
    ]

    @Test("it ends at the second check", arguments: long)
    func interrupted(_ expression: String) throws {
        let checks = Atomic<Int>(0)
        var options = ExecutionOptions()
        options.interruption = {
            checks.add(1, ordering: .relaxed).newValue < 2 ? nil : .timeout
        }
        let statement = try StatementCompiler.compile("SELECT RAW \(expression) FROM system:dual")
        let error = #expect(throws: DQLError.self) {
            try statement.rows(in: MemoryStore(), arguments: Self.arguments(of: statement), options: options)
        }
        #expect(error?.code == .timeout)
        #expect(checks.load(ordering: .relaxed) == 2)
    }

    @Test("its answer is the same with checks and without", arguments: long)
    func answers(_ expression: String) throws {
        var options = ExecutionOptions()
        options.interruption = { nil }
        let statement = try StatementCompiler.compile("SELECT RAW \(expression) FROM system:dual")
        let rows = try statement.rows(
            in: MemoryStore(), arguments: Self.arguments(of: statement), options: options)
        #expect(rows == [false])
    }

    private static func arguments(of statement: PreparedStatement) -> ObjectValue {
        ObjectValue(arguments.entries.filter { statement.parameterNames.contains($0.key) })
    }

    /// How often a statement asks whether to go on.
    private func checks(_ statement: String, _ arguments: ObjectValue, _ store: MemoryStore) throws -> Int {
        let checks = Atomic<Int>(0)
        var options = ExecutionOptions()
        options.interruption = {
            checks.add(1, ordering: .relaxed)
            return nil
        }
        _ = try StatementCompiler.compile(statement).execute(
            in: store, arguments: arguments, options: options, idGenerator: { try DocumentID(.int(1)) })
        return checks.load(ordering: .relaxed)
    }

    @Test("sorting by long keys counts their comparisons")
    func sorting() throws {
        let store = MemoryStore()
        for id in 0..<40 { _ = try store.execute("INSERT INTO c DOCUMENTS ({'_id': \(id)})") }
        let sorted = try checks("SELECT RAW _id FROM c ORDER BY [:m, _id]", ["m": Self.numbers(3_000)], store)
        let evaluated = try checks(
            "SELECT RAW _id FROM c WHERE [:m, _id] = :m", ["m": Self.numbers(3_000)], store)
        #expect(sorted > 2 * evaluated)
    }

    @Test("a row of a long statement counts for more than one of a short statement")
    func longStatement() throws {
        let store = MemoryStore()
        for id in 0..<20 { _ = try store.execute("INSERT INTO c DOCUMENTS ({'_id': \(id), 'a': \(id)})") }
        let terms = (0..<20_000).map { "a + \($0) = b" }.joined(separator: " OR ")
        #expect(try checks("SELECT RAW _id FROM c WHERE \(terms)", [:], store) >= 5)
        #expect(try checks("SELECT RAW _id FROM c WHERE a = -1", [:], store) == 0)
    }

    @Test(
        "every document that is written is a check",
        arguments: ["UPDATE c SET a = 1", "DELETE FROM c", "INSERT INTO d SELECT * FROM c"])
    func writes(_ statement: String) throws {
        let store = MemoryStore()
        for id in 0..<5 { _ = try store.execute("INSERT INTO c DOCUMENTS ({'_id': \(id)})") }
        #expect(try checks(statement, [:], store) >= 5)
    }

    @Test(
        "what an expression holds while it makes more is bounded",
        arguments: [
            "[" + Array(repeating: "repeat('x', 1000000)", count: 20).joined(separator: ",") + "]",
            "{" + (0..<20).map { "'k\($0)': repeat('x', 1000000)" }.joined(separator: ",") + "}",
            "ARRAY repeat('x', 1000000) FOR v IN :l END",
            "OBJECT 'k' || v : repeat('x', 1000000) FOR v IN ARRAY lpad('', w, 'x') FOR w IN :l END END",
            "char_length(concat(" + Array(repeating: "repeat('x', 1000000)", count: 20).joined(separator: ",")
                + "))",
            "ARRAY :m FOR v IN ARRAY w FOR w IN :m END END",
        ])
    func memory(_ expression: String) throws {
        var options = ExecutionOptions()
        options.materializedBytes = 10_000_000
        let statement = try StatementCompiler.compile("SELECT RAW \(expression) FROM system:dual")
        let error = #expect(throws: DQLError.self) {
            try statement.rows(in: MemoryStore(), arguments: Self.arguments(of: statement), options: options)
        }
        #expect(error?.code == .tooManyRows)
    }

    @Test("the columns of one row are bounded, and so are the extremes and distinct values of groups")
    func rowMemory() throws {
        let store = MemoryStore()
        for id in 0..<30 { _ = try store.execute("INSERT INTO c DOCUMENTS ({'_id': \(id)})") }
        let columns = (0..<20).map { "repeat('x', 1000000) AS k\($0)" }.joined(separator: ", ")
        let text = "repeat('x', 1000000) || _id"
        for statement in [
            "SELECT \(columns) FROM c", "SELECT MAX(\(text)) FROM c GROUP BY _id",
            "SELECT COUNT(DISTINCT \(text)) FROM c",
        ] {
            var options = ExecutionOptions()
            options.materializedBytes = 10_000_000
            let prepared = try StatementCompiler.compile(
                statement.replacing("|| _id", with: "|| lpad('', _id, 'y')"))
            let error = #expect(throws: DQLError.self) {
                try prepared.rows(in: store, options: options)
            }
            #expect(error?.code == .tooManyRows, "\(statement)")
        }
    }

    @Test("values that are let go again count no more")
    func released() throws {
        var options = ExecutionOptions()
        options.materializedBytes = 10_000_000
        let rows = try StatementCompiler.compile(
            "SELECT RAW ARRAY char_length(concat(repeat('x', 100000), repeat('y', 1))) FOR v IN :m END"
                + " FROM system:dual"
        ).rows(in: MemoryStore(), arguments: ["m": Self.numbers(300)], options: options)
        #expect(rows == [.array(Array(repeating: 100_001, count: 300))])
    }

    @Test("a subscription's condition is interrupted, and matches as before where it is not")
    func subscription() throws {
        let store = MemoryStore()
        _ = try store.execute("INSERT INTO c DOCUMENTS ({'_id': 1})")
        let query = try SubscriptionQuery(
            statement: "SELECT * FROM c WHERE ANY v IN :l SATISFIES ANY w IN :m SATISFIES v + w < 0 END END",
            arguments: ["l": Self.numbers(60), "m": Self.numbers(3_000)])
        var matches: [Bool] = []
        try store.scan("c") { record in
            matches += [try query.matches(record), try query.matches(record) { nil }]
            return true
        }
        #expect(matches == [false, false])
        let error = #expect(throws: DQLError.self) {
            try store.scan("c") { try query.matches($0) { .timeout } }
        }
        #expect(error?.code == .timeout)
    }
}
