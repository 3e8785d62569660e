import CRDT

/// The order of values (spec 2.3 and Decisions).
///
/// Two orders share one code: the *collation* orders any two values, missing included, by type first; a
/// *comparison* (`=`, `<`, …) exists only between values of one type that are neither null nor missing.
/// Missing is nil throughout.
enum ValueOrder {
    /// Ranks of types, ascending: `false < true < numbers < binary < strings < arrays < objects < null <
    /// missing`.
    static func rank(_ value: Value?) -> Int {
        switch value {
        case .bool?: 0
        case .int?, .double?: 1
        case .binary?: 2
        case .string?: 3
        case .array?: 4
        case .object?: 5
        case .null?: 6
        case nil: 7
        }
    }

    /// Negative, zero or positive if left collates before, with or after right. A total order.
    static func collate(_ left: Value?, _ right: Value?) -> Int {
        switch (left, right) {
        case (.int(let a)?, .int(let b)?): a < b ? -1 : a > b ? 1 : 0
        case (.int(let a)?, .double(let b)?): -compare(b, a)
        case (.double(let a)?, .int(let b)?): compare(a, b)
        case (.double(let a)?, .double(let b)?): compare(a, b)
        case (.string(let a)?, .string(let b)?): compareUTF8(a, b)
        case (.bool(let a)?, .bool(let b)?): (a ? 1 : 0) - (b ? 1 : 0)
        case (.binary(let a)?, .binary(let b)?): compareBytes(a, b)
        case (.array(let a)?, .array(let b)?): compare(a, b)
        case (.object(let a)?, .object(let b)?): compare(a, b)
        default: rank(left) - rank(right)
        }
    }

    /// The order of two values that can be compared; nil if either is null or missing or their types differ.
    static func comparison(_ left: Value?, _ right: Value?) -> Int? {
        let type = rank(left)
        guard type == rank(right), type < 6 else { return nil }
        return collate(left, right)
    }

    /// Returns whether two values are equal to `=`, IN, DISTINCT and GROUP BY; null and missing equal only
    /// themselves.
    static func areEqual(_ left: Value?, _ right: Value?) -> Bool { collate(left, right) == 0 }

    // MARK: Within one type

    /// NaN before every other number and equal to itself; -0.0 equals 0.0.
    private static func compare(_ left: Double, _ right: Double) -> Int {
        if left < right { return -1 }
        if left > right { return 1 }
        return (left.isNaN ? 0 : 1) - (right.isNaN ? 0 : 1)
    }

    /// Exact, even if a double cannot hold the integer.
    private static func compare(_ left: Double, _ right: Int64) -> Int {
        if left.isNaN { return -1 }
        if left >= 0x1p63 { return 1 }
        if left < -0x1p63 { return -1 }
        let whole = Int64(left.rounded(.towardZero))
        if whole != right { return whole < right ? -1 : 1 }
        let fraction = left - left.rounded(.towardZero)
        return fraction < 0 ? -1 : fraction > 0 ? 1 : 0
    }

    /// Element by element, then by length.
    private static func compare(_ left: [Value], _ right: [Value]) -> Int {
        for (first, second) in zip(left, right) {
            let order = collate(first, second)
            if order != 0 { return order }
        }
        return left.count - right.count
    }

    /// By number of keys, then by sorted keys, then by their values.
    private static func compare(_ left: ObjectValue, _ right: ObjectValue) -> Int {
        if left.count != right.count { return left.count - right.count }
        let first = left.sorted
        let second = right.sorted
        for (a, b) in zip(first, second) {
            let order = compareUTF8(a.key, b.key)
            if order != 0 { return order }
        }
        for (a, b) in zip(first, second) {
            let order = collate(a.value, b.value)
            if order != 0 { return order }
        }
        return 0
    }
}
