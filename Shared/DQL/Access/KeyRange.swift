import CRDT

/// The types in the order in which values collate (spec 2.3); each has its own order within.
public enum ValueClass: Int, Sendable, CaseIterable, Comparable {
    case boolean, number, binary, string, array, object, null, missing

    /// The class of a value; nil is MISSING.
    public init(of value: Value?) {
        guard let known = ValueClass(rawValue: ValueOrder.rank(value)) else {
            preconditionFailure("every value has a class")
        }
        self = known
    }

    /// By collation.
    public static func < (left: ValueClass, right: ValueClass) -> Bool { left.rawValue < right.rawValue }
}

/// A cut between values in collation order.
public enum KeyPosition: Equatable, Sendable {
    /// Before all values that equal this one (nil is MISSING; `1` equals `1.0`).
    case before(Value?)
    /// After all values that equal this one.
    case after(Value?)
    /// Before the first value of a class.
    case beforeClass(ValueClass)
    /// After the last value of a class.
    case afterClass(ValueClass)
    /// After the last string that begins with these bytes.
    case afterPrefix(String)

    /// Before everything.
    public static let start = KeyPosition.beforeClass(.boolean)
    /// After everything, MISSING included.
    public static let end = KeyPosition.afterClass(.missing)

    private var valueClass: ValueClass {
        switch self {
        case .before(let value), .after(let value): ValueClass(of: value)
        case .beforeClass(let known), .afterClass(let known): known
        case .afterPrefix: .string
        }
    }

    /// -1 before the whole class, 1 after it, 0 within.
    private var classSide: Int {
        switch self {
        case .beforeClass: -1
        case .afterClass: 1
        default: 0
        }
    }

    /// Negative, zero or positive if the left cut lies before, at or after the right one.
    static func compare(_ left: KeyPosition, _ right: KeyPosition) -> Int {
        let (first, second) = (left.valueClass, right.valueClass)
        if first != second { return first < second ? -1 : 1 }
        if left.classSide != 0 || right.classSide != 0 { return left.classSide - right.classSide }
        switch (left, right) {
        case (.afterPrefix(let one), .afterPrefix(let two)):
            if hasPrefix(one, two) { return utf8Equal(one, two) ? 0 : -1 }
            return hasPrefix(two, one) ? 1 : compareUTF8(one, two)
        case (.afterPrefix(let prefix), _): return compare(afterPrefix: prefix, right)
        case (_, .afterPrefix(let prefix)): return -compare(afterPrefix: prefix, left)
        default:
            let order = ValueOrder.collate(left.value, right.value)
            return order != 0 ? order : left.side - right.side
        }
    }

    private static func compare(afterPrefix prefix: String, _ other: KeyPosition) -> Int {
        guard case .string(let text)? = other.value else { return -1 }
        return hasPrefix(text, prefix) ? 1 : compareUTF8(prefix, text)
    }

    private static func hasPrefix(_ text: String, _ prefix: String) -> Bool {
        text.utf8.starts(with: prefix.utf8)
    }

    private var value: Value? {
        switch self {
        case .before(let value), .after(let value): value
        default: nil
        }
    }

    private var side: Int { if case .before = self { -1 } else { 1 } }
}

/// The values between two cuts, in collation order, whatever the direction of the index.
public struct KeyRange: Equatable, Sendable {
    /// The cut before the first value.
    public let lower: KeyPosition
    /// The cut after the last value.
    public let upper: KeyPosition

    /// The values between two cuts.
    public init(from lower: KeyPosition, to upper: KeyPosition) {
        self.lower = lower
        self.upper = upper
    }

    /// Everything, MISSING included.
    public static let all = KeyRange(from: .start, to: .end)

    static func equal(to value: Value?) -> KeyRange { KeyRange(from: .before(value), to: .after(value)) }

    static func whole(_ known: ValueClass) -> KeyRange {
        KeyRange(from: .beforeClass(known), to: .afterClass(known))
    }

    /// True if the range surely holds nothing.
    var isEmpty: Bool { KeyPosition.compare(lower, upper) >= 0 }

    /// The value of a range that holds only one; doubly optional because that value can be MISSING.
    var point: Value?? {
        switch (lower, upper) {
        case (.before(let value), .after(let other)) where ValueOrder.areEqual(value, other): .some(value)
        case (.beforeClass(.null), .afterClass(.null)): .some(.some(.null))
        case (.beforeClass(.missing), .afterClass(.missing)): .some(.none)
        default: nil
        }
    }

    /// True if MISSING is in the range.
    var holdsMissing: Bool { KeyPosition.compare(upper, .before(nil)) > 0 }
}

/// Disjoint ranges in ascending order.
struct RangeSet: Equatable, Sendable {
    let ranges: [KeyRange]

    static let all = RangeSet([.all])

    init(_ ranges: [KeyRange]) {
        let sorted = ranges.filter { !$0.isEmpty }.sorted { KeyPosition.compare($0.lower, $1.lower) < 0 }
        var merged: [KeyRange] = []
        for range in sorted {
            guard let last = merged.last, KeyPosition.compare(range.lower, last.upper) < 0 else {
                merged.append(range)
                continue
            }
            if KeyPosition.compare(range.upper, last.upper) > 0 {
                merged[merged.count - 1] = KeyRange(from: last.lower, to: range.upper)
            }
        }
        self.ranges = merged
    }

    var isEmpty: Bool { ranges.isEmpty }
    var isAll: Bool { self == .all }

    func intersection(_ other: RangeSet) -> RangeSet {
        var common: [KeyRange] = []
        var (first, second) = (0, 0)
        while first < ranges.count, second < other.ranges.count {
            let (one, two) = (ranges[first], other.ranges[second])
            let lower = KeyPosition.compare(one.lower, two.lower) >= 0 ? one.lower : two.lower
            let isFirstShorter = KeyPosition.compare(one.upper, two.upper) <= 0
            common.append(KeyRange(from: lower, to: isFirstShorter ? one.upper : two.upper))
            if isFirstShorter { first += 1 } else { second += 1 }
        }
        return RangeSet(common)
    }

    /// The values that are in all of the sets. Halves first: one after the other would walk the first ranges
    /// again for each set.
    static func intersection(of sets: [RangeSet]) -> RangeSet {
        guard sets.count > 1 else { return sets.first ?? .all }
        let half = sets.count / 2
        return intersection(of: Array(sets[..<half])).intersection(intersection(of: Array(sets[half...])))
    }

    /// The values that are in none of the ranges, up to a cut.
    func complement(before end: KeyPosition) -> RangeSet {
        var gaps: [KeyRange] = []
        var from = KeyPosition.start
        for range in ranges {
            gaps.append(KeyRange(from: from, to: range.lower))
            from = range.upper
        }
        gaps.append(KeyRange(from: from, to: end))
        return RangeSet(gaps).intersection(RangeSet([KeyRange(from: .start, to: end)]))
    }
}
