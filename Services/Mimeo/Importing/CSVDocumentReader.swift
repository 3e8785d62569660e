import CRDT

/// The documents of a table with a header row: one field a column, of one type a column.
///
/// A first pass over the table finds delimiter and types, and checks every row; `next` is the second one.
/// An empty cell is left out; a quoted empty cell is an empty text.
struct CSVDocumentReader: DocumentReading {
    /// A column: its field's name and how it is read.
    struct Column: Equatable {
        var name: String
        var type: ColumnType
    }

    let columns: [Column]
    let dialect: CSVDialect
    private let source: TextSource
    private var rows: CSVRows

    /// - Throws: `CLI-0101` for columns that there are not, `CLI-0401`, `CLI-0403`.
    init(_ source: TextSource, _ options: ReadingOptions = ReadingOptions(), notes: ImportNotes) throws {
        self.source = source
        let dialect = try CSVDialect(source, given: options.delimiter)
        self.dialect = dialect
        var survey = try Self.rows(source, dialect)
        let header = try Self.header(&survey, source, dialect, notes)
        let given = try options.types.map { name, type in
            guard let column = header.firstIndex(where: { utf8Equal($0, name) }) else {
                throw MimeoError(
                    .usage,
                    "\(source.name) has no column '\(name)', but \(header.prefix(20).joined(separator: ", "))"
                )
            }
            return (column, type)
        }
        columns = try Self.columns(
            header, Dictionary(given) { $1 }, &survey, source, keepGoing: options.keepGoing, notes)
        rows = try Self.rows(source, dialect)
        _ = try rows.next()
    }

    mutating func next() throws -> DocumentRecord? {
        guard let row = try rows.next() else { return nil }
        let place = "\(source.name):\(row.line)"
        try Self.check(row, width: columns.count, place, dialect.delimiter)
        var entries: [ObjectValue.Entry] = []
        var texts: [(field: String, text: String)] = []
        var bytes = 0
        for (column, field) in zip(columns, row.fields) where field.isQuoted || !field.text.isEmpty {
            guard let value = column.type.value(field.text) else {
                throw RecordError(
                    place: place,
                    problem: "'\(ImportNotes.cut(field.text))' is no \(column.type.rawValue), "
                        + "the type of column '\(column.name)'")
            }
            entries.append((key: column.name, value: value))
            texts.append((field: column.name, text: field.text))
            // Every document repeats the names, with quotes, colon and comma.
            bytes += column.name.utf8.count + field.text.utf8.count + 6
        }
        return DocumentRecord(
            place: place, document: ObjectValue(unique: entries), bytes: bytes, texts: texts, isTable: true)
    }

    private static func rows(_ source: TextSource, _ dialect: CSVDialect) throws -> CSVRows {
        var bytes = try source.open()
        for _ in 0..<dialect.skippedBytes { _ = try bytes.next() }
        return CSVRows(
            name: source.name, bytes: bytes, delimiter: dialect.delimiter,
            firstLine: dialect.skippedBytes > 0 ? 2 : 1)
    }

    private static func check(_ row: CSVRows.Row, width: Int, _ place: String, _ delimiter: UInt8) throws {
        guard row.fields.count != width else { return }
        let fields = "\(row.fields.count) \(row.fields.count == 1 ? "field" : "fields")"
        throw RecordError(
            place: place,
            problem: "the row has \(fields), the header has \(width) "
                + "(the delimiter is '\(CSVDialect.name(delimiter))')")
    }

    /// The columns' names: those of the header, made unique, and `column3` where there is none.
    private static func header(
        _ rows: inout CSVRows, _ source: TextSource, _ dialect: CSVDialect, _ notes: ImportNotes
    ) throws -> [String] {
        let found: CSVRows.Row?
        do { found = try rows.next() } catch let error as RecordError { throw error.ending }
        guard let row = found else {
            throw MimeoError(.fileMalformed, "\(source.name): the header row is missing")
        }
        let place = "\(source.name):\(row.line)"
        if row.fields.count == 1, !row.fields[0].isQuoted,
            let other = row.fields[0].text.utf8.first(where: CSVDialect.candidates.contains)
        {
            throw MimeoError(
                .fileMalformed,
                "\(place): the header is one column, '\(ImportNotes.cut(row.fields[0].text))', "
                    + "which holds '\(CSVDialect.name(other))'; is that the delimiter? See --delimiter")
        }
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

    /// Reads the whole table and decides on each column.
    private static func columns(
        _ header: [String], _ given: [Int: ColumnType], _ rows: inout CSVRows, _ source: TextSource,
        keepGoing: Bool, _ notes: ImportNotes
    ) throws -> [Column] {
        var surveys = header.map { _ in ColumnSurvey() }
        var isEnd = false
        while !isEnd {
            do {
                guard let row = try rows.next() else {
                    isEnd = true
                    continue
                }
                try check(row, width: header.count, "\(source.name):\(row.line)", rows.delimiter)
                for (index, field) in row.fields.enumerated() { surveys[index].add(field, line: row.line) }
            } catch let error as RecordError where !keepGoing {
                throw error.ending
            } catch is RecordError {
                // The second pass counts it.
            }
        }
        let columns = zip(header, surveys).enumerated().map { index, column in
            // Ids of documents are never decimals.
            let isID = utf8Equal(column.0, "_id") && column.1.type == .decimal
            return Column(name: column.0, type: given[index] ?? (isID ? .text : column.1.type))
        }
        note(
            zip(columns, surveys).enumerated().filter { given[$0.offset] == nil }.map(\.element), source,
            notes)
        return columns
    }

    /// Tells which columns stay text although they look like numbers, one note for each reason.
    private static func note(
        _ columns: [(Column, ColumnSurvey)], _ source: TextSource, _ notes: ImportNotes
    ) {
        var reasons: [String] = []
        var found: [String: [String]] = [:]
        for (column, survey) in columns {
            guard let obstacle = survey.obstacle else { continue }
            if found[obstacle.reason] == nil { reasons.append(obstacle.reason) }
            found[obstacle.reason, default: []].append(
                "'\(ImportNotes.cut(column.name))' (line \(obstacle.line): \(ImportNotes.cut(obstacle.text)))"
            )
        }
        for reason in reasons {
            let all = found[reason] ?? []
            let names = all.prefix(5).joined(separator: ", ")
            let more = all.count > 5 ? " and \(all.count - 5) more" : ""
            notes.add(
                .columnStaysText,
                "\(source.name): \(all.count == 1 ? "column" : "columns") \(names)\(more) "
                    + "\(all.count == 1 ? "stays" : "stay") text, since a cell \(reason); "
                    + "--types COLUMN=TYPE overrides")
        }
    }
}
