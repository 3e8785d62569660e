/// The rows of a table: RFC 4180 with any delimiter. Rows end with CR, LF or CRLF; a quote within a field
/// that does not begin with one is a character like others.
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

    private let name: String
    let delimiter: UInt8
    private var bytes: FileBytes
    private var line: Int
    private var isAtEnd = false

    init(name: String, bytes: FileBytes, delimiter: UInt8, firstLine: Int = 1) {
        self.name = name
        self.bytes = bytes
        self.delimiter = delimiter
        line = firstLine
    }

    /// The next row that is not an empty line; nil at the end.
    /// - Throws: `RecordError` for a row that can be skipped; `CLI-0401`, `CLI-0403`.
    mutating func next() throws -> Row? {
        while !isAtEnd {
            let row = try read()
            if row.fields != [Field(text: "", isQuoted: false)] { return row }
        }
        return nil
    }

    private mutating func read() throws -> Row {
        var row = Row(line: line, fields: [])
        var problem: String?
        var text: [UInt8] = []
        var place = Place.start
        var isQuoted = false
        var size = 0
        try bytes.skipMark()
        func finishField() {
            if let string = String(validating: text, as: UTF8.self) {
                row.fields.append(Field(text: string, isQuoted: isQuoted))
            } else {
                problem = problem ?? TextEncoding.advice
            }
            (text, isQuoted, place) = ([], false, .start)
        }
        while let byte = try bytes.next() {
            size += 1
            guard size <= Limits.recordBytes else {
                throw failure(row, "the row is longer than \(Limits.recordBytes) bytes")
            }
            let endsLine = try isLineEnd(byte)
            if endsLine { line += 1 }
            switch (place, byte) {
            case (.quoted, UInt8(ascii: "\"")): place = .afterQuote
            case (.quoted, _): text.append(byte)
            case (.start, UInt8(ascii: "\"")): (place, isQuoted) = (.quoted, true)
            case (.afterQuote, UInt8(ascii: "\"")):
                text.append(byte)
                place = .quoted
            case (_, delimiter): finishField()
            case (_, UInt8(ascii: "\n")), (_, UInt8(ascii: "\r")):
                // A CR before LF waits for it.
                guard endsLine else { break }
                finishField()
                return try checked(row, problem)
            case (.afterQuote, _):
                problem = problem ?? "text follows a closing quote"
                text.append(byte)
                place = .plain
            default:
                text.append(byte)
                place = .plain
            }
        }
        isAtEnd = true
        guard place != .quoted else { throw failure(row, "a quoted field is not closed") }
        finishField()
        return try checked(row, problem)
    }

    /// True for LF, and for CR that no LF follows.
    private mutating func isLineEnd(_ byte: UInt8) throws -> Bool {
        if byte == UInt8(ascii: "\n") { return true }
        return try byte == UInt8(ascii: "\r") && bytes.peek() != UInt8(ascii: "\n")
    }

    private func checked(_ row: Row, _ problem: String?) throws -> Row {
        if let problem { throw RecordError(place: "\(name):\(row.line)", problem: problem) }
        return row
    }

    private func failure(_ row: Row, _ what: String) -> MimeoError {
        MimeoError(.fileMalformed, "\(name):\(row.line): \(what)")
    }
}
