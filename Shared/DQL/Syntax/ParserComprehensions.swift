import CRDT

/// Expressions that contain variables or queries, and calls with words between their arguments.
extension Parser {
    // MARK: ANY, EVERY, ARRAY, OBJECT

    /// `ANY v IN source SATISFIES condition END`, also EVERY and ANY AND EVERY.
    @inline(never)
    mutating func quantified() throws(DQLError) -> ExpressionSyntax {
        let word = current
        let start = word.span
        var quantifier = isAt(.any) ? Quantifier.any : .every
        try advance()
        if quantifier == .any, try take(.and) {
            try expect(.every)
            quantifier = .anyAndEvery
        }
        let binding = try binding(of: word)
        try expect(.satisfies)
        let condition = try expression()
        try expect(.end)
        return try node(
            .quantified(QuantifiedSyntax(quantifier: quantifier, binding: binding, condition: condition)),
            start.through(lastSpan))
    }

    /// `ARRAY result FOR v IN source [WHEN condition] END`.
    @inline(never)
    mutating func arrayComprehension() throws(DQLError) -> ExpressionSyntax {
        let word = current
        let start = try expect(.array)
        let result = try expression()
        guard try take(.for) else { throw unfinished(word, "FOR", candidates: [.for]) }
        let binding = try binding(of: word)
        let condition = try take(.when) ? try expression() : nil
        try expect(.end)
        return try node(
            .arrayComprehension(
                ArrayComprehensionSyntax(result: result, binding: binding, condition: condition)),
            start.through(lastSpan))
    }

    /// `OBJECT key : value FOR v IN source [WHEN condition] END`.
    @inline(never)
    mutating func objectComprehension() throws(DQLError) -> ExpressionSyntax {
        let word = current
        let start = try expect(.object)
        let key = try expression()
        guard try take(.colon) else { throw unfinished(word, "':'", candidates: []) }
        let value = try expression()
        guard try take(.for) else { throw unfinished(word, "FOR", candidates: [.for]) }
        let binding = try binding(of: word)
        let condition = try take(.when) ? try expression() : nil
        try expect(.end)
        return try node(
            .objectComprehension(
                ObjectComprehensionSyntax(key: key, value: value, binding: binding, condition: condition)),
            start.through(lastSpan))
    }

    /// `[i:]v IN | WITHIN source`.
    @inline(never)
    private mutating func binding(of word: Token) throws(DQLError) -> BindingSyntax {
        var value = try name("a variable")
        var index: NameSyntax?
        if try take(.colon) {
            index = value
            value = try name("a variable")
        }
        guard isAt(.in) || isAt(.within) else {
            throw unfinished(word, "IN or WITHIN", candidates: [.in, .within])
        }
        let isWithin = isAt(.within)
        try advance()
        return BindingSyntax(index: index, value: value, isWithin: isWithin, source: try expression())
    }

    // MARK: Subqueries

    /// A query up to its closing parenthesis; the opening one is already taken.
    @inline(never)
    mutating func subquery() throws(DQLError) -> SelectStatement {
        let query = try nested { parser throws(DQLError) in
            let readsDistinctAsName = parser.readsDistinctAsName
            parser.readsDistinctAsName = false
            defer { parser.readsDistinctAsName = readsDistinctAsName }
            return try parser.select()
        }
        guard isAt(.rightParenthesis) else { throw refusedClause ?? unexpected("')'") }
        try advance()
        return query
    }

    @inline(never)
    mutating func exists() throws(DQLError) -> ExpressionSyntax {
        let start = try expect(.exists)
        try expect(.leftParenthesis)
        guard isAt(.select) else { throw unexpected("SELECT", candidates: [.select]) }
        return try node(.exists(try subquery()), start.through(lastSpan))
    }

    // MARK: Calls with words

    /// `TRIM([BOTH | LEADING | TRAILING] [characters] FROM text)` is a call of trim, ltrim or rtrim.
    @inline(never)
    mutating func trim() throws(DQLError) -> ExpressionSyntax {
        let start = current
        try expect(.trim)
        guard isAt(.leftParenthesis) else { throw notAnExpression(start) }
        try advance()
        var function: String?
        switch currentKeyword {
        case .both: function = "trim"
        case .leading: function = "ltrim"
        case .trailing: function = "rtrim"
        default: break
        }
        if function != nil { try advance() }
        let characters = isAt(.from) ? nil : try expression()
        guard try take(.from) else {
            guard function == nil else { throw unexpected("FROM", candidates: [.from]) }
            throw source.error(
                .reservedWord, "TRIM is a reserved word; a function of this name is called in back quotes",
                at: start.span, suggestion: "`trim`(…)")
        }
        let text = try expression()
        try expect(.rightParenthesis)
        let call = CallSyntax(
            name: function ?? "trim", arguments: [text] + (characters.map { [$0] } ?? []), isDistinct: false,
            isStar: false)
        return try node(.call(call), start.span.through(lastSpan))
    }

    /// The arguments of `POSITION(part IN text)` in the order of `pos`, or the arguments of an ordinary
    /// call. Takes the arguments up to the parenthesis in either case.
    @inline(never)
    mutating func positionArguments() throws(DQLError) -> (arguments: [ExpressionSyntax], hasIn: Bool) {
        let first = try operand(above: Precedence.comparison)
        if try take(.in) { return ([try expression(), first], true) }
        var arguments = [try continued(first)]
        while try take(.comma) { arguments.append(try expression()) }
        return (arguments, false)
    }
}
