import CRDT

/// CAST (spec 2.5): MISSING where a conversion is impossible, NULL stays NULL.
enum Conversion {
    /// The types of CAST, with their other names.
    static let typeNames = [
        "string": "string", "text": "string", "integer": "integer", "int": "integer", "float": "float",
        "double": "float", "number": "float", "boolean": "boolean", "bool": "boolean", "binary": "binary",
    ]

    static func cast(_ value: Value?, to type: String) -> Value? {
        guard let value else { return nil }
        if case .null = value { return .null }
        return switch typeNames[type.lowercased()] {
        case "string": string(value)
        case "integer": integer(value)
        case "float": float(value)
        case "boolean": boolean(value)
        case "binary": binary(value)
        default: nil
        }
    }

    private static func string(_ value: Value) -> Value? {
        switch value {
        case .string: value
        case .bool(let flag): .string(flag ? "true" : "false")
        case .double(let number) where !number.isFinite: nil
        case .int, .double: .string(JSONText.print(value))
        case .binary(let bytes): String(validating: bytes, as: UTF8.self).map { .string($0) }
        default: nil
        }
    }

    private static func integer(_ value: Value) -> Value? {
        switch value {
        case .int: value
        case .bool(let flag): .int(flag ? 1 : 0)
        case .double(let number): Int64(exactly: number.rounded(.towardZero)).map { .int($0) }
        case .string(let text): Int64(text).map { .int($0) }
        default: nil
        }
    }

    private static func float(_ value: Value) -> Value? {
        switch value {
        case .double: value
        case .int(let number): .double(Double(number))
        case .bool(let flag): .double(flag ? 1 : 0)
        case .string(let text): decimal(text).map { .double($0) }
        default: nil
        }
    }

    /// Digits with fraction and exponent; not the other spellings that `Double(_:)` accepts (`nan`,
    /// `0x1p3`), and none that is beyond all doubles.
    private static func decimal(_ text: String) -> Double? {
        let allowed = text.utf8.allSatisfy { Lexer.isDigit($0) || "+-.eE".utf8.contains($0) }
        guard allowed, let number = Double(text), number.isFinite else { return nil }
        return number
    }

    private static func boolean(_ value: Value) -> Value? {
        switch value {
        case .bool: value
        case .int(let number): .bool(number != 0)
        case .double(let number): .bool(number != 0)
        case .string("true"): true
        case .string("false"): false
        default: nil
        }
    }

    private static func binary(_ value: Value) -> Value? {
        switch value {
        case .binary: value
        case .string(let text): .binary(Array(text.utf8))
        default: nil
        }
    }
}

extension Value {
    /// The type's name as the function `type` returns it.
    var typeName: String {
        switch self {
        case .null: "null"
        case .bool: "boolean"
        case .int: "integer"
        case .double: "float"
        case .string: "string"
        case .binary: "binary"
        case .array: "array"
        case .object: "object"
        }
    }
}
