import CRDT
import DQL
import TestSupport

/// Indexes on the paths that generated statements read.
public enum RandomIndexes {
    static let paths = [
        "a", "b", "c", "n", "s", "l", "o", "o.x", "o.y", "o.deep", "o.deep.z", "`x y`", "a.x",
    ]

    /// CREATE INDEX statements for `c`.
    static func statement(_ number: Int, on collection: CollectionName, _ random: inout SplitMix64) -> String
    {
        var keys: [String] = []
        for path in (0..<(1 + random.below(3))).map({ _ in random.pick(paths) })
        where !keys.contains(where: { $0.hasPrefix(path + " ") }) {
            let missing = random.chance(15) ? " EXCLUDE MISSING" : ""
            keys.append("\(path) \(random.chance(40) ? "DESC" : "ASC")\(missing)")
        }
        return "CREATE INDEX i\(number) ON \(collection) (\(keys.joined(separator: ", ")))"
    }

    /// Creates some of `c` and `r`.
    public static func create(on engine: any StatementEngine, seed: UInt64) throws {
        var random = SplitMix64(seed: seed)
        for collection in ["c", "r"] {
            for number in 0..<random.below(7) {
                _ = try engine.execute(
                    statement(number, on: CollectionName(collection), &random), ObjectValue(), strict: false)
            }
        }
    }
}
