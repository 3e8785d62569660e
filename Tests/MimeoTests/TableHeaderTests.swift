import CRDT
import Foundation
import Testing

@testable import Mimeo

@Suite("Headers and ends of tables")
struct TableHeaderTests {
    private func told(_ text: String, _ options: ReadingOptions = ReadingOptions()) throws -> [String] {
        try notes { _ = try table(text, options, $0) }
    }

    @Test("without a header the first row is a document, and its columns have numbers or the given names")
    func noHeader() throws {
        let text = "1,x\n2,y\n"
        #expect(
            try table(text, ReadingOptions(hasHeader: false)) == [
                object(("column1", 1), ("column2", "x")), object(("column1", 2), ("column2", "y")),
            ])
        let named = ReadingOptions(hasHeader: false, columns: ["id", "name"])
        #expect(
            try table(text, named) == [object(("id", 1), ("name", "x")), object(("id", 2), ("name", "y"))])
        #expect(try told(text, named) == [])
        #expect(try table("sep=;\n7;8\n", named) == [object(("id", 7), ("name", 8))])
        #expect(try table("", named) == [])
        #expect(
            failure { _ = try table("1,2,3\n", named) }
                == "CLI-0403: f.csv:1: the row has 3 fields, --columns names 2 (the delimiter is ',')")
        let types = ReadingOptions(types: [("column2", .text)], hasHeader: false)
        #expect(try table("1,2\n", types) == [object(("column1", 1), ("column2", "2"))])
        #expect(
            try told("id,name\n1,x\n", named) == [
                "CLI-W103 f.csv: the first row is a document, and it has the names of the columns; "
                    + "--skip-lines leaves it out"
            ])
    }

    @Test("the value of --columns is written like a row, and its names differ")
    func columnNames() throws {
        #expect(try TableHeader.columns("a,\"b,c\", d") == ["a", "b,c", " d"])
        for wrong in ["", "a,", "a,a", "a\nb", "\"a"] {
            #expect(failure { _ = try TableHeader.columns(wrong) }?.hasPrefix("CLI-0101: --columns") == true)
        }
    }

    @Test(
        "a first row that looks like data is told",
        arguments: [
            "1,2,3\n4,5,6\n", "Bob,42\nAnn,37\n", "2024-01-05,3.5\n2024-01-06,4\n", "x,true\ny,false\n",
            "a,-1.5,z\nb,2,y\n", "17\n18\n", "2024-01-05,x\n2024-01-06,y\n",
            "x,2024-01-05T10:00:00Z\ny,2024-01-06T10:00:00Z\n", "Bob,bob@example.org\nAnn,ann@example.org\n",
            "a,https://example.org/1\nb,https://example.org/2\n",
            "k,6f0e0d2c-2f6b-4b52-9a51-0f1f3f4c8f10\nl,6f0e0d2c-2f6b-4b52-9a51-0f1f3f4c8f11\n",
        ])
    func dataAsHeader(text: String) throws {
        let told = try told(text)
        #expect(told.count == 1, "\(told)")
        #expect(
            told.first?.hasPrefix("CLI-W103 f.csv: the first row was taken as the header, and it ") == true)
        #expect(told.first?.contains("--no-header") == true)
    }

    @Test(
        "a header with years or other steps, or numbers above texts, is a header",
        arguments: [
            "country,2019,2020,2021\nPeru,1.5,2,3\n", "name,1,2\nx,3,4\n", "k,404\nx,not found\n",
            "a,b\n1,2\n", "country,2024-01-05,2024-01-06\nPeru,1,2\n", "user@,@id\na,b\n",
            "Bob,Berlin\nAnn,Paris\n",
        ])
    func headers(text: String) throws { #expect(try told(text) == []) }

    @Test(
        "empty lines below the first row are told with the line at which the table may begin",
        arguments: [
            ("Source,WDI\n\nDate,2020\n\nCountry,y\nPeru,5\nChad,6\n", 5), ("a,b\n\n\nk,v\n1,2\n3,4\n", 4),
        ])
    func gaps(text: String, line: Int) throws {
        let told = try told(text)
        #expect(told.contains { $0.contains("--skip-lines \(line - 1) leaves out") }, "\(told)")
    }

    @Test(
        "a table with an empty line after each row, or a header of two lines, has nothing to tell",
        arguments: ["a,b\n\n1,2\n\n3,4\n", "a,b\n1,2\n\n3,4\n", "\"a\n(all)\",b\n1,2\n3,4\n"])
    func noGaps(text: String) throws { #expect(try told(text) == []) }

    @Test("a header without rows is told, and no documents are no error")
    func headerOnly() throws {
        for text in ["1,2,3", "a,b\n", "\u{FEFF}a\n\n\n"] {
            let told = try told(text)
            #expect(told.count == 1 && told[0].contains("--no-header takes it as one"), "\(told)")
        }
        let skipping = try notes {
            _ = try CSVDocumentReader(source("a,b\n1\n"), ReadingOptions(keepGoing: true), notes: $0)
        }
        #expect(skipping == [])
    }

    @Test(
        "a delimiter that ends the header, or all rows, begins no column and is told",
        arguments: [
            "a,b,\n1,x\n2,y\n", "a,b\n1,x,\n2,y,\n", "a;b\n1;x;\n2;y\n", "a,b,\n1,x\n2,y,\n",
            "a,b\n1,x,,,\n2,y,,\n", "a,b,,\n1,x\n2,y\n",
        ])
    func trailing(text: String) throws {
        let told = try notes { notes throws in
            let rows = [object(("a", 1), ("b", "x")), object(("a", 2), ("b", "y"))]
            let found = try table(text, ReadingOptions(), notes)
            #expect(found == rows)
        }
        #expect(told == ["CLI-W103 f.csv: delimiters at the end of a row begin no column"])
    }

    @Test(
        "a row with one field too many is an error where the first row has not, or the field holds something")
    func surplus() throws {
        #expect(
            failure { _ = try table("a,b\n1,2\n3,4,\n") }?.contains("f.csv:3: the row has 3 fields") == true)
        #expect(failure { _ = try table("a,b\n1,2,\n3,4,5\n") }?.contains("f.csv:3: the row has 3") == true)
        #expect(failure { _ = try table("a,b\n1,2,\"\"\n") }?.contains("f.csv:2: the row has 3") == true)
        let named = ReadingOptions(hasHeader: false, columns: ["a", "b"])
        #expect(try table("1,2,\n3,4,\n", named) == [object(("a", 1), ("b", 2)), object(("a", 3), ("b", 4))])
    }

    @Test("lines before the table are left out, their number counts, and the delimiter is that of the table")
    func skippedLines() throws {
        let options = ReadingOptions(skippedLines: 3)
        let text = "# a report, of two\r# lines\n\r\nid;n\n1;2\n3;4\n"
        #expect(try table(text, options) == [object(("id", 1), ("n", 2)), object(("id", 3), ("n", 4))])
        #expect(failure { _ = try table(text + "5\n", options) }?.contains("f.csv:7: the row has 1") == true)
        #expect(
            try table("x\nsep=|\na|b\n1|2\n", ReadingOptions(skippedLines: 1)) == [object(("a", 1), ("b", 2))]
        )
        #expect(
            failure { _ = try table("a\n1\n", ReadingOptions(skippedLines: 5)) }
                == "CLI-0403: f.csv: the header row is missing after --skip-lines 5")
    }

    @Test(
        "lines before a table are an error that has the number for --skip-lines, with which it is read",
        arguments: [
            ("# report\n#\n\nid;n\n1;2\n3;4\n", 3), ("All data\nPage,Views\na,1\nb,2\nc,3\n", 1),
            ("\"Source\",\"WDI\",\n\n\"k\",\"y1\",\"y2\",\n\"a\",\"1\",\"2\",\n\"b\",\"3\",\"4\",\n", 2),
            ("title\nby\tme\nk\tv\tw\n1\t2\t3\n4\t5\t6\n7\t8\t9\n", 2),
        ])
    func linesBefore(text: String, count: Int) throws {
        let message = failure { _ = try table(text) } ?? ""
        #expect(message.hasPrefix("CLI-0403: f.csv:") && message.contains("--skip-lines \(count) leaves out"))
        #expect(try table(text, ReadingOptions(skippedLines: count)).count > 1)
    }

    @Test("one column of texts with a delimiter in few of them is one column")
    func oneColumn() throws {
        #expect(try table("note\na; b\nc\nd; e; f\n").count == 3)
        #expect(try table("note\na; b\nc; d\ne; f\n", ReadingOptions(delimiter: 0x2C)).count == 3)
    }

    @Test("a header that stands again, as in files that were put together, is left out and told")
    func repeated() throws {
        let told = try notes { notes throws in
            let text = "k,n\nx,1\n\u{FEFF}k,n\ny,2\nk,n\n"
            let rows = [object(("k", "x"), ("n", 1)), object(("k", "y"), ("n", 2))]
            let found = try table(text, ReadingOptions(), notes)
            #expect(found == rows)
        }
        #expect(told == ["CLI-W103 f.csv:3: the header stands again and was left out (2 times)"])
        #expect(try table("1,2\n1,2\n").count == 1)
        #expect(try table("word\nword\nother\n").count == 2)
        #expect(try table("k,n\nk,m\n").count == 1)
    }

    @Test("quotes mean nothing in a table that quotes everything but the nothing behind its last delimiter")
    func quotedEnds() throws {
        #expect(
            try table("\"k\",\"n\",\n\"x\",\"1\",\n\"y\",\"2\",\n") == [
                object(("k", "x"), ("n", 1)), object(("k", "y"), ("n", 2)),
            ])
    }
}
