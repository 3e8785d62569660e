/// Percent-encoding of paths and queries (RFC 3986), decoded once and strictly.
enum PathText {
    /// The text behind the encoding; nil where a `%` has no two digits behind it, or the bytes are no UTF-8.
    static func decoded(_ text: some StringProtocol) -> String? {
        guard text.utf8.contains(UInt8(ascii: "%")) else { return String(text) }
        let encoded = Array(text.utf8)
        var bytes: [UInt8] = []
        bytes.reserveCapacity(encoded.count)
        var place = 0
        while place < encoded.count {
            guard encoded[place] == UInt8(ascii: "%") else {
                bytes.append(encoded[place])
                place += 1
                continue
            }
            guard place + 2 < encoded.count, let high = digit(encoded[place + 1]),
                let low = digit(encoded[place + 2])
            else { return nil }
            bytes.append(high << 4 | low)
            place += 3
        }
        return String(validating: bytes, as: UTF8.self)
    }

    /// A path in which only those bytes are encoded that would mean something else: two spellings of a path
    /// are one, and a slash within a name stays one. Nil as for `decoded`.
    static func normalized(_ path: String) -> String? {
        guard path.utf8.contains(UInt8(ascii: "%")) else { return path }
        var pieces: [String] = []
        for piece in path.split(separator: "/", omittingEmptySubsequences: false) {
            guard let text = decoded(piece) else { return nil }
            pieces.append(encoded(text))
        }
        return pieces.joined(separator: "/")
    }

    private static func encoded(_ text: String) -> String {
        var result: [UInt8] = []
        result.reserveCapacity(text.utf8.count)
        for byte in text.utf8 {
            if plain[Int(byte)] {
                result.append(byte)
            } else {
                result += [UInt8(ascii: "%"), digits[Int(byte >> 4)], digits[Int(byte & 15)]]
            }
        }
        return String(decoding: result, as: UTF8.self)
    }

    private static let digits = Array("0123456789ABCDEF".utf8)

    /// The bytes that may stand in a segment as they are.
    private static let plain: [Bool] = {
        let bytes = Set(
            "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-._~!$&'()*+,;=:@".utf8)
        return (0...255).map { bytes.contains($0) }
    }()

    private static func digit(_ byte: UInt8) -> UInt8? {
        switch byte {
        case 0x30...0x39: byte - 0x30
        case 0x41...0x46: byte - 0x41 + 10
        case 0x61...0x66: byte - 0x61 + 10
        default: nil
        }
    }
}
