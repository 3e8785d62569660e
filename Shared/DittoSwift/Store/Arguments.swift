import CRDT
import Foundation

/// Turns the dictionaries applications pass as arguments into values.
///
/// Taken are nil, `NSNull`, `Bool`, all integers and floats, `String`, `Data`, `DittoDocumentID`,
/// `NSNumber`, and arrays and dictionaries with text keys of these. An `NSNumber` keeps the type it was
/// made of.
enum Arguments {
    /// The arguments as an object.
    /// - Throws: `SDK-0201` to `SDK-0203`, with the path of what cannot be taken.
    static func object(_ arguments: [String: Any?]?) throws(SDKError) -> ObjectValue {
        var object = ObjectValue()
        for (name, argument) in arguments ?? [:] {
            object[name] = try value(argument as Any, path: name, depth: 0)
        }
        return object
    }

    /// Any one of them.
    static func value(_ argument: Any, path: String, depth: Int) throws(SDKError) -> Value {
        guard depth < CRDT.Limits.nestingDepth else {
            throw SDKError(
                .argumentTooDeep,
                "argument '\(path)' is nested deeper than \(CRDT.Limits.nestingDepth) levels")
        }
        guard let argument = unwrapped(argument) else { return .null }
        if let number = argument as? NSNumber, type(of: argument) is NSNumber.Type {
            return try value(ofNumber: number, path)
        }
        if let simple = try scalar(argument, path) { return simple }
        if let elements = argument as? [Any?] { return try array(elements, path, depth) }
        if let members = argument as? [String: Any?] { return try dictionary(members, path, depth) }
        throw SDKError(
            .argumentTypeInvalid,
            "argument '\(path)' is of type \(type(of: argument)), which documents cannot hold")
    }

    private static func scalar(_ argument: Any, _ path: String) throws(SDKError) -> Value? {
        switch argument {
        case let value as Bool: return .bool(value)
        case let value as String: return .string(value)
        case let value as Substring: return .string(String(value))
        case let value as Double: return .double(value)
        case let value as Float: return .double(Double(value))
        case let value as CGFloat: return .double(Double(value))
        case let value as Data: return .binary([UInt8](value))
        case let value as DittoDocumentID: return value.content
        case is NSNull: return .null
        case let value as any BinaryInteger:
            guard let number = Int64(exactly: value) else { throw outOfRange(path) }
            return .int(number)
        default: return nil
        }
    }

    private static func array(_ elements: [Any?], _ path: String, _ depth: Int) throws(SDKError) -> Value {
        var values: [Value] = []
        values.reserveCapacity(elements.count)
        for (index, element) in elements.enumerated() {
            values.append(try value(element as Any, path: "\(path)[\(index)]", depth: depth + 1))
        }
        return .array(values)
    }

    private static func dictionary(
        _ members: [String: Any?], _ path: String, _ depth: Int
    ) throws(SDKError) -> Value {
        var entries: [ObjectValue.Entry] = []
        entries.reserveCapacity(members.count)
        for (key, member) in members {
            entries.append(
                (key: key, value: try value(member as Any, path: "\(path).\(key)", depth: depth + 1)))
        }
        // A dictionary has no order of its own; sorted, the same one always gives the same operation. Its
        // keys are unique canonically, so they are bytewise.
        return .object(ObjectValue(unique: entries.sorted { utf8Precedes($0.key, $1.key) }))
    }

    /// `NSNumber` answers to every numeric type; its encoding says which one it was made of.
    private static func value(ofNumber number: NSNumber, _ path: String) throws(SDKError) -> Value {
        switch String(cString: number.objCType) {
        case "c", "B": return .bool(number.boolValue)
        case "d", "f": return .double(number.doubleValue)
        case "Q" where number.uint64Value > UInt64(Int64.max): throw outOfRange(path)
        default: return .int(number.int64Value)
        }
    }

    private static func outOfRange(_ path: String) -> SDKError {
        SDKError(.argumentOutOfRange, "argument '\(path)' is an integer beyond 64 bits")
    }

    /// What is inside any number of optionals; nil where one of them is empty.
    private static func unwrapped(_ argument: Any) -> Any? {
        var current = argument
        while let optional = current as? any OptionalArgument,
            Mirror(reflecting: current).displayStyle == .optional
        {
            guard let inside = optional.inside else { return nil }
            current = inside
        }
        return current
    }
}

/// Lets an `Any` that holds an optional be opened.
private protocol OptionalArgument {
    var inside: Any? { get }
}

extension Optional: OptionalArgument {
    fileprivate var inside: Any? { self.map { $0 as Any } }
}
