import CRDT

extension Value {
    /// The value for a report: like JSON, but showing everything that tells two values apart.
    var words: String {
        switch self {
        case .null: "null"
        case .bool(let flag): "\(flag)"
        case .int(let number): "\(number)"
        case .double(let number): "\(number)"
        case .string(let text): "'" + text.unicodeScalars.map { $0.escaped(asASCII: true) }.joined() + "'"
        case .binary(let bytes): "binary\(bytes)"
        case .array(let elements): "[" + elements.map(\.words).joined(separator: ", ") + "]"
        case .object(let object): object.words
        }
    }
}

extension ObjectValue {
    /// The same as `Value.words`.
    var words: String {
        "{" + entries.map { "\($0.key): \($0.value.words)" }.joined(separator: ", ") + "}"
    }
}
