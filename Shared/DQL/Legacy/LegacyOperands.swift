import CRDT

/// Paths, literals, arguments and calls of legacy queries.
extension LegacyParser {
    /// One operand. `readsKey` is true if `["full-name"]` is a field, as on the left of a comparison, rather
    /// than an array of one string.
    mutating func operand(readsKey: Bool) throws(DQLError) -> ExpressionSyntax {
        let start = current.span
        switch current.kind {
        case .symbol(.leftParenthesis):
            try advance()
            let inner = try nested { parser throws(DQLError) in try parser.disjunction() }
            try expect(.rightParenthesis)
            return inner
        case .symbol(.leftBracket): return try bracketed(readsKey: readsKey)
        case .symbol(.leftBrace): return try object()
        case .symbol(.dollar):
            let argument = try argument(comparedWith: nil)
            return try path(from: argument)
        case .symbol(.minus):
            try advance()
            return try number(isNegative: true, from: start)
        case .integer, .double: return try number(isNegative: false, from: start)
        case .string(let text):
            try advance()
            return try node(.literal(.string(text)), start)
        case .word(let word):
            try advance()
            return try isAt(.leftParenthesis) ? call(word, start) : path(from: name(word, start))
        case .symbol(.colon):
            // A parameter as DQL writes it.
            throw source.error(
                .invalidCharacter, "unexpected character", at: current.span, suggestion: "$args.name")
        default: throw unexpected("a field, a value or a function")
        }
    }

    private mutating func number(isNegative: Bool, from start: SourceSpan) throws(DQLError)
        -> ExpressionSyntax
    {
        let value: Value
        switch current.kind {
        case .integer(let magnitude) where isNegative && magnitude <= 1 << 63:
            value = .int(Int64(truncatingIfNeeded: 0 &- magnitude))
        case .integer(let magnitude):
            value =
                Int64(exactly: magnitude).map { .int(isNegative ? -$0 : $0) }
                ?? .double(isNegative ? -Double(magnitude) : Double(magnitude))
        case .double(let number): value = .double(isNegative ? -number : number)
        default: throw unexpected("a number")
        }
        try advance()
        return try node(.literal(value), start.through(lastSpan))
    }

    /// A word that stands alone: a literal, or the first name of a path.
    private func name(_ word: String, _ span: SourceSpan) throws(DQLError) -> ExpressionSyntax {
        switch word.lowercased() {
        case "true": try node(.literal(true), span)
        case "false": try node(.literal(false), span)
        case "null": try node(.literal(.null), span)
        default: try node(.name(NameSyntax(text: word, span: span)), span)
        }
    }

    // MARK: Paths

    /// `.name`, `['name']` and `[0]` after a base, any number of times.
    private mutating func path(from base: ExpressionSyntax) throws(DQLError) -> ExpressionSyntax {
        var result = base
        while true {
            if try take(.dot) {
                guard case .word(let word) = current.kind else { throw unexpected("a field's name") }
                try advance()
                result = try node(
                    .member(result, NameSyntax(text: word, span: lastSpan)), base.span.through(lastSpan))
            } else if try take(.leftBracket) {
                result = try step(from: result)
            } else {
                return result
            }
        }
    }

    /// The part between brackets after a base; the opening bracket is already taken.
    private mutating func step(from base: ExpressionSyntax) throws(DQLError) -> ExpressionSyntax {
        if case .string(let key) = current.kind {
            let name = NameSyntax(text: key, span: current.span)
            try advance()
            try expect(.rightBracket)
            let span = base.span.through(lastSpan)
            // A name cannot be empty, but a key can.
            if key.isEmpty { return try node(.element(base, node(.literal(.string(key)), name.span)), span) }
            return try node(.member(base, name), span)
        }
        switch current.kind {
        case .integer, .symbol(.minus), .symbol(.dollar): break
        default: throw unexpected("a position or a quoted name")
        }
        let index = try nested { parser throws(DQLError) in try parser.operand(readsKey: false) }
        try expect(.rightBracket)
        return try node(.element(base, index), base.span.through(lastSpan))
    }

    /// `["full-name"]` as a field, or an array.
    private mutating func bracketed(readsKey: Bool) throws(DQLError) -> ExpressionSyntax {
        let start = current.span
        try advance()
        let elements = try nested { parser throws(DQLError) in try parser.elements() }
        if elements.count == 1, case .literal(.string(let key)) = elements[0].kind,
            !key.isEmpty, readsKey || isAt(.dot) || isAt(.leftBracket)
        {
            let name = NameSyntax(text: key, span: elements[0].span)
            return try path(from: node(.name(name), start.through(lastSpan)))
        }
        return try node(.array(elements), start.through(lastSpan))
    }

    /// `{"key": value}`: an id of several parts. A key is quoted, or a word.
    private mutating func object() throws(DQLError) -> ExpressionSyntax {
        let start = current.span
        try advance()
        let entries = try nested { parser throws(DQLError) in try parser.entries() }
        return try node(.object(entries), start.through(lastSpan))
    }

    private mutating func entries() throws(DQLError) -> [ExpressionSyntax.Entry] {
        var entries: [ExpressionSyntax.Entry] = []
        while !isAt(.rightBrace) {
            if !entries.isEmpty { try expect(.comma) }
            let key: String
            switch current.kind {
            case .string(let text), .word(let text): key = text
            default: throw unexpected("a key")
            }
            guard !entries.contains(where: { utf8Equal($0.key, key) }) else {
                throw source.error(.syntax, "the key '\(key)' stands twice in an object", at: current.span)
            }
            try advance()
            try expect(.colon)
            entries.append(ExpressionSyntax.Entry(key: key, value: try operand(readsKey: false)))
        }
        try advance()
        return entries
    }

    private mutating func elements() throws(DQLError) -> [ExpressionSyntax] {
        var elements: [ExpressionSyntax] = []
        while !isAt(.rightBracket) {
            if !elements.isEmpty { try expect(.comma) }
            elements.append(try operand(readsKey: false))
            if elements.count > DQLLimits.inListElements {
                throw source.error(
                    .inListTooLong, "the list has more than \(DQLLimits.inListElements) elements",
                    at: lastSpan)
            }
        }
        try advance()
        return elements
    }

    // MARK: Arguments

    /// `$args.name` or `$args['name']`; `$name` is short for it. A lone `$`, on the right of a comparison
    /// with a path, is the argument named like the path's last name.
    mutating func argument(comparedWith left: ExpressionSyntax?) throws(DQLError) -> ExpressionSyntax {
        let start = current.span
        try expect(.dollar)
        guard case .word(let word) = current.kind, current.span.start == lastSpan.end else {
            guard let name = left.flatMap(Self.lastName) else {
                throw unexpected("args.name directly after $")
            }
            return try node(.parameter(name), start)
        }
        try advance()
        guard word == "args" else {
            return try node(.parameter(NameSyntax(text: word, span: lastSpan)), start.through(lastSpan))
        }
        if try take(.leftBracket) {
            guard case .string(let key) = current.kind else { throw unexpected("an argument's quoted name") }
            let name = NameSyntax(text: key, span: current.span)
            guard Self.isWord(key) else {
                throw source.error(
                    .syntax, "an argument's name consists of letters, digits and _", at: current.span)
            }
            try advance()
            try expect(.rightBracket)
            return try node(.parameter(name), start.through(lastSpan))
        }
        try expect(.dot)
        guard case .word(let key) = current.kind else { throw unexpected("an argument's name") }
        try advance()
        return try node(.parameter(NameSyntax(text: key, span: lastSpan)), start.through(lastSpan))
    }

    private static func lastName(of path: ExpressionSyntax) -> NameSyntax? {
        switch path.kind {
        case .name(let name), .member(_, let name): isWord(name.text) ? name : nil
        default: nil
        }
    }

    /// Returns whether DQL can write the text after a colon.
    private static func isWord(_ text: String) -> Bool {
        guard var lexer = try? Lexer(SourceText(text: text)) else { return false }
        return lexer.word() == text
    }

    // MARK: Calls

    private mutating func call(_ word: String, _ start: SourceSpan) throws(DQLError) -> ExpressionSyntax {
        try expect(.leftParenthesis)
        let readsKey = word != "contains"
        let arguments = try nested { parser throws(DQLError) in
            var arguments: [ExpressionSyntax] = []
            while !parser.isAt(.rightParenthesis) {
                if !arguments.isEmpty { try parser.expect(.comma) }
                arguments.append(try parser.operand(readsKey: readsKey && arguments.isEmpty))
            }
            return arguments
        }
        try expect(.rightParenthesis)
        return try LegacyFunctions.expression(word, arguments, start.through(lastSpan), source)
    }
}
