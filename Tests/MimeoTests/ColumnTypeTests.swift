import CRDT
import Foundation
import TestSupport
import Testing

@testable import Mimeo

@Suite("Types of columns")
struct ColumnTypeTests {
    private func type(_ cells: [String]) throws -> ColumnType {
        let text = "k,v\n" + cells.map { "x,\($0)\n" }.joined()
        return try CSVDocumentReader(source(text), notes: ImportNotes()).columns[1].type
    }

    @Test(
        "a column is numbers or booleans only if all its cells are and nothing is lost",
        arguments: [
            (["1", "-2", "", "9223372036854775807"], .integer), (["1.25", "1.50", "3"], .decimal),
            (["0", "0.5", "-0.25", ".5"], .decimal), (["1.5e-05", "1e+20", "5e-324"], .decimal),
            (["true", "FALSE", "True"], .boolean), (["", ""], .empty),
            (["10001", "00501"], .text), (["1", "+2"], .text), (["1", " 2"], .text), (["1", "x"], .text),
            (["9223372036854775808"], .text), (["12345678901234567.5"], .text),
            (["9007199254740993", "0.5"], .text), (["0.1000000000000000055"], .text),
            (["1e400", "1.5"], .text),
            (["1.0E10", "-2.5e3", "7"], .decimal), (["1.0E10", "1E5"], .text), (["1.5e"], .text),
            (["1E5", "12E4"], .text), (["1."], .text), (["true", "1"], .text), (["nan"], .text),
            (["0x10"], .text), (["1,5"].map { "\"\($0)\"" }, .text), (["2024-01-02"], .text),
            (["1_000"], .text), (["-"], .text), (["1ee+5"], .text), (["1.2.3"], .text),
            (["\"1\"", "2"], .text), (["00"], .text), (["-01"], .text), (["-0"], .decimal),
        ] as [([String], ColumnType)])
    func types(cells: [String], expected: ColumnType) throws { #expect(try type(cells) == expected) }

    @Test("a type that is asked for ignores spaces around a cell, and takes decimal numbers only")
    func givenTypes() throws {
        func read(_ cell: String, _ type: ColumnType) throws -> Value? {
            try table("k,v\nx,\(cell)\n", ReadingOptions(types: [("v", type)])).first?["v"]
        }
        #expect(try read(" 7", .integer) == 7)
        #expect(try read("\t2.5 ", .decimal) == 2.5)
        #expect(try read("1e5", .decimal) == 100_000.0)
        #expect(try read(" Yes ", .boolean) == true)
        #expect(try read(" x ", .text) == " x ")
        for cell in ["0x10", "nan", "infinity", "1 000", "1_5"] {
            #expect(failure { _ = try read(cell, .decimal) }?.contains("is no decimal") == true)
        }
    }

    @Test("a column of which most cells are numbers tells the first that is none")
    func strangers() throws {
        func told(_ cells: [String]) throws -> [String] {
            let text = "k,v\n" + cells.map { "x,\($0)\n" }.joined()
            return try notes { _ = try CSVDocumentReader(source(text), notes: $0) }
        }
        #expect(
            try told(["1", "2.5", "N/A", "4"]) == [
                "CLI-W102 f.csv: column 'v' (line 4: N/A) stays text, since a cell is no number; "
                    + "--null N/A overrides"
            ])
        #expect(try told(["1", "0", "true"]).first?.contains("(line 4: true)") == true)
        #expect(try told(["1", "x", "y"]) == [])
        #expect(try told(["true", "no"]) == [])
    }

    @Test(
        "the flags that a note names do it: the column gets another type, and nothing is lost or told",
        arguments: [
            (["2.5", "NA", "4"], "--null NA overrides", [], ["NA"]),
            (
                ["1", "-", "3", "4", "(none)", "5"], "--null - --null '(none)' overrides", [],
                ["-", "(none)"]
            ),
            (
                ["10", "N/A", "007", "8", "9"], "--null N/A --types v=integer overrides", ["v=integer"],
                ["N/A"]
            ),
            (["1", "02", "3"], "--types v=integer overrides", ["v=integer"], []),
            (["9223372036854775808", "1"], "--types v=decimal overrides", ["v=decimal"], []),
            (["1", "0", "true"], "--types v=boolean overrides", ["v=boolean"], []),
            (["1", "2", " ?", "4"], "--null ' ?' overrides", [], [" ?"]),
        ] as [([String], String, [String], [String])])
    func remedies(cells: [String], flags: String, types: [String], nulls: [String]) throws {
        let text = "k,v\n" + cells.map { "x,\($0)\n" }.joined()
        let told = try notes { _ = try table(text, ReadingOptions(), $0) }
        #expect(told.count == 1 && told[0].hasSuffix("; " + flags), "\(told)")
        let options = ReadingOptions(types: try types.flatMap(ImportCommand.types), nulls: Set(nulls))
        let notes = ImportNotes()
        let reader = try CSVDocumentReader(source(text), options, notes: notes)
        #expect(notes.all.isEmpty && reader.columns[1].type != .text)
        #expect(try all(reader).count == cells.count)
    }

    @Test("where no flag makes a column numbers, none is named")
    func noRemedy() throws {
        func told(_ cells: String) throws -> String? {
            let text = "k,v\n" + cells.split(separator: ",").map { "x,\($0)\n" }.joined()
            return try notes { _ = try table(text, ReadingOptions(), $0) }.first
        }
        #expect(try told("7,8,9,true")?.hasSuffix("; no other type fits all its cells") == true)
        #expect(try told("1e400,1.5")?.hasSuffix("; no other type fits all its cells") == true)
        let many = "--null TEXT, once for each such text, overrides"
        #expect(try told("1,2,3,4,5,a,b,c,d")?.hasSuffix(many) == true)
    }

    @Test("cells of --null are left out in every column, quoted or not, also where --types says the type")
    func nulls() throws {
        let text = "k,v,w\nNA,2.5,-9\nb,NA,\"NA\"\nc,4,7\n"
        let out = ReadingOptions(nulls: ["NA", "-9"])
        let rows = [object(("v", 2.5)), object(("k", "b")), object(("k", "c"), ("v", 4.0), ("w", 7))]
        #expect(try table(text, out) == rows)
        let typed = ReadingOptions(types: [("v", .decimal), ("w", .integer)], nulls: out.nulls)
        #expect(try table(text, typed) == rows)
        #expect(try table("a,b\n\"\",x\n", ReadingOptions(nulls: [""])) == [object(("b", "x"))])
        #expect(try table("a\nNAN\n", out) == [object(("a", "NAN"))])
    }

    @Test("a cell that is none of the type that was asked for is found before the first document is read")
    func earlyErrors() throws {
        let rows = (0..<40).map { "\($0)\n" }.joined()
        let options = ReadingOptions(types: [("n", .integer)])
        #expect(
            failure { _ = try CSVDocumentReader(source("n\n\(rows)x\n"), options, notes: ImportNotes()) }
                == "CLI-0403: f.csv:42: 'x' is no integer, the type of column 'n'; --null x "
                + "leaves such cells out"
        )
    }

    @Test("values are those that the cells say")
    func values() throws {
        #expect(
            try table("sku,price,zip\nA1,1.25,10001\nA2,1.50,00501\nA4,3,02134\n") == [
                object(("sku", "A1"), ("price", 1.25), ("zip", "10001")),
                object(("sku", "A2"), ("price", 1.5), ("zip", "00501")),
                object(("sku", "A4"), ("price", 3.0), ("zip", "02134")),
            ])
        #expect(try table("a,b\n-0,TRUE\n") == [object(("a", .double(-0.0)), ("b", true))])
    }

    @Test("a column that looks like numbers and stays text is told, with its reason")
    func reasons() throws {
        let told = try notes { notes in
            _ = try table(
                "zip,n,q,w,tel,mix,part\n1,9223372036854775808,\"5\",x,+1,1,12E4\n01,2,\"6\",01,+2,true,3\n",
                ReadingOptions(), notes)
        }
        #expect(
            told == [
                "CLI-W102 f.csv: column 'zip' (line 3: 01) stays text, since a cell has a leading zero; "
                    + "--types zip=integer overrides",
                "CLI-W102 f.csv: column 'n' (line 2: 9223372036854775808) stays text, since a cell "
                    + "does not fit 64 bits; --types n=decimal overrides",
                "CLI-W102 f.csv: column 'q' (line 2: 5) stays text, since a cell is quoted; "
                    + "--types q=integer overrides",
                "CLI-W102 f.csv: column 'tel' (line 2: +1) stays text, since a cell has a plus sign; "
                    + "--types tel=integer overrides",
                "CLI-W102 f.csv: column 'part' (line 2: 12E4) stays text, since a cell has an exponent "
                    + "without a sign, as a name may; --types part=decimal overrides",
            ])
    }

    @Test("quotes mean text, but nothing in a table that quotes everything")
    func quotes() throws {
        func types(_ text: String) throws -> [ColumnType] {
            try CSVDocumentReader(source(text), notes: ImportNotes()).columns.map(\.type)
        }
        #expect(
            try types("\"a\",\"b\",\"c\"\n\"1\",\"x\",\"007\"\n\"2\",,\"8\"\n") == [.integer, .text, .text])
        #expect(try types("a,\"b\"\n\"1\",\"2\"\n") == [.text, .text])
        #expect(try types("\"a\",\"b\"\n\"1\",2\n") == [.text, .integer])
        let told = try notes { _ = try table("a,b\n\"\",1\n\"4\",2\n", ReadingOptions(), $0) }
        #expect(told.count == 1 && told[0].contains("column 'a' (line 3: 4)"))
        #expect(
            try table("a,b\n\"\",x\n", ReadingOptions(types: [("a", .integer)])) == [object(("b", "x"))])
    }

    @Test("--types overrides, also for quoted cells; a cell that does not fit is an error with its line")
    func overrides() throws {
        let types = try ImportCommand.types("a=integer,b=decimal,c=boolean,d=json,e=text")
        #expect(
            try table("a,b,c,d,e\n007,\"1\",yes,\"[1,{}]\",5\n", ReadingOptions(types: types)) == [
                object(("a", 7), ("b", 1.0), ("c", true), ("d", [1, [:]]), ("e", "5"))
            ])
        #expect(
            failure { _ = try table("a\n1\nx\n", ReadingOptions(types: [("a", .integer)])) }
                == "CLI-0403: f.csv:3: 'x' is no integer, the type of column 'a'; --null x "
                + "leaves such cells out"
        )
        #expect(
            failure { _ = try table("a\n9223372036854775808\n", ReadingOptions(types: [("a", .integer)])) }?
                .contains("is no integer") == true)
        #expect(
            failure { _ = try table("a\n1\n", ReadingOptions(types: [("b", .integer)])) }
                == "CLI-0101: f.csv has no column 'b', but a")
    }

    @Test("the values of --types: several pairs, names with commas and equal signs, types that there are")
    func optionSyntax() throws {
        let pairs = try ImportCommand.types("a,b=int,c=d=string")
        #expect(pairs.map(\.name) == ["a,b", "c=d"] && pairs.map(\.type) == [.integer, .text])
        for wrong in ["a", "a=date", "a=", "a=text,b"] {
            #expect(failure { _ = try ImportCommand.types(wrong) }?.hasPrefix("CLI-0101: ") == true)
        }
    }

    @Test("an _id column of decimals is text, because no id is a decimal")
    func ids() throws {
        #expect(try table("_id\n1.5\n2\n") == [object(("_id", "1.5")), object(("_id", "2"))])
    }

    @Test("every double that is printed is read as itself, and every integer")
    func printedNumbers() throws {
        var random = SystemRandomNumberGenerator()
        for _ in 0..<Depth.pick(fast: 2_000, deep: 200_000) {
            let double = Double(bitPattern: UInt64.random(in: 0...UInt64.max, using: &random))
            guard double.isFinite else { continue }
            #expect(NumberText(double.description) == .decimal(double))
            let integer = Int64.random(in: Int64.min...Int64.max, using: &random) >> Int64.random(in: 0..<63)
            #expect(NumberText(String(integer)) == .integer(integer))
        }
    }
}
