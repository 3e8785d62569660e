import ArgumentParser

/// The encodings in which files to import may be written.
enum TextEncoding: String, CaseIterable, ExpressibleByArgument {
    case utf8 = "utf-8"
    case utf16 = "utf-16"
    case utf16LittleEndian = "utf-16le"
    case utf16BigEndian = "utf-16be"
    case latin1
    case windows1252 = "windows-1252"

    /// The value of `--encoding`; takes other common spellings too.
    init?(argument: String) {
        switch argument.lowercased() {
        case "utf8", "utf-8": self = .utf8
        case "utf16", "utf-16": self = .utf16
        case "utf16le", "utf-16le": self = .utf16LittleEndian
        case "utf16be", "utf-16be": self = .utf16BigEndian
        case "latin1", "latin-1", "iso-8859-1", "iso8859-1": self = .latin1
        case "windows-1252", "windows1252", "cp1252": self = .windows1252
        default: return nil
        }
    }

    /// The advice of an error about text that is no UTF-8.
    static let advice =
        "the text is not UTF-8; name its encoding, as in --encoding windows-1252 (or latin1, utf-16)"
}

/// Turns the bytes of a file into UTF-8, without the byte order mark. A mark decides on the encoding, before
/// `--encoding` does.
struct TextDecoding {
    /// U+FEFF in UTF-8.
    static let mark: [UInt8] = [0xEF, 0xBB, 0xBF]

    private let name: String
    private(set) var encoding: TextEncoding
    private var pending: [UInt8] = []
    private var highSurrogate: UInt32?

    /// - Parameters:
    ///   - head: the file's first bytes, at least four of them if there are so many; the mark is taken off.
    ///   - encoding: the value of `--encoding`.
    /// - Throws: `CLI-0403` if the bytes are of an encoding that cannot be read.
    init(name: String, head: inout [UInt8], encoding: TextEncoding?) throws {
        self.name = name
        if head.starts(with: [0xFF, 0xFE, 0, 0]) || head.starts(with: [0, 0, 0xFE, 0xFF]) {
            throw MimeoError(.fileMalformed, "\(name): the text is UTF-32; convert the file to UTF-8")
        }
        for (mark, marked) in Self.marks where head.starts(with: mark) {
            head.removeFirst(mark.count)
            self.encoding = marked
            return
        }
        if encoding == nil, let guess = Self.looksLikeUTF16(head) {
            throw MimeoError(
                .fileMalformed,
                "\(name): the text looks like UTF-16 without a mark; --encoding \(guess.rawValue)")
        }
        self.encoding = encoding == .utf16 ? .utf16LittleEndian : encoding ?? .utf8
    }

    private static let marks: [([UInt8], TextEncoding)] = [
        (mark, .utf8), ([0xFF, 0xFE], .utf16LittleEndian), ([0xFE, 0xFF], .utf16BigEndian),
    ]

    /// Every second byte of mostly Latin text in UTF-16 is zero.
    private static func looksLikeUTF16(_ head: [UInt8]) -> TextEncoding? {
        let sample = head.prefix(64)
        guard sample.count >= 4 else { return nil }
        let (even, odd) = (
            sample.indices.count { $0 % 2 == 0 && sample[$0] == 0 },
            sample.indices.count { $0 % 2 == 1 && sample[$0] == 0 }
        )
        // A few zeros on the other side belong to characters that are not Latin.
        let (most, least) = (max(even, odd), min(even, odd))
        guard most * 4 >= sample.count, least * 8 <= most else { return nil }
        return even < odd ? .utf16LittleEndian : .utf16BigEndian
    }

    /// The next bytes as UTF-8. Text that claims to be UTF-8 passes as it is: readers check it, and know the
    /// line.
    /// - Throws: `CLI-0403`.
    mutating func decode(_ bytes: [UInt8], isEnd: Bool) throws -> [UInt8] {
        switch encoding {
        case .utf8: return bytes
        case .latin1: return Self.utf8(bytes) { Unicode.Scalar($0) }
        case .windows1252:
            return Self.utf8(bytes) { byte in
                (0x80..<0xA0).contains(byte) ? Self.windows[Int(byte) - 0x80] : Unicode.Scalar(byte)
            }
        case .utf16, .utf16LittleEndian, .utf16BigEndian: return try wide(bytes, isEnd: isEnd)
        }
    }

    private static func utf8(_ bytes: [UInt8], _ scalar: (UInt8) -> Unicode.Scalar) -> [UInt8] {
        var text: [UInt8] = []
        text.reserveCapacity(bytes.count + bytes.count / 8)
        for byte in bytes {
            if byte < 0x80 { text.append(byte) } else { text += UTF8.encode(scalar(byte)) ?? .init() }
        }
        return text
    }

    private mutating func wide(_ bytes: [UInt8], isEnd: Bool) throws -> [UInt8] {
        let units = pending + bytes
        var text: [UInt8] = []
        text.reserveCapacity(units.count)
        for index in stride(from: 0, to: units.count - 1, by: 2) {
            let (first, second) = (UInt32(units[index]), UInt32(units[index + 1]))
            let unit = encoding == .utf16BigEndian ? first << 8 | second : second << 8 | first
            var code = unit
            if let high = highSurrogate {
                guard (0xDC00..<0xE000).contains(unit) else { throw invalid }
                code = 0x10000 + (high - 0xD800) << 10 + (unit - 0xDC00)
                highSurrogate = nil
            } else if (0xD800..<0xDC00).contains(unit) {
                highSurrogate = unit
                continue
            }
            guard let scalar = Unicode.Scalar(code) else { throw invalid }
            text += UTF8.encode(scalar) ?? .init()
        }
        pending = units.count % 2 == 1 ? [units[units.count - 1]] : []
        if isEnd, highSurrogate != nil || !pending.isEmpty { throw invalid }
        return text
    }

    private var invalid: MimeoError {
        MimeoError(
            .fileMalformed, "\(name): the text is not \(encoding.rawValue); name its encoding by --encoding")
    }

    /// Bytes 80 to 9F of Windows-1252; bytes without a character are control characters, as in browsers.
    private static let windows: [Unicode.Scalar] = [
        "\u{20AC}", "\u{81}", "\u{201A}", "\u{192}", "\u{201E}", "\u{2026}", "\u{2020}", "\u{2021}",
        "\u{2C6}",
        "\u{2030}", "\u{160}", "\u{2039}", "\u{152}", "\u{8D}", "\u{17D}", "\u{8F}", "\u{90}", "\u{2018}",
        "\u{2019}", "\u{201C}", "\u{201D}", "\u{2022}", "\u{2013}", "\u{2014}", "\u{2DC}", "\u{2122}",
        "\u{161}", "\u{203A}", "\u{153}", "\u{9D}", "\u{17E}", "\u{178}",
    ]
}
