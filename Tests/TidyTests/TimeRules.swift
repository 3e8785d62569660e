/// A test that fails where the machine is slow is a defect: it counts steps, moves a clock of its own, or
/// leaves the judgement to the deep tier.
extension Rules {
    /// Files that have the one judgement of measured times each.
    private static let judges: Set<String> = ["Tests/SystemTests/system_test.py"]

    /// Expectations that a measured time is short. `Depth.isInTime` and `assert_in_time` judge it in the deep
    /// tier alone.
    static func measuredBounds(_ file: SourceFile) -> [Violation] {
        guard file.path.hasPrefix("Tests/"), !judges.contains(file.path) else { return [] }
        let isBound: (String) -> Bool
        switch file.path {
        case let path where path.hasSuffix(".swift"): isBound = isSwiftBound
        case let path where path.hasSuffix(".py"): isBound = isPythonBound
        default: return []
        }
        let lines = file.path.hasSuffix(".swift") ? file.swift.lines : file.lines.map(\.text)
        return lines.enumerated().compactMap { index, line in
            guard isBound(line) else { return nil }
            return Violation(
                path: file.path, line: index + 1, message: "a measured time is judged in the fast tier")
        }
    }

    private static func isSwiftBound(_ line: String) -> Bool {
        line.contains("#expect(")
            && line.contains(
                #/#expect\(.*\b([Cc]lock|ContinuousClock|SuspendingClock|Date)(\(\))?\.now - .* <=? /#)
    }

    private static func isPythonBound(_ line: String) -> Bool {
        line.contains("assertLess")
            && line.contains(
                #/assertLess(Equal)?\(\s*(time\.\w+\(\) -|float\(seconds|(seconds|elapsed|median)\b)/#)
    }
}
