import CRDT
import DQL

/// A rule that holds for any documents and any statement: it needs no expected result, only a second way to
/// get the same one.
public struct Relation: Sendable {
    /// A sentence without its end.
    public let name: String
    let check: @Sendable (inout Trial) throws -> Void

    init(_ name: String, _ check: @escaping @Sendable (inout Trial) throws -> Void) {
        self.name = name
        self.check = check
    }

    /// All relations. The number of a case chooses its relation, so new ones are added at the end of their
    /// group, and change the cases.
    public static let all: [Relation] =
        PartitionRelations.all + LogicRelations.all + PredicateRelations.all + OrderRelations.all
        + WordingRelations.all + StatementRelations.all + ReferenceRelations.all
        + CollectionRelations.all + JoinRelations.all
}

/// One relation on one store: executes, compares and records the statements.
struct Trial {
    let engine: any StatementEngine
    var grammar: Grammar
    private(set) var asked: [String] = []

    /// The error of a relation that does not hold.
    struct Violation: Error {
        let message: String
    }

    init(engine: any StatementEngine, choices: Choices) {
        self.engine = engine
        grammar = Grammar(choices)
    }

    // MARK: Asking

    /// Executes a statement with the arguments of `grammar`, or with others.
    mutating func execute(
        _ statement: String, _ arguments: ObjectValue? = nil, strict: Bool = false
    ) throws -> StatementResult {
        asked.append(statement)
        return try engine.execute(statement, arguments ?? grammar.arguments, strict: strict)
    }

    mutating func rows(
        _ statement: String, _ arguments: ObjectValue? = nil, strict: Bool = false
    ) throws -> [Value] {
        try execute(statement, arguments, strict: strict).rows
    }

    /// The ids of the documents in `c` for which a condition is true.
    mutating func ids(_ condition: String) throws -> [Value] {
        try rows("SELECT RAW _id FROM c WHERE \(condition)")
    }

    /// The value of an expression on each document: id, type and value, so that null and missing differ.
    mutating func observe(_ expression: String) throws -> [Value] {
        try rows("SELECT RAW {'i': _id, 't': type(\(expression)), 'v': \(expression)} FROM c")
    }

    // MARK: Comparing

    /// Checks for the same rows, each as often, in any order.
    func same(_ one: [Value], _ two: [Value], _ what: String) throws {
        try same(inOrder: Self.sorted(one), Self.sorted(two), what)
    }

    /// Checks for the same rows in the same order.
    func same(inOrder one: [Value], _ two: [Value], _ what: String) throws {
        guard one != two else { return }
        throw Violation(message: "\(what): \(Self.text(one)) and \(Self.text(two))")
    }

    func holds(_ condition: Bool, _ what: @autoclosure () -> String) throws {
        guard !condition else { return }
        throw Violation(message: what())
    }

    private static func sorted(_ values: [Value]) -> [Value] {
        values.map { (bytes: CBOR.encode($0), value: $0) }
            .sorted { $0.bytes.lexicographicallyPrecedes($1.bytes) }.map(\.value)
    }

    static func text(_ values: [Value]) -> String { Value.array(values).words }
}
