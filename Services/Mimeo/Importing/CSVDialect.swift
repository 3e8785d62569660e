/// The delimiter of a table, and whether its first line is Excel's `sep=;` instead of the header.
struct CSVDialect: Equatable {
    var delimiter = UInt8(ascii: ",")
    /// Number of bytes before the header.
    var skippedBytes = 0

    /// Delimiters that are found out, the likeliest first where rows fit several: a comma is often part of a
    /// number or a text.
    static let candidates = "\t;|,".utf8.map { $0 }

    /// Delimiters that some systems write, and that only `--delimiter` takes.
    private static let rareDelimiters = "^~:\u{1}\u{1F}".utf8.map { $0 }

    /// Finds the dialect of a table.
    /// - Parameter given: the value of `--delimiter`.
    /// - Throws: `CLI-0401`, `CLI-0403`.
    init(_ source: TextSource, given: UInt8?) throws {
        let named = try Self.separatorLine(source)
        if let named { (delimiter, skippedBytes) = named }
        if let given {
            delimiter = given
        } else if named == nil {
            try guess(source)
        }
    }

    /// The delimiter that the line `sep=;` names, and the length of that line. Some writers quote the line
    /// like any other cell.
    private static func separatorLine(_ source: TextSource) throws -> (UInt8, Int)? {
        var bytes = try source.open()
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
        if isQuoted, try widths(source, delimiter, after: length).first ?? 1 == 1 { return nil }
        return (delimiter, length)
    }

    /// Takes the delimiter with which most of the first rows are as wide as the header, then the one with the
    /// widest header.
    private mutating func guess(_ source: TextSource) throws {
        var best = (share: -1, width: 1)
        for candidate in Self.candidates {
            let widths = try Self.widths(source, candidate)
            guard let width = widths.first, width > 1 else { continue }
            let share = 10 * widths.count { $0 == width } / widths.count
            if (share, width) > best {
                (best, delimiter) = ((share, width), candidate)
            }
        }
        if best.width == 1 { try refuseRareDelimiter(source) }
    }

    /// Refuses a table of one column that another character cuts into rows of equal width: as one column it
    /// would be garbage, and as a delimiter that character is too rare to be taken for one.
    private func refuseRareDelimiter(_ source: TextSource) throws {
        for rare in Self.rareDelimiters {
            let widths = try Self.widths(source, rare)
            guard let width = widths.first, width > 1, widths.count > 1, widths.allSatisfy({ $0 == width })
            else { continue }
            let name = Self.name(rare)
            throw MimeoError(
                .fileMalformed,
                "\(source.name): the table has one column, but '\(name)' cuts each row into \(width); "
                    + "is that it? --delimiter '\(name)' takes it, --delimiter comma keeps one column")
        }
    }

    /// The widths of the first rows; 0 for a row that cannot be read with this delimiter.
    private static func widths(
        _ source: TextSource, _ delimiter: UInt8, after skippedBytes: Int = 0
    ) throws -> [Int] {
        var bytes = try source.open()
        for _ in 0..<skippedBytes { _ = try bytes.next() }
        var rows = CSVRows(name: source.name, bytes: bytes, delimiter: delimiter)
        var widths: [Int] = []
        do {
            while widths.count < Limits.sampledRows, let row = try rows.next() {
                widths.append(row.fields.count)
            }
        } catch let error as MimeoError where error.code != .fileMalformed {
            throw error
        } catch {
            // With another delimiter the row may be right; if with none, reading it says so.
            widths.append(0)
        }
        return widths
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
