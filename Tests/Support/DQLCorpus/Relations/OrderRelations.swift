import CRDT
import DQL

/// ORDER BY, LIMIT and OFFSET.
enum OrderRelations {
    static let all: [Relation] = [
        Relation("a huge LIMIT and no OFFSET change nothing") { trial in
            let condition = trial.grammar.predicate()
            let order = trial.grammar.order()
            let query = "SELECT * FROM c WHERE \(condition) ORDER BY \(order)"
            let plain = try trial.rows(query)
            for bounds in ["LIMIT 1000000", "LIMIT 9223372036854775807 OFFSET 0", "OFFSET 0"] {
                try trial.same(inOrder: try trial.rows("\(query) \(bounds)"), plain, bounds)
            }
        },
        Relation("LIMIT and OFFSET cut a window out of the ordered rows") { trial in
            let order = trial.grammar.order()
            let limit = trial.grammar.choices.below(6)
            let offset = trial.grammar.choices.below(6)
            for query in [
                "SELECT RAW _id FROM c ORDER BY \(order)", "SELECT DISTINCT n FROM c ORDER BY \(order)",
                "SELECT COUNT(*) AS n FROM c GROUP BY n ORDER BY n",
            ] {
                let whole = try trial.rows(query)
                let window = try trial.rows("\(query) LIMIT \(limit) OFFSET \(offset)")
                try trial.same(inOrder: window, Array(whole.dropFirst(offset).prefix(limit)), "the window")
            }
        },
        Relation("windows one after the other make the whole") { trial in
            let order = trial.grammar.order()
            let condition = trial.grammar.predicate()
            let size = 1 + trial.grammar.choices.below(4)
            let query = "SELECT * FROM c WHERE \(condition) ORDER BY \(order)"
            let whole = try trial.rows(query)
            var pages: [Value] = []
            for offset in stride(from: 0, to: whole.count + size, by: size) {
                pages += try trial.rows("\(query) LIMIT \(size) OFFSET \(offset)")
            }
            try trial.same(inOrder: pages, whole, "the pages")
        },
        Relation("without ORDER BY a window has as many rows as it can") { trial in
            let condition = trial.grammar.predicate()
            let (limit, offset) = (trial.grammar.choices.below(6), trial.grammar.choices.below(6))
            let whole = try trial.ids(condition)
            let window = try trial.ids("\(condition) LIMIT \(limit) OFFSET \(offset)")
            try trial.holds(
                window.count == min(limit, max(0, whole.count - offset)),
                "\(Trial.text(window)) of \(Trial.text(whole))")
            try trial.holds(
                window.allSatisfy(whole.contains), "\(Trial.text(window)) of \(Trial.text(whole))")
            let distinct = "SELECT DISTINCT n, type(a) AS t FROM c WHERE \(condition)"
            let all = try trial.rows(distinct)
            let some = try trial.rows("\(distinct) LIMIT \(limit) OFFSET \(offset)")
            let count = min(limit, max(0, all.count - offset))
            try trial.holds(some.count == count, "\(Trial.text(some)) of the distinct \(Trial.text(all))")
            let ordered = try trial.rows("\(distinct) ORDER BY \(trial.grammar.order())")
            try trial.holds(ordered.count == all.count, "\(Trial.text(ordered)), \(Trial.text(all))")
        },
        Relation("DESC of every term turns the order round") { trial in
            let (one, two) = (trial.grammar.operand(), trial.grammar.operand())
            let up = try trial.rows("SELECT RAW _id FROM c ORDER BY \(one), \(two), _id")
            let down = try trial.rows("SELECT RAW _id FROM c ORDER BY \(one) DESC, \(two) DESC, _id DESC")
            try trial.same(inOrder: down, up.reversed(), "DESC")
        },
        Relation("NULLS FIRST and LAST move what is null or missing and nothing else") { trial in
            let key = trial.grammar.operand()
            let direction = trial.grammar.choices.pick(["ASC", "DESC"])
            func rows(_ nulls: String) throws -> [Value] {
                try trial.engine.rows(
                    "SELECT _id, \(key) AS k FROM c ORDER BY \(key) \(direction) \(nulls), _id",
                    trial.grammar.arguments)
            }
            func isAbsent(_ row: Value) -> Bool { row["k"] == nil || row["k"] == .some(.null) }
            let (plain, first, last) = (try rows(""), try rows("NULLS FIRST"), try rows("NULLS LAST"))
            let (absent, present) = (plain.filter(isAbsent), plain.filter { !isAbsent($0) })
            try trial.same(inOrder: first, absent + present, "NULLS FIRST by \(key)")
            try trial.same(inOrder: last, present + absent, "NULLS LAST by \(key)")
        },
        Relation("rows come in the order of the specification") { trial in
            let (one, two) = (trial.grammar.operand(), trial.grammar.operand())
            let rows = try trial.rows("SELECT \(one) AS k1, \(two) AS k2 FROM c ORDER BY \(one) DESC, \(two)")
            for (a, b) in zip(rows, rows.dropFirst()) {
                let first = Reference.collate(b["k1"], a["k1"])
                try trial.holds(
                    first < 0 || (first == 0 && Reference.collate(a["k2"], b["k2"]) <= 0),
                    "\(a.words) before \(b.words)")
            }
        },
        Relation("an alias orders as its expression does") { trial in
            let key = trial.grammar.operand()
            let alias = try trial.rows("SELECT _id, \(key) AS k FROM c ORDER BY k, _id LIMIT 5")
            let written = try trial.rows("SELECT _id, \(key) AS k FROM c ORDER BY \(key), _id LIMIT 5")
            try trial.same(inOrder: alias, written, "the alias")
        },
    ]
}
