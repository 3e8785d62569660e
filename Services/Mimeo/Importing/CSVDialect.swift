/// How a table is written: its delimiter, and what stands before its first row, such as Excel's `sep=;`.
struct CSVDialect: Equatable {
    private(set) var delimiter = UInt8(ascii: ",")
    /// Number of bytes before the first row.
    private(set) var skippedBytes = 0
    /// The number of the first row's line, from 1.
    private(set) var firstLine = 1

    /// Delimiters that are found out, the likeliest first where rows fit several: a comma is often part of a
    /// number or a text.
    static let candidates = "\t;|,".utf8.map { $0 }

    /// Delimiters that some systems write, and that only `--delimiter` takes.
    private static let rareDelimiters = "^~:\u{1}\u{1F}".utf8.map { $0 }

    /// Finds the dialect of a table.
    /// - Parameters:
    ///   - given: the value of `--delimiter`.
    ///   - skippedLines: the value of `--skip-lines`.
    /// - Throws: `CLI-0401`, `CLI-0403`.
    init(_ source: TextSource, given: UInt8?, skippedLines: Int = 0) throws {
        try skip(skippedLines, source)
        let named = try separatorLine(source)
        if let named {
            delimiter = named.delimiter
            skippedBytes += named.length
            firstLine += 1
        }
        if let given {
            delimiter = given
        } else if named == nil {
            try guess(source)
        }
    }

    /// The rows from the first one on.
    func rows(_ source: TextSource) throws -> CSVRows {
        CSVRows(name: source.name, bytes: try open(source), delimiter: delimiter, firstLine: firstLine)
    }

    private func open(_ source: TextSource) throws -> FileBytes {
        var bytes = try source.open()
        for _ in 0..<skippedBytes { _ = try bytes.next() }
        return bytes
    }

    private mutating func skip(_ lines: Int, _ source: TextSource) throws {
        var bytes = try source.open()
        while firstLine <= lines, let byte = try bytes.next() {
            skippedBytes += 1
            let isCR = byte == UInt8(ascii: "\r")
            if try byte == UInt8(ascii: "\n") || isCR && bytes.peek() != UInt8(ascii: "\n") { firstLine += 1 }
        }
    }

    /// The delimiter that the line `sep=;` names, and the length of that line. Some writers quote the line
    /// like any other cell.
    private func separatorLine(_ source: TextSource) throws -> (delimiter: UInt8, length: Int)? {
        var bytes = try open(source)
        var line: [UInt8] = []
        while line.count < 9, let byte = try bytes.next() {
            line.append(byte)
            if byte == UInt8(ascii: "\n") { break }
        }
        let quote = UInt8(ascii: "\"")
        let isQuoted = line.first == quote
        let text = line.dropFirst(isQuoted ? 1 : 0)
        guard text.count > 5, String(decoding: text.prefix(4), as: UTF8.self).lowercased() == "sep=",
            let delimiter = text.dropFirst(4).first, delimiter < 0x80
        else { return nil }
        var rest = text.dropFirst(5)
        if isQuoted {
            guard rest.first == quote else { return nil }
            rest = rest.dropFirst()
        }
        guard let end = rest.first, [UInt8(ascii: "\n"), UInt8(ascii: "\r")].contains(end) else { return nil }
        let length = line.count - rest.count + (rest.starts(with: "\r\n".utf8) ? 2 : 1)
        // A quoted one can be the header of a table with one column.
        if isQuoted {
            var below = self
            below.skippedBytes += length
            below.delimiter = delimiter
            if try below.sample(source).first?.width ?? 1 == 1 { return nil }
        }
        return (delimiter, length)
    }

    /// Takes the delimiter with which most of the first rows fit the header, then the one with which most are
    /// as wide, then the one with the widest header.
    private mutating func guess(_ source: TextSource) throws {
        var best = (share: -1, same: -1, width: 1)
        var found = delimiter
        for candidate in Self.candidates {
            delimiter = candidate
            let rows = try sample(source)
            guard let header = rows.first, header.width > 1 else { continue }
            let share = 10 * rows.count { header.fits($0) } / rows.count
            let same = 10 * rows.count { $0.width == header.width } / rows.count
            if (share, same, header.width) > best { (best, found) = ((share, same, header.width), candidate) }
        }
        delimiter = found
        guard best.width == 1 else { return }
        try refuseLinesBefore(source)
        try refuseRareDelimiter(source)
    }

    /// Refuses a table whose first line is one column where most lines below are rows of several.
    private func refuseLinesBefore(_ source: TextSource) throws {
        for candidate in Self.candidates {
            var other = self
            other.delimiter = candidate
            let rows = try other.sample(source)
            guard let start = RowShape.tableBelow(rows), rows[start...].count >= Limits.likeRows else {
                continue
            }
            let line = rows[start].line
            throw MimeoError(
                .fileMalformed,
                "\(source.name):\(firstLine): the first line is one column, but from line \(line) on "
                    + "'\(Self.name(candidate))' cuts rows into \(rows[start].width): "
                    + "--skip-lines \(line - 1) leaves out the lines before, "
                    + "--delimiter comma keeps one column")
        }
    }

    /// Refuses a table of one column that another character cuts into rows of equal width: as one column it
    /// would be garbage, and as a delimiter that character is too rare to be taken for one.
    private func refuseRareDelimiter(_ source: TextSource) throws {
        for rare in Self.rareDelimiters {
            var other = self
            other.delimiter = rare
            let widths = try other.sample(source).map(\.width)
            guard let width = widths.first, width > 1, widths.count > 1, widths.allSatisfy({ $0 == width })
            else { continue }
            let name = Self.name(rare)
            throw MimeoError(
                .fileMalformed,
                "\(source.name): the table has one column, but '\(name)' cuts each row into \(width); "
                    + "is that it? --delimiter '\(name)' takes it, --delimiter comma keeps one column")
        }
    }

    /// The shapes of the first rows; one of width 0 ends them that cannot be read with this delimiter.
    func sample(_ source: TextSource) throws -> [RowShape] {
        var rows = try rows(source)
        var shapes: [RowShape] = []
        do {
            while shapes.count < Limits.sampledRows, let row = try rows.next() {
                shapes.append(RowShape(row))
            }
        } catch let error as MimeoError where error.code != .fileMalformed {
            throw error
        } catch {
            // With another delimiter the row may be right; if with none, reading it says so.
            shapes.append(RowShape(line: firstLine, width: 0))
        }
        return shapes
    }

    /// The delimiter's name in messages and answers.
    static func name(_ delimiter: UInt8) -> String {
        switch delimiter {
        case UInt8(ascii: "\t"): "tab"
        case 0..<0x20: "\\x\(delimiter < 16 ? "0" : "")\(String(delimiter, radix: 16))"
        default: String(UnicodeScalar(delimiter))
        }
    }

    /// The value of `--delimiter`: one ASCII character, or a name. Nil if it is neither.
    static func parse(_ text: String) -> UInt8? {
        switch text.lowercased() {
        case "tab", "\\t": return UInt8(ascii: "\t")
        case "comma": return UInt8(ascii: ",")
        case "semicolon": return UInt8(ascii: ";")
        case "pipe": return UInt8(ascii: "|")
        case "space": return UInt8(ascii: " ")
        case let hex where hex.hasPrefix("\\x"):
            guard let byte = UInt8(hex.dropFirst(2), radix: 16), 0 < byte, byte < 0x20 else { return nil }
            return [0x0A, 0x0D].contains(byte) ? nil : byte
        default:
            guard let only = text.utf8.first, text.utf8.count == 1, only < 0x80,
                ![UInt8(ascii: "\""), UInt8(ascii: "\r"), UInt8(ascii: "\n")].contains(only)
            else { return nil }
            return only
        }
    }
}

/// The shape of a row, from which things about a table are found out before it is read.
struct RowShape: Equatable {
    /// The number of its first line, from 1.
    var line: Int
    /// Number of its fields.
    var width: Int
    /// Number of its fields without those at the end in which nothing stands.
    var filled: Int

    init(line: Int, width: Int) { (self.line, self.width, filled) = (line, width, width) }

    init(_ row: CSVRows.Row) {
        let nothing = CSVRows.Field(text: "", isQuoted: false)
        line = row.line
        width = row.fields.count
        filled = (row.fields.lastIndex { $0 != nothing } ?? 0) + 1
    }

    /// True if a row is as wide as this header, apart from delimiters at the end of one of them.
    func fits(_ row: RowShape) -> Bool { row.width == width || hasSurplus(row) || isSurplus(below: row) }

    /// True if delimiters that begin no column end a row below this header.
    func hasSurplus(_ row: RowShape) -> Bool { filled == width && row.width > width && row.filled <= width }

    /// True if delimiters that begin no column end this header, but not a row below it.
    func isSurplus(below row: RowShape) -> Bool { row.width < width && filled <= row.width }

    /// The place of the row at which a table seems to begin, below lines of fewer columns: most rows are as
    /// wide as that one. Nil if the first row is as wide, or there is none.
    static func tableBelow(_ rows: [RowShape]) -> Int? {
        let counts = Dictionary(rows.map { ($0.width, 1) }) { $0 + $1 }
        guard let first = rows.first, let most = counts.max(by: { ($0.value, $0.key) < ($1.value, $1.key) }),
            most.key > first.width, most.value > 1, most.value * 2 >= rows.count
        else { return nil }
        return rows.firstIndex { $0.width == most.key }
    }
}
