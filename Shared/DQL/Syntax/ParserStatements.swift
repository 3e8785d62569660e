import CRDT

extension Parser {
    /// The statement at the start of the text.
    mutating func statement() throws(DQLError) -> Statement {
        switch currentKeyword {
        case .select: return .select(try select())
        case .insert: return .insert(try insert())
        case .update: return .update(try update())
        case .delete, .tombstone: return .delete(try removal())
        case .evict: return .evict(try removal())
        case .explain, .profile, .advise, .create, .drop, .alter, .show:
            let word = source.token(of: current.span)?.uppercased() ?? ""
            throw error(.unsupportedStatement, "\(word) is not supported yet")
        default:
            throw unexpected(
                "a statement", candidates: [.select, .insert, .update, .delete, .tombstone, .evict])
        }
    }

    // MARK: SELECT

    private mutating func select() throws(DQLError) -> SelectStatement {
        try expect(.select)
        let isDistinct = try take(.distinct)
        if !isDistinct { _ = try take(.all) }
        let projection = try projection()
        guard isAt(.from) else { throw unexpected("FROM or ','", candidates: [.from]) }
        try advance()
        let source = try sourceTerm()
        try refuseJoins()
        var selection = SelectionSyntax()
        if try take(.where) { selection.condition = try expression() }
        var groupKeys: [ExpressionSyntax] = []
        if try take(.group) {
            try expect(.by)
            groupKeys = try terms { parser throws(DQLError) in try parser.expression() }
        }
        let having = try take(.having) ? try expression() : nil
        try orderAndLimits(into: &selection)
        try expectClauseEnd(after: [.where, .group, .having, .order, .limit, .offset])
        return SelectStatement(
            isDistinct: isDistinct, projection: projection, source: source, groupKeys: groupKeys,
            having: having,
            selection: selection)
    }

    private mutating func projection() throws(DQLError) -> ProjectionSyntax {
        if isAt(.raw) || isAt(.value) {
            try advance()
            return .raw(try expression())
        }
        if isAt(.star), try !isFollowed(by: .comma) { return .all(try advance().span) }
        return .elements(try terms { parser throws(DQLError) in try parser.projectionElement() })
    }

    private mutating func projectionElement() throws(DQLError) -> ProjectionElementSyntax {
        if isAt(.star) { return .star(try advance().span) }
        if isAt(.missing), case .word(_, let next) = try peek().kind, !(next?.isReserved ?? false) {
            throw unsupportedClause("MISSING in a projection")
        }
        if nameAtCurrent != nil, try isFollowed(by: .dot), try peek(2).kind == .symbol(.star) {
            let name = try name()
            try advance()
            try advance()
            return .allFields(name)
        }
        let value = try expression()
        if try take(.as) { return .expression(value, alias: try name("an alias")) }
        return .expression(value, alias: nameAtCurrent == nil ? nil : try name())
    }

    // MARK: INSERT

    private mutating func insert() throws(DQLError) -> InsertStatement {
        try expect(.insert)
        try expect(.into)
        let collection = try collection()
        if isAt(.initial) { throw unsupportedClause("INITIAL") }
        if isAt(.select) { throw unsupportedClause("INSERT … SELECT") }
        guard isAt(.documents) || isAt(.values) else {
            throw unexpected("DOCUMENTS", candidates: [.documents, .values, .initial, .select])
        }
        try advance()
        let documents = try list { parser throws(DQLError) in try parser.expression() }
        let policy = try take(.on) ? try conflictPolicy() : .fail
        try expectClauseEnd(after: [.on])
        return InsertStatement(
            collection: collection, isInitial: false, source: .documents(documents), policy: policy,
            returning: nil)
    }

    private mutating func conflictPolicy() throws(DQLError) -> ConflictPolicy {
        try expect(.id)
        try expect(.conflict)
        let hasDo = try take(.do)
        let policy: ConflictPolicy
        switch currentKeyword {
        case .fail: policy = .fail
        case .nothing where hasDo: policy = .doNothing
        case .update where hasDo, .merge where hasDo: policy = .doUpdate
        case .updateLocalDiff where hasDo: policy = .doUpdateLocalDiff
        default:
            throw unexpected(
                hasDo
                    ? "FAIL, NOTHING, UPDATE, UPDATE_LOCAL_DIFF or MERGE" : "FAIL or DO",
                candidates: hasDo ? [.fail, .nothing, .update, .updateLocalDiff, .merge] : [.fail, .do])
        }
        try advance()
        return policy
    }

    // MARK: UPDATE, DELETE, EVICT

    private mutating func update() throws(DQLError) -> UpdateStatement {
        try expect(.update)
        let source = try sourceTerm()
        try refuseJoins()
        if isAt(.apply) { throw unsupportedClause("APPLY") }
        var assignments: [AssignmentSyntax] = []
        var removals: [TargetSyntax] = []
        if try take(.set) { assignments = try terms { parser throws(DQLError) in try parser.assignment() } }
        if try take(.unset) { removals = try terms { parser throws(DQLError) in try parser.target() } }
        guard !assignments.isEmpty || !removals.isEmpty else {
            let error = unexpected("SET", candidates: [.set, .unset, .apply])
            throw DQLError(
                error.code, "Missing SET and/or UNSET clause: \(error.message)", position: error.position,
                token: error.token, suggestion: error.suggestion)
        }
        var selection = SelectionSyntax()
        if try take(.where) { selection.condition = try expression() }
        try orderAndLimits(into: &selection)
        try expectClauseEnd(after: [.unset, .where, .order, .limit, .offset])
        return UpdateStatement(
            source: source, applications: [], assignments: assignments, removals: removals,
            selection: selection, returning: nil)
    }

    private mutating func assignment() throws(DQLError) -> AssignmentSyntax {
        let target = try target()
        if isAt(.arrow) { throw unsupportedClause("the operator ->") }
        try expect(.equal)
        return AssignmentSyntax(target: target, action: .value(try expression()))
    }

    private mutating func target() throws(DQLError) -> TargetSyntax {
        let first = try name("a field")
        var segments = [first.text]
        while try take(.dot) { segments.append(try memberName().text) }
        if isAt(.leftBracket) {
            throw error(
                .elementAssignment,
                "an array element or bracketed key cannot be modified; name fields with dots",
                suggestion: "\(segments.joined(separator: "."))")
        }
        guard segments.count <= DQLLimits.nestingDepth else {
            throw source.error(
                .nestingTooDeep, "the path has more than \(DQLLimits.nestingDepth) levels", at: first.span)
        }
        return TargetSyntax(segments: segments, span: first.span.through(lastSpan))
    }

    private mutating func removal() throws(DQLError) -> RemovalStatement {
        try advance()
        try expect(.from)
        let source = try sourceTerm()
        try refuseJoins()
        var selection = SelectionSyntax()
        if try take(.where) { selection.condition = try expression() }
        try orderAndLimits(into: &selection)
        try expectClauseEnd(after: [.where, .order, .limit, .offset])
        return RemovalStatement(source: source, selection: selection, returning: nil)
    }
}
