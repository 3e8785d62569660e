import TestSupport

/// The source of a generator's decisions: fresh randomness that is recorded, or a tape of earlier decisions
/// that is replayed.
///
/// Shrinking works on the tape (`Shrinker`), so no generator has to know how to shrink. A shorter tape with
/// smaller numbers is a simpler case, provided that each generator puts its simplest alternative first and
/// asks "one more?" before each element. Past its end a tape answers 0. A copy draws the same as its
/// original.
public struct Choices: Sendable {
    /// The decisions so far.
    public private(set) var tape: [Int] = []
    private let replayed: [Int]?
    private var random: SplitMix64

    /// Fresh decisions.
    public init(seed: UInt64) {
        random = SplitMix64(seed: seed)
        replayed = nil
    }

    /// The decisions of a tape.
    public init(replaying tape: [Int]) {
        random = SplitMix64(seed: 0)
        replayed = tape
    }

    /// A number from 0 up to, but excluding, `bound`, which must be positive.
    public mutating func below(_ bound: Int) -> Int {
        let choice: Int =
            if let replayed { tape.count < replayed.count ? replayed[tape.count] % bound : 0 } else {
                random.below(bound)
            }
        tape.append(choice)
        return choice
    }

    /// True in about `percent` of a hundred draws; false is the simpler answer.
    public mutating func chance(_ percent: Int) -> Bool { below(100) >= 100 - percent }

    /// One of several alternatives; the simplest comes first.
    public mutating func pick<Item>(_ items: [Item]) -> Item { items[below(items.count)] }

    /// The items in some order; the given order is the simplest.
    public mutating func shuffled<Item>(_ items: [Item]) -> [Item] {
        var rest = items
        var result: [Item] = []
        while !rest.isEmpty { result.append(rest.remove(at: below(rest.count))) }
        return result
    }
}

/// Makes a failing tape shorter and its numbers smaller while it keeps failing.
public struct Shrinker {
    /// The most attempts per case: enough for tapes of some hundred numbers, and seconds at most.
    private static let attempts = 1_000

    private let fails: ([Int]) -> Bool
    private var left = Shrinker.attempts
    private var best: [Int]

    /// The simplest tape found that still fails.
    public static func shrink(_ tape: [Int], while fails: @escaping ([Int]) -> Bool) -> [Int] {
        var shrinker = Shrinker(fails: fails, best: tape)
        var before: [Int] = []
        while before != shrinker.best, shrinker.left > 0 {
            before = shrinker.best
            shrinker.removeRuns()
            shrinker.lowerNumbers()
        }
        return shrinker.best
    }

    private init(fails: @escaping ([Int]) -> Bool, best: [Int]) {
        self.fails = fails
        self.best = best
    }

    private mutating func keep(_ candidate: [Int]) -> Bool {
        guard left > 0, candidate != best else { return false }
        left -= 1
        guard fails(candidate) else { return false }
        best = candidate
        return true
    }

    private mutating func removeRuns() {
        for length in [32, 8, 4, 2, 1] {
            var end = best.count
            while end >= length {
                var candidate = best
                candidate.removeSubrange(end - length..<end)
                if !keep(candidate) { end -= 1 } else { end = min(end, best.count) }
            }
        }
    }

    private mutating func lowerNumbers() {
        for place in best.indices where place < best.count {
            for smaller in [0, best[place] / 2, best[place] - 1] where smaller >= 0 && smaller < best[place] {
                var candidate = best
                candidate[place] = smaller
                if keep(candidate) { break }
            }
        }
    }
}
