import CRDT
import Testing

@testable import Mimeo

@Suite("The answer of an import as a text")
struct ImportSummaryTests {
    @Test("counts, columns and warnings each have a line, and counts of nothing are left out")
    func table() {
        let answer: Value = [
            "collection": "c", "format": "csv", "documents": 3, "updated": 2, "ignored": 0, "commitID": 4,
            "skipped": 1, "delimiter": "tab", "columns": ["id": "integer", "price": "decimal"],
            "warnings": [
                ["code": "CLI-W101", "message": "a name"], ["code": "CLI-W107", "message": "1 record"],
            ],
        ]
        #expect(
            CommandReport(answer).text == """
                3 documents imported into 'c', 2 updated, 1 skipped (csv, delimiter 'tab')
                  id     integer
                  price  decimal
                warning: CLI-W101: a name
                warning: CLI-W107: 1 record
                """)
    }

    @Test("a dry run shows the first documents, and no text of a file steers the terminal")
    func dryRun() {
        let answer: Value = [
            "collection": "c", "format": "json", "dryRun": true, "documents": 1, "skipped": 0,
            "first": [["a": "x\u{1b}[2J"]], "warnings": [["code": "CLI-W103", "message": "\u{1b}[31m\nred"]],
        ]
        let text = CommandReport(answer).text
        #expect(
            text.hasPrefix(
                "1 document read, nothing written (json)\n{\"a\":\"x\\u001b[2J\"}\nwarning: CLI-W103: "))
        #expect(!text.unicodeScalars.contains("\u{1b}") && text.split(separator: "\n").count == 3)
    }

    @Test("a terminal gets a text, a program JSON, and --answer decides")
    func chosen() {
        #expect(AnswerForm.chosen(nil, isTerminal: true) == .text)
        #expect(AnswerForm.chosen(nil, isTerminal: false) == .json)
        #expect(AnswerForm.chosen(.json, isTerminal: true) == .json)
        #expect(AnswerForm.chosen(.text, isTerminal: false) == .text)
    }
}
