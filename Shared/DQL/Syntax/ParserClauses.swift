import CRDT

/// Order, limits, RETURNING, and the errors for misplaced clauses.
extension Parser {
    // MARK: Order and limits

    /// ORDER BY, LIMIT and OFFSET, each at most once, in any order: the original's documentation shows
    /// several.
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

    /// A literal number or a parameter; its value is checked when the argument is known.
    private mutating func count(_ clause: String) throws(DQLError) -> ExpressionSyntax {
        switch current.kind {
        case .integer, .double, .symbol(.colon), .symbol(.minus): return try prefix()
        default: throw unexpected("a whole number or a parameter after \(clause)")
        }
    }

    // MARK: RETURNING

    /// RETURNING, if it is there. RAW is refused, and DISTINCT is a field there.
    mutating func returning() throws(DQLError) -> ReturningSyntax? {
        guard isAt(.returning) else { return nil }
        let start = try advance().span
        if isAt(.raw) || isAt(.value) {
            throw error(.unsupportedClause, "RAW projections are not supported in RETURNING")
        }
        readsDistinctAsName = true
        defer { readsDistinctAsName = false }
        return ReturningSyntax(projection: try elements(), span: start.through(lastSpan))
    }

    // MARK: Ends

    /// The statements that end with clauses, and the order of their clauses.
    enum Ending {
        case select
        case insert
        case update
        case removal
        case other

        var order: String {
            switch self {
            case .select: "FROM, WHERE, GROUP BY, HAVING, ORDER BY, LIMIT, OFFSET"
            case .insert: "INITIAL, DOCUMENTS or SELECT, ON ID CONFLICT, RETURNING"
            case .update: "APPLY, SET, UNSET, WHERE, ORDER BY, LIMIT, OFFSET, RETURNING"
            case .removal: "FROM, WHERE, ORDER BY, LIMIT, OFFSET, RETURNING"
            case .other: ""
            }
        }

        var candidates: [Keyword] {
            switch self {
            case .select: [.where, .group, .having, .order, .limit, .offset]
            case .insert: [.on, .returning]
            case .update: [.unset, .where, .order, .limit, .offset, .returning]
            case .removal: [.where, .order, .limit, .offset, .returning]
            case .other: []
            }
        }
    }

    /// The end of a statement. Otherwise throws the error that fits: a clause out of order, a misspelt one,
    /// or one of another language.
    func expectEnd(_ ending: Ending) throws(DQLError) {
        if current.kind == .end || isAt(.semicolon) { return }
        if let refused = refusedClause { throw refused }
        if ending != .other, currentKeyword?.beginsClause ?? false {
            let word = source.token(of: current.span)?.uppercased() ?? ""
            throw error(.syntax, "\(word) cannot come here; the order is \(ending.order)")
        }
        throw unexpected("the end of the statement", candidates: ending.candidates)
    }

    /// Words that begin clauses of SQL that DQL does not have. They are not reserved: documents may use them
    /// as fields.
    private static let refusedClauses = [
        "UNION", "INTERSECT", "EXCEPT", "UNNEST", "NEST", "CROSS", "NATURAL", "WINDOW", "FETCH", "QUALIFY",
        "LET", "USING",
    ]

    /// Words that begin statements of SQL that DQL does not have.
    private static let refusedStatements = [
        "WITH", "MERGE", "UPSERT", "REPLACE", "TRUNCATE", "GRANT", "BEGIN", "START", "COMMIT", "ROLLBACK",
        "DESCRIBE",
    ]

    static func isRefusedClause(_ word: String) -> Bool { refusedClauses.contains(word.uppercased()) }

    /// The error for the current word if it begins a clause of SQL that DQL does not have.
    var refusedClause: DQLError? { refusal(Self.refusedClauses) }

    /// The error for the current word if it begins a statement of SQL that DQL does not have.
    var refusedStatement: DQLError? { refusal(Self.refusedStatements) }

    private func refusal(_ words: [String]) -> DQLError? {
        guard case .word(let text, _) = current.kind else { return nil }
        let word = text.uppercased()
        guard words.contains(word) else { return nil }
        let instead: String? =
            switch word {
            case "UPSERT", "MERGE", "REPLACE": "INSERT INTO … DOCUMENTS (…) ON ID CONFLICT DO UPDATE"
            case "CROSS", "NATURAL": "JOIN … ON …"
            case "USING": "ON"
            case "TRUNCATE": "DELETE FROM"
            case "FETCH": "LIMIT"
            default: nil
            }
        return error(.unsupportedClause, "\(word) is not part of the language", suggestion: instead)
    }
}
