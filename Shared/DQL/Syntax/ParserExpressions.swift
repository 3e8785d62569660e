import CRDT

/// Expressions, by precedence climbing (spec 2.1).
extension Parser {
    mutating func expression() throws(DQLError) -> ExpressionSyntax {
        try nested { parser throws(DQLError) in try parser.infix(atLeast: 0) }
    }

    /// Operands joined by operators that bind at least as tightly as `minimum`.
    private mutating func infix(atLeast minimum: Int) throws(DQLError) -> ExpressionSyntax {
        try continued(try prefix(), atLeast: minimum)
    }

    /// An operand and the operators after it.
    mutating func continued(
        _ operand: ExpressionSyntax, atLeast minimum: Int = 0
    ) throws(DQLError) -> ExpressionSyntax {
        var left = operand
        while let next = try infixContinuation(left, atLeast: minimum) { left = next }
        return left
    }

    /// `left` with the operator after it; nil if none follows that binds tightly enough.
    @inline(never)
    private mutating func infixContinuation(
        _ left: ExpressionSyntax, atLeast minimum: Int
    ) throws(DQLError) -> ExpressionSyntax? {
        if let symbol = binaryOperator, symbol.precedence >= minimum {
            guard symbol.isComparison else { return try chain(left, symbol.precedence) }
            try advance()
            let right = try operand(above: symbol.precedence)
            return try node(.binary(symbol, left, right), left.span.through(right.span))
        }
        switch currentKeyword {
        case .and where Precedence.and >= minimum: return try logical(left, .and, Precedence.and)
        case .or where Precedence.or >= minimum: return try logical(left, .or, Precedence.or)
        case .is where Precedence.isTest >= minimum: return try isTest(left)
        case .not, .in, .between, .like, .ilike, .similar: return try predicate(left, atLeast: minimum)
        default: return nil
        }
    }

    /// `a + b - c` becomes one node, so that long sums and concatenations are not deep.
    @inline(never)
    private mutating func chain(
        _ left: ExpressionSyntax, _ precedence: Int
    ) throws(DQLError) -> ExpressionSyntax {
        var (first, links) = ExpressionSyntax.Kind.opened(left, precedence)
        while let symbol = binaryOperator, symbol.precedence == precedence {
            try advance()
            links.append(ExpressionSyntax.ChainStep(symbol: symbol, operand: try operand(above: precedence)))
        }
        let span = left.span.through(lastSpan)
        guard links.count > 1 else {
            return try node(.binary(links[0].symbol, first, links[0].operand), span)
        }
        return try node(.chain(first, links), span)
    }

    private var binaryOperator: BinaryOperator? {
        switch current.kind {
        case .symbol(let symbol): BinaryOperator(rawValue: symbol.rawValue)
        case .word(_, .xor?): .xor
        default: nil
        }
    }

    mutating func operand(above precedence: Int) throws(DQLError) -> ExpressionSyntax {
        try nested { parser throws(DQLError) in try parser.infix(atLeast: precedence + 1) }
    }

    /// `a AND b AND c` becomes one node, so that long conditions are not deep.
    @inline(never)
    private mutating func logical(
        _ left: ExpressionSyntax, _ keyword: Keyword, _ precedence: Int
    ) throws(DQLError) -> ExpressionSyntax {
        var operands = [left]
        while try take(keyword) { operands.append(try operand(above: precedence)) }
        let span = left.span.through(lastSpan)
        return try node(keyword == .and ? .and(operands) : .or(operands), span)
    }

    @inline(never)
    private mutating func isTest(_ left: ExpressionSyntax) throws(DQLError) -> ExpressionSyntax {
        try expect(.is)
        let negated = try take(.not)
        guard isAt(.null) || isAt(.missing) else {
            let error = unexpected("NULL or MISSING", candidates: [.null, .missing])
            guard error.suggestion == nil, current.kind != .end else { throw error }
            throw self.error(error.code, error.message, suggestion: negated ? "!=" : "=")
        }
        let test: AbsenceTest = isAt(.null) ? .null : .missing
        try advance()
        return try node(.isTest(left, test, negated: negated), left.span.through(lastSpan))
    }

    /// `[NOT] IN`, `[NOT] BETWEEN`, `[NOT] LIKE`.
    @inline(never)
    private mutating func predicate(
        _ left: ExpressionSyntax, atLeast minimum: Int
    ) throws(DQLError) -> ExpressionSyntax? {
        var keyword = currentKeyword
        if keyword == .not, case .word(_, let next) = try peek().kind { keyword = next }
        switch keyword {
        case .in, .between: if Precedence.comparison < minimum { return nil }
        case .like, .ilike, .similar: if Precedence.like < minimum { return nil }
        default: return nil
        }
        let negated = try take(.not)
        try advance()
        switch keyword {
        case .in: return try inPredicate(left, negated)
        case .between:
            let low = try operand(above: Precedence.comparison)
            try expect(.and)
            let high = try operand(above: Precedence.comparison)
            return try node(
                .between(left, low: low, high: high, negated: negated), left.span.through(high.span))
        case .similar:
            try expect(.to)
            let pattern = try operand(above: Precedence.like)
            let escape = try take(.escape) ? try operand(above: Precedence.like) : nil
            return try node(
                .similar(left, pattern: pattern, escape: escape, negated: negated),
                left.span.through(lastSpan))
        default:
            let pattern = try operand(above: Precedence.like)
            let escape = try take(.escape) ? try operand(above: Precedence.like) : nil
            return try node(
                .like(
                    left, pattern: pattern, escape: escape, ignoresCase: keyword == .ilike, negated: negated),
                left.span.through(lastSpan))
        }
    }

    @inline(never)
    private mutating func inPredicate(
        _ left: ExpressionSyntax, _ negated: Bool
    ) throws(DQLError) -> ExpressionSyntax {
        guard isAt(.leftParenthesis) else {
            let collection = try operand(above: Precedence.comparison)
            return try node(
                .inCollection(left, collection, negated: negated), left.span.through(collection.span))
        }
        let start = try advance().span
        if isAt(.select) {
            let query = try subquery()
            return try node(.inSubquery(left, query, negated: negated), left.span.through(lastSpan))
        }
        let elements = try list { parser throws(DQLError) in try parser.expression() }
        try expect(.rightParenthesis)
        guard elements.count <= DQLLimits.inListElements else {
            throw source.error(
                .inListTooLong,
                "the IN list has \(elements.count) elements, more than \(DQLLimits.inListElements)", at: start
            )
        }
        return try node(.inList(left, elements, negated: negated), left.span.through(lastSpan))
    }

    // MARK: Prefix and postfix

    mutating func prefix() throws(DQLError) -> ExpressionSyntax {
        if isAt(.not) || isAt(.plus) || isAt(.minus) { return try prefixed() }
        return try postfix(try primary())
    }

    /// An operand with a leading sign or NOT.
    @inline(never)
    private mutating func prefixed() throws(DQLError) -> ExpressionSyntax {
        let start = current.span
        if isAt(.not) {
            guard try isOperandNext() else { throw notAnExpression(current) }
            try advance()
            let operand = try operand(above: Precedence.not - 1)
            return try node(.not(operand), start.through(operand.span))
        }
        if try take(.plus) { return try nested { parser throws(DQLError) in try parser.prefix() } }
        try expect(.minus)
        switch current.kind {
        case .integer(let magnitude) where magnitude <= 1 << 63:
            try advance()
            let value = Int64(truncatingIfNeeded: 0 &- magnitude)
            return try postfix(node(.literal(.int(value)), start.through(lastSpan)))
        case .double(let value):
            try advance()
            return try postfix(node(.literal(.double(-value)), start.through(lastSpan)))
        default:
            let operand = try nested { parser throws(DQLError) in try parser.prefix() }
            return try node(.negate(operand), start.through(operand.span))
        }
    }

    /// `.name` and `[index]`, any number of times.
    @inline(never)
    private mutating func postfix(_ base: ExpressionSyntax) throws(DQLError) -> ExpressionSyntax {
        var result = base
        while true {
            if try take(.dot) {
                let member = try memberName()
                result = try node(.member(result, member), base.span.through(member.span))
            } else if try take(.leftBracket) {
                let index = try expression()
                try expect(.rightBracket)
                result = try node(.element(result, index), base.span.through(lastSpan))
            } else {
                return result
            }
        }
    }
}
