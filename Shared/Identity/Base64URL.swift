import Foundation

/// Base64 with the URL alphabet and without padding (RFC 4648 section 5), decoded strictly: each sequence of
/// bytes has one text, so a token or an id has no second spelling.
public enum Base64URL {
    /// Encodes bytes.
    public static func encode(_ bytes: some Sequence<UInt8>) -> String {
        let standard = Data(bytes).base64EncodedData()
        let text = standard.lazy.filter { $0 != padding }.map { byte in
            byte == UInt8(ascii: "+")
                ? UInt8(ascii: "-") : byte == UInt8(ascii: "/") ? UInt8(ascii: "_") : byte
        }
        return String(decoding: text, as: UTF8.self)
    }

    /// Decodes a text; nil when it is not canonical: a character outside the alphabet, padding, or stray low
    /// bits.
    public static func decode(_ text: some StringProtocol) -> [UInt8]? {
        var standard: [UInt8] = []
        standard.reserveCapacity(text.utf8.count + 3)
        var last: UInt8 = 0
        for byte in text.utf8 {
            guard let value = sextet(byte) else { return nil }
            last = value
            standard.append(value == 62 ? UInt8(ascii: "+") : value == 63 ? UInt8(ascii: "/") : byte)
        }
        // With two or three characters after the last group of four, only the upper bits of the last one
        // count.
        switch standard.count % 4 {
        case 1: return nil
        case 2: guard last & 0b1111 == 0 else { return nil }
        case 3: guard last & 0b11 == 0 else { return nil }
        default: break
        }
        while standard.count % 4 != 0 { standard.append(padding) }
        return Data(base64Encoded: Data(standard)).map { [UInt8]($0) }
    }

    private static let padding = UInt8(ascii: "=")

    /// The six bits of a character of the alphabet; nil for any other character.
    private static func sextet(_ byte: UInt8) -> UInt8? {
        switch byte {
        case UInt8(ascii: "A")...UInt8(ascii: "Z"): byte - UInt8(ascii: "A")
        case UInt8(ascii: "a")...UInt8(ascii: "z"): byte - UInt8(ascii: "a") + 26
        case UInt8(ascii: "0")...UInt8(ascii: "9"): byte - UInt8(ascii: "0") + 52
        case UInt8(ascii: "-"): 62
        case UInt8(ascii: "_"): 63
        default: nil
        }
    }
}
