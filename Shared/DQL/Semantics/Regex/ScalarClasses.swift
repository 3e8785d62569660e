/// The characters that a program tells apart: two are in one class if every set of the program has both or
/// neither. The matcher's tables have one column per class.
struct ScalarClasses: Sendable {
    /// The number of classes.
    let count: Int
    /// The class of each ASCII character.
    let ascii: [UInt16]
    /// Per class, true if it lies in the set of word characters; only filled if the program tests for words.
    let isWord: [Bool]
    /// Per class, true if it is the line feed; only filled if the program tests for lines.
    let isLineFeed: [Bool]
    /// The beginnings of the runs of characters of one class, ascending from 0, and their classes.
    private let starts: [UInt32]
    private let classes: [UInt16]
    /// One row of bits per set: its member classes.
    private let members: [UInt64]
    private let rowWords: Int

    /// - Parameter extra: the word characters and the line feed, if assertions need them.
    init(_ sets: [ScalarSet], extra: [ScalarSet?]) {
        let all = sets + extra.compactMap { $0 }
        let bounds = all.flatMap(\.ranges).flatMap { [$0.lowerBound, $0.upperBound + 1] }
        let starts = Set(bounds + [0]).sorted()
        let partition = Self.partition(all, starts)
        self.starts = starts
        classes = partition.classes
        count = partition.count
        func classOf(_ scalar: UInt32) -> Int { Self.find(scalar, starts, partition.classes) }
        ascii = (0..<128).map { UInt16(classOf($0)) }
        var isWord = Array(repeating: false, count: partition.count)
        for range in extra[0]?.ranges ?? [] { for scalar in range { isWord[classOf(scalar)] = true } }
        var isLineFeed = Array(repeating: false, count: partition.count)
        if extra[1] != nil { isLineFeed[classOf(0x0A)] = true }
        self.isWord = isWord
        self.isLineFeed = isLineFeed
        let rowWords = (partition.count + 63) / 64
        var members = Array(repeating: UInt64(0), count: rowWords * sets.count)
        for (row, set) in sets.enumerated() {
            for place in Self.runs(of: set, starts) {
                let member = Int(partition.classes[place])
                members[row * rowWords + member / 64] |= 1 << UInt64(member % 64)
            }
        }
        self.rowWords = rowWords
        self.members = members
    }

    /// The class of a character.
    func classOf(_ scalar: UInt32) -> Int { Self.find(scalar, starts, classes) }

    func isMember(_ scalarClass: Int, of set: Int) -> Bool {
        members[set * rowWords + scalarClass / 64] >> UInt64(scalarClass % 64) & 1 == 1
    }

    private static func find(_ scalar: UInt32, _ starts: [UInt32], _ classes: [UInt16]) -> Int {
        Int(classes[place(of: scalar, starts)])
    }

    /// The index of the last start that is not after the character.
    private static func place(of scalar: UInt32, _ starts: [UInt32]) -> Int {
        var low = 0
        var high = starts.count
        while high - low > 1 {
            let middle = (low + high) / 2
            if starts[middle] <= scalar { low = middle } else { high = middle }
        }
        return low
    }

    /// The indices in `starts` of the runs that make up a set.
    private static func runs(of set: ScalarSet, _ starts: [UInt32]) -> [Int] {
        set.ranges.flatMap { range in
            Array(place(of: range.lowerBound, starts)...place(of: range.upperBound, starts))
        }
    }

    /// Splits the runs into classes, set by set.
    private static func partition(
        _ sets: [ScalarSet], _ starts: [UInt32]
    ) -> (classes: [UInt16], count: Int) {
        var classes = Array(repeating: 0, count: starts.count)
        var next = 1
        for set in sets {
            var split: [Int: Int] = [:]
            for place in runs(of: set, starts) {
                let old = classes[place]
                let new = split[old] ?? next
                if new == next { next += 1 }
                split[old] = new
                classes[place] = new
            }
        }
        var numbers: [Int: UInt16] = [:]
        for old in classes where numbers[old] == nil { numbers[old] = UInt16(numbers.count) }
        return (classes.map { numbers[$0, default: 0] }, numbers.count)
    }
}
