/// The delimiter of a table, and whether its first line is Excel's `sep=;` instead of the header.
struct CSVDialect: Equatable {
    var delimiter = UInt8(ascii: ",")
    /// Number of bytes before the header.
    var skippedBytes = 0

    /// Delimiters that are found out, the likeliest first where rows fit several: a comma is often part of a
    /// number or a text.
    static let candidates = "\t;|,".utf8.map { $0 }

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

    /// The delimiter that the line `sep=;` names, and the length of that line.
    private static func separatorLine(_ source: TextSource) throws -> (UInt8, Int)? {
        var bytes = try source.open()
        var line: [UInt8] = []
        while line.count < 7, let byte = try bytes.next() {
            line.append(byte)
            if byte == UInt8(ascii: "\n") { break }
        }
        guard line.count > 5,
            line.prefix(4).elementsEqual("sep=".utf8) || line.prefix(4).elementsEqual("SEP=".utf8),
            line[4] < 0x80, [UInt8(ascii: "\n"), UInt8(ascii: "\r")].contains(line[5])
        else { return nil }
        return (line[4], line.count > 6 && line[5...6].elementsEqual("\r\n".utf8) ? 7 : 6)
    }

    /// Takes the delimiter with which most of the first rows are as wide as the header, then the one with the
    /// widest header.
    private mutating func guess(_ source: TextSource) throws {
        var best = (share: -1, width: 1)
        for candidate in Self.candidates {
            var rows = CSVRows(name: source.name, bytes: try source.open(), delimiter: candidate)
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
            guard let width = widths.first, width > 1 else { continue }
            let share = 10 * widths.count { $0 == width } / widths.count
            if (share, width) > best {
                (best, delimiter) = ((share, width), candidate)
            }
        }
    }

    /// The delimiter's name in messages and answers.
    static func name(_ delimiter: UInt8) -> String {
        delimiter == UInt8(ascii: "\t") ? "tab" : String(UnicodeScalar(delimiter))
    }

    /// The value of `--delimiter`: one ASCII character, or a name. Nil if it is neither.
    static func parse(_ text: String) -> UInt8? {
        switch text.lowercased() {
        case "tab", "\\t": return UInt8(ascii: "\t")
        case "comma": return UInt8(ascii: ",")
        case "semicolon": return UInt8(ascii: ";")
        case "pipe": return UInt8(ascii: "|")
        case "space": return UInt8(ascii: " ")
        default:
            guard let only = text.utf8.first, text.utf8.count == 1, only < 0x80,
                ![UInt8(ascii: "\""), UInt8(ascii: "\r"), UInt8(ascii: "\n")].contains(only)
            else { return nil }
            return only
        }
    }
}
