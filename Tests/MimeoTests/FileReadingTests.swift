import CRDT
import Foundation
import TestSupport
import Testing

@testable import Mimeo

@Suite("Reading files to import")
struct FileReadingTests {
    @Test("a byte order mark at the start is skipped, and only there")
    func mark() throws {
        #expect(try table("\u{FEFF}a\nx\n") == [object(("a", "x"))])
        #expect(try table("\u{FEFF}\"a\"\nx\n") == [object(("a", "x"))])
        #expect(try table("a\n\u{FEFF}x\n") == [object(("a", "\u{FEFF}x"))])
        let line = "\u{FEFF}{\"a\":\"x\"}"
        #expect(
            try all(NDJSONReader(source(line + "\n{}"), notes: ImportNotes())) == [
                object(("a", "x")), object(),
            ])
        #expect(try json(line) == [object(("a", "x"))])
        #expect(failure { _ = try all(NDJSONReader(source("{}\n" + line), notes: ImportNotes())) } != nil)
    }

    @Test(
        "text in other encodings is read by its mark or by name",
        arguments: [
            ([0xFF, 0xFE, 0x61, 0, 0x0A, 0, 0x3D, 0xD8, 0, 0xDE, 0x0A, 0], nil, "😀"),
            ([0xFE, 0xFF, 0, 0x61, 0, 0x0A, 0xD8, 0x3D, 0xDE, 0, 0, 0x0A], nil, "😀"),
            ([0x61, 0, 0x0A, 0, 0xE9, 0], TextEncoding.utf16, "é"),
            ([0, 0x61, 0, 0x0A, 0, 0xE9], .utf16BigEndian, "é"),
            ([0x61, 0x0A, 0x4D, 0xFC, 0x6C], .latin1, "Mül"),
            ([0x61, 0x0A, 0x80, 0x93, 0xE4], .windows1252, "€“ä"),
            ([0xEF, 0xBB, 0xBF, 0x61, 0x0A, 0xC3, 0xA9], .latin1, "é"),
        ] as [([UInt8], TextEncoding?, String)])
    func encodings(bytes: [UInt8], encoding: TextEncoding?, text: String) throws {
        let reader = try CSVDocumentReader(source(bytes, encoding: encoding), notes: ImportNotes())
        #expect(try all(reader) == [object(("a", .string(text)))])
    }

    @Test("text that is not UTF-8 names its line and --encoding, in tables and in JSON")
    func notUTF8() {
        let latin: [UInt8] = Array("a\n".utf8) + [0xE9, 0x0A]
        let message = failure { _ = try CSVDocumentReader(source(latin), notes: ImportNotes()) }
        #expect(message?.hasPrefix("CLI-0403: f.csv:2: the text is not UTF-8; ") == true)
        #expect(message?.contains("--encoding windows-1252") == true)
        let object = Array("{\"a\":\"".utf8) + [0xE9] + Array("\"}".utf8)
        for reader in [
            { try JSONDocumentReader(source(object), notes: ImportNotes()) as any DocumentReading },
            { try NDJSONReader(source(object), notes: ImportNotes()) },
        ] {
            #expect(failure { _ = try all(try reader()) }?.contains("--encoding") == true)
        }
    }

    @Test("UTF-16 without a mark, half a character and UTF-32 are refused by name")
    func wrongEncodings() {
        func message(_ bytes: [UInt8], _ encoding: TextEncoding? = nil) -> String {
            failure {
                _ = try all(CSVDocumentReader(source(bytes, encoding: encoding), notes: ImportNotes()))
            } ?? ""
        }
        #expect(message([0x61, 0, 0x0A, 0, 0x62, 0]).contains("--encoding utf-16le"))
        #expect(message([0, 0x61, 0, 0x0A, 0, 0x62]).contains("--encoding utf-16be"))
        #expect(message([0xFF, 0xFE, 0x61, 0, 0x0A]).contains("not utf-16le"))
        let emoji = "n,v\n1,ü😀 and more text\n".utf16.flatMap { [UInt8($0 & 0xFF), UInt8($0 >> 8)] }
        #expect(message(emoji, nil).contains("--encoding utf-16le"))
        #expect(message([0x3D, 0xD8, 0x61, 0], .utf16).contains("not utf-16le"))
        #expect(message([0xFF, 0xFE, 0, 0, 0x61, 0, 0, 0]).contains("UTF-32"))
    }

    @Test("the ending of its name says what a file is, also when it is packed")
    func kinds() throws {
        let names = ["a.JSON", "a.geojson", "a.b.jsonl", "a.ndjson.gz", "x.y/a.csv", "a.tsv", "a.tab.GZ"]
        #expect(
            try names.map { try FileFormat(path: $0) } == [.json, .json, .ndjson, .ndjson, .csv, .tsv, .tsv])
        #expect(
            try ["a.txt", "-", "a.gz", "a.txt.gz"].map { try FileFormat(path: $0) } == [nil, nil, nil, nil])
        for name in ["a.xlsx", "csv", "x.csv/a", "a.xlsx.gz"] {
            let message = failure { _ = try FileFormat(path: name) }
            #expect(message?.hasPrefix("CLI-0402: ") == true && message?.contains("--format") == true)
        }
        #expect(failure { _ = try DocumentFile(path: "/none/such.csv") }?.hasPrefix("CLI-0401: ") == true)
    }

    /// Format and documents of a file, and what was told about it.
    private func open(
        _ text: String, _ name: String, _ format: FileFormat? = nil,
        _ options: ReadingOptions = ReadingOptions()
    ) throws -> (FileFormat, Int, [String]) {
        try withTemporaryDirectory { directory in
            let url = directory.appendingPathComponent(name)
            try Data(text.utf8).write(to: url)
            let notes = ImportNotes()
            let open = try DocumentFile(path: url.path, format: format, options: options).reader(notes: notes)
            return (open.format, try all(open.reader).count, notes.all.map(\.code.rawValue))
        }
    }

    @Test("where the name does not tell, the content does; and NDJSON is told from JSON either way")
    func contents() throws {
        #expect(try open("a,b\n1,2\n", "a.txt") == (.csv, 1, []))
        #expect(try open(" [{\"a\":1}]", "a.txt") == (.json, 1, []))
        #expect(try open("{\"a\":1}\n{\"a\":2}\n", "a.json") == (.ndjson, 2, ["CLI-W103"]))
        #expect(try open("{\"a\":1}\n{\"a\":2}\n", "a.txt", .json) == (.ndjson, 2, ["CLI-W103"]))
        #expect(try open("[{\"a\":1},\n{\"a\":2}]", "a.ndjson") == (.json, 2, ["CLI-W103"]))
        #expect(try open("{\"a\":\n1}\n{\"a\":2}", "a.json") == (.json, 2, ["CLI-W103"]))
        #expect(try open("{\"a\":1}", "a.dat", .ndjson) == (.ndjson, 1, []))
        #expect(try open("a\tb,c\n1\t2\n", "a.dat", .tsv) == (.tsv, 1, []))
    }

    @Test("options that a format cannot follow are refused, not ignored")
    func options() throws {
        for (text, name, options) in [
            ("{}", "a.json", ReadingOptions(delimiter: 0x3B)),
            ("{}", "a.ndjson", ReadingOptions(types: [("a", .text)])),
            ("a\n1\n", "a.csv", ReadingOptions(path: "a")),
            ("a\n1\n", "a.csv", ReadingOptions(extendedJSON: true)),
            ("{}\n{}", "a.ndjson", ReadingOptions(path: "a")),
            ("{}\n{}", "a.json", ReadingOptions(path: "a")),
        ] {
            #expect { try open(text, name, nil, options) } throws: {
                ($0 as? MimeoError)?.code == .usage
            }
        }
        #expect { try open("PK\u{3}\u{4}…", "a.csv") } throws: {
            ($0 as? MimeoError)?.code == .fileKindUnknown
        }
    }
}
