import CRDT
import DQL

/// Comparisons, arithmetic and aggregates against a second implementation of them.
enum ReferenceRelations {
    static let all: [Relation] = [
        Relation("a comparison is what the specification says") { trial in
            let (a, b) = (trial.grammar.operand(), trial.grammar.operand())
            let symbol = trial.grammar.comparison()
            for row in try trial.rows("SELECT \(a) AS a, \(b) AS b, \(a) \(symbol) \(b) AS v FROM c") {
                let wanted = Reference.comparison(symbol, row["a"], row["b"])
                try trial.holds(row["v"] == wanted, "\(a) \(symbol) \(b): \(row.words)")
            }
        },
        Relation("pairs of values compare as the specification says") { trial in
            for _ in 0..<8 {
                let pool = trial.grammar.choices.pick(ValuePool.comparable)
                let (a, b) = (trial.grammar.choices.pick(pool), trial.grammar.choices.pick(pool))
                let (left, right) = (trial.grammar.bind(a), trial.grammar.bind(b))
                let row =
                    try trial.rows(
                        """
                        SELECT \(left) = \(right) AS e, \(left) < \(right) AS l, \(left) >= \(right) AS g,
                        \(left) IN [\(right)] AS i, [\(left)] <= [\(right)] AS a FROM system:dual
                        """
                    ).first ?? .null
                let order = Reference.collate(a, b)
                let wanted: [(String, Value?)] = [
                    ("e", Reference.comparison("=", a, b)), ("l", Reference.comparison("<", a, b)),
                    ("g", Reference.comparison(">=", a, b)), ("a", .bool(order <= 0)),
                    ("i", a == .null ? .null : b == .null ? .null : .bool(order == 0)),
                ]
                for (name, value) in wanted {
                    try trial.holds(row[name] == value, "\(name) of \(a.words) and \(b.words): \(row.words)")
                }
            }
        },
        Relation("arithmetic of integers is exact or a float") { trial in
            let symbol = trial.grammar.choices.pick(["+", "-", "*", "/", "%"])
            let (a, b) = (
                trial.grammar.choices.pick(ValuePool.integers), trial.grammar.choices.pick(ValuePool.integers)
            )
            let (left, right) = (trial.grammar.literal(a), trial.grammar.bind(b))
            let given = try trial.rows("SELECT RAW \(left) \(symbol) \(right) FROM system:dual").first
            let wanted = Reference.integers(symbol, a.intValue ?? 0, b.intValue ?? 0)
            try trial.holds(
                isClose(given, wanted), "\(left) \(symbol) \(b): \(String(describing: given)), not \(wanted)")
            let divided = trial.grammar.bind(a)
            let parts = try trial.rows(
                "SELECT RAW (\(divided) / \(right)) * \(right) + \(divided) % \(right) FROM system:dual"
            ).first
            try trial.holds(
                parts == .some(.null) || isClose(parts, a), "\(a) / \(b): \(String(describing: parts))")
        },
        Relation("a sum turned round is the same, and || of strings is concat") { trial in
            let (a, b) = (trial.grammar.operand(), trial.grammar.operand())
            for symbol in ["+", "*"] {
                let turned = try trial.observe("\(b) \(symbol) \(a)")
                try trial.same(try trial.observe("\(a) \(symbol) \(b)"), turned, symbol)
            }
            let strings = "is_string(\(a)) AND is_string(\(b))"
            let joined = try trial.rows("SELECT RAW \(a) || \(b) FROM c WHERE \(strings)")
            try trial.same(
                joined, try trial.rows("SELECT RAW concat(\(a), \(b)) FROM c WHERE \(strings)"), "||")
        },
        Relation("aggregates are what they are over the bare rows") { trial in
            let isTest = trial.grammar.choices.chance(30)
            let argument = isTest ? "(\(trial.grammar.predicate(depth: 1)))" : trial.grammar.operand()
            let condition = trial.grammar.predicate()
            let values = try trial.rows("SELECT RAW \(argument) FROM c WHERE \(condition)")
            let row =
                try trial.rows(
                    """
                    SELECT COUNT(\(argument)) AS n, MIN(\(argument)) AS low, MAX(\(argument)) AS high,
                    SUM(\(argument)) AS s, AVG(\(argument)) AS a, COUNT(*) AS all_rows FROM c
                    WHERE \(condition)
                    """
                ).first ?? .null
            let known = values.filter { $0 != .null }
            try trial.holds(
                row["n"] == .int(Int64(known.count { $0 != false })),
                "COUNT: \(row.words) of \(Trial.text(values))")
            let sorted = known.sorted { Reference.collate($0, $1) < 0 }
            try trial.holds(
                Reference.collate(row["low"], sorted.first) == 0, "MIN: \(row.words) of \(Trial.text(values))"
            )
            try trial.holds(
                Reference.collate(row["high"], sorted.last) == 0, "MAX: \(row.words) of \(Trial.text(values))"
            )
            let rows = try trial.ids(condition)
            try trial.holds(row["all_rows"] == .int(Int64(rows.count)), "COUNT(*): \(row.words)")
            let numbers = known.filter { Reference.type($0) == 1 }
            try trial.holds(isSum(row["s"], of: numbers), "SUM: \(row.words) of \(Trial.text(numbers))")
            try trial.holds(
                (row["a"] == nil) == numbers.isEmpty, "AVG: \(row.words) of \(Trial.text(numbers))")
        },
        Relation("literals are read as they were written") { trial in
            let value = trial.grammar.choices.value()
            let literal = trial.grammar.literal(value)
            let bound = trial.grammar.bind(value)
            for text in [literal, bound, "[\(literal)][0]", "CASE WHEN TRUE THEN \(literal) END"] {
                try trial.same(try trial.rows("SELECT RAW \(text) FROM system:dual"), [value], text)
            }
        },
    ]

    /// Returns whether a value is the sum of the numbers: exact if all are integers and it fits; otherwise a
    /// float that is close enough (floats are added in the order of the rows).
    private static func isSum(_ given: Value?, of numbers: [Value]) -> Bool {
        guard !numbers.isEmpty else { return given == nil }
        let integers = numbers.compactMap(\.intValue)
        if integers.count == numbers.count {
            let exact = integers.reduce(Int128(0)) { $0 + Int128($1) }
            return isClose(given, Int64(exactly: exact).map { .int($0) } ?? .double(Double(exact)))
        }
        guard case .double(let sum)? = given else { return false }
        let floats = numbers.map { number -> Double in
            if case .double(let float) = number { float } else { Double(number.intValue ?? 0) }
        }
        let near = floats.reduce(0, +)
        let scale = floats.map(\.magnitude).max() ?? 0
        return !near.isFinite || scale > 1e299 || (sum - near).magnitude <= scale * 1e-9
    }

    /// Returns whether the values are the same integer, or floats that differ by rounding only.
    private static func isClose(_ given: Value?, _ wanted: Value) -> Bool {
        guard case .double(let number)? = given, case .double(let target) = wanted else {
            return given == wanted || (given.map { Reference.collate($0, wanted) == 0 } ?? false)
        }
        return (number - target).magnitude <= target.magnitude * 1e-15
    }
}
