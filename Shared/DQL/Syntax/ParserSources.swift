import CRDT

/// Collections in a statement, with types, aliases, joins and planner hints.
extension Parser {
    // MARK: Sources

    /// FROM's source with its joins.
    mutating func joinedSource() throws(DQLError) -> SourceSyntax {
        let first = try sourceTerm()
        var joins: [JoinSyntax] = []
        while let join = try join(isFirst: joins.isEmpty) {
            joins.append(join)
            if joins.count > DQLLimits.clauseTerms {
                throw error(.tooManyTerms, "a statement has at most \(DQLLimits.clauseTerms) joins")
            }
        }
        if isAt(.comma) {
            throw error(
                .unsupportedClause, "more than one source is not supported; join them",
                suggestion: "JOIN … ON …")
        }
        return SourceSyntax(
            collection: first.collection, alias: first.alias, ids: first.ids, indexHint: first.indexHint,
            directives: first.directives, joins: joins)
    }

    /// The source of a statement that changes documents.
    mutating func singleSource() throws(DQLError) -> SourceSyntax {
        let source = try sourceTerm()
        if isAt(.comma) || isAt(.join) || (currentKeyword?.followsAlias ?? false && !isAtClause) {
            throw error(.unsupportedClause, "only SELECT joins collections; this statement takes one")
        }
        return source
    }

    private var isAtClause: Bool { currentKeyword?.beginsClause ?? false }

    private mutating func join(isFirst: Bool) throws(DQLError) -> JoinSyntax? {
        let start = current
        var kind = JoinKind.inner
        switch currentKeyword {
        case .join: break
        case .inner: try advance()
        case .left, .right:
            kind = isAt(.left) ? .left : .right
            try advance()
            _ = try take(.outer)
        case .full, .outer: throw error(.unsupportedClause, "a FULL JOIN is not supported")
        default:
            if let refused = refusedClause { throw refused }
            return nil
        }
        try expect(.join)
        if kind == .right, !isFirst {
            throw source.error(
                .unsupportedClause, "a RIGHT JOIN can only be the first join", at: start.span,
                suggestion: "LEFT JOIN")
        }
        let source = try sourceTerm()
        guard isAt(.on) else {
            throw unexpected("ON and the join's condition", candidates: [.on])
        }
        try advance()
        let condition = try expression()
        return JoinSyntax(
            kind: kind, source: source, condition: condition, span: start.span.through(lastSpan))
    }

    /// `collection [[AS] alias] [USE IDS …] [USE INDEX …] [USE DIRECTIVES …]`.
    private mutating func sourceTerm() throws(DQLError) -> SourceSyntax {
        let collection = try collection()
        var uses = Uses(directives: try merge(nil, current.hints))
        var alias: NameSyntax?
        if try take(.as) {
            alias = try self.alias()
        } else if nameAtCurrent != nil {
            alias = try implicitAlias()
        }
        if alias != nil { uses.directives = try merge(uses.directives, current.hints) }
        while try take(.use) {
            try use(&uses)
            uses.directives = try merge(uses.directives, current.hints)
        }
        return SourceSyntax(
            collection: collection, alias: alias, ids: uses.ids, indexHint: uses.index,
            directives: uses.directives)
    }

    /// An alias without AS. A word before a token that cannot follow an alias is a misspelt clause instead.
    private mutating func implicitAlias() throws(DQLError) -> NameSyntax {
        if let refused = refusedClause { throw refused }
        let isClauseNext =
            switch try peek().kind {
            case .end, .symbol(.semicolon), .symbol(.comma), .symbol(.rightParenthesis): true
            case .word(let text, let keyword): keyword?.followsAlias ?? Self.isRefusedClause(text)
            default: false
            }
        guard isClauseNext else {
            throw unexpected(
                "a clause or the end of the statement",
                candidates: [
                    .where, .order, .group, .having, .limit, .offset, .set, .unset, .use, .apply, .join,
                    .returning,
                ])
        }
        return try name()
    }

    // MARK: Collections

    /// `name`, `COLLECTION name [(types)]`, `system:name`. In an index statement a parenthesis is not a type
    /// definition.
    mutating func collection(takesTypes: Bool = true) throws(DQLError) -> CollectionSyntax {
        let word = current.span
        let isExplicit = try take(.collection)
        if isExplicit, current.kind == .end || isAt(.semicolon) || currentKeyword?.beginsClause ?? false {
            let text = source.token(of: word) ?? ""
            throw source.error(
                .reservedWord, "expected identifier, found the reserved word \(text)", at: word,
                suggestion: "`\(text)`")
        }
        if isAt(.leftParenthesis) { throw unsupportedClause("a subquery as a source") }
        if case .integer = current.kind { throw unquotedName(current.span) }
        if case .double = current.kind { throw unquotedName(current.span) }
        var name = try name(allowDoubleQuotes: true)
        if isNameCut { throw unquotedName(name.span) }
        var isSystem = false
        if isAt(.colon) {
            let namespace = name.text.lowercased()
            guard namespace == "system" || namespace == "default" else {
                throw source.error(
                    .syntax, "unknown namespace \(name.text)", at: name.span, suggestion: "system")
            }
            try advance()
            isSystem = namespace == "system"
            name = try self.name(allowDoubleQuotes: true)
        }
        guard !name.text.isEmpty, name.text.utf8.count <= Limits.collectionNameBytes else {
            throw source.error(
                .invalidCollectionName,
                "a collection name has 1 to \(Limits.collectionNameBytes) bytes", at: name.span)
        }
        (name, isSystem) = SystemNames.resolve(name, isSystem: isSystem)
        guard takesTypes, isAt(.leftParenthesis) else {
            return CollectionSyntax(name: name, isSystem: isSystem, fields: [])
        }
        guard isExplicit else { throw try parenthesisAfterName(name) }
        return CollectionSyntax(name: name, isSystem: isSystem, fields: try fieldDeclarations())
    }

    /// True behind a name that goes on without a blank, as in `my-orders`.
    private var isNameCut: Bool {
        guard current.span.start == lastSpan.end else { return false }
        switch current.kind {
        case .symbol(.minus), .symbol(.dot), .symbol(.slash), .symbol(.plus), .symbol(.percent),
            .symbol(.arrow):
            return true
        default: return false
        }
    }

    /// The error for `my-orders` and `2024-orders`: names that have to be quoted.
    func unquotedName(_ start: SourceSpan) -> DQLError {
        let end = source.endOfRun(from: start.start)
        let span = SourceSpan(start: start.start, end: max(end, start.end))
        let text = source.token(of: span) ?? ""
        return source.error(
            .syntax,
            "a name of other characters than letters, digits and '_', or one that begins with a "
                + "digit, stands in back quotes: write `\(text)`", at: span, suggestion: "`\(text)`")
    }

    /// The error for `cars (…)`: the word COLLECTION is missing, or the text lists columns.
    private mutating func parenthesisAfterName(_ name: NameSyntax) throws(DQLError) -> DQLError {
        if try isFollowed(by: .select) {
            return error(
                .syntax, "a SELECT has no parentheses here", suggestion: "INSERT INTO … SELECT …")
        }
        if case .word(_, let type?) = try peek(2).kind, DeclaredType(rawValue: type.rawValue) != nil {
            return error(
                .syntax,
                "\(sourceComplaint)a type definition needs the word COLLECTION before the collection's name",
                suggestion: "COLLECTION \(ExpressionPrinter.name(name.text)) (…)")
        }
        return unexpected("a clause; a collection has no list of columns, documents are whole objects")
    }

    private mutating func fieldDeclarations() throws(DQLError) -> [FieldDeclarationSyntax] {
        try expect(.leftParenthesis)
        let fields = try terms { parser throws(DQLError) in
            try parser.nested { parser throws(DQLError) in try parser.fieldDeclaration() }
        }
        try expect(.rightParenthesis)
        return fields
    }

    private mutating func fieldDeclaration() throws(DQLError) -> FieldDeclarationSyntax {
        let name = try memberName()
        guard let keyword = currentKeyword, let type = DeclaredType(rawValue: keyword.rawValue) else {
            throw unexpected(
                "REGISTER, MAP, COUNTER, PN_COUNTER or ATTACHMENT",
                candidates: [.register, .map, .counter, .pnCounter, .attachment])
        }
        try advance()
        guard isAt(.leftParenthesis) else {
            return FieldDeclarationSyntax(name: name, type: type, children: [])
        }
        guard type == .map else {
            throw error(.invalidTypeDefinition, "only a MAP has fields of its own, \(type.rawValue) has none")
        }
        return FieldDeclarationSyntax(name: name, type: type, children: try fieldDeclarations())
    }
}
