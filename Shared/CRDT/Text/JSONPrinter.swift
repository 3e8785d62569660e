/// Prints values as JSON into bytes; see `JSONText`. A run of bytes that need no escape is copied whole,
/// since most strings are one such run.
struct JSONPrinter {
    /// The text so far, in UTF-8.
    private(set) var bytes: [UInt8] = []
    private let sortedKeys: Bool

    /// A printer without any text. Keys keep their order, or are sorted by bytes.
    init(sortedKeys: Bool = false) {
        self.sortedKeys = sortedKeys
        bytes.reserveCapacity(Limits.jsonTextBytes)
    }

    /// Adds the text of a value.
    mutating func add(_ value: Value) {
        switch value {
        case .null: add("null")
        case .bool(let flag): add(flag ? "true" : "false")
        case .int(let number): add(number)
        case .double(let number): add(number.isFinite ? number.description : "null")
        case .string(let string): quote(string)
        case .binary(let run): quote(base64: run)
        case .array(let elements):
            bytes.append(UInt8(ascii: "["))
            for index in elements.indices {
                if index > 0 { bytes.append(UInt8(ascii: ",")) }
                add(elements[index])
            }
            bytes.append(UInt8(ascii: "]"))
        case .object(let object):
            let entries = sortedKeys ? object.sorted : object.entries
            bytes.append(UInt8(ascii: "{"))
            for index in entries.indices {
                if index > 0 { bytes.append(UInt8(ascii: ",")) }
                quote(entries[index].key)
                bytes.append(UInt8(ascii: ":"))
                add(entries[index].value)
            }
            bytes.append(UInt8(ascii: "}"))
        }
    }

    private mutating func add(_ text: String) {
        bytes.append(contentsOf: text.utf8)
    }

    private mutating func add(_ number: Int64) {
        if number < 0 { bytes.append(UInt8(ascii: "-")) }
        var rest = number.magnitude
        var power: UInt64 = 1
        while rest / power >= 10 { power *= 10 }
        while power > 0 {
            bytes.append(UInt8(ascii: "0") + UInt8(truncatingIfNeeded: rest / power))
            rest %= power
            power /= 10
        }
    }

    private mutating func quote(_ string: String) {
        var string = string
        bytes.append(UInt8(ascii: "\""))
        string.withUTF8 { text in
            var start = 0
            while start < text.count {
                let end = JSONRun.end(in: text, from: start)
                bytes.append(contentsOf: UnsafeBufferPointer(rebasing: text[start..<end]))
                if end < text.count { escape(text[end]) }
                start = end + 1
            }
        }
        bytes.append(UInt8(ascii: "\""))
    }

    private mutating func escape(_ byte: UInt8) {
        bytes.append(UInt8(ascii: "\\"))
        switch byte {
        case 0x0A: bytes.append(UInt8(ascii: "n"))
        case 0x0D: bytes.append(UInt8(ascii: "r"))
        case 0x09: bytes.append(UInt8(ascii: "t"))
        case 0x08: bytes.append(UInt8(ascii: "b"))
        case 0x0C: bytes.append(UInt8(ascii: "f"))
        case 0..<0x20:
            add("u00")
            bytes.append(UInt8(ascii: "0") + byte >> 4)
            bytes.append(Self.hexadecimal[Int(byte & 15)])
        default: bytes.append(byte)
        }
    }

    private static let hexadecimal = Array("0123456789abcdef".utf8)
    private static let alphabet = Array(
        "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/".utf8)

    /// Adds a binary as base64 with padding (RFC 4648 section 4).
    private mutating func quote(base64 run: [UInt8]) {
        bytes.reserveCapacity(bytes.count + (run.count + 2) / 3 * 4 + 2)
        bytes.append(UInt8(ascii: "\""))
        for start in stride(from: 0, to: run.count, by: 3) {
            let count = min(3, run.count - start)
            var bits: UInt32 = 0
            for index in 0..<count { bits |= UInt32(run[start + index]) << UInt32(16 - 8 * index) }
            for index in 0..<4 {
                bytes.append(
                    index > count
                        ? UInt8(ascii: "=") : Self.alphabet[Int(bits >> UInt32(18 - 6 * index) & 63)])
            }
        }
        bytes.append(UInt8(ascii: "\""))
    }
}

/// A run of bytes that mean themselves within a JSON string, for the printer and the parser alike.
enum JSONRun {
    /// The place of the first quote, backslash or control character at or after `start`; the end without one.
    static func end(in text: UnsafeBufferPointer<UInt8>, from start: Int) -> Int {
        var place = start
        let raw = UnsafeRawBufferPointer(text)
        // Eight bytes at a time: the subtractions set the high bit of the first byte that is special.
        while place + 8 <= text.count {
            let word = raw.loadUnaligned(fromByteOffset: place, as: UInt64.self)
            let quotes = word ^ each(0x22)
            let backslashes = word ^ each(0x5C)
            let special =
                (word &- each(0x20)) & ~word | (quotes &- each(0x01)) & ~quotes
                | (backslashes &- each(0x01)) & ~backslashes
            guard special & each(0x80) == 0 else { break }
            place += 8
        }
        while place < text.count, !isSpecial(text[place]) { place += 1 }
        return place
    }

    private static func each(_ byte: UInt64) -> UInt64 { byte &* 0x0101_0101_0101_0101 }

    private static func isSpecial(_ byte: UInt8) -> Bool { byte < 0x20 || byte == 0x22 || byte == 0x5C }
}
