import CRDT

/// Parts of a valid JSON text that its value does not keep.
struct JSONOddities: Equatable {
    /// A key that stands twice in one object.
    private(set) var repeatedKey: String?
    /// An integer outside of 64 bits.
    private(set) var largeInteger: String?

    /// - Parameter value: the value of the text.
    init(_ text: [UInt8], _ value: Value) {
        var colons = 0
        var index = 0
        while index < text.count {
            switch text[index] {
            case UInt8(ascii: "\""): index = Self.endOfString(text, index)
            case UInt8(ascii: ":"):
                colons += 1
                index += 1
            case UInt8(ascii: "-"), 0x30...0x39:
                let end = text[index...].firstIndex { !Self.isNumber($0) } ?? text.count
                check(number: text[index..<end])
                index = end
            default: index += 1
            }
        }
        if colons != Self.keys(in: value) { repeatedKey = Self.repeatedKey(text) }
    }

    private mutating func check(number: ArraySlice<UInt8>) {
        guard number.count >= 19, !number.contains(where: { [0x2E, 0x65, 0x45].contains($0) }) else { return }
        let digits = String(decoding: number, as: UTF8.self)
        if Int64(digits) == nil { largeInteger = largeInteger ?? digits }
    }

    private static func isNumber(_ byte: UInt8) -> Bool {
        (0x30...0x39).contains(byte) || "+-.eE".utf8.contains(byte)
    }

    /// The index after the string that begins at an index.
    private static func endOfString(_ text: [UInt8], _ start: Int) -> Int {
        var index = start + 1
        while index < text.count, text[index] != UInt8(ascii: "\"") {
            index += text[index] == UInt8(ascii: "\\") ? 2 : 1
        }
        return min(index + 1, text.count)
    }

    private static func keys(in value: Value) -> Int {
        switch value {
        case .array(let elements): elements.reduce(0) { $0 + keys(in: $1) }
        case .object(let object): object.entries.reduce(object.count) { $0 + keys(in: $1.value) }
        default: 0
        }
    }

    private static func repeatedKey(_ text: [UInt8]) -> String? {
        var open: [Set<[UInt8]>] = []
        var index = 0
        while index < text.count {
            switch text[index] {
            case UInt8(ascii: "{"), UInt8(ascii: "["): open.append([])
            case UInt8(ascii: "}"), UInt8(ascii: "]"): open.removeLast()
            case UInt8(ascii: "\""):
                let end = endOfString(text, index)
                let isKey =
                    text[end...].first { ![0x20, 0x09, 0x0A, 0x0D].contains($0) } == UInt8(ascii: ":")
                // Two spellings of a key, with and without escapes, are one key.
                if isKey, let key = (try? JSONText.parse(Array(text[index..<end])))?.stringValue,
                    !open[open.count - 1].insert(Array(key.utf8)).inserted
                {
                    return key
                }
                index = end - 1
            default: break
            }
            index += 1
        }
        return nil
    }
}
