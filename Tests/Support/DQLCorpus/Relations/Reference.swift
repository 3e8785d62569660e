import CRDT

/// A second implementation of the order of values and the arithmetic of integers, written from the
/// specification by other means than the module's, so that a mistake would have to be made twice.
enum Reference {
    /// Spec 2.3 and Decisions: negative, zero or positive; nil is MISSING.
    static func collate(_ left: Value?, _ right: Value?) -> Int {
        let types = sign(type(left) - type(right))
        guard types == 0, let left, let right else { return types }
        if let numbers = number(left, right) { return numbers }
        switch (left, right) {
        case (.bool(let a), .bool(let b)): return sign((a ? 1 : 0) - (b ? 1 : 0))
        case (.string(let a), .string(let b)): return bytes(Array(a.utf8), Array(b.utf8))
        case (.binary(let a), .binary(let b)): return bytes(a, b)
        case (.array(let a), .array(let b)): return lists(a, b)
        case (.object(let a), .object(let b)): return objects(a, b)
        default: return 0
        }
    }

    /// Ascending: booleans, numbers, binary, strings, arrays, objects, null, missing.
    static func type(_ value: Value?) -> Int {
        guard let value else { return 7 }
        return switch value {
        case .bool: 0
        case .int, .double: 1
        case .binary: 2
        case .string: 3
        case .array: 4
        case .object: 5
        case .null: 6
        }
    }

    /// Numbers by value, whatever their type; NaN before all others and equal to itself.
    private static func number(_ left: Value, _ right: Value) -> Int? {
        guard type(left) == 1 else { return nil }
        let (a, b) = (exact(left), exact(right))
        switch (a, b) {
        case (nil, nil): return 0
        case (nil, _): return -1
        case (_, nil): return 1
        case (let a?, let b?):
            return a.whole != b.whole ? (a.whole < b.whole ? -1 : 1) : sign(a.rest - b.rest)
        }
    }

    /// The whole part, exact in 128 bits or clamped for a larger double, and the fraction; nil for NaN.
    private static func exact(_ value: Value) -> (whole: Int128, rest: Double)? {
        switch value {
        case .int(let number): return (Int128(number), 0)
        case .double(let number):
            if number.isNaN { return nil }
            let limit = 0x1p126
            if number.magnitude >= limit { return (number < 0 ? -Int128(limit) : Int128(limit), number) }
            let whole = number.rounded(.down)
            return (Int128(whole), number - whole)
        default: return nil
        }
    }

    private static func bytes(_ left: [UInt8], _ right: [UInt8]) -> Int {
        left == right ? 0 : left.lexicographicallyPrecedes(right) ? -1 : 1
    }

    private static func lists(_ left: [Value], _ right: [Value]) -> Int {
        guard let a = left.first, let b = right.first else { return sign(left.count - right.count) }
        let order = collate(a, b)
        return order != 0 ? order : lists(Array(left.dropFirst()), Array(right.dropFirst()))
    }

    /// By number of keys, then by sorted key, then by value.
    private static func objects(_ left: ObjectValue, _ right: ObjectValue) -> Int {
        if left.count != right.count { return sign(left.count - right.count) }
        func keys(_ object: ObjectValue) -> [Value] {
            object.entries.map { Value.string($0.key) }.sorted { collate($0, $1) < 0 }
        }
        let order = lists(keys(left), keys(right))
        guard order == 0 else { return order }
        let names = keys(left).compactMap(\.stringValue)
        return lists(names.compactMap { left[$0] }, names.compactMap { right[$0] })
    }

    private static func sign(_ number: Int) -> Int { number.signum() }

    private static func sign(_ number: Double) -> Int { number < 0 ? -1 : number > 0 ? 1 : 0 }

    // MARK: Sets

    /// The first of each run of equal values.
    static func distinct(_ values: [Value]) -> [Value] {
        var result: [Value] = []
        for value in values where !result.contains(where: { collate($0, value) == 0 }) {
            result.append(value)
        }
        return result
    }

    static func areSameSets(_ left: [Value], _ right: [Value]) -> Bool {
        func contains(_ all: [Value], _ part: [Value]) -> Bool {
            part.allSatisfy { value in all.contains { collate($0, value) == 0 } }
        }
        return contains(left, right) && contains(right, left)
    }

    // MARK: Truth and arithmetic

    /// The result that `=`, `<` and so on have to give: a boolean, null, or nil for MISSING.
    static func comparison(_ symbol: String, _ left: Value?, _ right: Value?) -> Value? {
        guard let left, let right else { return nil }
        if left == .null || right == .null { return .null }
        guard type(left) == type(right) else { return nil }
        let order = collate(left, right)
        return switch symbol {
        case "=", "==": .bool(order == 0)
        case "!=", "<>": .bool(order != 0)
        case "<": .bool(order < 0)
        case "<=": .bool(order <= 0)
        case ">": .bool(order > 0)
        default: .bool(order >= 0)
        }
    }

    /// Arithmetic of two integers: exact in 128 bits, a float if the result does not fit 64 bits.
    static func integers(_ symbol: String, _ left: Int64, _ right: Int64) -> Value {
        let (a, b) = (Int128(left), Int128(right))
        if b == 0, symbol == "/" || symbol == "%" { return .null }
        let exact =
            switch symbol {
            case "+": a + b
            case "-": a - b
            case "*": a * b
            case "/": a / b
            default: a % b
            }
        return Int64(exactly: exact).map { .int($0) } ?? .double(Double(exact))
    }
}
