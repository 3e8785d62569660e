import Foundation

/// How much of its cases a property test, a sweep or a campaign takes: a sample in `make test`, all of them
/// in `make test-deep`. Every such test asks here; no other environment variable says how much is run.
///
/// `MIMEO_DEPTH=fast|deep` chooses, `fast` where it is missing. A run draws the seed it starts at and prints
/// it, so that the samples of many runs add up. `MIMEO_SEED=N` repeats a run, or starts with the case that a
/// failure named. `mimeo_harness/depth.py` is the same for tests in Python.
public enum Depth: String, Sendable {
    case fast, deep

    /// The depth of this run. Any other word than `fast` and `deep` ends the process: a typo must not pass
    /// for a deep run.
    public static let current: Depth = {
        guard let word = ProcessInfo.processInfo.environment["MIMEO_DEPTH"] else { return .fast }
        guard let depth = Depth(rawValue: word) else {
            fatalError("MIMEO_DEPTH is '\(word)': it has to be 'fast' or 'deep'")
        }
        return depth
    }()

    /// The number for this run's depth.
    public static func pick<Choice>(fast: Choice, deep: Choice) -> Choice {
        current == .deep ? deep : fast
    }

    /// Whether a measured time is short enough. Judged in the deep tier alone: in the fast one a machine that
    /// does other work would fail the test.
    public static func isInTime(_ measured: Duration, _ bound: Duration) -> Bool {
        current == .fast || measured < bound
    }

    /// The first seed of this run's cases: `MIMEO_SEED`, else one drawn for this process, below 2³⁰. Given
    /// seeds may be greater, since a failure names the seed of its case.
    public static let seed: UInt64 = {
        if let word = ProcessInfo.processInfo.environment["MIMEO_SEED"] {
            guard let given = UInt64(word), given < 1 << 40 else {
                fatalError("MIMEO_SEED is '\(word)': it has to be a number below 2⁴⁰")
            }
            return given
        }
        let drawn = UInt64.random(in: 0..<1 << 30)
        FileHandle.standardError.write(Data("tests draw their cases from seed MIMEO_SEED=\(drawn)\n".utf8))
        return drawn
    }()

    /// The seeds of this run: as many as its depth takes, from `seed` on.
    public static func seeds(fast: Int, deep: Int) -> Range<UInt64> {
        seed..<seed + UInt64(pick(fast: fast, deep: deep))
    }

    /// The same as numbers of cases.
    public static func cases(fast: Int, deep: Int) -> Range<Int> {
        Int(seed)..<Int(seed) + pick(fast: fast, deep: deep)
    }
}
