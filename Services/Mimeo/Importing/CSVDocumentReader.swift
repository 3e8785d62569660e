import CRDT

/// The documents of a table: one field a column, of one type a column.
///
/// A first pass over the table finds delimiter, names and types, and checks every row; `next` is the second
/// one. An empty cell is left out; a quoted empty cell of a column of texts is an empty text.
struct CSVDocumentReader: DocumentReading {
    /// A column: its field's name and how it is read.
    struct Column: Equatable {
        var name: String
        var type: ColumnType

        /// The value of a cell; nil for one that is left out.
        /// - Throws: `RecordError` if it is none of the column's type.
        func value(_ field: CSVRows.Field, _ place: String) throws(RecordError) -> Value? {
            guard !field.text.isEmpty || field.isQuoted && type == .text else { return nil }
            if let value = type.value(field.text) { return value }
            let cell = ImportNotes.cut(field.text)
            let isMark = NumberText(field.text) == nil && cell == field.text
            throw RecordError(
                place: place,
                problem: "'\(cell)' is no \(type.rawValue), the type of column '\(name)'"
                    + (isMark ? "; --null \(ImportNotes.argument(cell)) leaves such cells out" : ""))
        }
    }

    let columns: [Column]
    let dialect: CSVDialect
    let header: TableHeader
    private let source: TextSource
    private let nulls: Set<String>
    private var rows: CSVRows

    /// - Throws: `CLI-0101` for columns that there are not, `CLI-0401`, `CLI-0403`.
    init(_ source: TextSource, _ options: ReadingOptions = ReadingOptions(), notes: ImportNotes) throws {
        self.source = source
        nulls = options.nulls
        let dialect = try CSVDialect(source, given: options.delimiter, skippedLines: options.skippedLines)
        self.dialect = dialect
        let shapes = try dialect.sample(source)
        var survey = try dialect.rows(source)
        let header = try TableHeader(&survey, shapes, options, source, notes)
        self.header = header
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
            header, shapes, Dictionary(given) { $1 }, &survey, source, options, notes: notes
        ).columns
        rows = try dialect.rows(source)
        if header.cells != nil { _ = try rows.next() }
    }

    mutating func next() throws -> DocumentRecord? {
        var next = try rows.next()
        while let row = next, header.isRepeated(row) { next = try rows.next() }
        guard let row = next else { return nil }
        let place = "\(source.name):\(row.line)"
        var entries: [ObjectValue.Entry] = []
        var texts: [(field: String, text: String)] = []
        var bytes = 0
        for (column, field) in zip(columns, try header.fields(row)) where !nulls.contains(field.text) {
            guard let value = try column.value(field, place) else { continue }
            entries.append((key: column.name, value: value))
            texts.append((field: column.name, text: field.text))
            // Every document repeats the names, with quotes, colon and comma.
            bytes += column.name.utf8.count + field.text.utf8.count + 6
        }
        return DocumentRecord(
            place: place, document: ObjectValue(unique: entries), bytes: bytes, texts: texts, isTable: true)
    }
}
