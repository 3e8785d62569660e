/// A JSON-like value that keeps its type: the content of a REGISTER, the result of an expression, an
/// argument of a statement.
///
/// Integers and doubles are different types (`1` and `1.0` survive every path as they are). Equality here is
/// *identity of content*, used by merge and by tests: type-strict, strings and keys by UTF-8 bytes, doubles
/// by bit pattern with one NaN. DQL defines how the query language compares values.
public enum Value: Sendable {
    case null
    case bool(Bool)
    case int(Int64)
    case double(Double)
    case string(String)
    case binary([UInt8])
    case array([Value])
    case object(ObjectValue)
}

extension Value: Equatable {
    /// Type-strict, bytewise equality; see the type's comment.
    public static func == (left: Value, right: Value) -> Bool {
        switch (left, right) {
        case (.null, .null): true
        case (.bool(let a), .bool(let b)): a == b
        case (.int(let a), .int(let b)): a == b
        case (.double(let a), .double(let b)): (a.isNaN && b.isNaN) || a.bitPattern == b.bitPattern
        case (.string(let a), .string(let b)): utf8Equal(a, b)
        case (.binary(let a), .binary(let b)): a == b
        case (.array(let a), .array(let b)): a == b
        case (.object(let a), .object(let b)): a == b
        default: false
        }
    }
}

extension Value: ExpressibleByStringLiteral, ExpressibleByIntegerLiteral, ExpressibleByFloatLiteral,
    ExpressibleByBooleanLiteral, ExpressibleByArrayLiteral, ExpressibleByDictionaryLiteral
{
    /// A string value.
    public init(stringLiteral value: String) { self = .string(value) }
    /// A 64-bit integer value.
    public init(integerLiteral value: Int64) { self = .int(value) }
    /// A double value; stays a double even when it is whole.
    public init(floatLiteral value: Double) { self = .double(value) }
    /// A boolean value.
    public init(booleanLiteral value: Bool) { self = .bool(value) }
    /// An array value.
    public init(arrayLiteral elements: Value...) { self = .array(elements) }
    /// An object; a later duplicate of a key wins.
    public init(dictionaryLiteral elements: (String, Value)...) {
        self = .object(ObjectValue(elements.map { (key: $0.0, value: $0.1) }))
    }
}

extension Value {
    /// The string inside, or nil for any other type.
    public var stringValue: String? { if case .string(let text) = self { text } else { nil } }
    /// The integer inside, or nil for any other type (a whole double is not an integer).
    public var intValue: Int64? { if case .int(let number) = self { number } else { nil } }
    /// The boolean inside, or nil for any other type.
    public var boolValue: Bool? { if case .bool(let flag) = self { flag } else { nil } }
    /// The elements inside, or nil for any other type.
    public var arrayValue: [Value]? { if case .array(let elements) = self { elements } else { nil } }
    /// The object inside, or nil for any other type.
    public var objectValue: ObjectValue? { if case .object(let object) = self { object } else { nil } }
    /// The value under `key`; nil when this is no object or has no such key.
    public subscript(key: String) -> Value? { objectValue?[key] }
}

/// Key-value pairs in the order of insertion; keys are unique by their UTF-8 bytes.
///
/// Rows keep the order of their projection; encodings sort. Equality ignores the order.
public struct ObjectValue: Sendable {
    /// One pair.
    public typealias Entry = (key: String, value: Value)

    /// The pairs, in order of insertion.
    public private(set) var entries: [Entry]

    /// An empty object.
    public init() { entries = [] }

    /// An object of these pairs. A later duplicate of a key replaces the earlier value in its place.
    public init(_ pairs: some Sequence<Entry>) {
        let all = Array(pairs)
        guard Self.hasDuplicates(all) else {
            entries = all
            return
        }
        entries = []
        var places: [[UInt8]: Int] = [:]
        for pair in all {
            let place = places.updateValue(entries.count, forKey: Array(pair.key.utf8))
            if let place {
                places[Array(pair.key.utf8)] = place
                entries[place].value = pair.value
            } else {
                entries.append(pair)
            }
        }
    }

    /// An object of pairs with unique keys. The caller guarantees this: a decoder has checked the order of
    /// the keys, a projection has checked its names once.
    public init(unique entries: [Entry]) { self.entries = entries }

    /// How many keys there are.
    public var count: Int { entries.count }
    /// True if there is no key.
    public var isEmpty: Bool { entries.isEmpty }

    /// The value under a key. Setting nil removes the pair; setting a value keeps the key's place or
    /// appends.
    public subscript(key: String) -> Value? {
        get { entries.first { utf8Equal($0.key, key) }?.value }
        set {
            let place = entries.firstIndex { utf8Equal($0.key, key) }
            switch (place, newValue) {
            case (let place?, let value?): entries[place].value = value
            case (let place?, nil): entries.remove(at: place)
            case (nil, let value?): entries.append((key: key, value: value))
            case (nil, nil): break
            }
        }
    }

    /// All pairs except that of `key`.
    public func without(_ key: String) -> ObjectValue {
        guard entries.contains(where: { utf8Equal($0.key, key) }) else { return self }
        return ObjectValue(unique: entries.filter { !utf8Equal($0.key, key) })
    }

    /// The pairs sorted by the UTF-8 bytes of their keys: the canonical order.
    public var sorted: [Entry] {
        let order = order
        return order.isIdentity ? entries : (0..<count).map { entries[order[$0]] }
    }

    /// The places of the pairs in the canonical order.
    var order: KeyOrder { KeyOrder(entries) }

    private static func hasDuplicates(_ pairs: [Entry]) -> Bool {
        guard pairs.count > 1 else { return false }
        let keys = pairs.map { $0.key }.sorted(by: utf8Precedes)
        return zip(keys, keys.dropFirst()).contains { utf8Equal($0, $1) }
    }
}

extension ObjectValue: Equatable {
    /// Same keys with the same values, in any order.
    public static func == (left: ObjectValue, right: ObjectValue) -> Bool {
        guard left.count == right.count else { return false }
        // Mostly these are two versions of one document, with their keys in the same order.
        if zip(left.entries, right.entries).allSatisfy({ utf8Equal($0.key, $1.key) }) {
            return zip(left.entries, right.entries).allSatisfy { $0.value == $1.value }
        }
        return zip(left.sorted, right.sorted).allSatisfy { utf8Equal($0.key, $1.key) && $0.value == $1.value }
    }
}
