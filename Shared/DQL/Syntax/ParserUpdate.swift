import CRDT

/// UPDATE: APPLY, SET and UNSET.
extension Parser {
    mutating func update() throws(DQLError) -> UpdateStatement {
        try expect(.update)
        sourceComplaint = "Missing SET and/or UNSET clause: "
        let source = try singleSource()
        var applications: [ApplySyntax] = []
        var assignments: [AssignmentSyntax] = []
        var removals: [TargetSyntax] = []
        if try take(.apply) {
            applications = try terms { parser throws(DQLError) in try parser.application() }
        }
        if try take(.set) { assignments = try terms { parser throws(DQLError) in try parser.assignment() } }
        if try take(.unset) { removals = try terms { parser throws(DQLError) in try parser.target() } }
        guard !applications.isEmpty || !assignments.isEmpty || !removals.isEmpty else {
            let error = unexpected("SET", candidates: [.set, .unset, .apply])
            throw DQLError(
                error.code, sourceComplaint + error.message, position: error.position,
                token: error.token, suggestion: error.suggestion)
        }
        var selection = SelectionSyntax()
        if try take(.where) { selection.condition = try expression() }
        try orderAndLimits(into: &selection)
        let returning = try returning()
        try expectEnd(.update)
        return UpdateStatement(
            source: source, applications: applications, assignments: assignments, removals: removals,
            selection: selection, returning: returning)
    }

    // MARK: APPLY

    private mutating func application() throws(DQLError) -> ApplySyntax {
        let target = try target()
        let action: ApplyAction
        switch currentKeyword {
        case .increment:
            try advance()
            try expect(.by)
            action = .increment(try expression())
        case .pnIncrement:
            try advance()
            try expect(.by)
            action = .pnIncrement(try expression())
        case .restart:
            try advance()
            if isAt(.with) {
                try advance()
                action = .restart(try expression())
            } else {
                action = .restart(nil)
            }
        default:
            throw unexpected(
                "INCREMENT BY, RESTART or PN_INCREMENT BY", candidates: [.increment, .restart, .pnIncrement])
        }
        return ApplySyntax(target: target, action: action, span: target.span.through(lastSpan))
    }

    // MARK: SET

    private mutating func assignment() throws(DQLError) -> AssignmentSyntax {
        try refuseDocuments()
        let target = try target()
        if try take(.arrow) { return AssignmentSyntax(target: target, action: try mutator()) }
        guard isAt(.equal) else { throw notAnAssignment(target) }
        try advance()
        return AssignmentSyntax(target: target, action: .value(try expression()))
    }

    /// Refuses `SET DOCUMENTS (…)`, `SET (…)`, `SET {…}` and `SET :document`: a whole document in the place
    /// of a field.
    private mutating func refuseDocuments() throws(DQLError) {
        let isDocuments =
            (isAt(.documents) || isAt(.values)) ? try isFollowed(by: .leftParenthesis) : false
        guard isDocuments || isAt(.leftParenthesis) || isAt(.leftBrace) || isAt(.colon) else { return }
        throw error(
            .syntax, "SET takes fields (SET field = value); a whole document is written by INSERT",
            suggestion: "INSERT INTO … DOCUMENTS (…) ON ID CONFLICT DO UPDATE")
    }

    private func notAnAssignment(_ target: TargetSyntax) -> DQLError {
        let path = StatementPrinter.path(target.segments)
        switch currentKeyword {
        case .increment, .restart, .pnIncrement:
            return error(.syntax, "a counter is changed in APPLY, before SET", suggestion: "APPLY \(path) …")
        default: break
        }
        if isAt(.minus), current.span.start == target.span.end, target.segments.count == 1,
            source.endOfRun(from: target.span.start) > current.span.end
        {
            return unquotedName(target.span)
        }
        if isAt(.plus) || isAt(.minus) {
            return error(.syntax, "expected '=' after \(path)", suggestion: "\(path) = \(path) …")
        }
        return unexpected("'='")
    }

    /// The mutator after `->`: the functional mutators of 4.x.
    private mutating func mutator() throws(DQLError) -> AssignmentAction {
        if try take(.leftParenthesis) {
            let children = try terms { parser throws(DQLError) in
                try parser.nested { parser throws(DQLError) in try parser.assignment() }
            }
            try expect(.rightParenthesis)
            return .children(children)
        }
        guard isAt(.tombstone) || isAt(.default) else {
            throw unexpected("tombstone(), default() or '('", candidates: [.tombstone, .default])
        }
        let action: AssignmentAction = isAt(.tombstone) ? .tombstone : .reset
        try advance()
        try expect(.leftParenthesis)
        try expect(.rightParenthesis)
        return action
    }

    // MARK: Targets

    /// A path as a target: names with dots only.
    mutating func target(takes reserved: ReservedNames = .targets) throws(DQLError) -> TargetSyntax {
        let names = try path("a field", takes: reserved)
        let segments = names.map(\.text)
        if isAt(.leftBracket) {
            throw error(
                .elementAssignment,
                "an array element or bracketed key cannot be modified; name fields with dots",
                suggestion: StatementPrinter.path(segments))
        }
        return TargetSyntax(segments: segments, span: names[0].span.through(lastSpan))
    }

    /// `a.b.c`, at least one name.
    mutating func path(
        _ what: String, takes reserved: ReservedNames = .none
    ) throws(DQLError) -> [NameSyntax] {
        var names = [try firstName(what, reserved)]
        while try take(.dot) { names.append(try memberName()) }
        guard names.count <= DQLLimits.nestingDepth else {
            throw source.error(
                .nestingTooDeep, "the path has more than \(DQLLimits.nestingDepth) levels", at: names[0].span)
        }
        return names
    }

    /// The reserved words that are names at the beginning of a path.
    enum ReservedNames {
        case none
        /// The words that begin no expression.
        case operands
        /// The words before a token that shows that a field is changed.
        case targets
        /// All: nothing but a field can stand there.
        case all
    }

    private mutating func firstName(_ what: String, _ reserved: ReservedNames) throws(DQLError) -> NameSyntax
    {
        guard case .word(let text, let keyword?) = current.kind, keyword.isReserved else {
            return try fieldName(what)
        }
        let isName =
            switch reserved {
            case .none: false
            case .operands: keyword.isNameAsOperand
            case .targets: try isTargetName(keyword)
            case .all: true
            }
        return isName ? NameSyntax(text: text, span: try advance().span) : try fieldName(what)
    }

    /// Returns whether a reserved word is a field that is changed: the token after it says so. A word that
    /// begins a clause needs more than the end of a list.
    @inline(never)
    mutating func isTargetName(_ keyword: Keyword) throws(DQLError) -> Bool {
        switch try peek().kind {
        case .symbol(.dot), .symbol(.equal), .symbol(.arrow), .symbol(.leftBracket),
            .word(_, .increment?), .word(_, .restart?), .word(_, .pnIncrement?):
            true
        case .symbol(.comma), .symbol(.semicolon), .symbol(.rightParenthesis), .end: !keyword.beginsClause
        case .word(_, let next?): next.beginsClause && !keyword.beginsClause
        default: false
        }
    }
}
