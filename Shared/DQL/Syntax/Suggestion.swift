/// Finds the known word that was probably meant by a mistyped one.
public enum Suggestion {
    /// The closest candidate within `DQLLimits.suggestionDistance`, ignoring case; nil if none is close. A
    /// short word has to be closer, so that `ab` does not suggest every three-letter word.
    public static func closest(to word: String, among candidates: some Sequence<String>) -> String? {
        let typed = Array(word.lowercased().unicodeScalars)
        guard typed.count <= DQLLimits.quotedTokenCharacters else { return nil }
        let allowed = min(DQLLimits.suggestionDistance, typed.count / 3 + (typed.count > 2 ? 1 : 0))
        var best: (word: String, distance: Int)?
        for candidate in candidates {
            let other = Array(candidate.lowercased().unicodeScalars)
            guard abs(other.count - typed.count) <= allowed else { continue }
            let distance = editDistance(typed, other)
            guard distance <= allowed, candidate != word else { continue }
            if best.map({ distance < $0.distance }) ?? true { best = (candidate, distance) }
        }
        return best?.word
    }

    /// Insertions, deletions, replacements and swaps of neighbours, each counting one.
    static func editDistance(_ left: [Unicode.Scalar], _ right: [Unicode.Scalar]) -> Int {
        var beforeLast = [Int](repeating: 0, count: right.count + 1)
        var last = Array(0...right.count)
        for row in left.indices {
            var current = [row + 1] + [Int](repeating: 0, count: right.count)
            for column in right.indices {
                let replaced = last[column] + (left[row] == right[column] ? 0 : 1)
                var best = min(last[column + 1] + 1, current[column] + 1, replaced)
                if row > 0, column > 0, left[row] == right[column - 1], left[row - 1] == right[column] {
                    best = min(best, beforeLast[column - 1] + 1)
                }
                current[column + 1] = best
            }
            beforeLast = last
            last = current
        }
        return last[right.count]
    }
}
