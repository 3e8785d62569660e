import CRDT
import DQL

/// Pairs of predicates that mean the same.
enum PredicateRelations {
    static let all: [Relation] = [
        Relation("BETWEEN is two comparisons") { trial in
            let (x, low, high) = (trial.grammar.operand(), trial.grammar.operand(), trial.grammar.operand())
            let between = try trial.observe("\(x) BETWEEN \(low) AND \(high)")
            try trial.same(between, try trial.observe("\(x) >= \(low) AND \(x) <= \(high)"), "BETWEEN")
            let outside = try trial.observe("\(x) NOT BETWEEN \(low) AND \(high)")
            try trial.same(outside, try trial.observe("NOT (\(x) BETWEEN \(low) AND \(high))"), "NOT BETWEEN")
        },
        Relation("IN is an OR of equalities") { trial in
            let x = trial.grammar.operand(depth: 1)
            let list = trial.grammar.list()
            let within = try trial.ids("\(x) IN (\(list.joined(separator: ", ")))")
            let equal = try trial.ids(list.map { "\(x) = \($0)" }.joined(separator: " OR "))
            try trial.same(within, equal, "IN")
        },
        Relation("NOT IN of values of one type is an AND of inequalities") { trial in
            let x = trial.grammar.path()
            let kind = trial.grammar.choices.below(2)
            let pool =
                kind == 0 ? ValuePool.integers + ValuePool.floats : ValuePool.strings.map { .string($0) }
            var list: [String] = []
            while list.isEmpty || (list.count < 10 && trial.grammar.choices.chance(70)) {
                let value = trial.grammar.choices.pick(pool)
                list.append(trial.grammar.literal(value))
            }
            let type = kind == 0 ? "is_number(\(x))" : "is_string(\(x))"
            let outside = try trial.ids("\(type) AND \(x) NOT IN (\(list.joined(separator: ", ")))")
            let unequal = try trial.ids(
                "\(type) AND " + list.map { "\(x) != \($0)" }.joined(separator: " AND "))
            try trial.same(outside, unequal, "NOT IN")
        },
        Relation("IN is the same over a list, an array and an argument, short or long") { trial in
            let x = trial.grammar.operand(depth: 1)
            var values: [Value] = []
            while values.isEmpty || (values.count < 5 && trial.grammar.choices.chance(70)) {
                values.append(trial.grammar.choices.value())
            }
            let list = values.map { trial.grammar.literal($0) }.joined(separator: ", ")
            let array = trial.grammar.bind(.array(values))
            let long = trial.grammar.bind(.array(values + values + values + values + values + values))
            let plain = try trial.observe("\(x) IN (\(list))")
            for other in [
                "\(x) IN [\(list)]", "\(x) IN \(array)", "\(x) IN \(long)",
                "\(x) IN (\(Array(repeating: list, count: 8).joined(separator: ", ")))",
                "\(x) IN CASE WHEN type(_id) = 'null' THEN 1 ELSE \(array) END",
            ] { try trial.same(try trial.observe(other), plain, other) }
            let outside = try trial.observe("\(x) NOT IN \(array)")
            try trial.same(outside, try trial.observe("NOT (\(x) IN \(array))"), "NOT IN")
        },
        Relation("an array contains what is IN it") { trial in
            let value = trial.grammar.scalar()
            let within = try trial.ids("\(value) IN l")
            try trial.same(try trial.ids("array_contains(l, \(value))"), within, "array_contains")
        },
        Relation("LIKE without wildcards, at the ends and in the middle") { trial in
            let x = trial.grammar.path()
            let text = trial.grammar.choices.pick(ValuePool.strings)
            let escaped = text.unicodeScalars.map { "%_\\".unicodeScalars.contains($0) ? "\\\($0)" : "\($0)" }
                .joined()
            let literal = trial.grammar.literal(.string(text))
            for (pattern, other) in [
                (escaped, "is_string(\(x)) AND \(x) = \(literal)"),
                ("\(escaped)%", "starts_with(\(x), \(literal))"),
                ("%\(escaped)", "ends_with(\(x), \(literal))"),
                ("%\(escaped)%", "contains(\(x), \(literal))"),
            ] {
                let written = trial.grammar.literal(.string(pattern))
                try trial.same(try trial.ids("\(x) LIKE \(written)"), try trial.ids(other), other)
            }
        },
        Relation("the escape character of LIKE can be any") { trial in
            let x = trial.grammar.path()
            let pattern = trial.grammar.choices.pick(ValuePool.patterns)
            let plain = try trial.observe("\(x) LIKE \(trial.grammar.literal(.string(pattern)))")
            // A backslash that escapes becomes the other character; an escaped one is literal.
            var other = ""
            var isEscaped = false
            for scalar in pattern.unicodeScalars {
                if scalar == "\\", !isEscaped {
                    isEscaped = true
                    other += "!"
                } else {
                    isEscaped = false
                    other.unicodeScalars.append(scalar)
                }
            }
            let escape = trial.grammar.literal("!")
            let written = trial.grammar.literal(.string(other))
            try trial.same(try trial.observe("\(x) LIKE \(written) ESCAPE \(escape)"), plain, "ESCAPE")
            let computed = try trial.observe(
                "\(x) LIKE \(written) ESCAPE substr(CASE WHEN TRUE THEN '!' END, 0)")
            try trial.same(computed, plain, "a computed ESCAPE")
        },
        Relation("ILIKE is LIKE where the pattern has no letters, and finds no less") { trial in
            let x = trial.grammar.path()
            let caseless = trial.grammar.choices.pick(["%", "_", "", "__", "\\_", "_%_", "%\\\\", "%_"])
            let written = trial.grammar.literal(.string(caseless))
            try trial.same(
                try trial.observe("\(x) ILIKE \(written)"), try trial.observe("\(x) LIKE \(written)"), written
            )
            let pattern = trial.grammar.pattern()
            let exact = try trial.ids("\(x) LIKE \(pattern)")
            let loose = try trial.ids("\(x) ILIKE \(pattern)")
            try trial.holds(exact.allSatisfy(loose.contains), "LIKE finds what ILIKE does not")
        },
        Relation("IS NULL and IS MISSING are types") { trial in
            let x = trial.grammar.operand()
            for (test, type) in [("NULL", "null"), ("MISSING", "missing")] {
                let found = try trial.observe("\(x) IS \(test)")
                try trial.same(found, try trial.observe("type(\(x)) = '\(type)'"), test)
                let others = try trial.observe("\(x) IS NOT \(test)")
                try trial.same(others, try trial.observe("NOT (\(x) IS \(test))"), "NOT \(test)")
            }
        },
        Relation("a comparison turned round says the same") { trial in
            let (a, b) = (trial.grammar.operand(), trial.grammar.operand())
            for (one, two) in [
                ("\(a) < \(b)", "\(b) > \(a)"), ("\(a) <= \(b)", "\(b) >= \(a)"),
                ("\(a) = \(b)", "\(b) = \(a)"),
                ("\(a) != \(b)", "NOT (\(a) = \(b))"), ("\(a) <= \(b)", "\(a) < \(b) OR \(a) = \(b)"),
                ("\(a) >= \(b)", "NOT (\(a) < \(b))"), ("\(a) <> \(b)", "\(b) != \(a)"),
                ("\(a) == \(b)", "\(a) = \(b)"),
                ("\(a) = \(b)", "\(a) <= \(b) AND \(a) >= \(b)"),
            ] { try trial.same(try trial.observe(one), try trial.observe(two), "\(one), \(two)") }
        },
        Relation("CASE takes the first branch that is true") { trial in
            let (p, q) = (trial.grammar.predicate(depth: 2), trial.grammar.predicate(depth: 2))
            let chosen = try trial.ids("CASE WHEN \(p) THEN 1 WHEN \(q) THEN 2 ELSE 3 END = 2")
            let (first, second) = (try trial.ids(p), try trial.ids(q))
            try trial.same(chosen, second.filter { !first.contains($0) }, "the second branch")
            let rest = try trial.ids("CASE WHEN \(p) THEN 1 WHEN \(q) THEN 2 END IS NULL")
            let all = try trial.ids("TRUE")
            try trial.same(rest, all.filter { !first.contains($0) && !second.contains($0) }, "no branch")
        },
        Relation("CASE with an operand compares it") { trial in
            let (x, a, b) = (trial.grammar.operand(depth: 1), trial.grammar.value(), trial.grammar.path())
            let simple = try trial.observe("CASE \(x) WHEN \(a) THEN 1 WHEN \(b) THEN [2] ELSE n END")
            let searched = try trial.observe(
                "CASE WHEN \(x) = \(a) THEN 1 WHEN \(x) = \(b) THEN [2] ELSE n END")
            try trial.same(simple, searched, "CASE")
        },
    ]
}
