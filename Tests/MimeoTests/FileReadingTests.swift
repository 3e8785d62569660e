import CRDT
import Foundation
import TestSupport
import Testing

@testable import Mimeo

@Suite("Reading files to import")
struct FileReadingTests {
    @Test("a byte order mark is skipped at the start and where another file's begins, and only there")
    func mark() throws {
        #expect(try table("\u{FEFF}a\nx\n") == [object(("a", "x"))])
        #expect(try table("\u{FEFF}\"a\"\nx\n") == [object(("a", "x"))])
        #expect(
            try table("a\n\u{FEFF}\"x\"\ny\u{FEFF}z\n") == [object(("a", "x")), object(("a", "y\u{FEFF}z"))])
        let line = "\u{FEFF}{\"a\":\"x\"}"
        for text in [line + "\n{}", line + "\n\u{FEFF}{}", line + "\n\u{FEFF}\u{FEFF}{}\n\u{FEFF}"] {
            #expect(
                try all(NDJSONReader(source(text), notes: ImportNotes())) == [object(("a", "x")), object()])
            #expect(try json(text) == [object(("a", "x")), object()])
        }
        #expect(failure { _ = try json("[{}\u{FEFF},{}]") } != nil)
    }

    @Test("Control-Z ends a text and is none of it; within the text it is a character")
    func endMarks() throws {
        let end = "\u{1A}"
        let inner = String(repeating: end, count: 4) + "x" + end + "y"
        #expect(try table("a,b\r\n1,2\r\n" + end) == [object(("a", 1), ("b", 2))])
        #expect(try table("a,b\n1,2" + String(repeating: end, count: 9)) == [object(("a", 1), ("b", 2))])
        #expect(try table("a\n\(inner)\n") == [object(("a", .string(inner)))])
        #expect(try table("a\n1\n\(end)\r\n\(end)\n") == [object(("a", 1))])
        #expect(try table("a\n\(end)\n\nx\n") == [object(("a", .string(end))), object(("a", "x"))])
        #expect(try json("[{}]\n" + end) == [object()])
        #expect(try all(NDJSONReader(source("{}\n{}" + end), notes: ImportNotes())).count == 2)
        let wide = "a\ny\u{1A}".utf16.flatMap { [UInt8($0 & 0xFF), UInt8($0 >> 8)] }
        let reader = try CSVDocumentReader(
            source(wide, encoding: .utf16LittleEndian), notes: ImportNotes())
        #expect(try all(reader) == [object(("a", "y"))])
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
        for name in ["a.geojsonl", "a.geojsons.gz", "a.JSONSEQ"] {
            #expect(try FileFormat(path: name) == .ndjson)
        }
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
        for options in [
            ReadingOptions(hasHeader: false), ReadingOptions(columns: ["a"]), ReadingOptions(skippedLines: 1),
            ReadingOptions(nulls: ["NA"]),
        ] {
            #expect {
                try open("{}", "a.json", nil, options)
            } throws: {
                ($0 as? MimeoError)?.code == .usage
            }
        }
    }

    @Test(
        "packed files, archives and other binaries are refused by name with a remedy, whatever their name",
        arguments: [
            ([0x42, 0x5A, 0x68, 0x39, 0x31, 0x41, 0x59, 0x26, 0x53, 0x59], "a.csv.bz2", "bzip2 -dc"),
            ([0x42, 0x5A, 0x68, 0x31, 0x17, 0x72, 0x45, 0x38, 0x50, 0x90], "a.csv", "bzip2 -dc"),
            ([0xFD, 0x37, 0x7A, 0x58, 0x5A, 0, 0, 4], "a.ndjson.xz", "xz -dc"),
            ([0x28, 0xB5, 0x2F, 0xFD, 4], "a.json", "zstd -dc"), ([4, 0x22, 0x4D, 0x18], "a.csv", "lz4 -dc"),
            ([0x50, 0x4B, 3, 4], "a.csv", "save it as CSV"), ([0x50, 0x4B, 5, 6], "a.zip", "unpack it"),
            ([0x37, 0x7A, 0xBC, 0xAF, 0x27, 0x1C], "a.7z", "unpack it"),
            (Array("Rar!\u{1A}\u{7}".utf8), "a.txt", "unpack it"),
            ([0xD0, 0xCF, 0x11, 0xE0], "a.xls", "save it as CSV"),
            (Array("PAR1\u{15}".utf8), "a.json", "export it"),
            (Array("SQLite format 3\0".utf8), "a.db", "export it"),
            (Array("%PDF-1.7".utf8), "a.txt", "export"),
        ] as [([UInt8], String, String)])
    func foreign(bytes: [UInt8], name: String, remedy: String) throws {
        try withTemporaryDirectory { directory in
            let url = directory.appendingPathComponent(name)
            try Data(bytes).write(to: url)
            let message = failure { _ = try DocumentFile(path: url.path, format: nil) } ?? ""
            #expect(message.hasPrefix("CLI-0402: ") && message.contains(remedy), "\(message)")
        }
    }

    @Test("a table whose header only begins like such a file is a table")
    func foreignLookalikes() throws {
        for header in ["BZh1,b", "PAR1,b", "PK,b", "Rar!,b"] {
            #expect(try open("\(header)\nx,y\n", "a.csv") == (.csv, 1, []))
        }
    }

    @Test(
        "JSON with a program around it is refused, and the message names the program's part",
        arguments: [
            ("callback([{\"a\":1},{\"a\":2}]);", "a.txt", "JSONP, a call of 'callback'"),
            ("/**/ jQuery12_3.cb (\n{\"a\":1})", "a.json", "JSONP, a call of 'jQuery12_3.cb'"),
            (")]}',\n[{\"a\":1}]", "a.txt", "begins with ')]}''"),
            (")]}'\n{}", "a.ndjson", "begins with ')]}''"),
            ("while(1);[{}]", "a.txt", "begins with 'while(1);'"),
            ("for (;;);{}", "a.json", "begins with 'for (;;);'"),
            ("window.app.part0 = [ {\"a\":1} ]", "a.txt", "JavaScript, which sets 'window.app.part0'"),
            ("<!DOCTYPE html>\n<p>no such page", "a.txt", "is HTML or XML"),
            ("<?xml version=\"1.0\"?><r/>", "a.json", "is HTML or XML"),
            ("var rows={\"a\":1};", "a.json", "JavaScript, which sets 'rows'"),
        ])
    func scripts(text: String, name: String, told: String) {
        let message = failure { _ = try open(text, name) } ?? ""
        #expect(message.hasPrefix("CLI-0403: ") && message.contains(told), "\(message)")
    }

    @Test("texts of tables that hold brackets are no programs")
    func scriptLookalikes() throws {
        #expect(try open("f(x),g(x)\n1,2\n", "a.txt") == (.csv, 1, []))
        #expect(try open("a (b),c\n[1],2\n", "a.txt") == (.csv, 1, []))
        #expect(try open("callback({\"a\":1},2);", "a.txt", .csv).0 == .csv)
    }

    @Test("a JSON text sequence is one document a text, over one line or several, and nothing is guessed")
    func sequences() throws {
        let mark = "\u{1E}"
        #expect(try open("\(mark){\"a\":1}\n\(mark){\"a\":2}\n", "a.jsonseq") == (.ndjson, 2, []))
        #expect(try open("\(mark){\"a\":\n1}\n\(mark)\(mark){\"a\":2}", "a.geojsons") == (.json, 2, []))
        #expect(try open("\(mark){\"list\":[{},{}]}\n", "a.txt") == (.json, 1, []))
        #expect(try open("\(mark){\"type\": \"Feature\", \"n\": 1}\n", "a.json") == (.json, 1, []))
        #expect(try open("{}\n{}\n{}\n", "a.geojsonl") == (.ndjson, 3, []))
        let message = failure { _ = try open("\(mark){\"a\":1\n\(mark){\"a\":2}\n", "a.jsonseq") }
        #expect(message?.hasPrefix("CLI-0403: ") == true)
    }

    @Test("a table whose header looks like another format is told, unless --format says that it is one")
    func oddHeaders() throws {
        #expect(try open("{id},{n}\n1,2\n", "a.csv") == (.csv, 1, ["CLI-W103"]))
        #expect(try open("[id],[n]\n1,2\n", "a.csv") == (.csv, 1, ["CLI-W103"]))
        #expect(try open("go(),run();\n1,2\n", "a.txt") == (.csv, 1, ["CLI-W103"]))
        #expect(try open("{id},{n}\n1,2\n", "a.csv", .csv) == (.csv, 1, []))
    }
}
