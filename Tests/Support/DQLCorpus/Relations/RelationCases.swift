import Foundation

/// The cases that a run checks.
public enum RelationCases {
    /// Enough ranges to keep all cores busy; `usual` cases unless the environment says otherwise:
    /// MIMEO_CASES is their number, MIMEO_SEED the first one (and the only one without MIMEO_CASES).
    public static func chunks(of usual: Int) -> [Range<Int>] {
        let environment = ProcessInfo.processInfo.environment
        let start = environment["MIMEO_SEED"].flatMap { Int($0) }
        let count = environment["MIMEO_CASES"].flatMap { Int($0) } ?? (start == nil ? usual : 1)
        let first = start ?? 0
        let size = max(1, min(count, max(250, count / 16)))
        return stride(from: first, to: first + count, by: size).map { $0..<min($0 + size, first + count) }
    }
}
