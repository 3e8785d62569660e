import CRDT
import DQL
import DQLCorpus
import Synchronization
import Testing

/// The nodes that a statement's preparation and planning visit, the values that a parser makes, the steps of
/// a pattern: four times the input is four times the work, whatever machine counts.
@Suite("Work grows with the input, and not with its square", .timeLimit(.minutes(5)))
struct GrowthTests {
    private static let sizes = [1_000, 4_000, 16_000, 64_000]

    /// A statement of so many parts, in one of the shapes that can be long.
    struct Shape: Sendable, CustomTestStringConvertible {
        let testDescription: String
        let text: @Sendable (Int) -> String

        init(_ name: String, _ text: @escaping @Sendable (Int) -> String) {
            (testDescription, self.text) = (name, text)
        }

        static func condition(_ name: String, by word: String, _ term: @escaping @Sendable (Int) -> String)
            -> Shape
        {
            Shape(name) { count in
                "SELECT COUNT(*) FROM c WHERE " + (0..<count).map(term).joined(separator: word)
            }
        }
    }

    static let shapes: [Shape] = [
        .condition("AND", by: " AND ") { "n<>\($0)" },
        .condition("OR", by: " OR ") { "n=\($0)" },
        .condition("OR of fields", by: " OR ") { "f\($0)=1" },
        Shape("IN") {
            "SELECT COUNT(*) FROM c WHERE n IN (" + (0..<$0).map(String.init).joined(separator: ",") + ")"
        },
        Shape("a concatenation") {
            "SELECT COUNT(*) FROM c WHERE n = " + Array(repeating: "'a'", count: $0).joined(separator: "||")
        },
        Shape("CASE") {
            "SELECT CASE " + (0..<$0 / 4).map { "WHEN n=\($0) THEN \($0)" }.joined(separator: " ")
                + " END FROM c"
        },
        Shape("an array") {
            "SELECT RAW [" + Array(repeating: "n", count: $0).joined(separator: ",") + "] FROM c"
        },
        Shape("an object") {
            "SELECT RAW {" + (0..<$0).map { "'k\($0)':n" }.joined(separator: ",") + "} FROM c"
        },
        Shape("sums") { "SELECT RAW n" + (0..<$0).map { "+\($0)" }.joined() + " FROM c" },
    ]

    private static func steps(_ body: () throws -> Void) throws -> Int {
        let count = Atomic<Int>(0)
        try Preparation.interrupted(
            by: {
                count.add(1, ordering: .relaxed)
                return nil
            }, body)
        return count.load(ordering: .relaxed)
    }

    /// Each is within a tenth of four times the one before; the first has some constant work too.
    private static func expectLinear(_ steps: [Int]) {
        for (before, after) in zip(steps, steps.dropFirst()) {
            #expect(before > 0)
            #expect(Double(after) <= 4.4 * Double(before), "\(steps)")
        }
    }

    @Test("parsing, binding and printing a statement take steps that grow with its length", arguments: shapes)
    func preparation(_ shape: Shape) throws {
        Self.expectLinear(
            try Self.sizes.map { size in
                try Self.steps {
                    let statement = try PreparedStatement(shape.text(size))
                    #expect(StatementPrinter.print(statement.statement).utf8.count > size)
                }
            })
    }

    @Test(
        "planning and executing a statement with an index take steps that grow with its length",
        arguments: shapes)
    func planning(_ shape: Shape) throws {
        Self.expectLinear(
            try Self.sizes.map { size in
                let statement = try PreparedStatement(shape.text(size))
                return try Self.steps { _ = try statement.rows(in: MemoryStore()) }
            }.map { $0 + 1 })
    }

    @Test("a legacy query is parsed in steps that grow with its length")
    func legacy() throws {
        Self.expectLinear(
            try Self.sizes.map { size in
                let query = (0..<size).map { "n==\($0)" }.joined(separator: "||")
                return try Self.steps { _ = try LegacyQuery.parse(query) }
            })
    }

    @Test("each value of JSON and CBOR is counted once")
    func values() throws {
        for size in Self.sizes {
            let value = Value.object(
                ObjectValue((0..<size).map { (key: "k\($0)", value: .array([.int(Int64($0))])) }))
            // The object, and of each member its list and that one's element.
            let count = 2 * size + 1
            let bytes = [JSONText.bytes(value), CBOR.encode(value)]
            #expect(try JSONText.parseStrictly(bytes[0], within: ParsingBounds(values: count)) == value)
            #expect(try CBOR.decode(bytes[1], within: ParsingBounds(values: count)) == value)
            #expect(throws: CRDTError.self) {
                try JSONText.parseStrictly(bytes[0], within: ParsingBounds(values: count - 1))
            }
            #expect(throws: CRDTError.self) {
                try CBOR.decode(bytes[1], within: ParsingBounds(values: count - 1))
            }
        }
    }

    @Test("a pattern asks whether to go on as often as the text is long")
    func patterns() throws {
        let statement = try PreparedStatement(
            "SELECT RAW regexp_like(:t, '(a|b|ab)*c[^x]{20}y') FROM system:dual")
        Self.expectLinear(
            try Self.sizes.map { size in
                let checks = Atomic<Int>(0)
                var options = ExecutionOptions()
                options.interruption = {
                    checks.add(1, ordering: .relaxed)
                    return nil
                }
                let text = String(repeating: "ab", count: 8 * size)
                _ = try statement.rows(in: MemoryStore(), arguments: ["t": .string(text)], options: options)
                return checks.load(ordering: .relaxed) + 1
            })
    }

    @Test("the preparation of a long statement ends where its owner says so", arguments: shapes)
    func interrupted(_ shape: Shape) {
        let text = shape.text(4_000)
        let checks = Atomic<Int>(0)
        let error = #expect(throws: DQLError.self) {
            try Preparation.interrupted(by: {
                checks.add(1, ordering: .relaxed).newValue < 500 ? nil : .timeout
            }) {
                _ = try PreparedStatement(text)
            }
        }
        #expect(error?.code == .timeout)
        #expect(checks.load(ordering: .relaxed) <= 501)
    }
}
