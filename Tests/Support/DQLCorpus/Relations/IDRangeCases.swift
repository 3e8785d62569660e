import CRDT
import DQL
import TestSupport

/// Ranges, prefixes and the order of ids of every type, against the meaning of values.
public enum IDRangeCases {
    private static let fixed: [Value] = [
        0, 1, 23, 24, 255, 256, 65_536, 4_294_967_296, .int(.max), -1, -24, -25, -256, -257, .int(.min), "",
        "a", "b", "ab", "aé", "a\u{0}", "z", true, false, [1], ["a", 2], .binary([1, 2]), ["k": 1],
    ]

    /// Inserts documents and asks for them; returns what is wrong.
    public static func faults(on engine: any StatementEngine, seed: UInt64) throws -> [String] {
        var random = SplitMix64(seed: seed)
        var ids: [Value] = fixed
        for _ in 0..<60 {
            let letters = (0..<random.below(4)).map { _ in random.pick(["a", "b", "\u{1F600}"]) }.joined()
            let id: Value =
                random.chance(40)
                ? .int(Int64(random.below(600)) - 300)
                : .string(
                    letters + String(repeating: "x", count: random.pick([0, 1, 20, 22, 63, 64, 90, 300])))
            if !ids.contains(id) { ids.append(id) }
        }
        for id in ids {
            _ = try engine.execute("INSERT INTO ids DOCUMENTS (:d)", ["d": ["_id": id]], strict: false)
        }
        _ = try engine.execute("DELETE FROM ids WHERE _id = 'ab'", ObjectValue(), strict: false)
        ids.removeAll { $0 == "ab" }
        var faults: [String] = []
        func ask(_ statement: String, _ arguments: ObjectValue, isSorted: Bool, _ wanted: [Value]) throws {
            let found = try engine.rows("SELECT RAW _id FROM ids \(statement)", arguments)
            let sorted = isSorted ? found : found.sorted { Reference.collate($0, $1) < 0 }
            if sorted != wanted { faults.append("\(statement) \(arguments): \(sorted), not \(wanted)") }
        }
        let ascending = ids.sorted { Reference.collate($0, $1) < 0 }
        for count in [1, 3, 10, ids.count, ids.count + 5] {
            try ask(
                "ORDER BY _id LIMIT \(count)", ObjectValue(), isSorted: true, Array(ascending.prefix(count)))
            try ask(
                "ORDER BY _id DESC LIMIT \(count) OFFSET 2", ObjectValue(), isSorted: true,
                Array(ascending.reversed().dropFirst(2).prefix(count)))
        }
        let bounds = fixed.filter { [.number, .string].contains(ValueClass(of: $0)) } + [2.5, -25.5, 1e300]
        for bound in bounds {
            for (symbol, holds) in [
                ("<", { $0 < 0 }), ("<=", { $0 <= 0 }), (">", { $0 > 0 }), (">=", { $0 >= 0 }),
            ] as [(String, (Int) -> Bool)] {
                try ask(
                    "WHERE _id \(symbol) :v", ["v": bound], isSorted: false,
                    ascending.filter {
                        ValueClass(of: $0) == ValueClass(of: bound) && holds(Reference.collate($0, bound))
                    })
            }
        }
        for prefix in ["a", "ab", "aé", "x", "\u{1F600}", "b" + String(repeating: "x", count: 62)] {
            try ask(
                "WHERE _id LIKE '\(prefix)%'", ObjectValue(), isSorted: false,
                ascending.filter { $0.stringValue?.utf8.starts(with: prefix.utf8) ?? false })
        }
        try ask(
            "WHERE _id BETWEEN -30 AND 40 AND _id != 24", ObjectValue(), isSorted: false,
            ascending.filter {
                if case .int(let number) = $0 { -30...40 ~= number && number != 24 } else { false }
            })
        return faults
    }
}
