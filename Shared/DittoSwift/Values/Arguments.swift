import CRDT
import DQL
import Foundation

/// Converts the dictionaries that applications pass as arguments into values.
///
/// Accepted are nil, `NSNull`, `Bool`, all integers and floats, `String`, `Character`, `Data`, `Date` (as
/// `RFC3339`), `UUID` and `URL` (as text), `Decimal`, `NSNumber`, `DittoDocumentID`, `DittoAttachment`,
/// arrays, slices and sets, dictionaries with text or integer keys, enums with raw values, and every
/// `Encodable` (`ArgumentEncoder`). An `NSNumber` keeps the type it was made of. `ItemDecoder` is the way
/// back.
///
/// Every type converts itself (`Argument`), because testing an `Any` against many types takes longer than
/// writing the document. The path of an unacceptable argument is built only when the error is thrown.
enum Arguments {
    /// The arguments as an object.
    /// - Throws: `SDK-0201` to `SDK-0203`, with the path of the argument.
    static func object(_ arguments: [String: Any?]?) throws(SDKError) -> ObjectValue {
        guard let arguments, !arguments.isEmpty else { return ObjectValue() }
        var entries: [ObjectValue.Entry] = []
        entries.reserveCapacity(arguments.count)
        for (name, argument) in arguments {
            guard let argument else {
                entries.append((key: name, value: .null))
                continue
            }
            entries.append((key: name, value: try value(argument, path: name, depth: 0)))
        }
        // Canonically unique keys are also bytewise unique.
        return ObjectValue(unique: entries)
    }

    /// Converts one argument.
    static func value(_ argument: Any, path: String, depth: Int) throws(SDKError) -> Value {
        do throws(ArgumentProblem) {
            return try converted(argument, depth)
        } catch {
            throw SDKError(error.code, "argument '\(path)\(error.path)' \(error.reason)")
        }
    }

    static func converted(_ argument: Any, _ depth: Int) throws(ArgumentProblem) -> Value {
        guard depth < CRDT.Limits.nestingDepth else {
            throw ArgumentProblem(
                .argumentTooDeep, "is nested deeper than \(CRDT.Limits.nestingDepth) levels")
        }
        // The commonest types first: comparing types costs less than testing a conformance.
        let type = type(of: argument)
        if type == String.self, let text = argument as? String { return .string(text) }
        if type == Int.self, let number = argument as? Int { return .int(Int64(number)) }
        if type == [String: Any?].self, let members = argument as? [String: Any?] {
            return try object(members, depth) { $0 }
        }
        if type == [String: Any].self, let members = argument as? [String: Any] {
            return try object(members, depth) { $0 }
        }
        if type == [Any?].self, let elements = argument as? [Any?] {
            return try array(elements, depth) { $0 }
        }
        if type == [Any].self, let elements = argument as? [Any] { return try array(elements, depth) { $0 } }
        if let argument = argument as? any Argument { return try argument.argument(depth) }
        return try foreign(argument, depth)
    }

    fileprivate static func array<Element>(
        _ elements: some Collection<Element>, _ depth: Int, _ lift: (Element) -> Any?
    ) throws(ArgumentProblem) -> Value {
        var values: [Value] = []
        values.reserveCapacity(elements.count)
        do throws(ArgumentProblem) {
            for element in elements {
                guard let element = lift(element) else {
                    values.append(.null)
                    continue
                }
                values.append(try converted(element, depth + 1))
            }
        } catch {
            throw error.below("[\(values.count)]")
        }
        return .array(values)
    }

    fileprivate static func object<Member>(
        _ members: [String: Member], _ depth: Int, _ lift: (Member) -> Any?
    ) throws(ArgumentProblem) -> Value {
        var entries: [ObjectValue.Entry] = []
        entries.reserveCapacity(members.count)
        var current = ""
        do throws(ArgumentProblem) {
            for (key, member) in members {
                current = key
                guard let member = lift(member) else {
                    entries.append((key: key, value: .null))
                    continue
                }
                entries.append((key: key, value: try converted(member, depth + 1)))
            }
        } catch {
            throw error.below("." + current)
        }
        // A dictionary has no order. Sorting makes the same dictionary always give the same operation.
        // Canonically unique keys are also bytewise unique.
        return .object(ObjectValue(unique: ObjectValue(unique: entries).sorted))
    }

    /// Converts what encodes itself, has a raw value, or what only Foundation can bridge, and integers of
    /// other widths. An enum that encodes itself is not asked for its raw value: it may encode another one.
    private static func foreign(_ argument: Any, _ depth: Int) throws(ArgumentProblem) -> Value {
        switch argument {
        case let number as any BinaryInteger: return try integer(number)
        case let argument as any Encodable: return try ArgumentEncoder.value(of: argument, depth)
        case let argument as any RawRepresentable: return try rawValue(of: argument, depth)
        case let text as String: return .string(text)
        case let data as Data: return .binary([UInt8](data))
        case let date as Date: return try date.argument(depth)
        case let id as UUID: return id.argument(depth)
        case let url as URL: return url.argument(depth)
        case let elements as [Any?]: return try array(elements, depth) { $0 }
        case let members as [String: Any?]: return try object(members, depth) { $0 }
        case let elements as any Collection: return try list(elements, depth)
        default: throw ArgumentProblem(unholdable: type(of: argument))
        }
    }

    /// A collection that is no array, such as a dictionary's keys, in its own order.
    private static func list(
        _ elements: some Collection, _ depth: Int
    ) throws(ArgumentProblem) -> Value { try array(elements, depth) { $0 as Any } }

    private static func rawValue(
        of argument: some RawRepresentable, _ depth: Int
    ) throws(ArgumentProblem) -> Value {
        try converted(argument.rawValue, depth)
    }

    /// The text of a dictionary's key: a text, an integer in decimal, or what becomes one of them.
    fileprivate static func key(_ key: Any, of type: Any.Type) throws(ArgumentProblem) -> String {
        switch try converted(key, 0) {
        case .string(let text): return text
        case .int(let number): return String(number)
        default: throw ArgumentProblem(unholdable: type)
        }
    }

    /// A `Decimal`: an integer where it is one of 64 bits, else the nearest double.
    fileprivate static func decimal(_ number: Decimal) -> Value {
        var (exact, whole) = (number, Decimal())
        NSDecimalRound(&whole, &exact, 0, .plain)
        if whole == number, let integer = Int64("\(whole)") { return .int(integer) }
        return .double(Double("\(number)") ?? .nan)
    }

    fileprivate static func integer(_ number: some BinaryInteger) throws(ArgumentProblem) -> Value {
        guard let exact = Int64(exactly: number) else {
            throw ArgumentProblem(.argumentOutOfRange, "is an integer beyond 64 bits")
        }
        return .int(exact)
    }

    /// The order of a set's members: numbers and texts ascending, everything else by its encoding.
    fileprivate static func precedes(_ left: Value, _ right: Value) -> Bool {
        switch (left, right) {
        case (.int(let a), .int(let b)): a < b
        case (.double(let a), .double(let b)): a < b
        case (.string(let a), .string(let b)): a.utf8.lexicographicallyPrecedes(b.utf8)
        default: CBOR.encode(left).lexicographicallyPrecedes(CBOR.encode(right))
        }
    }
}

/// An argument that cannot be converted, and the path to it.
struct ArgumentProblem: Error {
    let code: SDKErrorCode
    /// The reason, for a person; it follows the argument's name.
    let reason: String
    private(set) var path = ""

    init(_ code: SDKErrorCode, _ reason: String) {
        self.code = code
        self.reason = reason
    }

    init(unholdable type: Any.Type) {
        self.init(.argumentTypeInvalid, "is of type \(type), which documents cannot hold")
    }

    func below(_ step: String) -> ArgumentProblem {
        var problem = self
        problem.path = step + path
        return problem
    }
}

/// A type whose values can be arguments.
private protocol Argument {
    func argument(_ depth: Int) throws(ArgumentProblem) -> Value
}

extension Argument where Self: BinaryInteger {
    func argument(_ depth: Int) throws(ArgumentProblem) -> Value { try Arguments.integer(self) }
}

extension Int: Argument {}
extension Int8: Argument {}
extension Int16: Argument {}
extension Int32: Argument {}
extension Int64: Argument {}
extension UInt: Argument {}
extension UInt8: Argument {}
extension UInt16: Argument {}
extension UInt32: Argument {}
extension UInt64: Argument {}

extension Bool: Argument {
    fileprivate func argument(_ depth: Int) throws(ArgumentProblem) -> Value { .bool(self) }
}

extension Double: Argument {
    fileprivate func argument(_ depth: Int) throws(ArgumentProblem) -> Value { .double(self) }
}

extension Float: Argument {
    fileprivate func argument(_ depth: Int) throws(ArgumentProblem) -> Value { .double(Double(self)) }
}

extension CGFloat: Argument {
    fileprivate func argument(_ depth: Int) throws(ArgumentProblem) -> Value { .double(Double(self)) }
}

extension String: Argument {
    fileprivate func argument(_ depth: Int) throws(ArgumentProblem) -> Value { .string(self) }
}

extension Substring: Argument {
    fileprivate func argument(_ depth: Int) throws(ArgumentProblem) -> Value { .string(String(self)) }
}

extension Character: Argument {
    fileprivate func argument(_ depth: Int) throws(ArgumentProblem) -> Value { .string(String(self)) }
}

extension Date: Argument {
    fileprivate func argument(_ depth: Int) throws(ArgumentProblem) -> Value {
        guard let text = RFC3339.text(self) else {
            throw ArgumentProblem(.argumentOutOfRange, "is a date outside the years 0000 to 9999")
        }
        return .string(text)
    }
}

extension UUID: Argument {
    fileprivate func argument(_ depth: Int) -> Value { .string(uuidString) }
}

extension URL: Argument {
    fileprivate func argument(_ depth: Int) -> Value { .string(absoluteString) }
}

extension Decimal: Argument {
    fileprivate func argument(_ depth: Int) throws(ArgumentProblem) -> Value { Arguments.decimal(self) }
}

extension Data: Argument {
    fileprivate func argument(_ depth: Int) throws(ArgumentProblem) -> Value { .binary([UInt8](self)) }
}

extension NSNull: Argument {
    fileprivate func argument(_ depth: Int) throws(ArgumentProblem) -> Value { .null }
}

extension NSNumber: Argument {
    /// An `NSNumber` converts to every numeric type; its encoding tells the type it was made of.
    fileprivate func argument(_ depth: Int) throws(ArgumentProblem) -> Value {
        if let decimal = self as? NSDecimalNumber { return Arguments.decimal(decimal.decimalValue) }
        switch String(cString: objCType) {
        case "c", "B": return .bool(boolValue)
        case "d", "f": return .double(doubleValue)
        case "Q": return try Arguments.integer(uint64Value)
        default: return .int(int64Value)
        }
    }
}

extension DittoDocumentID: Argument {
    fileprivate func argument(_ depth: Int) throws(ArgumentProblem) -> CRDT.Value { content }
}

extension DittoAttachment: Argument {
    // Marked, so that it becomes an ATTACHMENT where no type is declared.
    fileprivate func argument(_ depth: Int) throws(ArgumentProblem) -> Value { token.marked }
}

@available(*, deprecated, message: "Pass the token's dictionary")
extension DittoAttachmentToken: Argument {
    fileprivate func argument(_ depth: Int) throws(ArgumentProblem) -> Value { token.marked }
}

extension Optional: Argument {
    fileprivate func argument(_ depth: Int) throws(ArgumentProblem) -> Value {
        guard let inside = self else { return .null }
        return try Arguments.converted(inside, depth)
    }
}

extension Array: Argument {
    fileprivate func argument(_ depth: Int) throws(ArgumentProblem) -> Value {
        try Arguments.array(self, depth) { $0 }
    }
}

extension ArraySlice: Argument {
    fileprivate func argument(_ depth: Int) throws(ArgumentProblem) -> Value {
        try Arguments.array(self, depth) { $0 }
    }
}

extension ContiguousArray: Argument {
    fileprivate func argument(_ depth: Int) throws(ArgumentProblem) -> Value {
        try Arguments.array(self, depth) { $0 }
    }
}

extension Set: Argument {
    /// A set has no order. Sorting makes the same set always give the same operation; numbers and texts come
    /// ascending.
    fileprivate func argument(_ depth: Int) throws(ArgumentProblem) -> Value {
        guard case .array(let members) = try Arguments.array(Array(self), depth, { $0 }) else { return .null }
        return .array(members.sorted(by: Arguments.precedes))
    }
}

extension Dictionary: Argument {
    // `CRDT.Value`, not this type's own `Value`.
    fileprivate func argument(_ depth: Int) throws(ArgumentProblem) -> CRDT.Value {
        if let members = self as? [String: Value] { return try Arguments.object(members, depth) { $0 } }
        var members: [String: Value] = Swift.Dictionary(minimumCapacity: count)
        for (key, member) in self {
            let text = try Arguments.key(key, of: Self.self)
            guard members.updateValue(member, forKey: text) == nil else {
                throw ArgumentProblem(.argumentTypeInvalid, "has two keys that become '\(text)'")
            }
        }
        return try Arguments.object(members, depth) { $0 }
    }
}
