import CRDT

/// An expression with its names resolved: what the evaluator runs.
///
/// Equality is by meaning (a function by its name, positions ignored), which is how GROUP BY keys are
/// recognized in projections.
indirect enum BoundExpression: Equatable, Sendable {
    /// A value known before the statement runs; nil is MISSING.
    case constant(Value?)
    /// An argument, by its place in the statement's parameter list.
    case parameter(Int)
    /// A field of a document, read in place.
    case field(FieldAccess)
    /// A document's id.
    case documentID(source: Int)
    /// A whole document.
    case document(source: Int)
    /// A group key or aggregate of the current group.
    case slot(Int)
    /// An array's element or, the index being a string, an object's field.
    case element(BoundExpression, BoundExpression)
    case negate(BoundExpression)
    case not(BoundExpression)
    case arithmetic(BinaryOperator, BoundExpression, BoundExpression)
    case comparison(BinaryOperator, BoundExpression, BoundExpression)
    case and([BoundExpression])
    case or([BoundExpression])
    case xor(BoundExpression, BoundExpression)
    case between(BoundExpression, low: BoundExpression, high: BoundExpression)
    /// Membership in a list written out.
    case inList(BoundExpression, [BoundExpression])
    /// Membership in an array that is computed.
    case inCollection(BoundExpression, BoundExpression)
    /// Membership in an array known when the statement starts.
    case inSet(BoundExpression, ValueSet)
    case like(BoundExpression, LikeMatcher)
    case isNull(BoundExpression)
    case isMissing(BoundExpression)
    case conditional(operand: BoundExpression?, branches: [Branch], otherwise: BoundExpression)
    case array([BoundExpression])
    case object([Entry])
    case call(BoundCall)

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
struct FieldAccess: Equatable, Sendable {
    let source: Int
    let path: [String]
    /// As many as there are steps.
    let kinds: [FieldKind?]
    /// The declaration of the last step, whose children a whole MAP is read with.
    let declaration: TypeDeclaration?

    static func == (left: FieldAccess, right: FieldAccess) -> Bool {
        left.source == right.source && left.path.count == right.path.count
            && zip(left.path, right.path).allSatisfy(utf8Equal)
    }
}

/// A function and its arguments.
struct BoundCall: Equatable, Sendable {
    let function: FunctionDefinition
    let arguments: [BoundExpression]
    /// Made when the arguments that it rests on are known; see `FunctionDefinition.prepare`.
    var prepared: FunctionDefinition.Evaluation?

    static func == (left: BoundCall, right: BoundCall) -> Bool {
        left.function.name == right.function.name && left.arguments == right.arguments
    }
}

/// The pattern of a LIKE: prepared when it is known, else made for each document.
enum LikeMatcher: Equatable, Sendable {
    case prepared(LikePattern)
    indirect case computed(pattern: BoundExpression, escape: BoundExpression?, ignoresCase: Bool)
}

/// The distinct values of an array, for membership tests.
struct ValueSet: Equatable, Sendable {
    /// The values without nulls, as they were given.
    let values: [Value]
    private let keys: Set<ValueKey>
    /// Whether the array holds a null: then "not found" is NULL rather than false.
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

extension BoundExpression {
    /// The same expression with its direct parts replaced.
    func mapChildren(_ transform: (BoundExpression) -> BoundExpression) -> BoundExpression {
        switch self {
        case .constant, .parameter, .field, .documentID, .document, .slot: self
        case .element(let base, let index): .element(transform(base), transform(index))
        case .negate(let operand): .negate(transform(operand))
        case .not(let operand): .not(transform(operand))
        case .arithmetic(let symbol, let left, let right):
            .arithmetic(symbol, transform(left), transform(right))
        case .comparison(let symbol, let left, let right):
            .comparison(symbol, transform(left), transform(right))
        case .and(let operands): .and(operands.map(transform))
        case .or(let operands): .or(operands.map(transform))
        case .xor(let left, let right): .xor(transform(left), transform(right))
        case .between(let value, let low, let high):
            .between(transform(value), low: transform(low), high: transform(high))
        case .inList(let value, let elements): .inList(transform(value), elements.map(transform))
        case .inCollection(let value, let collection): .inCollection(transform(value), transform(collection))
        case .inSet(let value, let set): .inSet(transform(value), set)
        case .like(let value, .prepared(let pattern)): .like(transform(value), .prepared(pattern))
        case .like(let value, .computed(let pattern, let escape, let ignoresCase)):
            .like(
                transform(value),
                .computed(
                    pattern: transform(pattern), escape: escape.map(transform), ignoresCase: ignoresCase))
        case .isNull(let operand): .isNull(transform(operand))
        case .isMissing(let operand): .isMissing(transform(operand))
        case .conditional(let operand, let branches, let otherwise):
            .conditional(
                operand: operand.map(transform),
                branches: branches.map {
                    Branch(condition: transform($0.condition), result: transform($0.result))
                },
                otherwise: transform(otherwise))
        case .array(let elements): .array(elements.map(transform))
        case .object(let entries): .object(entries.map { Entry(key: $0.key, value: transform($0.value)) })
        case .call(let call):
            .call(
                BoundCall(
                    function: call.function, arguments: call.arguments.map(transform), prepared: call.prepared
                ))
        }
    }

    /// The expression with its parameters replaced by their arguments, and what is known thereby worked out:
    /// sets for IN, patterns for LIKE. Done once per execution.
    func specialized(_ arguments: [Value]) -> BoundExpression {
        if case .parameter(let index) = self { return .constant(arguments[index]) }
        return mapChildren { $0.specialized(arguments) }.prepared
    }

    /// Membership and patterns whose right side is known, prepared.
    var prepared: BoundExpression {
        switch self {
        case .inCollection(let value, .constant(.array(let elements)?))
        where elements.count >= DQLLimits.setLookupElements:
            return .inSet(value, ValueSet(elements))
        case .inList(let value, let elements) where elements.count >= DQLLimits.setLookupElements:
            let known = elements.compactMap { if case .constant(let value?) = $0 { value } else { nil } }
            return known.count == elements.count ? .inSet(value, ValueSet(known)) : self
        case .like(let value, .computed(.constant(.string(let pattern)?), nil, let ignoresCase)):
            return .like(value, .prepared(LikePattern(pattern, ignoresCase: ignoresCase)))
        case .like(
            let value, .computed(.constant(.string(let pattern)?), .constant(let escape)?, let ignoresCase)):
            guard let scalar = LikeMatcher.escapeCharacter(escape) else { return .constant(nil) }
            return .like(value, .prepared(LikePattern(pattern, escape: scalar, ignoresCase: ignoresCase)))
        case .call(let call) where call.prepared == nil:
            let known = call.arguments.map { argument -> KnownArgument in
                if case .constant(let value) = argument { .known(value) } else { .unknown }
            }
            return .call(
                BoundCall(
                    function: call.function, arguments: call.arguments,
                    prepared: call.function.prepare(known)))
        default: return self
        }
    }
}

extension LikeMatcher {
    /// The one character of an ESCAPE; nil when it is anything else.
    static func escapeCharacter(_ value: Value?) -> Unicode.Scalar? {
        guard let scalars = value?.stringValue?.unicodeScalars, scalars.count == 1 else { return nil }
        return scalars.first
    }
}
