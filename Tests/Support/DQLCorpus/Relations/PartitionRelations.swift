import CRDT
import DQL

/// Every document makes a condition true, or its negation, or neither: the three parts are the whole, for
/// rows and for everything computed from them.
enum PartitionRelations {
    static let all: [Relation] = [
        Relation("a condition, its negation and what is unknown part the rows") { trial in
            let whole = try trial.ids("TRUE")
            var parts: [Value] = []
            for part in parts3(&trial) { parts += try trial.ids(part) }
            try trial.same(parts, whole, "the parts and the whole")
        },
        Relation("COUNT of the parts adds up") { trial in
            let argument = trial.grammar.operand()
            for aggregate in ["COUNT(*)", "COUNT(\(argument))"] {
                var parts = trial
                let counts = try parts3(&parts).map { try number(aggregate, $0, &parts) }
                trial = parts
                let whole = try number(aggregate, "TRUE", &trial)
                try trial.holds(counts.reduce(0, +) == whole, "\(aggregate): \(counts) and \(whole)")
            }
        },
        Relation("SUM of the parts adds up") { trial in
            // Small integers: sums of floats depend on their order.
            let sum = "SUM(CASE WHEN type(n) = 'integer' AND n BETWEEN -1000 AND 1000 THEN n END)"
            let parts = parts3(&trial)
            let sums = try parts.map { try number(sum, $0, &trial) }
            let whole = try number(sum, "TRUE", &trial)
            try trial.holds(sums.reduce(0, +) == whole, "\(sums) and \(whole)")
        },
        Relation("MIN and MAX of the parts give those of the whole") { trial in
            let argument = trial.grammar.operand()
            let parts = parts3(&trial)
            for (name, sign) in [("MIN", 1), ("MAX", -1)] {
                let candidates = try (parts + ["TRUE"]).map { part in
                    try trial.rows("SELECT RAW \(name)(\(argument)) FROM c WHERE \(part)").first
                }
                let extremes = candidates.dropLast().compactMap { $0 }
                let best = extremes.min { Reference.collate($0, $1) * sign < 0 }
                try trial.holds(
                    Reference.collate(best, candidates[3]) == 0,
                    "\(name): \(Trial.text(extremes)) and \(candidates)")
            }
        },
        Relation("DISTINCT of the parts gives that of the whole") { trial in
            let argument = trial.grammar.operand()
            let parts = parts3(&trial)
            let found = try (parts + ["TRUE"]).map {
                try trial.rows("SELECT DISTINCT RAW \(argument) FROM c WHERE \($0)")
            }
            for values in found {
                try trial.holds(
                    Reference.distinct(values).count == values.count, "twice: \(Trial.text(values))")
            }
            let union = Reference.distinct(found.dropLast().flatMap { $0 })
            try trial.holds(
                Reference.areSameSets(union, found[3]), "\(Trial.text(union)) and \(Trial.text(found[3]))")
        },
        Relation("GROUP BY of the parts adds up, group by group") { trial in
            let key = trial.grammar.operand()
            let parts = parts3(&trial)
            var sums: [(key: Value?, count: Int64)] = []
            for part in parts {
                for row in try groups(key, part, &trial) {
                    if let place = sums.firstIndex(where: { Reference.collate($0.key, row.key) == 0 }) {
                        sums[place].count += row.count
                    } else {
                        sums.append(row)
                    }
                }
            }
            let whole = try groups(key, "TRUE", &trial)
            try trial.holds(sums.count == whole.count, "\(sums) and \(whole)")
            for group in whole {
                let same = sums.first { Reference.collate($0.key, group.key) == 0 }
                try trial.holds(same?.count == group.count, "\(sums) and \(whole)")
            }
        },
        Relation("HAVING, its negation and what is unknown part the groups") { trial in
            let key = trial.grammar.path()
            let condition = trial.grammar.groupPredicate()
            let query = "SELECT COUNT(*) AS n, MIN(_id) AS least FROM c GROUP BY \(key)"
            let whole = try trial.rows(query)
            var parts: [Value] = []
            for part in threeParts(of: condition) { parts += try trial.rows("\(query) HAVING \(part)") }
            try trial.same(parts, whole, "the parts and the whole")
        },
        Relation("DISTINCT, GROUP BY and COUNT(DISTINCT) see the same values") { trial in
            let key = trial.grammar.operand()
            let condition = trial.grammar.predicate()
            let distinct = try trial.rows("SELECT DISTINCT RAW [\(key)] FROM c WHERE \(condition)")
            let keys = try trial.rows("SELECT RAW [\(key)] FROM c WHERE \(condition) GROUP BY \(key)")
            try trial.holds(
                Reference.areSameSets(distinct, keys) && distinct.count == keys.count,
                "\(Trial.text(distinct)) and \(Trial.text(keys))")
            let counted = distinct.filter { $0 != [] && $0 != [.null] && $0 != [false] }
            let count = try number("COUNT(DISTINCT \(key))", condition, &trial)
            try trial.holds(Int(count) == counted.count, "\(Trial.text(distinct)) and \(count)")
        },
    ]

    /// The conditions of the three parts of a random condition.
    private static func parts3(_ trial: inout Trial) -> [String] { threeParts(of: trial.grammar.predicate()) }

    private static func threeParts(of condition: String) -> [String] {
        let negation = "NOT (\(condition))"
        return [condition, negation, "(\(negation)) IS NULL OR (\(negation)) IS MISSING"]
    }

    private static func number(_ aggregate: String, _ condition: String, _ trial: inout Trial) throws -> Int64
    {
        try trial.rows("SELECT RAW \(aggregate) FROM c WHERE \(condition)").first?.intValue ?? 0
    }

    private static func groups(
        _ key: String, _ condition: String, _ trial: inout Trial
    ) throws -> [(key: Value?, count: Int64)] {
        try trial.rows("SELECT \(key) AS k, COUNT(*) AS n FROM c WHERE \(condition) GROUP BY \(key)").map {
            (key: $0["k"], count: $0["n"]?.intValue ?? 0)
        }
    }
}
