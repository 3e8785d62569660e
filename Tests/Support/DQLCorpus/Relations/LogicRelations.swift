import CRDT
import DQL

/// AND, OR, NOT and XOR with four truth values. MISSING over NULL in AND and NULL over MISSING in OR make
/// both commutative and associative; De Morgan holds only for the documents that WHERE lets through.
enum LogicRelations {
    static let all: [Relation] = [
        Relation("the order of operands changes no AND and no OR") { trial in
            let operands = operands(&trial, most: 4)
            let others = trial.grammar.choices.shuffled(operands)
            for symbol in [" AND ", " OR "] {
                let one = try trial.observe(operands.joined(separator: symbol))
                let two = try trial.observe(others.joined(separator: symbol))
                try trial.same(one, two, symbol)
            }
        },
        Relation("parentheses change no AND, OR and XOR of three") { trial in
            let (p, q, r) = three(&trial)
            for symbol in ["AND", "OR", "XOR"] {
                let one = try trial.observe("(\(p) \(symbol) \(q)) \(symbol) \(r)")
                let two = try trial.observe("\(p) \(symbol) (\(q) \(symbol) \(r))")
                try trial.same(one, two, symbol)
            }
        },
        Relation("NOT twice is nothing") { trial in
            let p = trial.grammar.predicate()
            let (two, none) = (try trial.ids("NOT (NOT (\(p)))"), try trial.ids(p))
            try trial.same(two, none, "NOT NOT")
            let (three, one) = (try trial.observe("NOT NOT NOT (\(p))"), try trial.observe("NOT (\(p))"))
            try trial.same(three, one, "NOT NOT NOT")
        },
        Relation("De Morgan's laws hold for what is let through") { trial in
            let (p, q, _) = three(&trial)
            for (one, two) in [
                ("NOT (\(p) AND \(q))", "NOT \(p) OR NOT \(q)"),
                ("NOT (\(p) OR \(q))", "NOT \(p) AND NOT \(q)"),
            ] {
                let (whole, parts) = (try trial.ids(one), try trial.ids(two))
                try trial.same(whole, parts, one)
            }
        },
        Relation("AND is the intersection of what is let through, OR the union") { trial in
            let (p, q, _) = three(&trial)
            let (first, second) = (try trial.ids(p), try trial.ids(q))
            let both = first.filter { second.contains($0) }
            try trial.same(try trial.ids("\(p) AND \(q)"), both, "AND")
            let either = first + second.filter { !first.contains($0) }
            try trial.same(try trial.ids("\(p) OR \(q)"), either, "OR")
        },
        Relation("TRUE is neutral to AND, FALSE to OR, and each dominates the other") { trial in
            let (p, _, _) = three(&trial)
            let plain = try trial.observe("\(p) AND TRUE")
            for same in ["TRUE AND \(p)", "\(p) OR FALSE", "FALSE OR \(p)", "\(p) AND \(p)", "\(p) OR \(p)"] {
                try trial.same(try trial.observe(same), plain, same)
            }
            try trial.same(try trial.ids("\(p) AND FALSE"), [], "AND FALSE")
            try trial.same(try trial.ids("\(p) OR TRUE"), try trial.ids("TRUE"), "OR TRUE")
        },
        Relation("a condition absorbs what is added to it") { trial in
            let (p, q, _) = three(&trial)
            let plain = try trial.ids(p)
            try trial.same(try trial.ids("\(p) OR (\(p) AND \(q))"), plain, "OR with AND")
            try trial.same(try trial.ids("\(p) AND (\(p) OR \(q))"), plain, "AND with OR")
        },
        Relation("XOR is one without the other") { trial in
            let (p, q, _) = three(&trial)
            let exclusive = try trial.ids("\(p) XOR \(q)")
            let written = try trial.ids("(\(p) AND NOT \(q)) OR (NOT \(p) AND \(q))")
            try trial.same(exclusive, written, "XOR")
        },
        Relation("NULL and MISSING are unknown to AND and OR in their order") { trial in
            let (p, _, _) = three(&trial)
            let absences = [("NULL", Value?.some(.null)), ("MISSING", Value?.none)]
            for (word, value) in absences {
                for (symbol, decides) in [("AND", false), ("OR", true)] {
                    let found = try trial.rows(
                        "SELECT \(p) AND TRUE AS p, \(p) \(symbol) \(word) AS v FROM c")
                    for row in found {
                        let wanted = combined(row["p"], value, decidedBy: .bool(decides))
                        try trial.holds(row["v"] == wanted, "\(p) \(symbol) \(word): \(row.words)")
                    }
                }
            }
        },
    ]

    /// AND (decided by false) or OR (decided by true) of a truth value and NULL or MISSING.
    private static func combined(_ truth: Value?, _ absence: Value?, decidedBy deciding: Value) -> Value? {
        if truth == deciding { return deciding }
        let isAnd = deciding == false
        guard truth != nil, truth != .some(.null) else {
            if truth == absence { return absence }
            return isAnd ? Value?.none : .some(.null)
        }
        return absence
    }

    private static func operands(_ trial: inout Trial, most: Int) -> [String] {
        var operands = ["(\(trial.grammar.predicate(depth: 2)))"]
        while operands.count < most, operands.count < 2 || trial.grammar.choices.chance(60) {
            operands.append("(\(trial.grammar.predicate(depth: 2)))")
        }
        return operands
    }

    private static func three(_ trial: inout Trial) -> (String, String, String) {
        let operands = (0..<3).map { _ in "(\(trial.grammar.predicate(depth: 2)))" }
        return (operands[0], operands[1], operands[2])
    }
}
