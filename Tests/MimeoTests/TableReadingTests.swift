import CRDT
import Foundation
import Testing

@testable import Mimeo

@Suite("Reading tables")
struct TableReadingTests {
    @Test("quoted fields hold delimiters, quotes and line ends")
    func quoting() throws {
        #expect(
            try table("k,name\r\nx,\"one, \"\"two\"\"\"\r\ny,\"three\nfour\"\r\nz,5\" disk\r\n") == [
                object(("k", "x"), ("name", #"one, "two""#)), object(("k", "y"), ("name", "three\nfour")),
                object(("k", "z"), ("name", "5\" disk")),
            ])
    }

    @Test("rows end with LF, CRLF or CR, and lines are counted the same", arguments: ["\n", "\r\n", "\r"])
    func lineEnds(end: String) throws {
        let rows = ["a,b", "1,\"x\(end)y\"", "", "2,z", "3"]
        let good = rows.prefix(4).joined(separator: end)
        let documents = [object(("a", 1), ("b", .string("x\(end)y"))), object(("a", 2), ("b", "z"))]
        #expect(try table(good) == documents)
        #expect(try table(good + end) == documents)
        #expect(
            failure { _ = try table(rows.joined(separator: end)) }
                == "CLI-0403: f.csv:6: the row has 1 field, the header has 2 (the delimiter is ',')")
    }

    @Test(
        "the delimiter is found out",
        arguments: [
            ("a;b\n1;2,5\n2;3,75\n", ";"), ("a\tb\n1\tx, y\n", "tab"), ("a|b\n1|2\n", "|"),
            ("a,b\n1,2\n", ","), ("a,b;\n1,2\n3,4\n", ","), ("a;b\n1,5;2;\n3;4;\n", ";"),
            ("sep=;\na;b\n1;2\n", ";"), ("sep=|\r\na|b\r\n1|2\r\n", "|"), ("a;b,c\n1;2,5\n", ";"),
            ("a,\"b;c\"\n\"1;2\",3\n", ","), ("a,b;c\n\"x\ny\",2\n\"x\ny\",3\n", ","), ("a\n1\n", ","),
            ("a,b,c\n1,\"x;y;z\",2\n", ","), ("\"sep=;\"\r\na;b\r\n1;2\r\n", ";"),
            ("\"SEP=|\"\na|b\n1|2\n", "|"),
        ])
    func delimiters(text: String, delimiter: String) throws {
        let reader = try CSVDocumentReader(source(text), notes: ImportNotes())
        #expect(CSVDialect.name(reader.dialect.delimiter) == delimiter)
        #expect(reader.columns.count == (text.hasPrefix("a\n") ? 1 : text.hasPrefix("a,b,c") ? 3 : 2))
        _ = try all(reader)
    }

    @Test("one column that a rare delimiter cuts into equal rows is an error; --delimiter decides")
    func rareDelimiters() throws {
        for (text, name) in [
            ("k^v\n1^x\n2^y\n", "^"), ("k:v\n1:x\n", ":"), ("k~v~w\n1~~3\n", "~"),
            ("k\u{1}v\n1\u{1}x\n", "\\x01"),
        ] {
            let message = failure { _ = try table(text) } ?? ""
            #expect(message.hasPrefix("CLI-0403: f.csv: the table has one column, but '\(name)' cuts"))
            let given = try #require(CSVDialect.parse(name))
            #expect(try table(text, ReadingOptions(delimiter: given)).first?["k"] == 1)
        }
        let comma = ReadingOptions(delimiter: CSVDialect.parse("comma"))
        #expect(try table("k:v\n1:x\n", comma) == [object(("k:v", "1:x"))])
        #expect(try table("time\n10:30\n11:45\n") == [object(("time", "10:30")), object(("time", "11:45"))])
        #expect(try table("\"sep=;\"\n\"a;b\"\n") == [object(("sep=;", "a;b"))])
        #expect(CSVDialect.parse("\\x0a") == nil && CSVDialect.parse("\\x41") == nil)
    }

    @Test("a header that only begins like Excel's first line is a header")
    func separatorLookalikes() throws {
        #expect(try table("sep,city\n1,x\n") == [object(("sep", 1), ("city", "x"))])
        #expect(
            try table("sepal.length;sepal.width\n5.1;3.5\n") == [
                object(("sepal.length", 5.1), ("sepal.width", 3.5))
            ])
        #expect(try table("sep=x,y\n1,2\n") == [object(("sep=x", 1), ("y", 2))])
        #expect(try table("sep=,;y\n1,;2\n") == [object(("sep=,", "1,"), ("y", 2))])
        #expect(try table("sep=\n1\n") == [object(("sep=", 1))])
        #expect(try table("sep=|\na|b\n1|2\n") == [object(("a", 1), ("b", 2))])
    }

    @Test("decimal commas stay text, and lines are counted behind Excel's first one")
    func excel() throws {
        #expect(
            try table("sep=;\nid;weight\n1;2,5\n2;3,75\n") == [
                object(("id", 1), ("weight", "2,5")), object(("id", 2), ("weight", "3,75")),
            ])
        #expect(failure { _ = try table("sep=;\nid;weight\n1;2;3\n") }?.contains("f.csv:3: ") == true)
    }

    @Test("--delimiter overrides, and one column that holds another delimiter is an error that says so")
    func givenDelimiter() throws {
        func given(_ text: String, _ name: String) throws -> [ObjectValue] {
            try table(text, ReadingOptions(delimiter: CSVDialect.parse(name)))
        }
        #expect(try given("a;b|c\n1;2|3\n", "pipe") == [object(("a;b", "1;2"), ("c", 3))])
        #expect(try given("sep=;\na|b\n1|2\n", "|") == [object(("a", 1), ("b", 2))])
        #expect(try given("a b\n1 2\n", "space") == [object(("a", 1), ("b", 2))])
        #expect(try given("\"a;b\"\n1\n", ",") == [object(("a;b", 1))])
        #expect(
            failure { _ = try given("a;b\n1;2\n", ",") }
                == "CLI-0403: f.csv:1: the header is one column, 'a;b', which holds ';'; is that the "
                + "delimiter? See --delimiter")
        #expect(["ab", "é", "\"", "\n", ""].map { CSVDialect.parse($0) } == [nil, nil, nil, nil, nil])
    }

    @Test("columns without a name, or with one that stood before, get a name and are told")
    func headers() throws {
        let told = try notes { notes in
            let documents = try table(",city,city\n0,Rome,IT\n", ReadingOptions(), notes)
            #expect(documents == [object(("column1", 0), ("city", "Rome"), ("city_2", "IT"))])
        }
        #expect(
            told == [
                "CLI-W101 f.csv:1: column 1 has no name and is called 'column1'",
                "CLI-W101 f.csv:1: column 3, another 'city', is called 'city_2'",
            ])
        let names = try CSVDocumentReader(source("a,a,a_2,a, ,column5\n"), notes: ImportNotes()).columns.map(
            \.name)
        #expect(names == ["a", "a_3", "a_2", "a_4", "column5_2", "column5"])
    }

    @Test("an empty cell is left out, a quoted empty one is empty text")
    func emptiness() throws {
        #expect(try table("a,b,c,d\n,\"\",\"7\",\n\n") == [object(("b", ""), ("c", "7"))])
        #expect(
            try CSVDocumentReader(source("a,b\n,\n"), notes: ImportNotes()).columns.map(\.type) == [
                .empty, .empty,
            ])
    }

    @Test(
        "a table that is none is refused with its line",
        arguments: [
            ("", "f.csv: the header row is missing"),
            ("a,b\n1,2\n3\n", "f.csv:3: the row has 1 field, the header has 2 (the delimiter is ',')"),
            ("a\n\"x\n", "f.csv:2: a quoted field is not closed"),
            ("a\n\"x\"y\n", "f.csv:2: text follows a closing quote"),
        ])
    func badTables(text: String, message: String) {
        #expect(failure { _ = try table(text) } == "CLI-0403: \(message)")
    }

    @Test("a wrong row can be skipped, and the next one is read")
    func skipping() throws {
        var reader = try CSVDocumentReader(
            source("a,b\n1,2\n3\n\"x\"y,4\n5,6\n"), ReadingOptions(keepGoing: true), notes: ImportNotes())
        #expect(try reader.next()?.document == object(("a", 1), ("b", 2)))
        #expect(throws: RecordError.self) { try reader.next() }
        #expect(throws: RecordError.self) { try reader.next() }
        #expect(try reader.next()?.document == object(("a", 5), ("b", 6)))
        #expect(try reader.next()?.document == nil)
    }
}
