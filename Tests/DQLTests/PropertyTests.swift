import CRDT
import DQL
import DQLCorpus
import Testing

@Suite("Relations on generated documents")
struct PropertyTests {
    @Test("a condition, its negation and what is unknown part the rows", arguments: 0..<400)
    func partition(seed: Int) throws {
        var generator = Generator(seed: UInt64(seed))
        let store = try generator.store()
        let condition = generator.condition(depth: 3)
        func ids(_ condition: String) throws -> [Int64] {
            try store.rows("SELECT RAW _id FROM c WHERE \(condition)").compactMap(\.intValue)
        }
        let all = try store.rows("SELECT RAW _id FROM c").compactMap(\.intValue)
        let yes = try ids(condition)
        let no = try ids("NOT (\(condition))")
        let unknown = try ids("(\(condition)) IS NULL OR (\(condition)) IS MISSING")
        let rest = try ids(
            "type(\(condition)) != 'boolean' AND type(\(condition)) NOT IN ('null', 'missing')")
        #expect((yes + no + unknown + rest).sorted() == all.sorted(), "\(condition)")
    }

    @Test("the order of an AND and a huge LIMIT change nothing", arguments: 0..<200)
    func rewrites(seed: Int) throws {
        var generator = Generator(seed: UInt64(seed) + 10_000)
        let store = try generator.store()
        let one = generator.condition(depth: 2)
        let two = generator.condition(depth: 2)
        let rows = try store.rows("SELECT * FROM c WHERE (\(one)) AND (\(two))")
        #expect(try store.rows("SELECT * FROM c WHERE (\(two)) AND (\(one))") == rows)
        #expect(try store.rows("SELECT * FROM c WHERE (\(one)) AND (\(two)) LIMIT 1000000 OFFSET 0") == rows)
        let statement = try StatementCompiler.parse("SELECT * FROM c WHERE (\(one)) AND (\(two))")
        #expect(try StatementCompiler.parse(StatementPrinter.print(statement)) == statement)
        #expect(try store.rows(StatementPrinter.print(statement)) == rows)
    }

    @Test("a top-k sort gives the beginning of the whole sort", arguments: 0..<200)
    func topRows(seed: Int) throws {
        var generator = Generator(seed: UInt64(seed) + 20_000)
        let store = try generator.store()
        let order =
            "\(generator.field()) \(generator.pick(["ASC", "DESC"])), \(generator.field()) DESC NULLS FIRST"
        let all = try store.rows("SELECT RAW _id FROM c ORDER BY \(order)")
        let limit = generator.number(below: 12)
        let offset = generator.number(below: 5)
        let some = try store.rows("SELECT RAW _id FROM c ORDER BY \(order) LIMIT \(limit) OFFSET \(offset)")
        #expect(some == Array(all.dropFirst(offset).prefix(limit)), "\(order)")
        #expect(all.count == Generator.documentCount)
    }
}

/// Random documents and conditions over few fields and few values, so that they meet often.
struct Generator {
    static let documentCount = 25
    private var state: UInt64

    init(seed: UInt64) { state = seed &* 0x9E37_79B9_7F4A_7C15 | 1 }

    mutating func number(below bound: Int) -> Int {
        state ^= state << 13
        state ^= state >> 7
        state ^= state << 17
        return Int(state >> 33) % bound
    }

    mutating func pick<Item>(_ items: [Item]) -> Item { items[number(below: items.count)] }

    mutating func field() -> String { pick(["a", "b", "c", "o.x", "o.y", "l[0]"]) }

    mutating func store() throws -> MemoryStore {
        let store = MemoryStore()
        let values = [
            "1", "1.0", "2", "-3.5", "'a'", "'b'", "'B'", "true", "false", "null", "[1]", "{'x': 1}",
        ]
        for id in 0..<Self.documentCount {
            var fields = ["'_id': \(id)"]
            for name in ["a", "b", "c"] where number(below: 4) > 0 {
                fields.append("'\(name)': \(pick(values))")
            }
            if number(below: 2) == 0 { fields.append("'o': {'x': \(pick(values)), 'y': \(pick(values))}") }
            if number(below: 2) == 0 { fields.append("'l': [\(pick(values))]") }
            _ = try store.execute("INSERT INTO c DOCUMENTS ({\(fields.joined(separator: ", "))})")
        }
        return store
    }

    mutating func condition(depth: Int) -> String {
        guard depth > 0, number(below: 4) > 0 else { return predicate() }
        let left = condition(depth: depth - 1)
        let right = condition(depth: depth - 1)
        return pick([
            "(\(left)) AND (\(right))", "(\(left)) OR (\(right))", "NOT (\(left))",
            "(\(left)) XOR (\(right))",
        ])
    }

    private mutating func predicate() -> String {
        let operand = field()
        let literal = pick(["1", "2.0", "'a'", "true", "null", "MISSING", "[1]", "b", "a + 1"])
        switch number(below: 7) {
        case 0: return "\(operand) IN (1, 'a', \(literal))"
        case 1: return "\(operand) BETWEEN \(literal) AND 5"
        case 2: return "\(operand) LIKE '%a%'"
        case 3: return "\(operand) IS \(pick(["NULL", "NOT NULL", "MISSING", "NOT MISSING"]))"
        case 4: return operand
        default: return "\(operand) \(pick(["=", "!=", "<", "<=", ">", ">="])) \(literal)"
        }
    }
}
