/// A set of characters: ranges of Unicode scalar values, ascending, with gaps between them.
struct ScalarSet: Equatable, Hashable, Sendable {
    private(set) var ranges: [ClosedRange<UInt32>]

    static let last: UInt32 = 0x10FFFF
    static let everything = ScalarSet([0...last])
    static let lineFeed = ScalarSet([0x0A...0x0A])
    /// `\d`: ASCII, as in RE2.
    static let digits = ScalarSet([0x30...0x39])
    /// `\w`: ASCII letters, digits and the low line.
    static let word = ScalarSet([0x30...0x39, 0x41...0x5A, 0x5F...0x5F, 0x61...0x7A])
    /// `\s`: tab, line feed, vertical tab, form feed, carriage return, space.
    static let space = ScalarSet([0x09...0x0D, 0x20...0x20])

    /// From ranges in any order that may overlap.
    init(_ ranges: [ClosedRange<UInt32>]) {
        self.ranges = []
        for range in ranges.sorted(by: { $0.lowerBound < $1.lowerBound }) {
            guard let previous = self.ranges.last, range.lowerBound <= previous.upperBound + 1 else {
                self.ranges.append(range)
                continue
            }
            let end = max(previous.upperBound, range.upperBound)
            self.ranges[self.ranges.count - 1] = previous.lowerBound...end
        }
    }

    init(_ scalar: Unicode.Scalar) { ranges = [scalar.value...scalar.value] }

    var inverted: ScalarSet {
        var gaps: [ClosedRange<UInt32>] = []
        var next: UInt32 = 0
        for range in ranges {
            if range.lowerBound > next { gaps.append(next...(range.lowerBound - 1)) }
            next = range.upperBound + 1
        }
        if next <= Self.last { gaps.append(next...Self.last) }
        return ScalarSet(gaps)
    }

    func contains(_ scalar: UInt32) -> Bool {
        var low = 0
        var high = ranges.count
        while low < high {
            let middle = (low + high) / 2
            if scalar > ranges[middle].upperBound { low = middle + 1 } else { high = middle }
        }
        return low < ranges.count && ranges[low].lowerBound <= scalar
    }

    /// The set with the upper and lower case forms of every member.
    var ignoringCase: ScalarSet { ScalarSet(ranges + CaseFolding.partners(of: self)) }
}

/// The characters that differ only in case: those with the same simple lower case form.
enum CaseFolding {
    private static let asciiEnd: UInt32 = 0x7F
    private static let kelvinSign: UInt32 = 0x212A

    /// The other forms of a set's members.
    static func partners(of set: ScalarSet) -> [ClosedRange<UInt32>] {
        var found: [ClosedRange<UInt32>] = []
        for letter in UInt32(0x41)...0x5A {
            if set.contains(letter) { found.append(letter + 32...letter + 32) }
            if set.contains(letter + 32) { found.append(letter...letter) }
        }
        // The Kelvin sign is the only letter beyond ASCII whose lower case form is in ASCII.
        if set.contains(0x4B) || set.contains(0x6B) { found.append(kelvinSign...kelvinSign) }
        if let end = set.ranges.last?.upperBound, end > asciiEnd {
            let lowered = pairs.filter { set.contains($0.upper) || set.contains($0.lower) }
            let forms = ScalarSet(lowered.map { $0.lower...$0.lower })
            found += forms.ranges
            found += pairs.filter { forms.contains($0.lower) }.map { $0.upper...$0.upper }
        }
        return found
    }

    /// Every character with a lower case form of one character, and that form. The places of cased scripts
    /// are known, so not all of Unicode is searched.
    private static let pairs: [(upper: UInt32, lower: UInt32)] = {
        let scripts: [ClosedRange<UInt32>] = [
            0x41...0x24FF, 0x2C00...0x2DFF, 0xA640...0xABFF, 0xFF00...0xFFFF, 0x10400...0x10FFF,
            0x11800...0x118FF, 0x16E00...0x16EFF, 0x1E900...0x1E9FF,
        ]
        var pairs: [(upper: UInt32, lower: UInt32)] = []
        for value in scripts.joined() {
            guard let scalar = Unicode.Scalar(value), scalar.properties.changesWhenLowercased else {
                continue
            }
            let lower = scalar.properties.lowercaseMapping.unicodeScalars
            if lower.count == 1, let first = lower.first { pairs.append((value, first.value)) }
        }
        return pairs
    }()
}
