import CRDT
import DQL
import Foundation

/// Decodes a row as a `Decodable` type: the way back from `Arguments`.
///
/// A `Date` is read from RFC 3339 text, `UUID` and `URL` from text, `Decimal` from a number, `Data` from
/// binary; an integer from a float that is whole, a float from an integer. A dictionary's keys are read from
/// the texts that `Arguments` makes of them.
struct ItemDecoder: Decoder {
    let codingPath: [any CodingKey]
    var userInfo: [CodingUserInfoKey: Any] { [:] }
    private let value: Value

    private init(_ value: Value, _ path: [any CodingKey]) {
        self.value = value
        codingPath = path
    }

    /// The row as a type.
    /// - Throws: `SDK-0210` with the path of the field.
    static func decode<T: Decodable>(_ type: T.Type, from row: Value) throws(SDKError) -> T {
        do {
            return try read(type, row, [])
        } catch let error as DecodingError {
            throw SDKError(.itemUndecodable, describe(error, type))
        } catch {
            throw SDKError(.itemUndecodable, "the item cannot be decoded as \(type): \(error)")
        }
    }

    /// Names the field and its problem.
    private static func describe(_ error: DecodingError, _ type: Any.Type) -> String {
        let (path, reason): ([any CodingKey], String) =
            switch error {
            case .keyNotFound(let key, let context): (context.codingPath + [key], "is missing")
            case .valueNotFound(let wanted, let context):
                (context.codingPath, "is null, not \(wanted)")
            case .typeMismatch(_, let context), .dataCorrupted(let context):
                (context.codingPath, context.debugDescription)
            @unknown default: ([], "\(error)")
            }
        var text = ""
        for key in path {
            text += key.intValue.map { "[\($0)]" } ?? (text.isEmpty ? "" : ".") + key.stringValue
        }
        return "the item is no \(type): \(text.isEmpty ? "the row" : "'\(text)'") \(reason)"
    }

    /// Reads a value as a type: those that documents hold otherwise than the type encodes itself, then any
    /// other by its own decoding.
    fileprivate static func read<T: Decodable>(
        _ type: T.Type, _ value: Value, _ path: [any CodingKey]
    ) throws -> T {
        if let readable = type as? any Readable.Type {
            guard let found = readable.read(value) as? T else { throw mismatch(type, value, path) }
            return found
        }
        if let keyed = type as? any KeyedByText.Type, case .object(let members) = value,
            let found = try keyed.read(members, path) as? T
        {
            return found
        }
        return try T(from: ItemDecoder(value, path))
    }

    fileprivate static func mismatch(
        _ type: Any.Type, _ value: Value, _ path: [any CodingKey]
    ) -> DecodingError {
        let context = DecodingError.Context(
            codingPath: path, debugDescription: "is \(kind(of: value)), not \(type)")
        return value == .null ? .valueNotFound(type, context) : .typeMismatch(type, context)
    }

    private static func kind(of value: Value) -> String {
        switch value {
        case .null: "null"
        case .bool: "a boolean"
        case .int: "an integer"
        case .double: "a float"
        case .string: "a text"
        case .binary: "binary"
        case .array: "an array"
        case .object: "an object"
        }
    }

    func container<Key: CodingKey>(keyedBy type: Key.Type) throws -> KeyedDecodingContainer<Key> {
        guard case .object(let object) = value else {
            throw Self.mismatch([String: Any].self, value, codingPath)
        }
        return KeyedDecodingContainer(Members(object: object, codingPath: codingPath))
    }

    func unkeyedContainer() throws -> any UnkeyedDecodingContainer {
        guard case .array(let elements) = value else {
            throw Self.mismatch([Any].self, value, codingPath)
        }
        return Elements(elements: elements, codingPath: codingPath)
    }

    func singleValueContainer() -> any SingleValueDecodingContainer {
        One(value: value, codingPath: codingPath)
    }

    // One generic `decode` serves every type that the protocols list.

    private struct Members<Key: CodingKey>: KeyedDecodingContainerProtocol {
        let object: ObjectValue
        let codingPath: [any CodingKey]
        var allKeys: [Key] { object.entries.compactMap { Key(stringValue: $0.key) } }

        func contains(_ key: Key) -> Bool { object[key.stringValue] != nil }
        func decodeNil(forKey key: Key) throws -> Bool { try member(key) == .null }

        func decode<T: Decodable>(_ type: T.Type, forKey key: Key) throws -> T {
            try ItemDecoder.read(type, member(key), codingPath + [key])
        }

        func nestedContainer<Nested: CodingKey>(
            keyedBy type: Nested.Type, forKey key: Key
        ) throws -> KeyedDecodingContainer<Nested> { try decoder(key).container(keyedBy: type) }

        func nestedUnkeyedContainer(forKey key: Key) throws -> any UnkeyedDecodingContainer {
            try decoder(key).unkeyedContainer()
        }

        func superDecoder() -> any Decoder {
            ItemDecoder(object["super"] ?? .null, codingPath + [Step("super")])
        }
        func superDecoder(forKey key: Key) throws -> any Decoder { try decoder(key) }

        private func decoder(_ key: Key) throws -> ItemDecoder {
            ItemDecoder(try member(key), codingPath + [key])
        }

        private func member(_ key: Key) throws -> Value {
            guard let member = object[key.stringValue] else {
                throw DecodingError.keyNotFound(
                    key, DecodingError.Context(codingPath: codingPath, debugDescription: "is missing"))
            }
            return member
        }
    }

    private struct Elements: UnkeyedDecodingContainer {
        let elements: [Value]
        let codingPath: [any CodingKey]
        var currentIndex = 0
        var count: Int? { elements.count }
        var isAtEnd: Bool { currentIndex >= elements.count }

        mutating func decodeNil() throws -> Bool {
            guard try next() == .null else { return false }
            currentIndex += 1
            return true
        }

        mutating func decode<T: Decodable>(_ type: T.Type) throws -> T {
            let found = try ItemDecoder.read(type, next(), codingPath + [Step(currentIndex)])
            currentIndex += 1
            return found
        }

        mutating func nestedContainer<Nested: CodingKey>(
            keyedBy type: Nested.Type
        ) throws -> KeyedDecodingContainer<Nested> { try decoder().container(keyedBy: type) }

        mutating func nestedUnkeyedContainer() throws -> any UnkeyedDecodingContainer {
            try decoder().unkeyedContainer()
        }

        mutating func superDecoder() throws -> any Decoder { try decoder() }

        private mutating func decoder() throws -> ItemDecoder {
            let decoder = ItemDecoder(try next(), codingPath + [Step(currentIndex)])
            currentIndex += 1
            return decoder
        }

        private func next() throws -> Value {
            guard !isAtEnd else {
                throw DecodingError.valueNotFound(
                    Value.self,
                    DecodingError.Context(
                        codingPath: codingPath + [Step(currentIndex)], debugDescription: "is missing"))
            }
            return elements[currentIndex]
        }
    }

    private struct One: SingleValueDecodingContainer {
        let value: Value
        let codingPath: [any CodingKey]

        func decodeNil() -> Bool { value == .null }
        func decode<T: Decodable>(_ type: T.Type) throws -> T {
            try ItemDecoder.read(type, value, codingPath)
        }
    }
}

// MARK: - Types that are read from a value itself

/// A type that is read from a value; nil for a value that is none.
private protocol Readable {
    static func read(_ value: Value) -> Self?
}

extension Readable where Self: FixedWidthInteger {
    static func read(_ value: Value) -> Self? {
        switch value {
        case .int(let number): Self(exactly: number)
        case .double(let number): Self(exactly: number)
        default: nil
        }
    }
}

extension Int: Readable {}
extension Int8: Readable {}
extension Int16: Readable {}
extension Int32: Readable {}
extension Int64: Readable {}
extension UInt: Readable {}
extension UInt8: Readable {}
extension UInt16: Readable {}
extension UInt32: Readable {}
extension UInt64: Readable {}

extension Bool: Readable {
    fileprivate static func read(_ value: Value) -> Bool? {
        if case .bool(let flag) = value { flag } else { nil }
    }
}

extension Double: Readable {
    fileprivate static func read(_ value: Value) -> Double? {
        switch value {
        case .double(let number): number
        case .int(let number): Double(number)
        default: nil
        }
    }
}

extension Float: Readable {
    fileprivate static func read(_ value: Value) -> Float? { Double.read(value).map { Float($0) } }
}

extension String: Readable {
    fileprivate static func read(_ value: Value) -> String? { value.stringValue }
}

extension Data: Readable {
    fileprivate static func read(_ value: Value) -> Data? {
        if case .binary(let bytes) = value { Data(bytes) } else { nil }
    }
}

extension Date: Readable {
    fileprivate static func read(_ value: Value) -> Date? { value.stringValue.flatMap(RFC3339.date) }
}

extension UUID: Readable {
    fileprivate static func read(_ value: Value) -> UUID? {
        value.stringValue.flatMap { UUID(uuidString: $0) }
    }
}

extension URL: Readable {
    fileprivate static func read(_ value: Value) -> URL? { value.stringValue.flatMap { URL(string: $0) } }
}

extension Decimal: Readable {
    /// From the shortest decimal text of the number, so that 0.1 stays 0.1.
    fileprivate static func read(_ value: Value) -> Decimal? {
        switch value {
        case .int(let number): Decimal(number)
        case .double(let number): Decimal(string: "\(number)")
        default: nil
        }
    }
}

/// A dictionary that is read from an object whatever the type of its keys: with any keys but texts and
/// integers, dictionaries decode themselves from an array.
private protocol KeyedByText {
    static func read(_ members: ObjectValue, _ path: [any CodingKey]) throws -> Any
}

extension Dictionary: KeyedByText where Key: Decodable, Value: Decodable {
    fileprivate static func read(_ members: ObjectValue, _ path: [any CodingKey]) throws -> Any {
        var found: [Key: Value] = Dictionary(minimumCapacity: members.count)
        for (text, member) in members.entries {
            let path = path + [Step(text)]
            found[try key(text, path)] = try ItemDecoder.read(Value.self, member, path)
        }
        return found
    }

    private static func key(_ text: String, _ path: [any CodingKey]) throws -> Key {
        do {
            return try ItemDecoder.read(Key.self, .string(text), path)
        } catch {
            guard let number = Int64(text) else { throw error }
            return try ItemDecoder.read(Key.self, .int(number), path)
        }
    }
}
