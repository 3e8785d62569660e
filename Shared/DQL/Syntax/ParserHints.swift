import CRDT

/// USE and hint comments: they advise the planner and never change a result.
extension Parser {
    /// The USE clauses of a source.
    struct Uses {
        var ids: IDsSyntax?
        var index: NameSyntax?
        var directives: DirectivesSyntax?
    }

    /// The rest of a USE clause.
    mutating func use(_ uses: inout Uses) throws(DQLError) {
        switch currentKeyword {
        case .ids where uses.ids == nil: uses.ids = try ids()
        case .index where uses.index == nil: uses.index = try index()
        case .directives:
            try advance()
            guard case .string(let text, _) = current.kind else {
                throw unexpected("the directives as a string with a JSON object")
            }
            uses.directives = try merge(uses.directives, text, try advance().span)
        default: throw unexpected("IDS, INDEX or DIRECTIVES", candidates: [.ids, .index, .directives])
        }
    }

    private mutating func ids() throws(DQLError) -> IDsSyntax {
        try expect(.ids)
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

    private mutating func index() throws(DQLError) -> NameSyntax {
        try expect(.index)
        switch current.kind {
        case .string(let text, _): return NameSyntax(text: text, span: try advance().span)
        default: return try name("an index's name as a string")
        }
    }

    /// `known` with the directives of hint comments.
    func merge(_ known: DirectivesSyntax?, _ hints: [SourceSpan]) throws(DQLError) -> DirectivesSyntax? {
        var result = known
        for hint in hints { result = try merge(result, source.slice(hint), hint) }
        return result
    }

    /// `known` with further directives; the later ones win. A malformed hint is an error rather than
    /// ignored.
    private func merge(
        _ known: DirectivesSyntax?, _ text: String, _ span: SourceSpan
    ) throws(DQLError) -> DirectivesSyntax {
        guard let further = (try? JSONText.parse(text))?.objectValue,
            (try? JSONText.parse(JSONText.print(.object(further))))?.objectValue == further
        else { throw source.error(.invalidDirectives, "a hint is a JSON object of directives", at: span) }
        var values = known?.values ?? ObjectValue()
        guard values.count + further.count <= DQLLimits.directives else {
            throw source.error(
                .tooManyTerms, "more than \(DQLLimits.directives) directives at one place", at: span)
        }
        for entry in further.entries { values[entry.key] = entry.value }
        return DirectivesSyntax(values: values, span: span)
    }
}
