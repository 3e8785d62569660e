import CRDT

/// Something of a statement that needs a type, and gives MISSING for every other one.
struct TypeNeed: Sendable {
    /// The operator or function, for messages.
    let by: String
    let type: FunctionDefinition.ArgumentType
    let code: DQLWarningCode
    /// True for ESCAPE, which takes a string of one character.
    var isCharacter = false
    /// True where a value of another type counts as not true, as in a condition.
    var isTested = false

    func accepts(_ value: Value) -> Bool {
        guard isCharacter, case .string = value else { return type.accepts(value) }
        return LikeMatcher.escapeCharacter(value) != nil
    }

    /// The message about a value of a wrong type.
    func message(_ shown: String, is given: Value) -> String {
        var type = given.named
        if isCharacter, case .string(let text) = given {
            type += " of \(text.unicodeScalars.count) characters"
        }
        return message(shown, is: type)
    }

    /// The message about something that always has a wrong type.
    func message(_ shown: String, is given: String) -> String {
        "\(by) takes \(isCharacter ? "one character" : type.named), and \(shown) is \(given): "
            + (isTested ? "never true" : "always MISSING")
    }
}

/// A sum or mean as the statement has it.
struct WrittenAggregate: Sendable {
    /// Its slot in the rows of groups.
    let slot: Int
    let span: SourceSpan
}

/// A parameter where one type is needed.
struct ParameterExpectation: Sendable {
    /// Its position among the statement's parameters.
    let place: Int
    let need: TypeNeed
    let span: SourceSpan
}

/// A parameter or subquery with which a value of documents is compared.
struct ComparedParameter: Sendable {
    /// Its position among the statement's parameters.
    let place: Int
    /// The comparison.
    let span: SourceSpan
    /// True if a null among its elements makes the comparison never true.
    let looksInside: Bool
}

extension FunctionDefinition.ArgumentType {
    /// `a string`, for messages.
    var named: String {
        switch self {
        case .any: "anything"
        case .integer, .array, .object: "an \(rawValue)"
        default: "a \(rawValue)"
        }
    }
}

extension BinaryOperator {
    /// The type of both operands of an operator that is no comparison.
    var operandType: FunctionDefinition.ArgumentType {
        switch self {
        case .concat: .string
        case .xor: .boolean
        default: .number
        }
    }
}

extension Binder {
    // MARK: Operators

    /// An operator between two values, or a chain of operators. Every operand of a wrong type gets a warning,
    /// and so does a result before the last operator.
    @inline(never)
    mutating func bindOperators(
        _ first: ExpressionSyntax, _ links: [ExpressionSyntax.ChainStep], _ span: SourceSpan
    ) throws(DQLError) -> BoundExpression {
        let key = groupKey(beginning: first, links)
        if let key, key.count == links.count { return .slot(key.slot) }
        let known = findings.warnings
        let start: BoundExpression
        if let key {
            start = .slot(key.slot)
        } else {
            start = try bind(first)
            expect(start, first, links[0].symbol)
        }
        var rest: [BoundExpression.ChainStep] = []
        var result = staticType(start)
        for link in links.dropFirst(key?.count ?? 0) {
            let operand = try bind(link.operand)
            let hasWarned = findings.warnings > known
            if !hasWarned { expect(operand, link.operand, link.symbol) }
            if let result, !rest.isEmpty, !hasWarned, result != StaticType(link.symbol) {
                let need = TypeNeed(
                    by: link.symbol.rawValue, type: link.symbol.operandType, code: .literalType)
                warn(need.code, need.message("its left operand", is: result.named), at: link.operand.span)
            }
            rest.append(BoundExpression.ChainStep(symbol: link.symbol, operand: operand))
            result = StaticType(link.symbol)
        }
        return BoundExpression.operators(start, rest)
    }

    /// Expects the type that an operator needs.
    private mutating func expect(
        _ operand: BoundExpression, _ written: ExpressionSyntax, _ symbol: BinaryOperator
    ) {
        expect(
            TypeNeed(by: symbol.rawValue, type: symbol.operandType, code: .literalType), operand, written)
    }

    /// Warns if an operand never has the type that is needed. Remembers a parameter or a field: their types
    /// are known later.
    @inline(never)
    mutating func expect(_ need: TypeNeed, _ operand: BoundExpression, _ written: ExpressionSyntax) {
        switch operand {
        case .constant(let value):
            guard let value, !need.accepts(value) else { return }
            warn(need.code, need.message(shown(written.span), is: value), at: written.span)
        case .parameter(let place):
            guard parameterExpectations.count < DQLLimits.warnings else { return }
            parameterExpectations.append(ParameterExpectation(place: place, need: need, span: written.span))
        default:
            if let type = staticType(operand) {
                guard !need.type.accepts(type) else { return }
                warn(need.code, need.message(shown(written.span), is: type.named), at: written.span)
            } else {
                note(operand, written, .type(need), written.span)
            }
        }
    }

    /// The text of a part of the statement, as messages quote it.
    func shown(_ span: SourceSpan) -> String { source.token(of: span) ?? "" }
}

extension BoundExpression {
    /// One operator, or a chain of several.
    static func operators(_ first: BoundExpression, _ links: [ChainStep]) -> BoundExpression {
        guard links.count == 1 else { return .chain(first, links) }
        let (symbol, operand) = (links[0].symbol, links[0].operand)
        return symbol == .xor ? .xor(first, operand) : .arithmetic(symbol, first, operand)
    }

    /// The operators of a chain or of a single operator; nil for any other expression.
    var asChain: (first: BoundExpression, links: [ChainStep])? {
        switch self {
        case .chain(let first, let links): (first, links)
        case .arithmetic(let symbol, let left, let right): (left, [ChainStep(symbol: symbol, operand: right)])
        case .xor(let left, let right): (left, [ChainStep(symbol: .xor, operand: right)])
        default: nil
        }
    }
}

extension Value {
    /// Its type with an article, for messages: `an integer`.
    var named: String {
        switch self {
        case .null: "null"
        case .int, .array, .object: "an \(typeName)"
        default: "a \(typeName)"
        }
    }
}
