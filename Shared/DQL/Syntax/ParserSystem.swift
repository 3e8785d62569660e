import CRDT

/// Statements about indexes, plans and the system's parameters.
extension Parser {
    // MARK: EXPLAIN, PROFILE, ADVISE

    /// Nests at most once (`EXPLAIN ADVISE …`), so it needs no guard for the stack.
    mutating func explain() throws(DQLError) -> ExplainStatement {
        let word = current
        try advance()
        let kind: ExplainKind
        switch word.kind {
        case .word(_, .explain?): kind = .explain
        case .word(_, .profile?): kind = .profile
        default:
            let provision = try take(.and)
            if provision {
                guard isAt(.provision) else { throw unexpected("PROVISION", candidates: [.provision]) }
                try advance()
            }
            kind = .advise(provision: provision)
        }
        switch currentKeyword {
        case .show, .alter, .explain, .profile:
            throw error(.syntax, "\(name(of: word)) does not take \(name(of: current))")
        case .advise where kind != .explain:
            throw error(.syntax, "\(name(of: word)) does not take ADVISE")
        default: return ExplainStatement(kind: kind, statement: try statement())
        }
    }

    private func name(of token: Token) -> String { source.token(of: token.span)?.uppercased() ?? "" }

    // MARK: Indexes

    mutating func createIndex() throws(DQLError) -> CreateIndexStatement {
        try expect(.create)
        try expectIndex("created by its first document")
        var ifNotExists = false
        if isAt(.if) {
            try advance()
            try expect(.not)
            try expect(.exists)
            ifNotExists = true
        }
        let name = try name("an index's name")
        try expect(.on)
        let collection = try collection(takesTypes: false)
        try expect(.leftParenthesis)
        takesReservedItems = true
        defer { takesReservedItems = false }
        let keys = try terms { parser throws(DQLError) in try parser.indexKey() }
        try expect(.rightParenthesis)
        try expectEnd(.other)
        return CreateIndexStatement(name: name, ifNotExists: ifNotExists, collection: collection, keys: keys)
    }

    /// `path` with INCLUDE MISSING or EXCLUDE MISSING, and ASC or DESC, in any order.
    private mutating func indexKey() throws(DQLError) -> IndexKeySyntax {
        let path = try target(takes: .all)
        if isAt(.leftParenthesis) {
            throw error(.unsupportedClause, "an index has fields as keys, not expressions")
        }
        var isDescending: Bool?
        var includesMissing: Bool?
        while true {
            if isDescending == nil, isAt(.asc) || isAt(.desc) {
                isDescending = isAt(.desc)
                try advance()
            } else if includesMissing == nil, isAt(.include) || isAt(.exclude) {
                includesMissing = isAt(.include)
                try advance()
                try expect(.missing)
            } else {
                return IndexKeySyntax(
                    path: path, isDescending: isDescending ?? false, includesMissing: includesMissing)
            }
        }
    }

    mutating func dropIndex() throws(DQLError) -> DropIndexStatement {
        try expect(.drop)
        try expectIndex("gone with its last document")
        var ifExists = false
        if isAt(.if) {
            try advance()
            try expect(.exists)
            ifExists = true
        }
        let name = try name("an index's name")
        guard isAt(.on) else { throw unexpected("ON and the index's collection", candidates: [.on]) }
        try advance()
        let collection = try collection(takesTypes: false)
        try expectEnd(.other)
        return DropIndexStatement(name: name, ifExists: ifExists, collection: collection)
    }

    private mutating func expectIndex(_ instead: String) throws(DQLError) {
        if isAt(.collection) {
            throw error(.syntax, "collections are not created or dropped: a collection is \(instead)")
        }
        try expect(.index)
    }

    // MARK: ALTER SYSTEM, SHOW

    mutating func alterSystem() throws(DQLError) -> AlterSystemStatement {
        try expect(.alter)
        guard isAt(.system) else { throw unexpected("SYSTEM", candidates: [.system]) }
        try advance()
        if isAt(.reset) {
            try advance()
            let action: AlterSystemAction = try take(.all) ? .resetAll : .reset(try parameterName())
            try expectEnd(.other)
            return AlterSystemStatement(action: action)
        }
        guard isAt(.set) else { throw unexpected("SET or RESET", candidates: [.set, .reset]) }
        try advance()
        let name = try parameterName()
        guard isAt(.equal) || isAt(.to) else { throw unexpected("'=' or TO", candidates: [.to]) }
        try advance()
        let value = isAt(.default) ? nil : try settingValue()
        if value == nil { try advance() }
        let persists = isAt(.persist)
        if persists { try advance() }
        if !persists, current.kind != .end, !isAt(.semicolon) {
            throw unexpected("PERSIST or the end of the statement", candidates: [.persist])
        }
        try expectEnd(.other)
        return AlterSystemStatement(action: .set(name, value, persists: persists))
    }

    /// 4.10 wrote the keys of an object without quotes here.
    private mutating func settingValue() throws(DQLError) -> ExpressionSyntax {
        takesUnquotedKeys = true
        defer { takesUnquotedKeys = false }
        return try expression()
    }

    /// A system parameter; any word may be one.
    private mutating func parameterName() throws(DQLError) -> NameSyntax {
        if case .word(let text, _) = current.kind { return NameSyntax(text: text, span: try advance().span) }
        return try name("a system parameter")
    }

    mutating func show() throws(DQLError) -> ShowStatement {
        try expect(.show)
        guard try take(.all) else {
            let name = try parameterName()
            try expectEnd(.other)
            return .parameter(name)
        }
        var pattern: ExpressionSyntax?
        let ignoresCase = isAt(.ilike)
        if isAt(.like) || isAt(.ilike) {
            try advance()
            switch current.kind {
            case .string, .symbol(.colon): pattern = try prefix()
            default: throw unexpected("a pattern")
            }
        }
        if pattern == nil, current.kind != .end, !isAt(.semicolon) {
            throw unexpected("LIKE, ILIKE or the end of the statement", candidates: [.like, .ilike])
        }
        try expectEnd(.other)
        return .all(pattern: pattern, ignoresCase: pattern != nil && ignoresCase)
    }
}
