import CRDT

/// Runs of encoded ids that have the ids of a range of values, and few others.
///
/// A store keeps ids in the order of their encodings: a text's length comes before its bytes. So the texts of
/// a range are several runs, one for each length, and within each the order is that of the values. Longer
/// texts, and ids of other types, are runs of their own in which the order is another.
public struct IDRanges: Equatable, Sendable {
    /// A run: from `lower` on, up to and without `upper`.
    public struct Run: Equatable, Sendable {
        /// The first encoding that may be in it.
        public let lower: [UInt8]
        /// The first encoding after it.
        public let upper: [UInt8]
        /// True if its ids are in the order of their values.
        public let isOrdered: Bool
        /// True if that order is descending: of negative numbers.
        let isDescending: Bool
    }

    /// The runs, disjoint and ascending.
    public let runs: [Run]
    /// How many documents are wanted from the beginning of each run; nil for all. A run without an order
    /// always gives all.
    public let first: Int?
    /// True if they are wanted from the ends of runs.
    private let takesLast: Bool

    /// Texts below this length have a run each: names, keys and the usual forms of random ids.
    private static let separateLengths = 64

    /// The runs of some ranges of values; nil if a range spans types.
    init?(_ ranges: RangeSet) {
        var runs: [Run] = []
        for range in ranges.ranges {
            guard let more = Self.runs(range) else { return nil }
            runs += more
        }
        self.runs = runs.sorted { compareBytes($0.lower, $1.lower) < 0 }
        (first, takesLast) = (nil, false)
    }

    /// The runs in which the first ids of all are, in the order of their values.
    init(first count: Int, isDescending: Bool) {
        let numbers = Self.numbers(from: .min, through: .max)
        let texts = Self.texts { head in (head, Self.after(head)) }
        let rest: [(lower: UInt8, upper: UInt8)] = [(0x40, 0x60), (0x80, 0xFF)]
        let others = rest.map {
            Run(lower: [$0.lower], upper: [$0.upper], isOrdered: false, isDescending: false)
        }
        runs = (numbers + texts + others).sorted { compareBytes($0.lower, $1.lower) < 0 }
        (first, takesLast) = (count, isDescending)
    }

    /// Returns how many ids of a run are wanted, and whether they are those at its end; nil for all.
    public func bound(of run: Run) -> (count: Int, fromEnd: Bool)? {
        guard let first, run.isOrdered else { return nil }
        return (first, takesLast != run.isDescending)
    }

    private static func runs(_ range: KeyRange) -> [Run]? {
        switch (range.lower, range.upper) {
        case (.before(.string(let text)?), let upper): texts(from: Array(text.utf8), upper)
        // The least text after another one is that with a zero behind it.
        case (.after(.string(let text)?), let upper): texts(from: Array(text.utf8) + [0], upper)
        case (.beforeClass(.string), let upper): texts(from: [], upper)
        case (let lower, let upper):
            if let least = number(lower, isLower: true), let greatest = number(upper, isLower: false) {
                numbers(from: least, through: greatest)
            } else {
                nil
            }
        }
    }

    private static func texts(from lower: [UInt8], _ upper: KeyPosition) -> [Run]? {
        switch upper {
        case .before(.string(let text)?): texts { ($0 + lower, $0 + Array(text.utf8)) }
        case .after(.string(let text)?): texts { ($0 + lower, $0 + Array(text.utf8) + [0]) }
        case .afterPrefix(let text): texts { ($0 + lower, after($0 + Array(text.utf8))) }
        case .afterClass(.string): texts { ($0 + lower, after($0)) }
        default: nil
        }
    }

    /// A run for each length, and one of all longer texts.
    private static func texts(_ bounds: (_ head: [UInt8]) -> (lower: [UInt8], upper: [UInt8])) -> [Run] {
        var runs: [Run] = []
        for length in 0..<separateLengths {
            let head: [UInt8] = length < 24 ? [0x60 + UInt8(length)] : [0x78, UInt8(length)]
            let (lower, upper) = bounds(head)
            guard compareBytes(lower, upper) < 0 else { continue }
            runs.append(Run(lower: lower, upper: upper, isOrdered: true, isDescending: false))
        }
        runs.append(
            Run(lower: [0x78, UInt8(separateLengths)], upper: [0x80], isOrdered: false, isDescending: false))
        return runs
    }

    /// The integer next to a position, on the side that leaves nothing out; nil for another type.
    private static func number(_ position: KeyPosition, isLower: Bool) -> Int64? {
        switch position {
        case .before(.int(let number)?), .after(.int(let number)?): return number
        case .before(.double(let number)?), .after(.double(let number)?):
            guard !number.isNaN else { return isLower ? .min : nil }
            if number <= -0x1p63 { return .min }
            if number >= 0x1p63 { return .max }
            return Int64(number.rounded(isLower ? .down : .up))
        case .beforeClass(.number): return isLower ? .min : nil
        case .afterClass(.number): return isLower ? nil : .max
        default: return nil
        }
    }

    private static func numbers(from least: Int64, through greatest: Int64) -> [Run] {
        var runs: [Run] = []
        if greatest >= 0 {
            let lower = CBOR.encode(.int(max(0, least)))
            runs.append(
                Run(
                    lower: lower, upper: CBOR.encode(.int(greatest)) + [0], isOrdered: true,
                    isDescending: false))
        }
        if least < 0 {
            let lower = CBOR.encode(.int(min(-1, greatest)))
            runs.append(
                Run(lower: lower, upper: CBOR.encode(.int(least)) + [0], isOrdered: true, isDescending: true))
        }
        return runs.filter { compareBytes($0.lower, $0.upper) < 0 }
    }

    /// The least bytes after all that begin with these.
    private static func after(_ bytes: [UInt8]) -> [UInt8] {
        guard let last = bytes.lastIndex(where: { $0 < 0xFF }) else { return [0xFF] }
        var next = Array(bytes[...last])
        next[last] += 1
        return next
    }
}
