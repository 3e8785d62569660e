import CRDT

/// The types of a table's columns, found by reading all of it.
struct TableSurvey {
    private(set) var columns: [CSVDocumentReader.Column] = []

    private let header: TableHeader
    private let options: ReadingOptions
    private let given: [Int: ColumnType]
    private var surveys: [ColumnSurvey]
    /// As `surveys`, with quoted cells taken like others: for a table that quotes everything.
    private var unquoted: [ColumnSurvey]
    private var quotesAll: Bool
    private var count = 0
    private var wrong = 0
    /// True if the first row of a table without a header has the columns' names.
    private var hasNamesInRow = false
    private var repeated: (line: Int, count: Int)?

    /// Reads the whole table and decides on each column.
    /// - Parameters:
    ///   - shapes: the shapes of the first rows, with the header.
    ///   - given: types by place that are not found out.
    /// - Throws: `CLI-0401`, `CLI-0403`.
    init(
        _ header: TableHeader, _ shapes: [RowShape], _ given: [Int: ColumnType], _ rows: inout CSVRows,
        _ source: TextSource, _ options: ReadingOptions, notes: ImportNotes
    ) throws {
        (self.header, self.options, self.given) = (header, options, given)
        surveys = header.names.map { _ in ColumnSurvey() }
        unquoted = surveys
        quotesAll = header.cells?.allSatisfy { $0.isQuoted || $0.text.isEmpty } ?? true
        while true {
            do {
                guard let row = try rows.next() else { break }
                try add(row, source)
            } catch let error as RecordError where !options.keepGoing {
                throw Self.ending(error, shapes)
            } catch is RecordError {
                // The second pass tells it.
                wrong += 1
            }
        }
        if quotesAll { surveys = unquoted }
        columns = zip(header.names, surveys).enumerated().map { index, column in
            // Ids of documents are never decimals.
            let isID = utf8Equal(column.0, "_id") && column.1.type == .decimal
            return CSVDocumentReader.Column(
                name: column.0, type: given[index] ?? (isID ? .text : column.1.type))
        }
        noteHeader(shapes, source, notes)
        let found = zip(columns, surveys).enumerated().filter { given[$0.offset] == nil }
        Self.note(found.map(\.element), source, notes)
    }

    private mutating func add(_ row: CSVRows.Row, _ source: TextSource) throws {
        if header.isRepeated(row) {
            repeated = (repeated?.line ?? row.line, (repeated?.count ?? 0) + 1)
            return
        }
        let fields = try header.fields(row)
        hasNamesInRow = hasNamesInRow || count + wrong == 0 && fields.map(\.text) == header.names
        count += 1
        quotesAll = quotesAll && fields.allSatisfy { $0.isQuoted || $0.text.isEmpty }
        for (index, field) in fields.enumerated() where !options.nulls.contains(field.text) {
            if let type = given[index] {
                _ = try CSVDocumentReader.Column(name: header.names[index], type: type)
                    .value(field, "\(source.name):\(row.line)")
                continue
            }
            surveys[index].add(field, line: row.line)
            guard quotesAll else { continue }
            unquoted[index].add(CSVRows.Field(text: field.text, isQuoted: false), line: row.line)
        }
    }

    /// The error that ends the command, with the way on where the first line is not the table's first.
    private static func ending(_ error: RecordError, _ shapes: [RowShape]) -> MimeoError {
        var error = error
        if let start = RowShape.tableBelow(shapes) {
            error.problem +=
                "; most rows are like line \(shapes[start].line), and if that is the header, "
                + "--skip-lines \(shapes[start].line - 1) leaves out the lines before"
        }
        return error.ending
    }

    /// Tells doubts about the header.
    private func noteHeader(_ shapes: [RowShape], _ source: TextSource, _ notes: ImportNotes) {
        guard let cells = header.cells else {
            if hasNamesInRow {
                notes.add(
                    .inputGuessed,
                    "\(source.name): the first row is a document, and it has the names of the columns; "
                        + "--skip-lines leaves it out")
            }
            return
        }
        if let repeated {
            notes.add(
                .inputGuessed,
                "\(source.name):\(repeated.line): the header stands again and was left out"
                    + (repeated.count > 1 ? " (\(repeated.count) times)" : ""))
        }
        if count + wrong == 0, repeated == nil {
            notes.add(
                .inputGuessed,
                "\(source.name): the only row was taken as the header, so there are no documents; "
                    + "--no-header takes it as one")
        } else if let line = lineAfterGap(cells, shapes) {
            notes.add(
                .inputGuessed,
                "\(source.name): the first row was taken as the header, and empty lines follow it; if the "
                    + "header is line \(line), --skip-lines \(line - 1) leaves out the lines before")
        } else if let reason = HeaderDoubt.reason(cells, surveys.map(\.type)) {
            notes.add(
                .inputGuessed,
                "\(source.name): the first row was taken as the header, and it \(reason); --no-header "
                    + "takes it as a document, --columns NAME,… names the columns")
        }
    }

    /// The first line after the last gap at the beginning, where one follows the header and rows come
    /// without gaps in the end: the lines before may be titles, each with an empty line below.
    private func lineAfterGap(_ cells: [CSVRows.Field], _ shapes: [RowShape]) -> Int? {
        let lines = shapes.map(\.line)
        let gaps = zip(lines, lines.dropFirst()).map { $1 - $0 > 1 }
        let isHigh = cells.contains { $0.text.utf8.contains { $0 == 0x0A || $0 == 0x0D } }
        guard !isHigh, gaps.first == true, gaps.last == false, let last = gaps.lastIndex(of: true) else {
            return nil
        }
        return lines[last + 1]
    }

    /// Tells which columns stay text although they look like numbers, one note for each reason.
    private static func note(
        _ columns: [(CSVDocumentReader.Column, ColumnSurvey)], _ source: TextSource, _ notes: ImportNotes
    ) {
        var reasons: [String] = []
        var found: [String: [(name: String, survey: ColumnSurvey, obstacle: ColumnSurvey.Obstacle)]] = [:]
        for (column, survey) in columns {
            guard let obstacle = survey.obstacle else { continue }
            if found[obstacle.reason] == nil { reasons.append(obstacle.reason) }
            found[obstacle.reason, default: []].append((column.name, survey, obstacle))
        }
        for reason in reasons {
            let all = found[reason] ?? []
            let shown = all.prefix(Limits.shownColumns)
            let names = shown.map { column in
                "'\(ImportNotes.cut(column.name))' (line \(column.obstacle.line): "
                    + "\(ImportNotes.cut(column.obstacle.text)))"
            }.joined(separator: ", ")
            let more = all.count > shown.count ? " and \(all.count - shown.count) more" : ""
            notes.add(
                .columnStaysText,
                "\(source.name): \(all.count == 1 ? "column" : "columns") \(names)\(more) "
                    + "\(all.count == 1 ? "stays" : "stay") text, since a cell \(reason); "
                    + ColumnSurvey.remedy(shown.map { ($0.name, $0.survey) }))
        }
    }
}
