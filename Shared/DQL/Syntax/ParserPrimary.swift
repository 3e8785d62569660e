import CRDT

/// The parts of expressions that are complete in themselves.
extension Parser {
    mutating func primary() throws(DQLError) -> ExpressionSyntax {
        let token = current
        switch token.kind {
        case .integer(let magnitude):
            guard let number = Int64(exactly: magnitude) else {
                throw error(.invalidNumber, NumberSyntax.tooLarge)
            }
            try advance()
            return try node(.literal(.int(number)), token.span)
        case .double(let value):
            try advance()
            return try node(.literal(.double(value)), token.span)
        case .string(let text, _):
            try advance()
            return try node(.literal(.string(text)), token.span)
        case .quotedName(let text):
            // A field with an empty name is told from a mistake by what it belongs to: `c['']`.
            if text.isEmpty { throw emptyName }
            try advance()
            return try nameOrCall(text, token.span)
        case .symbol(.colon): return try parameter()
        case .symbol(.leftParenthesis): return try parenthesized()
        case .symbol(.leftBracket): return try arrayLiteral()
        case .symbol(.leftBrace): return try objectLiteral()
        case .word(let text, let keyword):
            if let keyword, keyword.isReserved { return try reserved(keyword, text) }
            try advance()
            return try nameOrCall(text, token.span, isQuoted: false)
        default: throw unexpected("an expression")
        }
    }

    @inline(never)
    private mutating func reserved(_ keyword: Keyword, _ text: String) throws(DQLError) -> ExpressionSyntax {
        let span = current.span
        let value: ExpressionSyntax.Kind
        switch keyword {
        case .true: value = .literal(true)
        case .false: value = .literal(false)
        case .null: value = .literal(.null)
        case .missing: value = .missing
        case .any, .array, .case, .cast, .every, .exists, .object, .trim:
            try expectConstruct(keyword)
            return try construct(keyword)
        case .distinct where readsDistinctAsName:
            value = .name(NameSyntax(text: text, span: span))
        default:
            if case .symbol(.leftParenthesis) = try peek().kind, !keyword.beginsClause {
                throw error(
                    .reservedWord,
                    "\(text) is a reserved word; a function of this name is called in back quotes",
                    suggestion: "`\(text)`(…)")
            }
            guard keyword.isNameAsOperand else { throw notAnExpression(current) }
            value = .name(NameSyntax(text: text, span: span))
        }
        try advance()
        return try node(value, span)
    }

    @inline(never)
    private mutating func construct(_ keyword: Keyword) throws(DQLError) -> ExpressionSyntax {
        switch keyword {
        case .case: try conditional()
        case .cast: try cast()
        case .array: try arrayComprehension()
        case .object: try objectComprehension()
        case .exists: try exists()
        case .trim: try trim()
        default: try quantified()
        }
    }

    /// Refuses a word that begins an expression, before a token that shows that a field was meant.
    @inline(never)
    private mutating func expectConstruct(_ keyword: Keyword) throws(DQLError) {
        let next = try peek().kind
        let begins =
            switch keyword {
            case .cast, .exists, .trim: try isOperandNext()
            case .any, .every:
                switch next {
                case .quotedName: true
                case .word(_, let word): word.map { !$0.isReserved || $0 == .and } ?? true
                default: false
                }
            case .case: if case .word(_, .when?) = next { true } else { try isOperandNext() }
            default: try isOperandNext()
            }
        if !begins { throw notAnExpression(current) }
    }

    /// The error for a reserved word in the place of an operand.
    @inline(never)
    func notAnExpression(_ token: Token) -> DQLError { reserved(token, insteadOf: "an expression") }

    /// The error for an expression that began with this word and does not go on with the expected one. If
    /// the text goes on like a list or a statement, a field was meant.
    @inline(never)
    func unfinished(_ start: Token, _ expected: String, candidates: [Keyword]) -> DQLError {
        let isOver =
            switch current.kind {
            case .symbol(.comma), .symbol(.rightParenthesis), .symbol(.rightBracket), .symbol(.rightBrace):
                true
            case .word(_, let keyword?): keyword.beginsClause || keyword == .as
            default: false
            }
        return isOver ? notAnExpression(start) : unexpected(expected, candidates: candidates)
    }

    @inline(never)
    private mutating func nameOrCall(
        _ name: String, _ start: SourceSpan, isQuoted: Bool = true
    ) throws(DQLError) -> ExpressionSyntax {
        guard try take(.leftParenthesis) else {
            return try node(.name(NameSyntax(text: name, span: start)), start)
        }
        var function = name.lowercased()
        var arguments: [ExpressionSyntax] = []
        var isStar = false
        let isDistinct = try take(.distinct)
        if !isDistinct, isAt(.star) {
            try advance()
            isStar = true
        } else if !isQuoted, function == "position", !isDistinct, !isAt(.rightParenthesis) {
            let position = try positionArguments()
            arguments = position.arguments
            if position.hasIn { function = "pos" }
        } else if isDistinct || !isAt(.rightParenthesis) {
            arguments = try list { parser throws(DQLError) in try parser.expression() }
        }
        try expect(.rightParenthesis)
        let call = CallSyntax(name: function, arguments: arguments, isDistinct: isDistinct, isStar: isStar)
        return try node(.call(call), start.through(lastSpan))
    }

    /// `:name`, without a blank between.
    @inline(never)
    private mutating func parameter() throws(DQLError) -> ExpressionSyntax {
        let colon = try expect(.colon)
        guard case .word(let name, _) = current.kind, current.span.start == colon.end else {
            throw unexpected("a parameter's name directly after ':'")
        }
        let end = try advance().span
        return try node(.parameter(NameSyntax(text: name, span: end)), colon.through(end))
    }

    @inline(never)
    private mutating func parenthesized() throws(DQLError) -> ExpressionSyntax {
        let start = try expect(.leftParenthesis)
        if isAt(.select) { return try node(.subquery(try subquery()), start.through(lastSpan)) }
        let inner = try expression()
        try expect(.rightParenthesis)
        return inner
    }

    @inline(never)
    private mutating func arrayLiteral() throws(DQLError) -> ExpressionSyntax {
        let start = try expect(.leftBracket)
        let elements =
            isAt(.rightBracket) ? [] : try list { parser throws(DQLError) in try parser.expression() }
        try expect(.rightBracket)
        return try node(.array(elements), start.through(lastSpan))
    }

    @inline(never)
    private mutating func objectLiteral() throws(DQLError) -> ExpressionSyntax {
        let start = try expect(.leftBrace)
        let entries =
            isAt(.rightBrace) ? [] : try list { parser throws(DQLError) in try parser.objectEntry() }
        try expect(.rightBrace)
        return try node(.object(entries), start.through(lastSpan))
    }

    @inline(never)
    private mutating func objectEntry() throws(DQLError) -> ExpressionSyntax.Entry {
        if takesUnquotedKeys, case .word(let key, _) = current.kind {
            try advance()
            try expect(.colon)
            return ExpressionSyntax.Entry(key: key, value: try expression())
        }
        guard case .string(let key, _) = current.kind else {
            if case .word(let text, _) = current.kind {
                throw error(
                    .unquotedKey,
                    "Cannot convert to a literal: the object key \(text) must be a quoted string",
                    suggestion: "'\(text)'")
            }
            throw unexpected("a quoted object key")
        }
        try advance()
        try expect(.colon)
        return ExpressionSyntax.Entry(key: key, value: try expression())
    }

    @inline(never)
    private mutating func conditional() throws(DQLError) -> ExpressionSyntax {
        let word = current
        let start = try expect(.case)
        let operand = isAt(.when) ? nil : try expression()
        guard isAt(.when) else { throw unfinished(word, "WHEN", candidates: [.when]) }
        var branches: [ExpressionSyntax.Branch] = []
        repeat {
            try expect(.when)
            let condition = try expression()
            try expect(.then)
            branches.append(ExpressionSyntax.Branch(condition: condition, result: try expression()))
        } while isAt(.when)
        let otherwise = try take(.else) ? try expression() : nil
        try expect(.end)
        return try node(
            .conditional(operand: operand, branches: branches, otherwise: otherwise), start.through(lastSpan))
    }

    /// `CAST(x AS type)` is the call `cast(x, 'type')`.
    @inline(never)
    private mutating func cast() throws(DQLError) -> ExpressionSyntax {
        let start = try expect(.cast)
        try expect(.leftParenthesis)
        let value = try expression()
        var type: ExpressionSyntax
        if try take(.comma) {
            type = try expression()
        } else {
            guard try take(.as) else { throw unexpected("AS or ','", candidates: [.as]) }
            let name = try name("a type")
            type = try node(.literal(.string(name.text.lowercased())), name.span)
        }
        try expect(.rightParenthesis)
        let call = CallSyntax(name: "cast", arguments: [value, type], isDistinct: false, isStar: false)
        return try node(.call(call), start.through(lastSpan))
    }
}
