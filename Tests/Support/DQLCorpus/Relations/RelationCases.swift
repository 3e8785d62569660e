import TestSupport

/// The cases that a run checks.
public enum RelationCases {
    /// As many ranges as keep all cores busy: `fast` cases from this run's seed on, or in a deep run twenty
    /// times as many. An optimized build (`scripts/agree`) takes a million in a deep run.
    public static func chunks(fast: Int) -> [Range<Int>] {
        #if DEBUG
            let cases = Depth.cases(fast: fast, deep: 20 * fast)
        #else
            let cases = Depth.cases(fast: fast, deep: 1_000_000)
        #endif
        let size = max(1, min(cases.count, max(250, cases.count / 16)))
        return stride(from: cases.lowerBound, to: cases.upperBound, by: size).map {
            $0..<min($0 + size, cases.upperBound)
        }
    }
}
