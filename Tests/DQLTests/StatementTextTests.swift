import DQL
import Testing

@Suite("Statements as they are typed")
struct StatementTextTests {
    @Test(
        "a text tells how far its first statement has got",
        arguments: [
            ("", .blank), (" \n-- a\n/* b */", .blank), ("SELECT * FROM", .open),
            ("SELECT * FROM cars WHERE a = ", .open), ("SELECT 'a;", .open), ("SELECT `a;", .open),
            ("SELECT 1 /* ;", .open), ("SELECT f(1, ", .open), ("SELECT 1 AS x", .open),
            ("SELECT * FROM cars", .complete),
            ("DELETE FROM cars -- ;", .complete), ("SELEKT", .wrong),
            ("SELECT * FROM cars WHERE ) 1", .wrong),
            ("SELECT 1; SELECT 2", .ended(at: 9)), (";", .ended(at: 1)), ("é!;", .ended(at: 4)),
            ("SELECT ';' ;", .ended(at: 12)),
        ] as [(String, StatementText.Progress)])
    func progress(text: String, expected: StatementText.Progress) {
        #expect(StatementText.progress(of: text) == expected)
    }

    @Test("tokens are as written, up to a literal that does not end")
    func tokens() {
        let whole = StatementText.tokens(of: "SELECT `a b`.c, 'x' -- y\n")
        #expect(whole.tokens == ["SELECT", "`a b`", ".", "c", ",", "'x'"])
        #expect(!whole.isInLiteral)
        let open = StatementText.tokens(of: "SELECT 'x")
        #expect(open.tokens == ["SELECT"] && open.isInLiteral)
        #expect(StatementText.tokens(of: "SELECT -- x").isInLiteral)
        #expect(StatementText.tokens(of: "a ! b").tokens.last == "b")
    }

    @Test(
        "a text without values keeps names and parameters, and no literal and no comment",
        arguments: [
            ("SELECT * FROM cars WHERE a = 'b'", "SELECT * FROM cars WHERE a = ?"),
            ("SELECT a.b, :p FROM `my cars` LIMIT 5", "SELECT a.b, :p FROM `my cars` LIMIT ?"),
            ("  INSERT INTO c -- secret\n DOCUMENTS ({'k':-1.5e3})", "INSERT INTO c DOCUMENTS ({?:-?})"),
            ("SELECT \"x\" /* secret */ FROM c", "SELECT ? FROM c"),
            ("SELECT 'it''s' FROM c WHERE d = 'secret", "SELECT ? FROM c WHERE d =…"), ("", ""),
        ])
    func withoutValues(text: String, expected: String) {
        #expect(StatementText.withoutValues(text, bytes: 1_000) == expected)
    }

    @Test(
        "of a long text only the beginning is read, and no part of a literal that is cut there is shown",
        arguments: [
            (35, "SELECT * FROM cars WHERE a = ?…"), (34, "SELECT * FROM cars WHERE a =…"),
            (30, "SELECT * FROM cars WHERE a =…"), (23, "SELECT * FROM cars WHER…"),
            (36, "SELECT * FROM cars WHERE a = ?"), (0, "…"),
        ])
    func cutText(bytes: Int, expected: String) {
        let text = "SELECT * FROM cars WHERE a = 'b''c' "
        #expect(text.utf8.count == 36)
        #expect(StatementText.withoutValues(text, bytes: bytes) == expected)
    }

    @Test("a text is cut within a letter too, and of a comment that has no end nothing is shown")
    func cutLetter() {
        #expect(StatementText.withoutValues("SELECT ä FROM c", bytes: 8) == "SELECT…")
        #expect(StatementText.withoutValues("SELECT a /* secret */ FROM c", bytes: 14) == "SELECT a…")
        #expect(StatementText.withoutValues("SELECT a -- secret\nFROM c", bytes: 14) == "SELECT a…")
        #expect(StatementText.withoutValues("SELECT 12345 FROM c", bytes: 9) == "SELECT ?…")
    }

    @Test("keywords, functions and quoted names are those of the language")
    func words() {
        #expect(StatementText.keywords.contains("SELECT") && StatementText.functions.contains("upper"))
        #expect(StatementText.name("cars") == "cars")
        #expect(StatementText.name("order") == "`order`" && StatementText.name("a`b") == "`a``b`")
    }
}
