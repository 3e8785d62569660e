import CRDT

/// What comes after the words that name a statement: collections, type definitions, order, limits.
extension Parser {
    // MARK: Sources

    /// `collection [[AS] alias] [USE IDS …]`.
    mutating func sourceTerm() throws(DQLError) -> SourceSyntax {
        let collection = try collection()
        var alias: NameSyntax?
        if try take(.as) {
            alias = try name("an alias")
        } else if nameAtCurrent != nil {
            alias = try implicitAlias()
        }
        return SourceSyntax(collection: collection, alias: alias, ids: try ids())
    }

    /// An alias without AS. A word before something that cannot follow an alias is a misspelt clause instead.
    private mutating func implicitAlias() throws(DQLError) -> NameSyntax {
        let isClauseNext =
            switch try peek().kind {
            case .end, .symbol(.semicolon), .symbol(.comma): true
            case .word(_, let keyword?): keyword.isReserved
            default: false
            }
        guard isClauseNext else {
            throw unexpected(
                "a clause or the end of the statement",
                candidates: [
                    .where, .order, .group, .having, .limit, .offset, .set, .unset, .use, .apply, .join,
                ])
        }
        return try name()
    }

    /// `name`, `COLLECTION name [(types)]`, `system:name`.
    mutating func collection() throws(DQLError) -> CollectionSyntax {
        let isExplicit = try take(.collection)
        if isAt(.leftParenthesis) { throw unsupportedClause("a subquery as a source") }
        var name = try name(allowDoubleQuotes: true)
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
        let fields = isExplicit && isAt(.leftParenthesis) ? try fieldDeclarations() : []
        return CollectionSyntax(name: name, isSystem: isSystem, fields: fields)
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

    private mutating func ids() throws(DQLError) -> IDsSyntax? {
        guard try take(.use) else { return nil }
        if isAt(.index) || isAt(.directives) {
            throw unsupportedClause("USE \(source.token(of: current.span)?.uppercased() ?? "")")
        }
        guard isAt(.ids) else { throw unexpected("IDS", candidates: [.ids, .index, .directives]) }
        try advance()
        if isAt(.leftParenthesis) {
            throw error(
                .parenthesizedIDs, "USE IDS takes ids without parentheses", suggestion: "USE IDS 'a', 'b'")
        }
        if isAt(.list) {
            try advance()
            return .array(try expression())
        }
        return .list(try list { parser throws(DQLError) in try parser.expression() })
    }

    func refuseJoins() throws(DQLError) {
        switch currentKeyword {
        case .join, .inner, .left, .right, .full, .outer: throw unsupportedClause("JOIN")
        default: break
        }
        if isAt(.comma) { throw unsupportedClause("more than one source") }
    }

    // MARK: Order and limits

    /// ORDER BY, LIMIT and OFFSET, each at most once, in any order: the original's pages print several.
    mutating func orderAndLimits(into selection: inout SelectionSyntax) throws(DQLError) {
        while true {
            if isAt(.order), selection.order.isEmpty {
                try advance()
                try expect(.by)
                selection.order = try terms { parser throws(DQLError) in try parser.orderTerm() }
            } else if isAt(.limit), selection.limit == nil {
                try advance()
                selection.limit = try count("LIMIT")
            } else if isAt(.offset), selection.offset == nil {
                try advance()
                selection.offset = try count("OFFSET")
            } else {
                return
            }
        }
    }

    private mutating func orderTerm() throws(DQLError) -> OrderSyntax {
        let value = try expression()
        let isDescending = try take(.desc)
        if !isDescending { _ = try take(.asc) }
        var nullsFirst: Bool?
        if try take(.nulls) {
            guard isAt(.first) || isAt(.last) else {
                throw unexpected("FIRST or LAST", candidates: [.first, .last])
            }
            nullsFirst = isAt(.first)
            try advance()
        }
        return OrderSyntax(expression: value, isDescending: isDescending, nullsFirst: nullsFirst)
    }

    /// A literal number or a parameter; what it may be is checked when the argument is known.
    private mutating func count(_ clause: String) throws(DQLError) -> ExpressionSyntax {
        switch current.kind {
        case .integer, .double, .symbol(.colon), .symbol(.minus): return try prefix()
        default: throw unexpected("a whole number or a parameter after \(clause)")
        }
    }

    /// At the end of a statement: names what is known but cannot come, suggests a clause for what is unknown.
    func expectClauseEnd(after candidates: [Keyword]) throws(DQLError) {
        if current.kind == .end || isAt(.semicolon) { return }
        if isAt(.returning) { throw unsupportedClause("RETURNING") }
        throw unexpected("the end of the statement", candidates: candidates + [.returning])
    }
}
