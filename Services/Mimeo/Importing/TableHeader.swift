import CRDT
import Foundation

/// The columns' names, and the width that rows must have.
struct TableHeader {
    /// The columns' names: those of the first row or of `--columns`, made unique, and `column3` where there
    /// is none.
    let names: [String]
    /// The cells of the header row as they stand; nil where the table has none.
    let cells: [CSVRows.Field]?
    /// True if rows end with delimiters that begin no column.
    let dropsEnd: Bool

    private let source: String
    private let delimiter: UInt8
    /// The origin of the width, for messages.
    private let measure: String

    /// Reads the header, or finds the names of a table without one.
    /// - Parameter rows: at the beginning; the header row is taken.
    /// - Throws: `CLI-0101`, `CLI-0401`, `CLI-0403`.
    init(
        _ rows: inout CSVRows, _ shapes: [RowShape], _ options: ReadingOptions, _ source: TextSource,
        _ notes: ImportNotes
    ) throws {
        self.source = source.name
        delimiter = rows.delimiter
        measure =
            options.hasHeader
            ? "the header has" : options.columns == nil ? "the first has" : "--columns names"
        guard options.hasHeader else {
            cells = nil
            let width = shapes.first?.width ?? 0
            names = options.columns ?? (0..<width).map { "column\($0 + 1)" }
            let named = RowShape(line: 0, width: names.count)
            dropsEnd = shapes.first.map(named.hasSurplus) ?? false
            if dropsEnd { Self.noteEnd(source, notes) }
            return
        }
        let found: CSVRows.Row?
        do { found = try rows.next() } catch let error as RecordError { throw error.ending }
        guard var row = found else {
            let after = options.skippedLines > 0 ? " after --skip-lines \(options.skippedLines)" : ""
            throw MimeoError(.fileMalformed, "\(source.name): the header row is missing\(after)")
        }
        cells = row.fields
        try Self.checkDelimiter(row, source)
        let shape = RowShape(row)
        let next = shapes.dropFirst().first
        let isLonger = next.map(shape.isSurplus) ?? false
        if isLonger, let next { row.fields.removeLast(shape.width - next.width) }
        dropsEnd = isLonger || next.map(shape.hasSurplus) ?? false
        if dropsEnd { Self.noteEnd(source, notes) }
        names = Self.names(row, "\(source.name):\(row.line)", notes)
    }

    /// The fields of a row, one for each column.
    /// - Throws: `RecordError` for a row of another width.
    func fields(_ row: CSVRows.Row) throws(RecordError) -> ArraySlice<CSVRows.Field> {
        if row.fields.count == names.count { return row.fields[...] }
        if dropsEnd, RowShape(line: row.line, width: names.count).hasSurplus(RowShape(row)) {
            return row.fields.prefix(names.count)
        }
        let found = "\(row.fields.count) \(row.fields.count == 1 ? "field" : "fields")"
        throw RecordError(
            place: "\(source):\(row.line)",
            problem: "the row has \(found), \(measure) \(names.count) "
                + "(the delimiter is '\(CSVDialect.name(delimiter))')")
    }

    /// True for a row that repeats the header, as in files that were put together. A header that may be a row
    /// of data itself is never taken for repeated.
    func isRepeated(_ row: CSVRows.Row) -> Bool {
        guard names.count > 1, let cells, row.fields == cells else { return false }
        return !cells.contains { HeaderDoubt.isData($0.text) }
    }

    private static func noteEnd(_ source: TextSource, _ notes: ImportNotes) {
        notes.add(.inputGuessed, "\(source.name): delimiters at the end of a row begin no column")
    }

    /// Refuses a header that one of the usual delimiters would cut.
    private static func checkDelimiter(_ row: CSVRows.Row, _ source: TextSource) throws {
        guard row.fields.count == 1, !row.fields[0].isQuoted,
            let other = row.fields[0].text.utf8.first(where: CSVDialect.candidates.contains)
        else { return }
        throw MimeoError(
            .fileMalformed,
            "\(source.name):\(row.line): the header is one column, '\(ImportNotes.cut(row.fields[0].text))', "
                + "which holds '\(CSVDialect.name(other))'; is that the delimiter? See --delimiter")
    }

    private static func names(_ row: CSVRows.Row, _ place: String, _ notes: ImportNotes) -> [String] {
        var taken = Set(row.fields.map { Array($0.text.utf8) })
        func free(_ base: String, from first: Int) -> String {
            let names = (first...).lazy.map { $0 == 1 ? base : "\(base)_\($0)" }
            return names.first { taken.insert(Array($0.utf8)).inserted } ?? base
        }
        var seen: Set<[UInt8]> = []
        return row.fields.enumerated().map { index, field in
            if field.text.isEmpty || !field.isQuoted && field.text.allSatisfy(\.isWhitespace) {
                let name = free("column\(index + 1)", from: 1)
                notes.add(.columnRenamed, "\(place): column \(index + 1) has no name and is called '\(name)'")
                return name
            }
            guard !seen.insert(Array(field.text.utf8)).inserted else { return field.text }
            let name = free(field.text, from: 2)
            notes.add(
                .columnRenamed,
                "\(place): column \(index + 1), another '\(ImportNotes.cut(field.text))', is called '\(name)'"
            )
            return name
        }
    }

    /// The names of a value of `--columns`, which is written like a row of a table.
    /// - Throws: `CLI-0101`.
    static func columns(_ option: String) throws -> [String] {
        var isRead = false
        let bytes = FileBytes(name: "--columns") {
            defer { isRead = true }
            return isRead ? [] : Array(option.utf8)
        }
        var rows = CSVRows(name: "--columns", bytes: bytes, delimiter: UInt8(ascii: ","))
        guard let names = try? rows.next()?.fields.map(\.text), !names.contains(""),
            Set(names.map { Array($0.utf8) }).count == names.count, (try? rows.next()) == .some(nil)
        else { throw MimeoError(.usage, "--columns must be different names, separated by commas") }
        return names
    }
}

/// A reason to doubt that the first row of a table is its header.
enum HeaderDoubt {
    /// The doubt as the end of a sentence; nil where there is none.
    /// - Parameter types: the columns' types, found from the rows below.
    static func reason(_ cells: [CSVRows.Field], _ types: [ColumnType]) -> String? {
        let texts = cells.map(\.text)
        let filled = texts.filter { !$0.isEmpty }
        if !filled.isEmpty, filled.allSatisfy(isData) { return "looks like data" }
        // Years are names of columns, and so are other numbers in equal steps.
        let numbers = filled.compactMap { Int64($0) }
        let steps = zip(numbers, numbers.dropFirst()).map { $1.subtractingReportingOverflow($0).partialValue }
        if numbers.count > 1, Set(steps).count == 1 { return nil }
        // So are days, where there are several.
        let values = filled.filter(namesNothing)
        if let value = values.first, values.count == 1 || !values.allSatisfy(startsWithDay) {
            return "has '\(ImportNotes.cut(value))', which names no column"
        }
        if values.count > 1 { return nil }
        let typed: [ColumnType] = [.integer, .decimal, .boolean]
        let like = zip(texts, types).first { isData($0) && typed.contains($1) }
        return like.map {
            "has '\(ImportNotes.cut($0.0))' above \($0.1 == .boolean ? "booleans" : "numbers")"
        }
    }

    /// True for a text that names no column: a number, a boolean, a day, an address.
    static func isData(_ text: String) -> Bool {
        NumberText(text) != nil || ["true", "false"].contains(text.lowercased()) || namesNothing(text)
    }

    /// True for a day or time, a UUID, an address of mail or of the web.
    private static func namesNothing(_ text: String) -> Bool {
        if startsWithDay(text) || UUID(uuidString: text) != nil { return true }
        if text.hasPrefix("https://") || text.hasPrefix("http://") { return true }
        let parts = text.split(separator: "@", omittingEmptySubsequences: false)
        return parts.count == 2 && !parts[0].isEmpty && parts[1].contains(".")
            && !text.contains(where: \.isWhitespace)
    }

    private static func startsWithDay(_ text: String) -> Bool {
        let parts = text.prefix(10).split(separator: "-", omittingEmptySubsequences: false)
        guard parts.map(\.count) == [4, 2, 2], parts.allSatisfy({ UInt($0) != nil }) else { return false }
        return text.dropFirst(10).first.map { "T ".contains($0) } ?? true
    }

    /// The way in which a header looks like another kind of text than a table; nil for one that does not.
    static func kind(_ cells: [CSVRows.Field]) -> String? {
        if let first = cells.first, !first.isQuoted, let mark = first.text.first, "{[".contains(mark) {
            return "begins with '\(mark)', as JSON does"
        }
        if let last = cells.last, !last.isQuoted, last.text.count > 1, last.text.hasSuffix(";") {
            return "ends with ';', as a program does"
        }
        return nil
    }
}
