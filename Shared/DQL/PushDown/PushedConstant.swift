import CRDT

/// Values of a statement as jsonb. The bodies in a store hold numbers by their shortest digits, and no value
/// that JSON lacks: documents with such values are *rough* there, and SQL decides nothing about them.
enum PushedConstant {
    /// A value as the text of a jsonb that equals it; nil if no value of a body equals it.
    static func json(_ value: Value) -> String? {
        switch value {
        case .null: return "null"
        case .bool(let flag): return flag ? "true" : "false"
        case .int(let number): return String(number)
        case .double(let number): return digits(number)
        case .binary: return nil
        case .string(let text): return isSendable(text) ? JSONText.print(value) : nil
        case .array(let elements):
            let texts = elements.compactMap(json)
            return texts.count == elements.count ? "[" + texts.joined(separator: ",") + "]" : nil
        case .object(let object):
            var texts: [String] = []
            for entry in object.entries {
                guard isSendable(entry.key), let text = json(entry.value) else { return nil }
                texts.append(JSONText.print(.string(entry.key)) + ":" + text)
            }
            return "{" + texts.joined(separator: ",") + "}"
        }
    }

    /// A number as digits that mean exactly it; nil outside of the 64-bit range, and for NaN.
    static func digits(_ number: Double) -> String? {
        if number.magnitude < 0x1p53 { return number == 0 ? "0" : number.description }
        // Its shortest digits would be another number.
        return Int64(exactly: number).map { String($0) }
    }

    /// Returns whether PostgreSQL can hold the text.
    static func isSendable(_ text: String) -> Bool { !text.utf8.contains(0) }

    /// Returns whether a text may be the JSON text of something that is not a string.
    static func looksLikeJSON(_ text: String) -> Bool {
        guard let first = text.utf8.first else { return false }
        return switch first {
        case UInt8(ascii: "{"), UInt8(ascii: "["), UInt8(ascii: "-"), UInt8(ascii: "t"), UInt8(ascii: "f"),
            UInt8(ascii: "0")...UInt8(ascii: "9"):
            true
        default: false
        }
    }
}
