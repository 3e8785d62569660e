import CRDT
import DQL
import DQLCorpus
import TestSupport
import Testing

/// Legacy queries as statements, and their behaviour at their limits. Samples/legacy.txt has their meaning.
@Suite("Legacy queries")
struct LegacyTests {
    @Test("a legacy query subscribes to what the same DQL statement subscribes to")
    func subscription() throws {
        let legacy = try SubscriptionQuery(
            statement: LegacyQuery.statement("color == $args.color && !sold", from: "cars"),
            arguments: ["color": "red"])
        let dql = try SubscriptionQuery(
            statement: "SELECT * FROM cars WHERE color = :color AND NOT sold", arguments: ["color": "red"])
        #expect(legacy.canonicalKey == dql.canonicalKey)
        #expect(legacy.collection == "cars")
    }

    @Test("a legacy query finds what its words say, null where a field is null or not there")
    func execution() throws {
        let store = MemoryStore()
        _ = try store.execute(
            "INSERT INTO c DOCUMENTS ({'_id': 1, 'a': null}), ({'_id': 2}), ({'_id': 3, 'a': 'x', "
                + "'b': ['x', 'y']})"
        )
        func ids(_ query: String) throws -> [Value] {
            try store.rows(LegacyQuery.statement(query, from: "c")).compactMap { $0["_id"] }
        }
        #expect(try ids("a == null") == [1, 2])
        #expect(try ids("a != null") == [3])
        #expect(try ids("contains(['x', 'z'], a) && b[1] == 'y'") == [3])
        #expect(try ids("a == null == null") == [])
        #expect(try ids("keys(a) == null") == [1, 2, 3])
        #expect(try ids("keys(a) != null || b[0] != null") == [3])
        #expect(try ids("startsWith(a, 'x')") == [3])
        #expect(try ids("\"true\"") == [1, 2, 3])
    }

    @Test("a collection's name is quoted where it has to be, and refused where no collection can have it")
    func collections() throws {
        #expect(try LegacyQuery.statement("true", from: "my cars") == "SELECT * FROM `my cars` WHERE TRUE")
        let error = #expect(throws: DQLError.self) { try LegacyQuery.select("true", from: "") }
        #expect(error?.code == .invalidCollectionName)
    }

    @Test("a selection is the statement over its documents: sorted, by id where nothing else parts them")
    func selections() throws {
        var selection = LegacySelection("color == $args.color")
        #expect(
            try selection.statement(.select, from: "my cars")
                == "SELECT * FROM `my cars` WHERE color = :color ORDER BY _id")
        #expect(try selection.statement(.delete, from: "cars") == "DELETE FROM cars WHERE color = :color")
        selection.order = [("year", true), ("engine['k w']", false)]
        selection.limit = 3
        selection.offset = 2
        #expect(
            try selection.statement(.evict, from: "cars")
                == "EVICT FROM cars WHERE color = :color ORDER BY year DESC, engine.`k w`, _id"
                + " LIMIT 3 OFFSET 2"
        )
        #expect(try LegacySelection(nil).statement(.delete, from: "cars") == "DELETE FROM cars")
        #expect(throws: DQLError.self) { try LegacySelection("a ==").statement(.select, from: "cars") }
        #expect(throws: DQLError.self) { try LegacySelection(nil).statement(.select, from: "") }
    }

    @Test(
        "a value that is written in the language is read as that value",
        arguments: [
            .null, true, 5, -5, .int(.min), .double(-2.5), "x", "a \"b\" \\ 'c' \n", "",
            .array([1, .array([]), "y"]),
            .object(ObjectValue([(key: "a \"b\"", value: 1), (key: "", value: .object(ObjectValue()))])),
        ] as [Value])
    func literals(value: Value) throws {
        let text = try #require(LegacyQuery.literal(value))
        let store = MemoryStore()
        _ = try store.execute(
            "INSERT INTO c DOCUMENTS (:d)",
            ObjectValue([(key: "d", value: .object(ObjectValue([(key: "v", value: value)])))]))
        let found = try store.rows(LegacyQuery.statement("v == \(text)", from: "c"))
        #expect(found.count == 1)
        #expect(LegacyQuery.literal(.array([.binary([1])])) == nil)
    }

    @Test("an object with a key that stands twice is refused where it stands")
    func objects() {
        let twice = #expect(throws: DQLError.self) { try LegacyQuery.parse("_id == {a: 1, 'a': 2}") }
        #expect(twice?.code == .syntax && twice?.position?.column == 15)
        let parameter = #expect(throws: DQLError.self) { try LegacyQuery.parse("a == :a") }
        #expect(parameter?.suggestion == "$args.name" && parameter?.code == .invalidCharacter)
    }

    @Test(
        "whatever nests too deeply ends at once with an error",
        arguments: [
            String(repeating: "(", count: 10_000), String(repeating: "!", count: 10_000),
            String(repeating: "[", count: 10_000), String(repeating: "keys(", count: 10_000),
            "a" + String(repeating: "[0]", count: 10_000), "a" + String(repeating: ".a", count: 10_000),
            Array(repeating: "a", count: 10_000).joined(separator: " == "),
            String(repeating: "a[", count: 10_000), String(repeating: "not ", count: 10_000),
            String(repeating: "{a:", count: 10_000),
        ])
    func nesting(_ query: String) {
        let error = #expect(throws: DQLError.self) { try LegacyQuery.parse(query) }
        #expect([.nestingTooDeep, .syntax].contains(error?.code))
    }

    @Test("a query as long as allowed ends quickly, a longer one at once")
    func long() throws {
        let conditions = Array(repeating: "a==1", count: 100_000).joined(separator: " || ")
        #expect(throws: Never.self) { try LegacyQuery.parse(conditions) }
        let tested = "a" + String(repeating: " == null", count: 60)
        #expect(try LegacyQuery.statement(tested, from: "c").utf8.count < 4_096)
        let list = "a in [" + Array(repeating: "1", count: 100_000).joined(separator: ",") + "]"
        let tooMany = #expect(throws: DQLError.self) { try LegacyQuery.parse(list) }
        #expect(tooMany?.code == .inListTooLong)
        let tooLong = #expect(throws: DQLError.self) {
            try LegacyQuery.parse(String(repeating: " ", count: DQLLimits.statementBytes + 1))
        }
        #expect(tooLong?.code == .statementTooLong)
    }

    @Test("an unknown function suggests the known one, an empty query says that it is empty")
    func messages() {
        let unknown = #expect(throws: DQLError.self) { try LegacyQuery.parse("startWith(a, 'b')") }
        #expect(unknown?.suggestion == "startsWith")
        let empty = #expect(throws: DQLError.self) { try LegacyQuery.parse(" \n") }
        #expect(empty?.code == .unexpectedEnd)
        #expect(empty?.position == SourcePosition(line: 1, column: 1))
    }

    @Test(
        "a damaged query is refused inside the text or reads back from its statement",
        arguments: Depth.cases(fast: 50, deep: 500))
    func damaged(seed: Int) throws {
        var choices = Choices(seed: UInt64(seed) + 70_000)
        let queries = SampleStatementTests.legacyLines.map { $0.components(separatedBy: " ==> ")[0] }
        for _ in 0..<40 {
            let text = Damage.damage(choices.pick(queries), with: choices.pick(queries), &choices)
            let outcome = Damage.outcome(of: text) { text throws(DQLError) in
                try LegacyQuery.statement(text, from: "c")
            }
            #expect(outcome.isPositionInside, "\(text)")
            let again = try outcome.result.map { try StatementPrinter.print(StatementCompiler.parse($0)) }
            #expect(again == outcome.result, "\(text)")
        }
    }
}
