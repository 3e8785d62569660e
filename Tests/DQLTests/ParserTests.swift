import CRDT
import DQL
import DQLCorpus
import Testing

@Suite("Parser and printer")
struct ParserTests {
    private func json(_ statement: String) throws -> String {
        JSONText.print(try StatementCompiler.parse(statement).jsonValue)
    }

    @Test("white space, case and quotes do not change the tree")
    func spelling() throws {
        let one = try StatementCompiler.parse("SELECT a.b,c FROM cars WHERE x=='y'AND n<>1")
        let two = try StatementCompiler.parse(
            "select `a`.`b` , c -- two\n from `cars` where x = \"y\" and (n != 1) ;")
        #expect(one == two)
        #expect(try StatementCompiler.parse("SELECT a FROM b") != StatementCompiler.parse("SELECT b FROM b"))
    }

    @Test("names that are canonically equivalent but differ in bytes are different names")
    func bytes() throws {
        let composed = try StatementCompiler.parse("SELECT * FROM `\u{e9}`")
        let decomposed = try StatementCompiler.parse("SELECT * FROM `e\u{301}`")
        #expect(composed != decomposed)
        let path = try StatementCompiler.parse("SELECT a.`\u{e9}` FROM c")
        #expect(try path != StatementCompiler.parse("SELECT a.`e\u{301}` FROM c"))
    }

    @Test(
        "the printer writes parentheses where they are needed and nowhere else",
        arguments: [
            ("(a + b) * c", "(a + b) * c"), ("(a * b) + c", "a * b + c"), ("a - (b - c)", "a - (b - c)"),
            ("NOT (a AND b)", "NOT (a AND b)"), ("(NOT a) = b", "(NOT a) = b"), ("NOT (a = b)", "NOT a = b"),
            ("-(-1)", "-(-1)"), ("a - -1", "a - -1"), ("(a OR b) AND c", "(a OR b) AND c"),
            ("a IN +(b || c)", "a IN b || c"), ("a IN [1]", "a IN [1]"), ("(a.b)[1]", "a.b[1]"),
            ("(a + b).c", "(a + b).c"), ("(-1)[0]", "(-1)[0]"), ("x IN +(a || b) * c", "x IN +(a || b) * c"),
            ("(a < b) = (c < d)", "a < b = (c < d)"), ("(a IS NULL) IS NULL", "a IS NULL IS NULL"),
            ("a BETWEEN b + 1 AND (c OR d)", "a BETWEEN b + 1 AND (c OR d)"),
            ("case a when 1 then 2 end", "CASE a WHEN 1 THEN 2 END"), ("`select`.from", "`select`.`from`"),
            ("'it''s \\n'", "'it\\'s \\n'"), ("cast(a as INT)", "CAST(a, 'int')"),
        ])
    func parentheses(_ written: String, _ printed: String) throws {
        let statement = try StatementCompiler.parse("SELECT \(written) FROM c")
        #expect(StatementPrinter.print(statement) == "SELECT \(printed) FROM c")
        #expect(try StatementCompiler.parse(StatementPrinter.print(statement)) == statement)
    }

    @Test("long AND and OR conditions are not deep ones")
    func longConditions() throws {
        let condition = (0..<5_000).map { "a = \($0)" }.joined(separator: " OR ")
        #expect(throws: Never.self) { try StatementCompiler.compile("SELECT * FROM c WHERE \(condition)") }
    }

    @Test(
        "whatever nests too deeply ends at once with an error",
        arguments: [
            String(repeating: "(", count: 10_000), String(repeating: "[", count: 10_000),
            String(repeating: "NOT ", count: 10_000), String(repeating: "- ", count: 10_000),
            String(repeating: "{'a':", count: 10_000), String(repeating: "abs(", count: 10_000),
            String(repeating: "CASE WHEN ", count: 10_000),
            Array(repeating: "1", count: 10_000).joined(separator: "="),
            Array(repeating: "a", count: 10_000).joined(separator: "."),
            String(repeating: "+", count: 10_000),
            "a" + String(repeating: "[0]", count: 10_000), String(repeating: "a = NOT ", count: 10_000),
            String(repeating: "a IN +", count: 10_000), String(repeating: "a BETWEEN (", count: 10_000),
            String(repeating: "ANY v IN ", count: 10_000), String(repeating: "ARRAY ", count: 10_000),
            String(repeating: "OBJECT a : ", count: 10_000), String(repeating: "(SELECT ", count: 10_000),
            String(repeating: "EXISTS (SELECT * FROM c WHERE ", count: 10_000),
            String(repeating: "a IN (SELECT b FROM c WHERE ", count: 10_000),
            String(repeating: "position(", count: 10_000), String(repeating: "trim(BOTH ", count: 10_000),
            String(repeating: "a SIMILAR TO (", count: 10_000), String(repeating: "cast(", count: 10_000),
        ])
    func nesting(_ expression: String) throws {
        let error = #expect(throws: DQLError.self) {
            try StatementCompiler.compile("SELECT \(expression) FROM c")
        }
        #expect(error?.code == .nestingTooDeep)
    }

    @Test("mutators, paths and hints are bounded too, chains of EXPLAIN refused")
    func nestedParts() {
        func code(_ text: String) -> DQLErrorCode? {
            #expect(throws: DQLError.self) { try StatementCompiler.parse(text) }?.code
        }
        #expect(code("UPDATE c SET " + String(repeating: "a -> (", count: 10_000)) == .nestingTooDeep)
        let path = Array(repeating: "a", count: 10_000).joined(separator: ".")
        #expect(code("UPDATE c UNSET \(path)") == .nestingTooDeep)
        #expect(code("SELECT c.*, MISSING \(path) FROM c") == .nestingTooDeep)
        #expect(code(String(repeating: "EXPLAIN ", count: 10_000)) == .syntax)
        let array = "{\"a\":" + String(repeating: "[", count: 10_000)
        #expect(code("SELECT * FROM c USE DIRECTIVES '\(array)'") == .invalidDirectives)
        let hints = (0..<300).map { "/*+ {\"h\($0)\": 1} */" }.joined()
        #expect(code("SELECT \(hints) * FROM c") == .tooManyTerms)
        let joins = String(repeating: " JOIN d ON true", count: 5_000)
        #expect(code("SELECT * FROM c\(joins)") == .tooManyTerms)
    }

    @Test("an error says what to write instead")
    func advice() {
        func message(_ text: String) -> String? {
            #expect(throws: DQLError.self) { try StatementCompiler.parse(text) }?.message
        }
        #expect(
            message("UPDATE c WHERE a SET b = 1")
                == "Missing SET and/or UNSET clause: expected SET, found WHERE")
        #expect(
            message("DELETE FROM c LIMIT 1 WHERE a")
                == "WHERE cannot come here; the order is FROM, WHERE, ORDER BY, LIMIT, OFFSET, RETURNING")
        #expect(
            message("INSERT INTO c DOCUMENTS (:d) RETURNING RAW a")
                == "RAW projections are not supported in RETURNING")
        #expect(
            message("UPDATE c SET DOCUMENTS (:d)")
                == "SET takes fields (SET field = value); a whole document is written by INSERT")
        #expect(
            message("INSERT INTO c DOCUMENTS ({a: 1})")
                == "Cannot convert to a literal: the object key a must be a quoted string")
    }

    @Test("nested type definitions are bounded too")
    func nestedTypes() {
        let types = String(repeating: "(a MAP", count: 10_000)
        let error = #expect(throws: DQLError.self) {
            try StatementCompiler.compile("SELECT * FROM COLLECTION c \(types)")
        }
        #expect(error?.code == .nestingTooDeep)
    }

    @Test("the tree as JSON names every node")
    func tree() throws {
        #expect(
            try json("SELECT a.b AS x FROM cars WHERE n > :n LIMIT 1") == """
                {"node":"select","projection":[{"node":"projection","value":{"node":"member",\
                "of":{"node":"name","name":"a"},"name":"b"},"as":"x"}],"source":{"node":"source",\
                "collection":{"node":"collection","name":"cars"}},"where":{"node":"binary","operator":">",\
                "left":{"node":"name","name":"n"},\
                "right":{"node":"parameter","name":"n"}},"limit":{"node":"literal","value":1}}
                """)
        #expect(
            try json("UPDATE c SET a.b = 1 UNSET d") == """
                {"node":"update","source":{"node":"source","collection":{"node":"collection","name":"c"}},\
                "set":[{"path":["a","b"],"value":{"node":"literal","value":1}}],"unset":[["d"]]}
                """)
    }

    @Test("every statement of the corpus that parses has a tree as JSON")
    func trees() throws {
        for step in Corpus.cases.flatMap(\.steps) {
            guard let statement = try? StatementCompiler.parse(step.statement) else { continue }
            #expect(statement.jsonValue["node"]?.stringValue != nil)
        }
    }
}
