import CRDT
import DQL

/// The effect of one statement as seen by another. Their writes are undone.
enum StatementRelations {
    static let all: [Relation] = [
        Relation("a subscription matches what WHERE finds") { trial in
            let condition = trial.grammar.predicate()
            let text = "SELECT * FROM c WHERE \(condition)"
            let query = try SubscriptionQuery(statement: text, arguments: trial.grammar.arguments)
            let found = try trial.rows(text).compactMap { $0["_id"] }
            let matching = try trial.engine.matching(query)
            try trial.same(matching, found, text)
        },
        Relation("UPDATE touches what SELECT finds and nothing else") { trial in
            let condition = trial.grammar.predicate()
            let found = try trial.ids(condition)
            var inner = trial
            try trial.engine.undoing {
                let others = try inner.rows(
                    "SELECT * FROM c WHERE _id NOT IN :found", ["found": .array(found)])
                let result = try inner.execute("UPDATE c SET mark = 'here' WHERE \(condition)")
                try inner.same(result.mutatedDocumentIDs.map(\.value), found, "the mutated ids")
                try inner.same(try inner.ids("mark = 'here'"), found, "the marked documents")
                let after = try inner.rows("SELECT * FROM c WHERE mark IS MISSING")
                try inner.same(after, others, "the other documents")
            }
        },
        Relation("DELETE and EVICT take what SELECT finds and nothing else") { trial in
            let condition = trial.grammar.predicate()
            let word = trial.grammar.choices.pick(["DELETE", "EVICT", "TOMBSTONE"])
            let found = try trial.ids(condition)
            let all = try trial.ids("TRUE")
            var inner = trial
            try trial.engine.undoing {
                let result = try inner.execute("\(word) FROM c WHERE \(condition)")
                try inner.same(result.mutatedDocumentIDs.map(\.value), found, "the mutated ids")
                let rest = all.filter { !found.contains($0) }
                try inner.same(try inner.ids("TRUE"), rest, "the rest")
                try inner.same(
                    try inner.rows("SELECT RAW _id FROM c USE IDS LIST :all", ["all": .array(all)]), rest,
                    "by id")
            }
            try trial.same(try trial.ids("TRUE"), all, "after all")
        },
        Relation("a bounded DELETE takes the rows of the bounded SELECT") { trial in
            let bounds =
                "ORDER BY \(trial.grammar.order()), _id LIMIT \(trial.grammar.choices.below(5))"
                + " OFFSET \(trial.grammar.choices.below(3))"
            let condition = trial.grammar.predicate()
            let found = try trial.ids("\(condition) \(bounds)")
            var inner = trial
            try trial.engine.undoing {
                let result = try inner.execute("DELETE FROM c WHERE \(condition) \(bounds)")
                try inner.same(inOrder: result.mutatedDocumentIDs.map(\.value), found, "the mutated ids")
            }
        },
        Relation("what was inserted is read") { trial in
            var choices = trial.grammar.choices
            let documents = GeneratedDocuments(&choices, most: 4).documents.map { Value.object($0) }
            trial.grammar.choices = choices
            var inner = trial
            try trial.engine.undoing {
                _ = try inner.execute("INSERT INTO w DOCUMENTS (:d)", ["d": .array(documents)])
                try inner.same(try inner.rows("SELECT * FROM w"), documents, "the documents")
                _ = try inner.execute(
                    "INSERT INTO w DOCUMENTS (:d) ON ID CONFLICT DO UPDATE_LOCAL_DIFF",
                    ["d": .array(documents)])
                try inner.same(try inner.rows("SELECT * FROM w"), documents, "the documents inserted again")
            }
        },
        Relation("inserting the same again is a mutation for DO UPDATE only") { trial in
            let documents = try trial.rows("SELECT * FROM r")
            var inner = trial
            try trial.engine.undoing {
                for (policy, ids) in [
                    ("DO UPDATE_LOCAL_DIFF", []), ("DO NOTHING", []),
                    ("DO UPDATE", documents.compactMap { $0["_id"] }),
                ] {
                    let result = try inner.execute(
                        "INSERT INTO r DOCUMENTS (:d) ON ID CONFLICT \(policy)", ["d": .array(documents)])
                    try inner.same(result.mutatedDocumentIDs.map(\.value), ids, policy)
                    try inner.same(try inner.rows("SELECT * FROM r"), documents, "the documents")
                }
            }
        },
        Relation("SET writes what SELECT computes") { trial in
            let expression = trial.grammar.operand()
            let before = try trial.rows("SELECT _id, \(expression) AS v FROM c")
            var inner = trial
            try trial.engine.undoing {
                _ = try inner.execute("UPDATE c SET fresh = \(expression), other = 1")
                let after = try inner.rows("SELECT _id, fresh AS v FROM c")
                try inner.same(after, before, expression)
            }
        },
        Relation("an id is found by lookup as by scan") { trial in
            let known = try trial.ids("TRUE")
            let floats: [Value] = known.compactMap { $0.intValue.map { .double(Double($0)) } }
            let value = trial.grammar.choices.pick(
                known + floats + ValuePool.floats + ValuePool.integers + [.null])
            let id = trial.grammar.literal(value)
            let condition = trial.grammar.predicate()
            let scan = try trial.ids("NOT (_id != \(id)) AND (\(condition))")
            for other in [
                "_id = \(id) AND (\(condition))", "(\(condition)) AND \(id) == _id",
                "_id IN (\(id)) AND (\(condition))", "(\(condition)) AND _id IN [\(id), \(id), 'nobody']",
            ] { try trial.same(try trial.ids(other), scan, other) }
            let bound = trial.grammar.bind(value)
            let listed = try trial.rows("SELECT RAW _id FROM c USE IDS \(bound), \(bound) WHERE \(condition)")
            try trial.same(listed, scan, "USE IDS")
        },
    ]
}

extension StatementEngine {
    /// The ids of the documents that match a subscription.
    func matching(_ query: SubscriptionQuery) throws -> [Value] {
        var matching: [Value] = []
        try scan(query.collection) { record in
            if try query.matches(record) { matching.append(record.id.value) }
            return true
        }
        return matching
    }
}
