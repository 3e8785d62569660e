import CRDT

/// INSERT, DELETE and EVICT.
extension Parser {
    // MARK: INSERT

    mutating func insert() throws(DQLError) -> InsertStatement {
        try expect(.insert)
        try expect(.into)
        let collection = try collection()
        let isInitial = isAt(.initial)
        if isInitial { try advance() }
        let source = try insertSource(isInitial: isInitial)
        var policy = isInitial ? ConflictPolicy.doNothing : .fail
        if isAt(.on) {
            if isInitial {
                throw error(
                    .syntax, "INITIAL leaves existing documents unchanged: it takes no ON ID CONFLICT")
            }
            policy = try conflictPolicy()
        }
        let returning = try returning()
        try expectEnd(.insert)
        return InsertStatement(
            collection: collection, isInitial: isInitial, source: source, policy: policy, returning: returning
        )
    }

    private mutating func insertSource(isInitial: Bool) throws(DQLError) -> InsertSource {
        if isAt(.select) {
            if isInitial { throw error(.syntax, "INITIAL takes DOCUMENTS, not SELECT") }
            return .query(try select())
        }
        guard isAt(.documents) || isAt(.values) else {
            throw unexpected(
                isInitial ? "DOCUMENTS" : "DOCUMENTS, VALUES or SELECT",
                candidates: isInitial ? [.documents, .values] : [.documents, .values, .initial, .select])
        }
        try advance()
        return .documents(try list { parser throws(DQLError) in try parser.document() })
    }

    /// `(expression)`; a call needs no parentheses around it.
    private mutating func document() throws(DQLError) -> ExpressionSyntax {
        guard isAt(.leftParenthesis) else { return try expression() }
        try advance()
        if isAt(.select) {
            throw error(
                .syntax, "the rows of a query are inserted without DOCUMENTS and parentheses",
                suggestion: "INSERT INTO … SELECT …")
        }
        let document = try expression()
        if isAt(.comma) {
            throw error(.syntax, "each document needs its own parentheses", suggestion: "), (")
        }
        try expect(.rightParenthesis)
        return document
    }

    private mutating func conflictPolicy() throws(DQLError) -> ConflictPolicy {
        try expect(.on)
        guard isAt(.id) else {
            throw error(
                current.kind == .end ? .unexpectedEnd : .syntax, "expected ID CONFLICT after ON",
                suggestion: "ON ID CONFLICT")
        }
        try advance()
        try expect(.conflict)
        let hasDo = try take(.do)
        let policy: ConflictPolicy
        switch currentKeyword {
        case .fail: policy = .fail
        case .nothing where hasDo: policy = .doNothing
        case .update where hasDo, .merge where hasDo: policy = .doUpdate
        case .updateLocalDiff where hasDo: policy = .doUpdateLocalDiff
        case .nothing, .update, .merge, .updateLocalDiff:
            let word = source.token(of: current.span)?.uppercased() ?? ""
            throw error(.syntax, "expected FAIL or DO, found \(word)", suggestion: "DO \(word)")
        default:
            throw unexpected(
                hasDo ? "FAIL, NOTHING, UPDATE, UPDATE_LOCAL_DIFF or MERGE" : "FAIL or DO",
                candidates: hasDo ? [.fail, .nothing, .update, .updateLocalDiff, .merge] : [.fail, .do])
        }
        try advance()
        if isAt(.leftParenthesis) {
            throw error(
                .unsupportedClause,
                "policies in parentheses are not supported: DO UPDATE writes every supplied field")
        }
        return policy
    }

    // MARK: DELETE, TOMBSTONE, EVICT

    mutating func removal() throws(DQLError) -> RemovalStatement {
        try advance()
        guard isAt(.from) else { throw unexpected("FROM", candidates: [.from]) }
        try advance()
        let source = try singleSource()
        var selection = SelectionSyntax()
        if try take(.where) { selection.condition = try expression() }
        try orderAndLimits(into: &selection)
        let returning = try returning()
        try expectEnd(.removal)
        return RemovalStatement(source: source, selection: selection, returning: returning)
    }
}
