import CRDT
import Foundation
import Testing

@testable import Mimeo

@Suite("Reading files to import")
struct FileReadingTests {
    /// The text in chunks of a few bytes, so that everything straddles a border.
    private func bytes(_ text: String) -> FileBytes {
        var rest = Array(text.utf8)[...]
        return FileBytes {
            defer { rest = rest.dropFirst(3) }
            return Array(rest.prefix(3))
        }
    }

    private func all(_ reader: any DocumentReading) throws -> [ObjectValue] {
        var reader = reader
        var documents: [ObjectValue] = []
        while let record = try reader.next() { documents.append(record.document) }
        return documents
    }

    private func table(_ text: String) throws -> [ObjectValue] {
        try all(try CSVDocumentReader(path: "f.csv", bytes: bytes(text)))
    }

    private func failure(_ body: () throws -> Void) -> String? {
        do {
            try body()
            return nil
        } catch { return "\(error)" }
    }

    @Test("quoted fields hold commas, quotes and line ends")
    func quoting() throws {
        #expect(
            try table("k,name\r\nx,\"one, \"\"two\"\"\"\r\ny,\"three\nfour\"\r\n") == [
                object("k", "x", "name", #"one, "two""#), object("k", "y", "name", "three\nfour"),
            ])
        #expect(try table("a,b\n1,2") == table("a,b\r\n1,2\r\n"))
    }

    @Test("only what reads back as written becomes a number or a boolean")
    func types() {
        let texts = [
            "42", "-1", "1.5", "1.0", "true", "false", "007", "1.50", "+1", "TRUE", "nan", "1e5", "-0", " 1",
        ]
        let expected: [Value] = [
            42, -1, 1.5, 1.0, true, false, "007", "1.50", "+1", "TRUE", "nan", "1e5", "-0", " 1",
        ]
        #expect(texts.map(CSVDocumentReader.value) == expected)
    }

    @Test("an empty field is left out, a quoted empty one is empty text, and quoted digits are text")
    func emptiness() throws {
        #expect(try table("a,b,c\n,\"\",\"7\"\n\n") == [object("b", "", "c", "7")])
    }

    @Test("a byte order mark at the start is skipped, and only there")
    func mark() throws {
        #expect(try table("\u{FEFF}a\nx\n") == [object("a", "x")])
        #expect(try table("\u{FEFF}\"a\"\nx\n") == [object("a", "x")])
        #expect(try table("a\n\u{FEFF}x\n") == [object("a", "\u{FEFF}x")])
        let line = "\u{FEFF}{\"a\":\"x\"}"
        #expect(
            try all(NDJSONReader(path: "f.ndjson", bytes: bytes(line + "\n{}"))) == [
                object("a", "x"), object(),
            ])
        #expect(
            try all(JSONDocumentReader(path: "f.json", text: Array(line.utf8))) == [object("a", "x")])
        #expect(failure { _ = try all(NDJSONReader(path: "f", bytes: bytes("{}\n" + line))) } != nil)
    }

    @Test(
        "a table that is none is refused with its line",
        arguments: [
            ("", "f.csv: the header row is missing"), ("a,a\n", "f.csv:1: two columns are named 'a'"),
            ("a,\n", "f.csv:1: column 2 has no name"),
            ("a,b\n1,2\n3\n", "f.csv:3: the row has 1 fields, the header has 2"),
            ("a\n\"x\n", "f.csv:2: a quoted field is not closed"),
            ("a\n\"x\"y\n", "f.csv:2: text follows a closing quote"),
            ("a\nx\"y\n", "f.csv:2: a quote inside an unquoted field; quote the whole field"),
        ])
    func badTables(text: String, message: String) {
        #expect(failure { _ = try table(text) } == "CLI-0403: \(message)")
    }

    @Test("text that is not UTF-8 is refused")
    func encoding() throws {
        var chunks: [[UInt8]] = [Array("a\n".utf8) + [0xFF, 0x0A], []]
        let bytes = FileBytes { chunks.removeFirst() }
        #expect(
            failure { _ = try all(try CSVDocumentReader(path: "f.csv", bytes: bytes)) }?.contains(":2: ")
                == true)
    }

    @Test("JSON may be an array, the only array of an object, or one object")
    func jsonShapes() throws {
        func documents(_ text: String) throws -> [ObjectValue] {
            try all(try JSONDocumentReader(path: "f.json", text: Array(text.utf8)))
        }
        #expect(try documents(#"[{"a":"1"},{"a":"2"}]"#) == [object("a", "1"), object("a", "2")])
        #expect(try documents(#"{"3166-1":[{"a":"1"}]}"#) == [object("a", "1")])
        #expect(try documents(#"{"a":"1","list":[]}"#).count == 1)
        #expect(try documents("[]").isEmpty)
        #expect(failure { _ = try documents(#"[{}, 5]"#) } == "CLI-0403: f.json: document 2 is not an object")
        #expect(failure { _ = try documents("5") }?.hasPrefix("CLI-0403: f.json: ") == true)
        #expect(failure { _ = try documents("[{\"a\": \n}]") }?.contains("line 2, column 1") == true)
    }

    @Test("lines of JSON are read one by one, and a wrong one is named")
    func lines() throws {
        func documents(_ text: String) throws -> [ObjectValue] {
            try all(NDJSONReader(path: "f.ndjson", bytes: bytes(text)))
        }
        #expect(try documents("{\"a\":\"1\"}\n\n \r\n{\"a\":\"2\"}") == [object("a", "1"), object("a", "2")])
        #expect(failure { _ = try documents("{}\n[]\n") } == "CLI-0403: f.ndjson:2: not a JSON object")
        #expect(
            failure { _ = try documents("{}\n{\n") }?.hasPrefix("CLI-0403: f.ndjson:2: invalid JSON") == true)
    }

    @Test("the ending of its name says what a file is")
    func kinds() throws {
        #expect(try DocumentFile(path: "a.JSON").kind == .json)
        #expect(try DocumentFile(path: "a.b.jsonl").kind == .lines)
        #expect(try DocumentFile(path: "x/a.csv").kind == .table)
        #expect(failure { _ = try DocumentFile(path: "a.xlsx") }?.hasPrefix("CLI-0402: ") == true)
        #expect(
            failure { _ = try DocumentFile(path: "/none/such.json").reader() }?.hasPrefix("CLI-0401: ")
                == true)
        #expect(
            failure { _ = try DocumentFile(path: "/none/such.csv").reader() }?.hasPrefix("CLI-0401: ") == true
        )
    }

    private func object(_ entries: String...) -> ObjectValue {
        ObjectValue(
            stride(from: 0, to: entries.count, by: 2).map {
                (key: entries[$0], value: .string(entries[$0 + 1]))
            })
    }
}
