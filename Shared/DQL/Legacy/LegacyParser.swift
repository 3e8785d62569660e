import CRDT

/// Recursive descent over the tokens of a legacy query: `||` below `&&` below comparisons below `!`.
///
/// `level` guards the stack, `ExpressionSyntax.depth` bounds the tree, as in DQL's parser.
struct LegacyParser {
    let source: SourceText
    private var lexer: LegacyLexer
    private(set) var current: LegacyToken
    private(set) var lastSpan = SourceSpan(start: 0, end: 0)
    private var level = 0

    init(_ text: String) throws(DQLError) {
        source = SourceText(text: text)
        lexer = try LegacyLexer(source)
        current = try lexer.next()
    }

    /// The whole text. A query that consists only of the string 'true' or 'false' is that boolean:
    /// permissions are written this way.
    mutating func query() throws(DQLError) -> ExpressionSyntax {
        if current.kind == .end {
            throw DQLError(.unexpectedEnd, "the query is empty", position: SourcePosition(line: 1, column: 1))
        }
        let condition = try disjunction()
        guard current.kind == .end else { throw unexpected("&&, || or the end of the query") }
        if case .literal(let value) = condition.kind, let text = value.stringValue,
            text == "true" || text == "false"
        {
            return try node(.literal(.bool(text == "true")), condition.span)
        }
        return condition
    }

    // MARK: Tokens

    mutating func advance() throws(DQLError) {
        lastSpan = current.span
        current = try lexer.next()
    }

    func isAt(_ symbol: LegacySymbol) -> Bool { current.kind == .symbol(symbol) }

    mutating func take(_ symbol: LegacySymbol) throws(DQLError) -> Bool {
        guard isAt(symbol) else { return false }
        try advance()
        return true
    }

    mutating func expect(_ symbol: LegacySymbol) throws(DQLError) {
        guard try take(symbol) else { throw unexpected("'\(symbol.rawValue)'") }
    }

    private func isAt(word: String) -> Bool {
        if case .word(let text) = current.kind { text.lowercased() == word } else { false }
    }

    func unexpected(_ expected: String) -> DQLError {
        guard current.kind != .end else {
            return source.error(
                .unexpectedEnd, "expected \(expected), found the end of the query", at: current.span)
        }
        let token = source.token(of: current.span) ?? ""
        return source.error(.syntax, "expected \(expected), found \(token)", at: current.span)
    }

    // MARK: Depth

    mutating func nested<Result>(
        _ body: (inout LegacyParser) throws(DQLError) -> Result
    ) throws(DQLError) -> Result {
        level += 1
        defer { level -= 1 }
        if level > DQLLimits.nestingDepth { throw tooDeep(current.span) }
        return try body(&self)
    }

    func node(_ kind: ExpressionSyntax.Kind, _ span: SourceSpan) throws(DQLError) -> ExpressionSyntax {
        try Preparation.check()
        let node = ExpressionSyntax(kind, span)
        if node.depth > DQLLimits.nestingDepth { throw tooDeep(lastSpan) }
        return node
    }

    private func tooDeep(_ span: SourceSpan) -> DQLError {
        source.error(
            .nestingTooDeep, "the query nests deeper than \(DQLLimits.nestingDepth) levels", at: span)
    }

    // MARK: Operators

    mutating func disjunction() throws(DQLError) -> ExpressionSyntax {
        let first = try conjunction()
        var operands = [first]
        while isAt(.or) || isAt(word: "or") {
            try advance()
            operands.append(try conjunction())
        }
        return operands.count == 1 ? first : try node(.or(operands), first.span.through(lastSpan))
    }

    private mutating func conjunction() throws(DQLError) -> ExpressionSyntax {
        let first = try comparison()
        var operands = [first]
        while isAt(.and) || isAt(word: "and") {
            try advance()
            operands.append(try comparison())
        }
        return operands.count == 1 ? first : try node(.and(operands), first.span.through(lastSpan))
    }

    private mutating func comparison() throws(DQLError) -> ExpressionSyntax {
        var left = try negation()
        while true {
            if isAt(word: "in") {
                try advance()
                let list = try operand(readsKey: false)
                left = try node(Self.membership(of: left, in: list), left.span.through(list.span))
            } else if case .symbol(let symbol) = current.kind, let comparison = symbol.comparison {
                try advance()
                let right = try isAt(.dollar) ? argument(comparedWith: left) : negation(readsKey: false)
                left = try compare(left, comparison, right)
            } else {
                return left
            }
        }
    }

    private mutating func negation(readsKey: Bool = true) throws(DQLError) -> ExpressionSyntax {
        guard isAt(.not) || isAt(word: "not") else { return try operand(readsKey: readsKey) }
        let start = current.span
        try advance()
        let operand = try nested { parser throws(DQLError) in try parser.negation() }
        return try node(.not(operand), start.through(operand.span))
    }

    /// `x == null` was also true without an x; in DQL a comparison with NULL is never true.
    private func compare(
        _ left: ExpressionSyntax, _ comparison: BinaryOperator, _ right: ExpressionSyntax
    ) throws(DQLError) -> ExpressionSyntax {
        let span = left.span.through(right.span)
        let isEquality = comparison == .equal || comparison == .notEqual
        guard isEquality, left.kind == .literal(.null) || right.kind == .literal(.null) else {
            return try node(.binary(comparison, left, right), span)
        }
        let tested = right.kind == .literal(.null) ? left : right
        let negated = comparison == .notEqual
        guard Self.isPath(tested) else {
            let orNull = try LegacyFunctions.call("coalesce", [tested, node(.literal(.null), span)])
            return try node(.isTest(node(orNull, span), .null, negated: negated), span)
        }
        let tests = [
            try node(.isTest(tested, .null, negated: negated), span),
            try node(.isTest(tested, .missing, negated: negated), span),
        ]
        return try node(negated ? .and(tests) : .or(tests), span)
    }

    /// Returns whether an expression may be repeated: `a == null == null …` would double with each word.
    private static func isPath(_ expression: ExpressionSyntax) -> Bool {
        switch expression.kind {
        case .name, .parameter, .literal: true
        case .member(let base, _): isPath(base)
        case .element(let base, let index): isPath(base) && isPath(index)
        default: false
        }
    }

    /// A list that is written out becomes an IN list; the elements of anything else are visited when the
    /// document is known.
    static func membership(of value: ExpressionSyntax, in list: ExpressionSyntax) -> ExpressionSyntax.Kind {
        if case .array(let elements) = list.kind, !elements.isEmpty {
            .inList(value, elements, negated: false)
        } else {
            .inCollection(value, list, negated: false)
        }
    }
}
