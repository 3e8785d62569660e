import CRDT
import Foundation

/// A JSON object inside a `Codable` value. It is kept as canonical text, so that two with the same content
/// are equal.
struct JSONObject: Hashable, Sendable, Codable {
    /// Keys sorted by their bytes.
    let text: String

    init(_ object: ObjectValue) { text = JSONText.print(.object(object), sortedKeys: true) }

    static let empty = JSONObject(ObjectValue())

    var object: ObjectValue { (try? JSONText.parse(text))?.objectValue ?? ObjectValue() }

    init(from decoder: any Decoder) throws {
        guard let object = try Element(from: decoder).value.objectValue else {
            throw DecodingError.typeMismatch(
                JSONObject.self,
                DecodingError.Context(codingPath: decoder.codingPath, debugDescription: "not an object"))
        }
        self.init(object)
    }

    func encode(to encoder: any Encoder) throws { try Element(value: .object(object)).encode(to: encoder) }

    /// Any JSON value.
    private struct Element: Codable {
        let value: Value

        init(value: Value) { self.value = value }

        init(from decoder: any Decoder) throws {
            if let members = try? decoder.container(keyedBy: Key.self) {
                value = .object(
                    ObjectValue(
                        try members.allKeys.map { key in
                            (key: key.stringValue, value: try members.decode(Element.self, forKey: key).value)
                        }))
            } else if var elements = try? decoder.unkeyedContainer() {
                var values: [Value] = []
                while !elements.isAtEnd { values.append(try elements.decode(Element.self).value) }
                value = .array(values)
            } else {
                value = try Self.scalar(try decoder.singleValueContainer())
            }
        }

        private static func scalar(_ one: any SingleValueDecodingContainer) throws -> Value {
            if one.decodeNil() { return .null }
            if let flag = try? one.decode(Bool.self) { return .bool(flag) }
            if let number = try? one.decode(Int64.self) { return .int(number) }
            if let number = try? one.decode(Double.self) { return .double(number) }
            return .string(try one.decode(String.self))
        }

        func encode(to encoder: any Encoder) throws {
            switch value {
            case .object(let object):
                var members = encoder.container(keyedBy: Key.self)
                for (key, value) in object.entries {
                    try members.encode(Element(value: value), forKey: Key(stringValue: key))
                }
            case .array(let elements):
                var list = encoder.unkeyedContainer()
                for element in elements { try list.encode(Element(value: element)) }
            default:
                var one = encoder.singleValueContainer()
                switch value {
                case .bool(let flag): try one.encode(flag)
                case .int(let number): try one.encode(number)
                case .double(let number): try one.encode(number)
                case .string(let text): try one.encode(text)
                default: try one.encodeNil()
                }
            }
        }
    }

    private struct Key: CodingKey {
        let stringValue: String
        var intValue: Int? { nil }

        init(stringValue: String) { self.stringValue = stringValue }
        init?(intValue: Int) { nil }
    }
}
