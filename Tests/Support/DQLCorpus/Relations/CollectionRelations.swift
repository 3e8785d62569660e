import CRDT
import DQL

/// ANY, EVERY and ARRAY, RETURNING and INSERT … SELECT.
enum CollectionRelations {
    static let all: [Relation] = [
        Relation("ANY element equals what the array contains") { trial in
            let value = trial.grammar.scalar()
            let source = trial.grammar.path()
            let isArray = "type(\(source)) = 'array'"
            let any = try trial.ids("\(isArray) AND ANY v IN \(source) SATISFIES v = \(value) END")
            try trial.same(any, try trial.ids("array_contains(\(source), \(value))"), "array_contains")
            try trial.same(any, try trial.ids("\(value) IN \(source)"), "IN")
        },
        Relation("EVERY is no ANY of the opposite") { trial in
            let source = trial.grammar.path()
            let test = "type(v) = '\(trial.grammar.choices.pick(["integer", "string", "null", "array"]))'"
            let every = try trial.ids("EVERY v IN \(source) SATISFIES \(test) END")
            let none = try trial.ids("NOT (ANY v IN \(source) SATISFIES NOT (\(test)) END)")
            try trial.same(every, none, "NOT ANY NOT")
            let both = try trial.ids("ANY AND EVERY v IN \(source) SATISFIES \(test) END")
            let any = try trial.ids("ANY v IN \(source) SATISFIES \(test) END")
            try trial.same(both, every.filter { any.contains($0) }, "ANY AND EVERY")
        },
        Relation("ARRAY takes the elements that ANY finds") { trial in
            let source = trial.grammar.path()
            let test = "v \(trial.grammar.comparison()) \(trial.grammar.scalar())"
            let whole = try trial.rows("SELECT RAW \(source) FROM c WHERE type(\(source)) = 'array'")
            let copy = try trial.rows(
                "SELECT RAW ARRAY v FOR v IN \(source) END FROM c WHERE type(\(source)) = 'array'")
            try trial.same(copy, whole, "ARRAY v FOR v")
            let isArray = "type(\(source)) = 'array'"
            let any = try trial.ids("\(isArray) AND ANY v IN \(source) SATISFIES \(test) END")
            let some = try trial.ids(
                "\(isArray) AND array_length(ARRAY v FOR v IN \(source) WHEN \(test) END) > 0")
            try trial.same(any, some, "ARRAY … WHEN")
        },
        Relation("RETURNING gives what SELECT finds before or after") { trial in
            let condition = trial.grammar.predicate()
            let before = try trial.rows("SELECT * FROM c WHERE \(condition)")
            var inner = trial
            try trial.engine.undoing {
                let updated = try inner.rows("UPDATE c SET mark = 'here' WHERE \(condition) RETURNING *")
                try inner.same(updated, try inner.rows("SELECT * FROM c WHERE mark = 'here'"), "UPDATE")
            }
            for word in ["DELETE", "EVICT"] {
                try trial.engine.undoing {
                    let gone = try inner.rows("\(word) FROM c WHERE \(condition) RETURNING *")
                    try inner.same(gone, before, word)
                }
            }
        },
        Relation("INSERT … SELECT copies what SELECT finds") { trial in
            let condition = trial.grammar.predicate()
            let found = try trial.rows("SELECT * FROM c WHERE \(condition)")
            var inner = trial
            try trial.engine.undoing {
                let result = try inner.execute("INSERT INTO w SELECT * FROM c WHERE \(condition)")
                try inner.same(
                    result.mutatedDocumentIDs.map(\.value), found.compactMap { $0["_id"] }, "the ids")
                try inner.same(try inner.rows("SELECT * FROM w"), found, "the copies")
            }
        },
        Relation("an increment adds to the counter and to nothing else") { trial in
            let condition = trial.grammar.predicate()
            let amount = 1 + trial.grammar.choices.below(5)
            let found = try trial.ids(condition)
            var inner = trial
            try trial.engine.undoing {
                _ = try inner.execute("UPDATE c APPLY hits INCREMENT BY 10")
                let others = try inner.rows(
                    "SELECT * FROM c WHERE _id NOT IN :found", ["found": .array(found)])
                let result = try inner.execute(
                    "UPDATE c APPLY hits INCREMENT BY \(amount) WHERE \(condition)")
                try inner.same(result.mutatedDocumentIDs.map(\.value), found, "the mutated ids")
                try inner.same(try inner.ids("hits = \(10 + amount)"), found, "the counted documents")
                try inner.same(try inner.rows("SELECT * FROM c WHERE hits = 10"), others, "the others")
            }
        },
    ]
}
