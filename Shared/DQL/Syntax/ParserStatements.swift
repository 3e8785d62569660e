import CRDT

extension Parser {
    private static let beginnings: [Keyword] = [
        .select, .insert, .update, .delete, .tombstone, .evict, .explain, .profile, .advise, .create, .drop,
        .alter, .show,
    ]

    /// The statement at the start of the text.
    mutating func statement() throws(DQLError) -> Statement {
        switch currentKeyword {
        case .select: return .select(try wholeSelect())
        case .insert: return .insert(try insert())
        case .update: return .update(try update())
        case .delete, .tombstone: return .delete(try removal())
        case .evict: return .evict(try removal())
        case .explain, .profile, .advise: return .explain(try explain())
        case .create: return .createIndex(try createIndex())
        case .drop: return .dropIndex(try dropIndex())
        case .alter: return .alterSystem(try alterSystem())
        case .show: return .show(try show())
        default:
            if isAt(.leftParenthesis), try isFollowed(by: .select) {
                throw error(.syntax, "a statement has no parentheses around it", suggestion: "SELECT")
            }
            throw refusedStatement ?? unexpected("a statement", candidates: Self.beginnings)
        }
    }

    // MARK: SELECT

    private mutating func wholeSelect() throws(DQLError) -> SelectStatement {
        let select = try select()
        try expectEnd(.select)
        return select
    }

    /// SELECT up to the end of its clauses; the caller checks the next token.
    @inline(never)
    mutating func select() throws(DQLError) -> SelectStatement {
        var directives = try merge(nil, current.hints)
        try expect(.select)
        directives = try merge(directives, current.hints)
        let word = current
        let isDistinct = try take(.distinct)
        let isAll = isDistinct ? false : try take(.all)
        if isDistinct || isAll { try refuseAsField(word) }
        let projection = try projection()
        guard isAt(.from) else { throw unexpected("FROM or ','", candidates: [.from]) }
        try advance()
        let source = try joinedSource()
        var selection = SelectionSyntax()
        if try take(.where) { selection.condition = try expression() }
        var groupKeys: [ExpressionSyntax] = []
        if try take(.group) {
            try expect(.by)
            groupKeys = try terms { parser throws(DQLError) in try parser.expression() }
        }
        let having = try take(.having) ? try expression() : nil
        try orderAndLimits(into: &selection)
        return SelectStatement(
            directives: directives, isDistinct: isDistinct, distinctSpan: word.span, projection: projection,
            source: source,
            groupKeys: groupKeys, having: having, selection: selection)
    }

    private mutating func projection() throws(DQLError) -> ProjectionSyntax {
        guard isAt(.raw) || isAt(.value) else { return try elements() }
        let word = current
        try advance()
        try refuseAsField(word)
        return .raw(try expression())
    }

    /// Refuses a reserved word that says how SELECT projects, before a token that shows that a field was
    /// meant.
    private func refuseAsField(_ word: Token) throws(DQLError) {
        let isPath = isAt(.dot) && current.span.start == word.span.end
        if isPath || isAt(.from) || isAt(.comma) || isAt(.as) { throw notAnExpression(word) }
    }

    /// `*` or a list: the common part of SELECT and RETURNING.
    mutating func elements() throws(DQLError) -> ProjectionSyntax {
        if isAt(.star), try !isFollowed(by: .comma) { return .all(try advance().span) }
        return .elements(try terms { parser throws(DQLError) in try parser.projectionElement() })
    }

    @inline(never)
    private mutating func projectionElement() throws(DQLError) -> ProjectionElementSyntax {
        if isAt(.star) { return .star(try advance().span) }
        if isAt(.missing), try isNameNext() {
            try advance()
            return .missing(try path("a field", takes: .operands))
        }
        if nameAtCurrent != nil, try isFollowed(by: .dot), try peek(2).kind == .symbol(.star) {
            let name = try name()
            try advance()
            try advance()
            return .allFields(name)
        }
        let value = try expression()
        if try take(.as) { return .expression(value, alias: try alias()) }
        guard nameAtCurrent != nil else { return .expression(value, alias: nil) }
        return .expression(value, alias: try projectionAlias())
    }

    private mutating func isNameNext() throws(DQLError) -> Bool {
        switch try peek().kind {
        case .word(_, let keyword): !(keyword?.isReserved ?? false) || keyword?.isNameAsOperand ?? false
        case .quotedName: true
        default: false
        }
    }

    /// An alias without AS. A word before a token that cannot follow an alias is a misspelt FROM instead.
    private mutating func projectionAlias() throws(DQLError) -> NameSyntax {
        switch try peek().kind {
        case .end, .symbol(.semicolon), .symbol(.comma), .word(_, .from?): return try name()
        default: throw unexpected("FROM or ','", candidates: [.from])
        }
    }
}
