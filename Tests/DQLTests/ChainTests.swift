import CRDT
import DQL
import DQLCorpus
import Testing

/// Long chains of operators are flat: their length is bounded by the statement's size alone.
@Suite("Chains of operators")
struct ChainTests {
    private func chain(_ operand: String, _ symbol: String, _ count: Int) -> String {
        Array(repeating: operand, count: count).joined(separator: " \(symbol) ")
    }

    private func value(_ expression: String) throws -> Value? {
        try StatementCompiler.compile("SELECT RAW \(expression) FROM system:dual").rows(in: MemoryStore())
            .first
    }

    @Test("thousands of operands are one level deep")
    func long() throws {
        #expect(try value(chain("2", "+", 20_000)) == 40_000)
        #expect(try value(chain("2", "+", 20_000) + " - 39999") == 1)
        #expect(try value(chain("1", "*", 20_000)) == 1)
        #expect(try value("8 " + String(repeating: "<< 0 >> 0", count: 5_000)) == 8)
        #expect(try value(chain("true", "XOR", 20_001)) == true)
        #expect(try value(chain("true", "AND", 20_000)) == true)
        #expect(try value(chain("false", "OR", 20_000)) == false)
        #expect(try value("char_length(" + chain("'ab'", "||", 20_000) + ")") == 40_000)
        #expect(try value("array_length([" + chain("1", ",", 20_000) + "])") == 20_000)
    }

    @Test("a text of the longest statement is put together in time linear in its length")
    func linear() throws {
        let text = chain("'x'", "||", 145_000)
        #expect(text.utf8.count < DQLLimits.statementBytes)
        #expect(try value("char_length(\(text))") == 145_000)
    }

    @Test("operators of one precedence go from left to right, whatever parentheses say so")
    func order() throws {
        #expect(try value("20 - 5 - 3 + 1") == 13)
        #expect(try value("20 - (5 - 3) + 1") == 19)
        #expect(try value("100 / 7 * 7 % 40") == 18)
        #expect(try value("(1 + 2) + 3 * 4 - 5") == 10)
        let flat = try StatementCompiler.parse("SELECT a - b - c - d FROM t")
        #expect(try StatementCompiler.parse("SELECT ((a - b) - c) - d FROM t") == flat)
        #expect(try StatementCompiler.parse("SELECT a - (b - c) - d FROM t") != flat)
        #expect(StatementPrinter.print(flat) == "SELECT a - b - c - d FROM t")
    }

    @Test("the beginning of a chain can be a group key, and so can all of it")
    func groups() throws {
        let store = MemoryStore()
        _ = try store.execute(
            "INSERT INTO t DOCUMENTS ({'a': 1, 'b': 2}), ({'a': 2, 'b': 1}), ({'a': 5, 'b': 5})")
        let rows = try store.rows(
            "SELECT a + b + 10 AS k, COUNT(*) AS n FROM t GROUP BY a + b ORDER BY a + b")
        #expect(rows == [["k": 13, "n": 2], ["k": 20, "n": 1]])
        let whole = try store.rows("SELECT a + b + 1 AS k FROM t GROUP BY a + b + 1 ORDER BY k")
        #expect(whole == [["k": 4], ["k": 11]])
        let three = try store.rows(
            "SELECT a + b + 1 - MIN(a) AS k FROM t GROUP BY a + b, a + b + 1 ORDER BY k")
        #expect(three == [["k": 3], ["k": 6]])
        #expect(throws: DQLError.self) { try store.rows("SELECT b + a + 1 FROM t GROUP BY a + b") }
    }

    @Test("a chain as a tree of JSON has its first operand and the rest")
    func json() throws {
        let tree = try StatementCompiler.parse("SELECT RAW a + b - 2 FROM t").jsonValue
        let text = JSONText.print(tree)
        #expect(text.contains(#""node":"chain""#))
        #expect(text.contains(#"{"operator":"-","operand":{"node":"literal","value":2}}"#))
    }

    @Test("what nests is still bounded")
    func nesting() {
        let deep = String(repeating: "(1 + ", count: 200) + "1" + String(repeating: ")", count: 200)
        let error = #expect(throws: DQLError.self) { try value(deep) }
        #expect(error?.code == .nestingTooDeep)
    }
}
