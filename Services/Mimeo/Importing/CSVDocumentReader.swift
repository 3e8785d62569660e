import CRDT
import Foundation

/// The documents of a `.csv` file: RFC 4180, UTF-8, a header row with the fields' names.
///
/// A field becomes an integer, a double, true or false only if that prints as the same text (`42`, `1.5`,
/// `true`; not `007`, `1.50`, `TRUE`). An empty field is left out; a quoted empty field is an empty string.
/// Empty lines are skipped.
struct CSVDocumentReader: DocumentReading {
    private let path: String
    private var rows: CSVRows
    private let header: [String]

    /// - Throws: `CLI-0401`, `CLI-0403`.
    init(path: String, bytes: FileBytes) throws {
        self.path = path
        rows = CSVRows(path: path, bytes: bytes)
        guard let first = try rows.next() else {
            throw MimeoError(.fileMalformed, "\(path): the header row is missing")
        }
        header = first.fields.map(\.text)
        for (index, name) in header.enumerated() {
            guard !name.isEmpty else {
                throw MimeoError(.fileMalformed, "\(path):1: column \(index + 1) has no name")
            }
            guard !header[..<index].contains(where: { utf8Equal($0, name) }) else {
                throw MimeoError(.fileMalformed, "\(path):1: two columns are named '\(name)'")
            }
        }
    }

    mutating func next() throws -> DocumentRecord? {
        guard let row = try rows.next() else { return nil }
        let place = "\(path):\(row.line)"
        guard row.fields.count == header.count else {
            throw MimeoError(
                .fileMalformed,
                "\(place): the row has \(row.fields.count) fields, the header has \(header.count)")
        }
        let present = zip(header, row.fields).filter { $1.isQuoted || !$1.text.isEmpty }
        return DocumentRecord(
            place: place,
            document: ObjectValue(
                unique: present.map { name, field in
                    (key: name, value: field.isQuoted ? .string(field.text) : Self.value(field.text))
                }),
            bytes: row.fields.reduce(0) { $0 + $1.text.utf8.count },
            texts: present.map { (field: $0, text: $1.text) }, isTable: true)
    }

    /// The value of an unquoted field.
    static func value(_ text: String) -> Value {
        if text == "true" || text == "false" { return .bool(text == "true") }
        if let number = Int64(text), number.description == text { return .int(number) }
        if let number = Double(text), number.isFinite, number.description == text { return .double(number) }
        return .string(text)
    }
}

/// The rows of a table.
struct CSVRows {
    struct Field: Equatable {
        var text: String
        var isQuoted: Bool
    }

    struct Row: Equatable {
        /// The number of its first line, from 1.
        var line: Int
        var fields: [Field]
    }

    private enum Place { case start, plain, quoted, afterQuote }

    private let path: String
    private var bytes: FileBytes
    private var line = 1
    private var isAtEnd = false

    init(path: String, bytes: FileBytes) {
        self.path = path
        self.bytes = bytes
    }

    /// The next row that is not an empty line; nil at the end.
    mutating func next() throws -> Row? {
        while !isAtEnd {
            let row = try read()
            if row.fields != [Field(text: "", isQuoted: false)] { return row }
        }
        return nil
    }

    private mutating func read() throws -> Row {
        var row = Row(line: line, fields: [])
        var text: [UInt8] = []
        var isQuoted = false
        var place = Place.start
        var size = 0
        func finishField() throws {
            guard let string = String(validating: text, as: UTF8.self) else {
                throw failure(row, "the text is not UTF-8; convert the file")
            }
            row.fields.append(Field(text: string, isQuoted: isQuoted))
            (text, isQuoted, place) = ([], false, .start)
        }
        while let byte = try bytes.next() {
            size += 1
            guard size <= Limits.recordBytes else {
                throw failure(row, "the row is longer than \(Limits.recordBytes) bytes")
            }
            if byte == UInt8(ascii: "\n") { line += 1 }
            switch (place, byte) {
            case (.quoted, UInt8(ascii: "\"")): place = .afterQuote
            case (.quoted, _): text.append(byte)
            case (.start, UInt8(ascii: "\"")): (place, isQuoted) = (.quoted, true)
            case (.afterQuote, UInt8(ascii: "\"")):
                text.append(byte)
                place = .quoted
            case (_, UInt8(ascii: ",")): try finishField()
            case (_, UInt8(ascii: "\n")):
                if place == .plain, text.last == UInt8(ascii: "\r") { text.removeLast() }
                try finishField()
                return row
            case (.afterQuote, UInt8(ascii: "\r")): break
            case (.afterQuote, _): throw failure(row, "text follows a closing quote")
            case (.plain, UInt8(ascii: "\"")):
                throw failure(row, "a quote inside an unquoted field; quote the whole field")
            default:
                text.append(byte)
                place = .plain
            }
        }
        isAtEnd = true
        guard place != .quoted else { throw failure(row, "a quoted field is not closed") }
        if place == .plain, text.last == UInt8(ascii: "\r") { text.removeLast() }
        try finishField()
        return row
    }

    private func failure(_ row: Row, _ what: String) -> MimeoError {
        MimeoError(.fileMalformed, "\(path):\(row.line): \(what)")
    }
}
