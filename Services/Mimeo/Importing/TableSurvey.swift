import CRDT

/// The header row of a table.
struct TableHeader {
    /// The columns' names: those of the row, made unique, and `column3` where there is none.
    let names: [String]
    /// True if the row quotes every name.
    let isQuoted: Bool

    /// Reads the header.
    /// - Throws: `CLI-0401`, `CLI-0403`.
    init(_ rows: inout CSVRows, _ source: TextSource, _ notes: ImportNotes) throws {
        let found: CSVRows.Row?
        do { found = try rows.next() } catch let error as RecordError { throw error.ending }
        guard let row = found else {
            throw MimeoError(.fileMalformed, "\(source.name): the header row is missing")
        }
        let place = "\(source.name):\(row.line)"
        isQuoted = row.fields.allSatisfy(\.isQuoted)
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
        names = row.fields.enumerated().map { index, field in
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
}

/// The types of a table's columns, found by reading all of it.
struct TableSurvey {
    let columns: [CSVDocumentReader.Column]

    private var surveys: [ColumnSurvey]
    /// As `surveys`, with quoted cells taken like others: for a table that quotes everything.
    private var unquoted: [ColumnSurvey]

    /// Reads the whole table and decides on each column.
    /// - Parameter given: types by place that are not found out.
    /// - Throws: `CLI-0401`, `CLI-0403`.
    init(
        _ header: TableHeader, _ given: [Int: ColumnType], _ rows: inout CSVRows, _ source: TextSource,
        keepGoing: Bool, notes: ImportNotes
    ) throws {
        surveys = header.names.map { _ in ColumnSurvey() }
        unquoted = surveys
        var quotesAll = header.isQuoted
        while true {
            do {
                guard let row = try rows.next() else { break }
                try row.check(width: header.names.count, source.name, rows.delimiter)
                quotesAll = quotesAll && row.fields.allSatisfy { $0.isQuoted || $0.text.isEmpty }
                for (index, field) in row.fields.enumerated() {
                    surveys[index].add(field, line: row.line)
                    guard quotesAll else { continue }
                    unquoted[index].add(CSVRows.Field(text: field.text, isQuoted: false), line: row.line)
                }
            } catch let error as RecordError where !keepGoing {
                throw error.ending
            } catch is RecordError {
                // The second pass counts it.
            }
        }
        if quotesAll { surveys = unquoted }
        columns = zip(header.names, surveys).enumerated().map { index, column in
            // Ids of documents are never decimals.
            let isID = utf8Equal(column.0, "_id") && column.1.type == .decimal
            return CSVDocumentReader.Column(
                name: column.0, type: given[index] ?? (isID ? .text : column.1.type))
        }
        let found = zip(columns, surveys).enumerated().filter { given[$0.offset] == nil }
        Self.note(found.map(\.element), source, notes)
    }

    /// Tells which columns stay text although they look like numbers, one note for each reason.
    private static func note(
        _ columns: [(CSVDocumentReader.Column, ColumnSurvey)], _ source: TextSource, _ notes: ImportNotes
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
