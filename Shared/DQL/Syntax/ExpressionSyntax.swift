import CRDT

/// An expression as written, parentheses removed. Comparison ignores spans.
///
/// Invariant: a tree from the parser is at most `DQLLimits.nestingDepth` levels deep.
public struct ExpressionSyntax: Equatable, Sendable {
    /// The kind of expression.
    public let kind: Kind
    /// The place where it was written.
    public let span: SourceSpan
    /// The number of levels; 1 for a leaf.
    let depth: Int

    /// The kinds of expressions.
    public indirect enum Kind: Equatable, Sendable {
        /// A literal that is not an array or object.
        case literal(Value)
        /// The word MISSING.
        case missing
        /// `:name`.
        case parameter(NameSyntax)
        /// The first name of a path.
        case name(NameSyntax)
        /// `base.name`.
        case member(ExpressionSyntax, NameSyntax)
        /// `base[index]`.
        case element(ExpressionSyntax, ExpressionSyntax)
        /// `-x`.
        case negate(ExpressionSyntax)
        /// `NOT x`.
        case not(ExpressionSyntax)
        /// An operator with two operands.
        case binary(BinaryOperator, ExpressionSyntax, ExpressionSyntax)
        /// Three or more operands of operators that bind alike, from left to right; `a + b - c` is one node.
        /// Comparisons are never chained.
        case chain(ExpressionSyntax, [ChainStep])
        /// Two or more operands of AND; `a AND b AND c` is one node.
        case and([ExpressionSyntax])
        /// Two or more operands of OR.
        case or([ExpressionSyntax])
        /// `x [NOT] BETWEEN low AND high`.
        case between(ExpressionSyntax, low: ExpressionSyntax, high: ExpressionSyntax, negated: Bool)
        /// `x [NOT] IN (a, b)`.
        case inList(ExpressionSyntax, [ExpressionSyntax], negated: Bool)
        /// `x [NOT] IN :array`.
        case inCollection(ExpressionSyntax, ExpressionSyntax, negated: Bool)
        /// `x [NOT] LIKE pattern [ESCAPE character]`, and ILIKE.
        case like(
            ExpressionSyntax, pattern: ExpressionSyntax, escape: ExpressionSyntax?, ignoresCase: Bool,
            negated: Bool)
        /// `x [NOT] SIMILAR TO pattern [ESCAPE character]`.
        case similar(
            ExpressionSyntax, pattern: ExpressionSyntax, escape: ExpressionSyntax?, negated: Bool)
        /// `x IS [NOT] NULL` and `x IS [NOT] MISSING`.
        case isTest(ExpressionSyntax, AbsenceTest, negated: Bool)
        /// `CASE [operand] WHEN … THEN … [ELSE …] END`.
        case conditional(operand: ExpressionSyntax?, branches: [Branch], otherwise: ExpressionSyntax?)
        /// `[a, b]`.
        case array([ExpressionSyntax])
        /// `{'k': v}`.
        case object([Entry])
        /// `f(a, b)`; the name in lower case.
        case call(CallSyntax)
        /// `ANY v IN list SATISFIES … END`.
        case quantified(QuantifiedSyntax)
        /// `ARRAY … FOR v IN list END`.
        case arrayComprehension(ArrayComprehensionSyntax)
        /// `OBJECT k : v FOR v IN list END`.
        case objectComprehension(ObjectComprehensionSyntax)
        /// `(SELECT …)` as a value.
        case subquery(SelectStatement)
        /// `EXISTS (SELECT …)`.
        case exists(SelectStatement)
        /// `x [NOT] IN (SELECT …)`.
        case inSubquery(ExpressionSyntax, SelectStatement, negated: Bool)
    }

    /// One step of a chain: an operator and its right operand.
    public struct ChainStep: Equatable, Sendable {
        /// The operator.
        public let symbol: BinaryOperator
        /// The right operand.
        public let operand: ExpressionSyntax
    }

    /// `WHEN condition THEN result`.
    public struct Branch: Equatable, Sendable {
        /// The condition, or the value that the operand is compared with.
        public let condition: ExpressionSyntax
        /// The result.
        public let result: ExpressionSyntax
    }

    /// `'key': value`.
    public struct Entry: Equatable, Sendable {
        /// The key.
        public let key: String
        /// The value.
        public let value: ExpressionSyntax

        /// Compares keys by bytes, and values.
        public static func == (left: Entry, right: Entry) -> Bool {
            utf8Equal(left.key, right.key) && left.value == right.value
        }
    }

    init(_ kind: Kind, _ span: SourceSpan) {
        self.kind = kind
        self.span = span
        depth = 1 + kind.depthBelow
    }

    /// The expression in canonical form, as `StatementPrinter` writes it.
    public var text: String { ExpressionPrinter.print(self) }
}

/// A call of a function or aggregate.
public struct CallSyntax: Equatable, Sendable {
    /// The function's name in lower case.
    public let name: String
    /// The arguments; empty for `COUNT(*)`.
    public let arguments: [ExpressionSyntax]
    /// `COUNT(DISTINCT x)`.
    public let isDistinct: Bool
    /// `COUNT(*)`.
    public let isStar: Bool
}

/// The absence that an IS test looks for.
public enum AbsenceTest: String, Sendable {
    /// IS NULL: null, not missing.
    case null = "NULL"
    /// IS MISSING.
    case missing = "MISSING"
}

/// Operators with two operands. The raw value is the printed form.
public enum BinaryOperator: String, Sendable, CaseIterable {
    /// Product.
    case multiply = "*"
    /// Quotient; truncates between integers.
    case divide = "/"
    /// Remainder.
    case modulo = "%"
    /// Sum.
    case add = "+"
    /// Difference.
    case subtract = "-"
    /// Concatenation of strings.
    case concat = "||"
    /// Shifts bits to the left.
    case shiftLeft = "<<"
    /// Shifts bits to the right, keeping the sign.
    case shiftRight = ">>"
    /// Equality; written `=` or `==`.
    case equal = "="
    /// Inequality; written `!=` or `<>`.
    case notEqual = "!="
    /// Less.
    case less = "<"
    /// Less or equal.
    case lessOrEqual = "<="
    /// Greater.
    case greater = ">"
    /// Greater or equal.
    case greaterOrEqual = ">="
    /// Exactly one of two.
    case xor = "XOR"

    /// The precedence: higher binds tighter (spec 2.1).
    var precedence: Int {
        switch self {
        case .multiply, .divide, .modulo: Precedence.multiplicative
        case .add, .subtract, .concat: Precedence.additive
        case .shiftLeft, .shiftRight: Precedence.shift
        case .equal, .notEqual, .less, .lessOrEqual, .greater, .greaterOrEqual: Precedence.comparison
        case .xor: Precedence.xor
        }
    }

    /// True if the operator compares two values.
    var isComparison: Bool { precedence == Precedence.comparison }
}

/// The precedence of operators, higher is tighter (spec 2.1). Unary minus binds tighter than `*`, as in
/// other languages: taken literally, the published table would make `-a + b` mean `-(a + b)`.
enum Precedence {
    static let or = 5
    static let xor = 7
    static let and = 10
    static let not = 15
    static let isTest = 17
    static let like = 19
    static let comparison = 20
    static let shift = 22
    static let additive = 30
    static let multiplicative = 40
    static let negate = 50
    static let primary = 60
}

extension ExpressionSyntax.Kind {
    /// Two operands of an operator, joined to a chain if the left one is of operators that bind alike.
    static func operation(
        _ symbol: BinaryOperator, _ left: ExpressionSyntax, _ right: ExpressionSyntax
    ) -> ExpressionSyntax.Kind {
        let opened = opened(left, symbol.precedence)
        if opened.links.isEmpty || symbol.isComparison { return .binary(symbol, left, right) }
        let link = ExpressionSyntax.ChainStep(symbol: symbol, operand: right)
        return .chain(opened.first, opened.links + [link])
    }

    /// An operand as the beginning of a chain of operators of this precedence.
    static func opened(
        _ operand: ExpressionSyntax, _ precedence: Int
    ) -> (first: ExpressionSyntax, links: [ExpressionSyntax.ChainStep]) {
        switch operand.kind {
        case .binary(let symbol, let left, let right) where symbol.precedence == precedence:
            (left, [ExpressionSyntax.ChainStep(symbol: symbol, operand: right)])
        case .chain(let first, let links) where links[0].symbol.precedence == precedence: (first, links)
        default: (operand, [])
        }
    }

    /// The levels of the deepest child, a subquery included; 0 for a leaf.
    ///
    /// Never inlined: it would make every frame of the recursive parser as large as its largest case.
    @inline(never)
    fileprivate var depthBelow: Int {
        switch self {
        case .literal, .missing, .parameter, .name: 0
        case .member(let base, _), .negate(let base), .not(let base), .isTest(let base, _, _): base.depth
        case .element(let left, let right), .binary(_, let left, let right): max(left.depth, right.depth)
        case .subquery(let query), .exists(let query): query.depth
        case .inSubquery(let value, let query, _): max(value.depth, query.depth)
        default: children.map(\.depth).max() ?? 0
        }
    }

    /// The direct children, of comprehensions too. Expressions inside a subquery are not children.
    var children: [ExpressionSyntax] {
        switch self {
        case .literal, .missing, .parameter, .name, .subquery, .exists: []
        case .member(let base, _), .negate(let base), .not(let base), .isTest(let base, _, _): [base]
        case .element(let left, let right), .binary(_, let left, let right),
            .inCollection(let left, let right, _):
            [left, right]
        case .and(let operands), .or(let operands), .array(let operands): operands
        case .chain(let first, let links): [first] + links.map(\.operand)
        case .between(let value, let low, let high, _): [value, low, high]
        case .inList(let value, let list, _): [value] + list
        case .like(let value, let pattern, let escape, _, _): [value, pattern] + (escape.map { [$0] } ?? [])
        case .conditional(let operand, let branches, let otherwise):
            (operand.map { [$0] } ?? []) + branches.flatMap { [$0.condition, $0.result] }
                + (otherwise.map { [$0] } ?? [])
        case .object(let entries): entries.map(\.value)
        case .call(let call): call.arguments
        case .similar(let value, let pattern, let escape, _):
            [value, pattern] + (escape.map { [$0] } ?? [])
        case .quantified(let quantified): [quantified.binding.source, quantified.condition]
        case .arrayComprehension(let array):
            [array.result, array.binding.source] + (array.condition.map { [$0] } ?? [])
        case .objectComprehension(let object):
            [object.key, object.value, object.binding.source] + (object.condition.map { [$0] } ?? [])
        case .inSubquery(let value, _, _): [value]
        }
    }
}
