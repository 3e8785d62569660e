import CRDT
import DQL

/// Joins, subqueries, and tests of documents in place.
enum JoinRelations {
    static let all: [Relation] = [
        Relation("IN a subquery is IN its values") { trial in
            let (tested, read) = (trial.grammar.path(), trial.grammar.path())
            let condition = trial.grammar.predicate()
            let list = try trial.rows("SELECT RAW \(read) FROM c WHERE \(condition)")
            for word in ["IN", "NOT IN"] {
                let found = try trial.ids("\(tested) \(word) (SELECT RAW \(read) FROM c WHERE \(condition))")
                let wanted = try trial.rows(
                    "SELECT RAW _id FROM c WHERE \(tested) \(word) :list", ["list": .array(list)])
                try trial.same(inOrder: found, wanted, word)
            }
        },
        Relation("EXISTS is whether there is a row") { trial in
            let condition = trial.grammar.predicate()
            let count = try trial.ids(condition).count
            let found = try trial.rows(
                "SELECT RAW EXISTS (SELECT * FROM c WHERE \(condition)) FROM system:dual")
            try trial.same(found, [.bool(count > 0)], "EXISTS")
        },
        Relation("a join is a statement for each row, an outer one keeps the others") { trial in
            let paths = ["a", "b", "n", "s", "q", "o", "o.x", "o.deep.z", "l", "_id"]
            let left = trial.grammar.choices.pick(paths)
            let right = trial.grammar.choices.pick(paths)
            let on = "ON b.\(right) = a.\(left)"
            let pairs = try trial.rows("SELECT RAW [a._id, b._id] FROM c a JOIN c b USE INDEX '' \(on)")
            var wanted: [Value] = []
            var alone: [Value] = []
            for row in try trial.rows("SELECT RAW {'i': _id, 'v': \(left)} FROM c") {
                guard let id = row["i"] else { continue }
                var partners: [Value] = []
                if let value = row["v"] {
                    partners = try trial.rows("SELECT RAW _id FROM c WHERE \(right) = :v", ["v": value])
                }
                wanted += partners.map { .array([id, $0]) }
                if partners.isEmpty { alone.append(.array([id])) }
            }
            try trial.same(pairs, wanted, "JOIN")
            let outer = try trial.rows("SELECT RAW [a._id, b._id] FROM c a LEFT JOIN c b USE INDEX '' \(on)")
            try trial.same(outer, wanted + alone, "LEFT JOIN")
        },
        Relation("what is asked of documents in place is what is asked of values") { trial in
            let condition = trial.grammar.predicate()
            let inPlace = try trial.ids(condition)
            let worked = try trial.ids("CASE WHEN \(condition) THEN TRUE ELSE FALSE END")
            // In any order: `_id IN [2, 1]` gives the documents in the order of the ids.
            try trial.same(inPlace, worked, condition)
        },
        Relation("groups found in place are those found by value") { trial in
            let (one, two, number) = (trial.grammar.path(), trial.grammar.path(), trial.grammar.path())
            let results = [
                "COUNT(*)", "COUNT(\(number))", "SUM(\(number))", "AVG(\(number))", "MAX(\(number))",
            ]
            .enumerated().map { "\($1) AS r\($0)" }.joined(separator: ", ")
            func asked(_ first: String, _ second: String) -> String {
                "SELECT \(results), type(\(first)) AS t, \(first) AS k, type(\(second)) AS u, \(second) AS l "
                    + "FROM c GROUP BY \(first), \(second)"
            }
            let inPlace = try trial.rows(asked(one, two))
            let worked = try trial.rows(
                asked("CASE WHEN TRUE THEN \(one) END", "CASE WHEN TRUE THEN \(two) END"))
            try trial.same(inOrder: inPlace, worked, "GROUP BY \(one), \(two)")
        },
    ]
}
