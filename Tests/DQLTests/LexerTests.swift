import Testing

@testable import DQL

@Suite("Lexer")
struct LexerTests {
    private func kinds(_ text: String) throws -> [Token.Kind] {
        var lexer = try Lexer(SourceText(text: text))
        var kinds: [Token.Kind] = []
        while true {
            let token = try lexer.next()
            if token.kind == .end { return kinds }
            kinds.append(token.kind)
        }
    }

    @Test("operators of two characters are taken whole")
    func operators() throws {
        let symbols: [Symbol] = [
            .equal, .equal, .notEqual, .notEqual, .lessOrEqual, .greaterOrEqual, .concat, .shiftLeft,
            .shiftRight,
            .arrow,
        ]
        #expect(try kinds("= == != <> <= >= || << >> ->") == symbols.map { .symbol($0) })
    }

    @Test("a colon and a word are two tokens, so that an object needs no blank")
    func colon() throws {
        let expected: [Token.Kind] = [.string("a", doubleQuoted: false), .symbol(.colon), .word("b", nil)]
        #expect(try kinds("'a':b") == expected)
    }

    @Test("identifiers may hold letters of any script")
    func scripts() throws {
        #expect(try kinds("straße _x1 名前") == [.word("straße", nil), .word("_x1", nil), .word("名前", nil)])
    }

    @Test("a whole number beyond 64 bits is refused, a number up to it keeps its bits")
    func numbers() throws {
        let expected: [Token.Kind] = [.integer(.max), .integer(255), .double(0.5)]
        #expect(try kinds("18446744073709551615 0xff 5e-1") == expected)
        let error = #expect(throws: DQLError.self) { try kinds("1 18446744073709551616") }
        #expect(error?.code == .invalidNumber && error?.column == 3)
    }

    @Test("a number has digits behind its point", arguments: ["1.a", "1.", "1. 5", "1.5.2", "1.e5"])
    func dots(_ text: String) {
        let error = #expect(throws: DQLError.self) { try kinds("x " + text) }
        #expect(error?.code == .invalidNumber && error?.column == 3)
    }

    @Test("positions count lines and characters, also after multi-byte ones and CRLF")
    func positions() throws {
        let source = SourceText(text: "é😀 x\r\n  y")
        var lexer = try Lexer(source)
        let first = try lexer.next()
        #expect(source.position(of: first.span) == SourcePosition(line: 1, column: 1))
        let error = #expect(throws: DQLError.self) { try lexer.next() }
        #expect(error?.position == SourcePosition(line: 1, column: 2))
        let third = try lexer.next()
        #expect(source.position(of: third.span) == SourcePosition(line: 1, column: 4))
        let fourth = try lexer.next()
        #expect(source.position(of: fourth.span) == SourcePosition(line: 2, column: 3))
    }

    @Test("edit distance counts exchanged neighbours as one")
    func distance() {
        let distance = Suggestion.editDistance(
            Array("INTIAL".unicodeScalars), Array("INITIAL".unicodeScalars))
        #expect(distance == 1)
        #expect(Suggestion.editDistance(Array("FORM".unicodeScalars), Array("FROM".unicodeScalars)) == 1)
    }

    @Test("a short word does not suggest every other short word")
    func shortWords() {
        #expect(Suggestion.closest(to: "ab", among: ["AS", "BY"]) == nil)
    }

    @Test("a comment that begins with + is a hint of the token behind it, any other is none")
    func hints() throws {
        let source = SourceText(text: "--+ one\n/* two *//*+three*/a /*+*/ b --+ four")
        var lexer = try Lexer(source)
        let first = try lexer.next()
        #expect(first.hints.map(source.slice) == [" one", "three"])
        let second = try lexer.next()
        #expect(second.hints.map(source.slice) == [""])
        let end = try lexer.next()
        #expect(end.kind == .end)
        #expect(end.hints.map(source.slice) == [" four"])
    }

    @Test("what no token begins with suggests what is probably meant", arguments: ["$", "?", "@", "’", "!"])
    func replacements(_ character: String) throws {
        var lexer = try Lexer(SourceText(text: character))
        let error = #expect(throws: DQLError.self) { try lexer.next() }
        #expect(error?.code == .invalidCharacter)
        #expect(error?.suggestion != nil)
    }
}
