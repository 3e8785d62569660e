import CRDT

/// The documents of a table with a header row: one field a column, of one type a column.
///
/// A first pass over the table finds delimiter and types, and checks every row; `next` is the second one.
/// An empty cell is left out; a quoted empty cell of a column of texts is an empty text.
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
        let header = try TableHeader(&survey, source, notes)
        let given = try options.types.map { name, type in
            guard let column = header.names.firstIndex(where: { utf8Equal($0, name) }) else {
                throw MimeoError(
                    .usage,
                    "\(source.name) has no column '\(name)', but "
                        + header.names.prefix(20).joined(separator: ", ")
                )
            }
            return (column, type)
        }
        columns = try TableSurvey(
            header, Dictionary(given) { $1 }, &survey, source, keepGoing: options.keepGoing, notes: notes
        ).columns
        rows = try Self.rows(source, dialect)
        _ = try rows.next()
    }

    mutating func next() throws -> DocumentRecord? {
        guard let row = try rows.next() else { return nil }
        let place = "\(source.name):\(row.line)"
        try row.check(width: columns.count, source.name, dialect.delimiter)
        var entries: [ObjectValue.Entry] = []
        var texts: [(field: String, text: String)] = []
        var bytes = 0
        for (column, field) in zip(columns, row.fields)
        where !field.text.isEmpty || field.isQuoted && column.type == .text {
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
}
