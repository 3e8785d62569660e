import CRDT

/// An expression with its names resolved, as the evaluator runs it.
///
/// Equality is by meaning (functions by name, positions ignored): this recognizes GROUP BY keys in
/// projections.
indirect enum BoundExpression: Equatable, Sendable {
    /// A value known before the statement runs; nil is MISSING.
    case constant(Value?)
    /// An argument, by its position in the statement's parameter list.
    case parameter(Int)
    /// A field of a document, read in place.
    case field(FieldAccess)
    /// A document's id.
    case documentID(source: Int)
    /// A whole document.
    case document(source: Int)
    /// A group key or aggregate of the current group.
    case slot(Int)
    /// A variable of ANY, EVERY, ARRAY or OBJECT, by its position among those in scope.
    case local(Int)
    /// The values that concurrent writes left in a field, greatest stamp first.
    case conflicts(FieldAccess)
    /// An array's element or, if the index is a string, an object's field.
    case element(BoundExpression, BoundExpression)
    case negate(BoundExpression)
    case not(BoundExpression)
    case arithmetic(BinaryOperator, BoundExpression, BoundExpression)
    /// Three or more operands of operators that bind alike, from left to right.
    case chain(BoundExpression, [ChainStep])
    case comparison(BinaryOperator, BoundExpression, BoundExpression)
    case and([BoundExpression])
    case or([BoundExpression])
    case xor(BoundExpression, BoundExpression)
    case between(BoundExpression, low: BoundExpression, high: BoundExpression)
    /// Membership in a literal list.
    case inList(BoundExpression, [BoundExpression])
    /// Membership in a computed array.
    case inCollection(BoundExpression, BoundExpression)
    /// Membership in an array known when the statement starts.
    case inSet(BoundExpression, ValueSet)
    case like(BoundExpression, LikeMatcher)
    case similar(BoundExpression, SimilarMatcher)
    case quantified(BoundQuantified)
    case comprehension(BoundComprehension)
    case isNull(BoundExpression)
    case isMissing(BoundExpression)
    case conditional(operand: BoundExpression?, branches: [Branch], otherwise: BoundExpression)
    case array([BoundExpression])
    case object([Entry])
    case call(BoundCall)

    /// One step of a chain.
    struct ChainStep: Equatable, Sendable {
        let symbol: BinaryOperator
        let operand: BoundExpression
    }

    struct Branch: Equatable, Sendable {
        let condition: BoundExpression
        let result: BoundExpression
    }

    struct Entry: Equatable, Sendable {
        let key: String
        let value: BoundExpression

        static func == (left: Entry, right: Entry) -> Bool {
            utf8Equal(left.key, right.key) && left.value == right.value
        }
    }
}

/// A path into a document and the declared kind of each step (nil where nothing is declared).
///
/// A class, because it is read from its expression for every document: one reference instead of three.
final class FieldAccess: Equatable, Sendable {
    let source: Int
    let path: [String]
    /// The declared kinds, one per step.
    let kinds: [FieldKind?]
    /// The declaration of the last step; its children apply when a whole MAP is read.
    let declaration: TypeDeclaration?

    init(source: Int, path: [String], kinds: [FieldKind?], declaration: TypeDeclaration?) {
        precondition(!path.isEmpty && kinds.count == path.count, "a path has steps, each with its kind")
        self.source = source
        self.path = path
        self.kinds = kinds
        self.declaration = declaration
    }

    static func == (left: FieldAccess, right: FieldAccess) -> Bool {
        left.source == right.source && left.path.count == right.path.count
            && zip(left.path, right.path).allSatisfy(utf8Equal)
    }
}

/// A function and its arguments.
struct BoundCall: Equatable, Sendable {
    let function: FunctionDefinition
    let arguments: [BoundExpression]
    /// Set when the arguments it needs are known; see `FunctionDefinition.prepare`.
    var prepared: FunctionDefinition.LongEvaluation?

    static func == (left: BoundCall, right: BoundCall) -> Bool {
        left.function.name == right.function.name && left.arguments == right.arguments
    }
}

/// The distinct values of an array, for membership tests.
struct ValueSet: Equatable, Sendable {
    /// The values without nulls, as they were given.
    let values: [Value]
    private let keys: Set<ValueKey>
    /// True if the array holds a null: then "not found" is NULL rather than false.
    let hasNull: Bool

    init(_ values: [Value]) {
        var keys: Set<ValueKey> = []
        var hasNull = false
        for value in values {
            if case .null = value { hasNull = true } else { keys.insert(ValueKey(value)) }
        }
        self.values = values.filter { $0 != .null }
        self.keys = keys
        self.hasNull = hasNull
    }

    func contains(_ value: Value) -> Bool { keys.contains(ValueKey(value)) }
}
