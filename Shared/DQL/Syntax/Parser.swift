import CRDT

/// Recursive descent over the tokens of one statement.
///
/// This file holds the machinery: the token window, expectations and errors. Statements, clauses and
/// expressions are in the files next to it. `level` guards the stack against nesting in the text,
/// `ExpressionSyntax.depth` bounds the resulting tree (a chain `a + b + …` nests the tree, not the text).
///
/// Some functions are marked as never inlined to save stack: inlined, a production with many callers makes
/// each of their frames as large as its own, and 128 levels have to fit 512 KiB.
struct Parser {
    let source: SourceText
    private var lexer: Lexer
    private var window: [Token] = []
    /// The span of the last token taken.
    private(set) var lastSpan = SourceSpan(start: 0, end: 0)
    private var level = 0
    /// The beginning of an error about the source of UPDATE, in the original's words.
    var sourceComplaint = ""
    /// Set within RETURNING.
    var readsDistinctAsName = false
    /// Set within the keys of an index, where every word is a name.
    var takesReservedItems = false
    /// Set within the value of ALTER SYSTEM SET.
    var takesUnquotedKeys = false

    init(_ text: String) throws(DQLError) {
        source = SourceText(text: text)
        lexer = try Lexer(source)
        window.append(try lexer.next())
    }

    /// The statement of a text.
    static func parse(_ text: String) throws(DQLError) -> Statement {
        var parser = try Parser(text)
        if parser.current.kind == .end {
            throw DQLError(
                .unexpectedEnd, "the statement is empty", position: SourcePosition(line: 1, column: 1))
        }
        let statement = try parser.statement()
        if try parser.take(.semicolon), parser.current.kind != .end {
            throw parser.error(.severalStatements, "only one statement can be executed at a time")
        }
        guard parser.current.kind == .end else { throw parser.unexpected("the end of the statement") }
        return statement
    }

    // MARK: Tokens

    var current: Token { window[0] }

    @inline(never)
    mutating func peek(_ ahead: Int = 1) throws(DQLError) -> Token {
        while window.count <= ahead { window.append(try lexer.next()) }
        return window[ahead]
    }

    @inline(never)
    @discardableResult
    mutating func advance() throws(DQLError) -> Token {
        let token = window.removeFirst()
        lastSpan = token.span
        if window.isEmpty { window.append(try lexer.next()) }
        return token
    }

    var currentKeyword: Keyword? {
        if case .word(_, let keyword) = current.kind { keyword } else { nil }
    }

    func isAt(_ keyword: Keyword) -> Bool { currentKeyword == keyword }

    func isAt(_ symbol: Symbol) -> Bool {
        if case .symbol(symbol) = window[0].kind { true } else { false }
    }

    mutating func isFollowed(by keyword: Keyword) throws(DQLError) -> Bool {
        if case .word(_, keyword?) = try peek().kind { true } else { false }
    }

    mutating func isFollowed(by symbol: Symbol) throws(DQLError) -> Bool {
        try peek().kind == .symbol(symbol)
    }

    /// Takes the token if it is this keyword. A lexical error further on is reported when its token becomes
    /// the current one.
    @inline(never)
    mutating func take(_ keyword: Keyword) throws(DQLError) -> Bool {
        guard isAt(keyword) else { return false }
        try advance()
        return true
    }

    @inline(never)
    mutating func take(_ symbol: Symbol) throws(DQLError) -> Bool {
        guard isAt(symbol) else { return false }
        try advance()
        return true
    }

    @inline(never)
    @discardableResult
    mutating func expect(_ keyword: Keyword) throws(DQLError) -> SourceSpan {
        guard isAt(keyword) else { throw unexpected(keyword.rawValue, candidates: [keyword]) }
        return try advance().span
    }

    @inline(never)
    @discardableResult
    mutating func expect(_ symbol: Symbol) throws(DQLError) -> SourceSpan {
        guard isAt(symbol) else { throw unexpected("'\(symbol.rawValue)'") }
        return try advance().span
    }

    // MARK: Names

    /// A name at the current token: a word that is not reserved, or a quoted name. A double-quoted name
    /// counts where the grammar allows it.
    var nameAtCurrent: String? {
        switch current.kind {
        case .word(let text, let keyword) where !(keyword?.isReserved ?? false): text
        case .quotedName(let text): text
        default: nil
        }
    }

    /// The error for an empty name of anything but a field.
    var emptyName: DQLError { error(.syntax, "a quoted name cannot be empty") }

    @inline(never)
    mutating func name(_ what: String = "identifier", allowDoubleQuotes: Bool = false) throws(DQLError)
        -> NameSyntax
    {
        if let text = nameAtCurrent {
            if text.isEmpty { throw emptyName }
            return NameSyntax(text: text, span: try advance().span)
        }
        if allowDoubleQuotes, case .string(let text, doubleQuoted: true) = current.kind {
            return NameSyntax(text: text, span: try advance().span)
        }
        if case .word = current.kind { throw reserved(current, insteadOf: what) }
        throw unexpected(what)
    }

    /// The error for a reserved word that stands where a name, or an expression, is expected.
    @inline(never)
    func reserved(_ token: Token, insteadOf what: String) -> DQLError {
        let text = source.token(of: token.span) ?? ""
        return source.error(
            .reservedWord,
            "expected \(what), found the reserved word \(text); as a name, write `\(text)`", at: token.span,
            suggestion: "`\(text)`")
    }

    /// A name after AS, where only names can stand: reserved words are names too, except those that begin a
    /// clause, before which a name is missing.
    @inline(never)
    mutating func alias() throws(DQLError) -> NameSyntax {
        guard case .word(let text, let keyword?) = current.kind, !keyword.beginsClause else {
            return try name("an alias")
        }
        return NameSyntax(text: text, span: try advance().span)
    }

    /// True if the token after the current one can begin an operand.
    @inline(never)
    mutating func isOperandNext() throws(DQLError) -> Bool {
        switch try peek().kind {
        case .integer, .double, .string, .quotedName, .symbol(.leftParenthesis), .symbol(.leftBracket),
            .symbol(.leftBrace), .symbol(.colon), .symbol(.plus), .symbol(.minus):
            true
        case .word(_, let keyword): keyword?.beginsOperand ?? true
        case .symbol, .end: false
        }
    }

    /// A name after a dot, or in a type definition: reserved words and double quotes are allowed there.
    @inline(never)
    mutating func memberName() throws(DQLError) -> NameSyntax {
        if case .word(let text, _) = current.kind { return NameSyntax(text: text, span: try advance().span) }
        return try fieldName("a field name")
    }

    /// A field where no string can stand: double quotes are allowed, but not empty ones. A field may have an
    /// empty name, as in JSON; it is written with two back quotes.
    mutating func fieldName(_ what: String) throws(DQLError) -> NameSyntax {
        if case .quotedName("") = current.kind { return NameSyntax(text: "", span: try advance().span) }
        if case .string("", _) = current.kind { throw emptyName }
        return try name(what, allowDoubleQuotes: true)
    }

    /// Items separated by commas, at least one.
    mutating func list<Item>(_ item: (inout Parser) throws(DQLError) -> Item) throws(DQLError) -> [Item] {
        var items = [try item(&self)]
        while isAt(.comma) {
            try advance()
            try expectItem()
            items.append(try item(&self))
        }
        return items
    }

    /// Checks the token after a comma: if it cannot begin an item, the comma is one too many.
    private mutating func expectItem() throws(DQLError) {
        let isOver =
            switch current.kind {
            case .symbol(.rightParenthesis), .symbol(.rightBracket), .symbol(.rightBrace), .symbol(.comma),
                .symbol(.semicolon):
                true
            case .word(_, let keyword?) where keyword.beginsClause:
                takesReservedItems ? false : try !isTargetName(keyword)
            default: false
            }
        if isOver { throw unexpected("something after ','") }
    }

    /// The terms of a clause: a list of at most `DQLLimits.clauseTerms` items.
    mutating func terms<Item>(_ item: (inout Parser) throws(DQLError) -> Item) throws(DQLError) -> [Item] {
        var count = 0
        return try list { parser throws(DQLError) in
            count += 1
            if count > DQLLimits.clauseTerms {
                throw parser.error(.tooManyTerms, "a clause has at most \(DQLLimits.clauseTerms) terms")
            }
            return try item(&parser)
        }
    }

    // MARK: Depth

    /// Runs a production one level deeper.
    mutating func nested<Result>(_ body: (inout Parser) throws(DQLError) -> Result) throws(DQLError) -> Result
    {
        level += 1
        defer { level -= 1 }
        if level > DQLLimits.nestingDepth { throw tooDeep(at: current.span) }
        return try body(&self)
    }

    /// A node of the tree, unless the tree becomes too deep with it.
    @inline(never)
    func node(_ kind: ExpressionSyntax.Kind, _ span: SourceSpan) throws(DQLError) -> ExpressionSyntax {
        try Preparation.check()
        let node = ExpressionSyntax(kind, span)
        if node.depth > DQLLimits.nestingDepth { throw tooDeep(at: lastSpan) }
        return node
    }

    @inline(never)
    private func tooDeep(at span: SourceSpan) -> DQLError {
        source.error(
            .nestingTooDeep, "the statement nests deeper than \(DQLLimits.nestingDepth) levels", at: span)
    }

    // MARK: Errors

    @inline(never)
    func error(_ code: DQLErrorCode, _ message: String, suggestion: String? = nil) -> DQLError {
        source.error(code, message, at: current.span, suggestion: suggestion)
    }

    /// The error if the current token is not the expected one.
    @inline(never)
    func unexpected(_ expected: String, candidates: [Keyword] = []) -> DQLError {
        guard current.kind != .end else {
            return error(.unexpectedEnd, "expected \(expected), found the end of the statement")
        }
        let token = source.token(of: current.span) ?? ""
        var suggestion: String?
        if case .word(let text, _) = current.kind {
            suggestion = Suggestion.closest(to: text, among: candidates.map(\.rawValue))
        }
        return error(.syntax, "expected \(expected), found \(token)", suggestion: suggestion)
    }

    @inline(never)
    func unsupportedClause(_ what: String) -> DQLError {
        error(.unsupportedClause, "\(what) is not supported yet")
    }
}
