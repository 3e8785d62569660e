import CRDT
import TestSupport
import Testing

@testable import Mimeo

@Suite("Formats of results")
struct FormatTests {
    private func result(_ items: [Value], written: [Value] = [], warnings: [Value] = []) -> Answer {
        .result(Answer.Result(items: items, mutatedDocumentIDs: written, commitID: 3, warnings: warnings))
    }

    private func formatted(_ items: [Value], _ format: OutputFormat) -> String? {
        FormattedAnswer(result(items), of: "SELECT * FROM c", as: format).output
    }

    @Test("CSV has a header, quotes what would change, and tells a missing field from an empty string")
    func csv() {
        let items: [Value] = [
            ["_id": "12", "text": "a, \"b\"\nc", "n": 1.5], ["_id": "", "on": true, "text": " x"],
            ["_id": "true", "n": .null, "map": ["k": [1]]],
        ]
        #expect(
            formatted(items, .csv)
                == [
                    "_id,text,n,on,map", "\"12\",\"a, \"\"b\"\"\nc\",1.5,,", "\"\",\" x\",,true,",
                    "\"true\",,null,,\"{\"\"k\"\":[1]}\"",
                ].joined(separator: "\n"))
    }

    @Test("an index statement is done, and rows without a field are no blank lines")
    func nothing() {
        for statement in ["CREATE INDEX i ON c (n)", "drop index i on c"] {
            #expect(FormattedAnswer(result([]), of: statement, as: .table).output == "done")
        }
        #expect(formatted([], .table) == "0 rows")
        #expect(formatted([[:]], .table) == "(no row has a field)\n1 row")
    }

    @Test("the answer of a command is a line per member on a terminal, and the warnings stand last")
    func report() {
        let warning: Value = ["code": "CLI-W103", "message": "guessed"]
        let answer = ObjectValue([
            (key: "documents", value: .int(2)), (key: "warnings", value: .array([warning])),
            (key: "format", value: .string("csv")),
        ])
        #expect(CommandReport(answer).text == "documents  2\nformat     csv\nwarning: CLI-W103: guessed")
    }

    @Test("Markdown escapes bars and line feeds, and cuts nothing")
    func markdown() {
        let long = String(repeating: "x", count: 100)
        let items: [Value] = [["n": 1, "text": "a|b\nc\\"], ["n": 22, "text": .string(long)]]
        #expect(
            formatted(items, .markdown) == """
                | n | text |
                | --: | --- |
                | 1 | a\\|b<br>c\\\\ |
                | 22 | \(long) |
                """)
    }

    @Test("vertical has a line per field and cuts nothing")
    func vertical() {
        let long = String(repeating: "x", count: 100)
        let items: [Value] = [["_id": 1, "name": .string(long)], ["other": ["a": 1]]]
        #expect(
            formatted(items, .vertical) == """
                -- row 1 --
                _id    1
                name   \(long)
                -- row 2 --
                other  {"a":1}
                2 rows
                """)
    }

    @Test(
        "a document's text cannot steer the terminal", arguments: [OutputFormat.table, .vertical, .markdown])
    func control(format: OutputFormat) {
        let shown = formatted([["a": "x\u{1b}[2Jy\u{9b}1m"]], format)
        #expect(shown?.contains("x\\u001b[2Jy") == true)
        #expect(shown?.unicodeScalars.contains { $0 == "\u{1b}" || $0 == "\u{9b}" } == false)
    }

    @Test("what a format for programs has no place for goes to standard error")
    func remarks() {
        let write = result([], written: [1, 2], warnings: [["message": "careful"]])
        let csv = FormattedAnswer(write, of: "DELETE FROM c", as: .csv)
        #expect(csv.output == nil)
        #expect(csv.remark == "2 documents written, commit 3\nwarning: careful")
        let table = FormattedAnswer(write, of: "DELETE FROM c", as: .table)
        #expect(table.output == csv.remark && table.remark == nil)
        let failure = Answer.failure(Answer.Problem(code: "X-1", message: "no", line: 1, column: 2))
        #expect(FormattedAnswer(failure, of: "", as: .vertical).remark == "X-1 at 1:2: no")
        #expect(FormattedAnswer(failure, of: "", as: .json).remark == nil)
    }

    private func onStore(_ statements: [String], _ format: OutputFormat) async throws -> [String] {
        try await withTemporaryDirectory { directory in
            let runner = try await LocalRunner(store: directory.path)
            var texts: [String] = []
            for statement in statements {
                let answer = await runner.run(statement, arguments: ObjectValue())
                texts.append(FormattedAnswer(answer, of: statement, as: format).output ?? "")
            }
            await runner.close()
            return texts
        }
    }

    private let setUp = [
        "CREATE INDEX by_price ON wines (price)",
        "INSERT INTO wines DOCUMENTS ({'_id': 1, 'price': 7}), ({'_id': 2, 'price': 30})",
    ]

    @Test("a plan is a tree with the result at the top, and a join has two branches")
    func tree() async throws {
        let join =
            "EXPLAIN SELECT w.price FROM wines w JOIN cellars k ON k.wine = w._id WHERE w.price > 8 LIMIT 3"
        let shown = try await onStore(setUp + [join], .table)
        #expect(
            shown[2] == """
                finalProjection
                └─ projection  w.price
                   └─ limit  limit 3
                      └─ filter  w.price > 8
                         └─ nlJoin  inner  on k.wine = w._id
                            ├─ fetch  wines
                            │  └─ indexScan  wines.by_price  from after 8 to afterType "number"  forward
                            └─ scan  cellars AS k
                """)
    }

    @Test("a plan is never cut, however wide", arguments: [OutputFormat.table, .vertical, .markdown])
    func wide(format: OutputFormat) async throws {
        let list = (1...40).map(String.init).joined(separator: ", ")
        let shown = try await onStore(["EXPLAIN SELECT * FROM wines WHERE price + 1 IN (\(list))"], format)
        #expect(shown[0].contains("filter  price + 1 IN (\(list))"))
        #expect(!shown[0].contains("…") && !shown[0].contains("{"))
    }

    @Test("PROFILE shows the rows, then the tree with its counts and times")
    func profile() async throws {
        let shown = try await onStore(setUp + ["PROFILE SELECT price FROM wines WHERE _id + 0 = 2"], .table)
        let lines = shown[2].split(separator: "\n", omittingEmptySubsequences: false).map(String.init)
        #expect(lines[..<5] == ["price", "-----", "   30", "1 row", ""])
        #expect(lines[5].hasPrefix("select: 1 results in "))
        #expect(lines[6].hasPrefix("finalProjection"))
        #expect(lines.last?.contains("└─ scan  wines") == true)
    }

    @Test("ADVISE is a text too")
    func advise() async throws {
        let shown = try await onStore(setUp + ["ADVISE SELECT * FROM wines WHERE year = 2001"], .table)
        #expect(
            shown[2] == """
                one index would help
                  CREATE INDEX idx_wines_year ON wines (year); -- the condition asks for year to be equal
                  there is by_price on wines (price)
                """)
    }

    @Test("JSON stays JSON, and a document that looks like a plan stays a document")
    func lookalike() async throws {
        let shown = try await onStore(["EXPLAIN SELECT * FROM wines"], .json)
        #expect(try JSONText.parse(shown[0])["items"]?.arrayValue?.first?["plan"] != nil)
        #expect(formatted([["plan": ["children": []]]], .table)?.hasPrefix("plan\n-") == true)
    }

    @Test("durations are read at a glance")
    func durations() {
        #expect(Milliseconds.text(nanoseconds: 21_400) == "0.021 ms")
        #expect(Milliseconds.text(nanoseconds: 12_340_000) == "12.3 ms")
        #expect(Milliseconds.text(.milliseconds(3_405)) == "3.41 s")
    }
}
