import CRDT

/// A run of an index's keys: from `lower` on, up to and without `upper`.
public struct KeyInterval: Equatable {
    /// The first key that may be in it.
    public var lower: [UInt8]
    /// The first key after it.
    public var upper: [UInt8]
    /// True if it holds one key only, which is `lower`.
    public private(set) var isOneKey = false

    /// The keys of the values in a range. A cut bound is included.
    /// - Parameter partBytes: where the store cuts the parts of its keys.
    public init(
        _ range: IndexRange, of keys: [IndexDescription.Key], partBytes: Int = DQLLimits.indexPartBytes
    ) {
        var writer = KeyWriter(partBytes: partBytes)
        for (value, key) in zip(range.equal, keys) { writer.append(value, isDescending: key.isDescending) }
        guard let next = range.next, range.equal.count < keys.count else {
            lower = writer.bytes
            upper = Self.after(writer.bytes)
            isOneKey = range.equal.count == keys.count && !writer.isTruncated
            return
        }
        if keys[range.equal.count].isDescending {
            lower = Self.place(next.upper, begins: true, isDescending: true, writer)
            upper = Self.place(next.lower, begins: false, isDescending: true, writer)
        } else {
            lower = Self.place(next.lower, begins: true, isDescending: false, writer)
            upper = Self.place(next.upper, begins: false, isDescending: false, writer)
        }
    }

    /// True if no key can be in it.
    public var isEmpty: Bool { compareBytes(upper, lower) <= 0 }

    /// The position of a cut among the keys with the prefix in `writer`. If a part was cut, an interval
    /// that begins or ends there includes all keys with that prefix.
    private static func place(
        _ cut: KeyPosition, begins: Bool, isDescending: Bool, _ writer: consuming KeyWriter
    ) -> [UInt8] {
        /// True if, in the order of values, the cut lies before the written key.
        let isBefore: Bool
        switch cut {
        case .before(let value):
            writer.append(value, isDescending: isDescending)
            isBefore = true
        case .after(let value):
            writer.append(value, isDescending: isDescending)
            isBefore = false
        case .beforeClass(let known):
            writer.append(tag: KeyTag.least(known), isDescending: isDescending)
            isBefore = true
        case .afterClass(let known):
            writer.append(tag: KeyTag.greatest(known), isDescending: isDescending)
            isBefore = false
        case .afterPrefix(let text):
            writer.append(prefix: text, isDescending: isDescending)
            isBefore = false
        }
        if writer.isLastPartCut { return begins ? writer.bytes : after(writer.bytes) }
        return isBefore != isDescending ? writer.bytes : after(writer.bytes)
    }

    /// The least byte string after all those with this prefix. No key begins with 0xFF.
    private static func after(_ bytes: [UInt8]) -> [UInt8] {
        guard let last = bytes.lastIndex(where: { $0 < 0xFF }) else { return [0xFF] }
        var next = Array(bytes[...last])
        next[last] += 1
        return next
    }

    /// The intervals in order, with adjacent ones joined, so that no key is visited twice.
    public static func disjoint(_ intervals: [KeyInterval]) -> [KeyInterval] {
        guard intervals.count > 1 else { return intervals.filter { !$0.isEmpty } }
        var result: [KeyInterval] = []
        for interval in intervals.filter({ !$0.isEmpty }).sorted(by: { compareBytes($0.lower, $1.lower) < 0 })
        {
            guard let last = result.last, compareBytes(interval.lower, last.upper) <= 0 else {
                result.append(interval)
                continue
            }
            result[result.count - 1].isOneKey = false
            if compareBytes(interval.upper, last.upper) > 0 {
                result[result.count - 1].upper = interval.upper
            }
        }
        return result
    }
}
