import CRDT

/// A run of an index's keys: from `lower` on, up to and without `upper` (nil is the end).
struct KeyInterval: Equatable {
    var lower: [UInt8]
    var upper: [UInt8]?
    /// Whether it holds the keys of the values it was made for and no others: false where a bound was cut.
    var isExact = true

    /// Every key.
    static let all = KeyInterval(lower: [], upper: nil)

    /// The keys that begin with these bytes.
    init(beginningWith bytes: [UInt8], isExact: Bool) {
        lower = bytes
        upper = Self.after(bytes)
        self.isExact = isExact
    }

    init(lower: [UInt8], upper: [UInt8]?, isExact: Bool = true) {
        self.lower = lower
        self.upper = upper
        self.isExact = isExact
    }

    var isEmpty: Bool { upper.map { compareBytes($0, lower) <= 0 } ?? false }

    /// The first run of bytes behind all that begin with these; nil when nothing is behind them.
    static func after(_ bytes: [UInt8]) -> [UInt8]? {
        guard let last = bytes.lastIndex(where: { $0 < 0xFF }) else { return nil }
        return Array(bytes[..<last]) + [bytes[last] + 1]
    }

    /// The intervals in order, those that meet made one, so that no key is visited twice.
    static func disjoint(_ intervals: [KeyInterval]) -> [KeyInterval] {
        guard intervals.count > 1 else { return intervals.filter { !$0.isEmpty } }
        var result: [KeyInterval] = []
        for interval in intervals.filter({ !$0.isEmpty }).sorted(by: { compareBytes($0.lower, $1.lower) < 0 }) {
            guard let last = result.last, last.upper.map({ compareBytes(interval.lower, $0) <= 0 }) ?? true
            else {
                result.append(interval)
                continue
            }
            let place = result.count - 1
            if let end = last.upper {
                result[place].upper = interval.upper.map { compareBytes($0, end) > 0 ? $0 : end }
            }
            result[place].isExact = last.isExact && interval.isExact
        }
        return result
    }
}
