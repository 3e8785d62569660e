import CRDT
import DQL
import DQLCorpus
import Testing

@Suite("Subscriptions")
struct SubscriptionTests {
    @Test(
        "only whole documents of one collection can be subscribed to",
        arguments: [
            ("SELECT a FROM c", "Unsupported feature: A projection other than wildcard (*)"),
            ("SELECT COUNT(*) FROM c", "Unsupported feature: A projection other than wildcard (*)"),
            ("SELECT DISTINCT * FROM c", "Unsupported feature: DISTINCT"),
            ("SELECT * FROM c USE IDS 'a'", "Unsupported feature: USE IDS"),
            ("SELECT * FROM c ORDER BY a", "Unsupported feature: Limit or Order by"),
            ("SELECT * FROM c LIMIT 1", "Unsupported feature: Limit or Order by"),
            ("SELECT * FROM c OFFSET 1", "Unsupported feature: Limit or Order by"),
            ("SELECT * FROM c GROUP BY a", "Unsupported feature: Grouping"),
            ("SELECT * FROM c HAVING true", "Unsupported feature: Grouping"),
            ("SELECT * FROM c JOIN d ON c.a = d.a", "Unsupported feature: Joining"),
            ("INSERT INTO c DOCUMENTS ({'a': 1})", "Unsupported feature: non-SELECT statement in sync subscription"),
            ("DELETE FROM c", "Unsupported feature: non-SELECT statement in sync subscription"),
        ])
    func refused(_ statement: String, _ message: String) {
        let error = #expect(throws: DQLError.self) { try SubscriptionQuery(statement: statement) }
        #expect(error?.code == .unsupportedSubscription)
        #expect(error?.message == message)
    }

    @Test("a missing argument is named when the subscription is made")
    func missingArgument() {
        let error = #expect(throws: DQLError.self) {
            try SubscriptionQuery(statement: "SELECT * FROM c WHERE a = :a")
        }
        #expect(error?.code == .missingArgument)
        #expect(error?.message == "Parameter a was not provided")
    }

    @Test("equal queries and arguments have equal keys, others have not")
    func keys() throws {
        let one = try SubscriptionQuery(
            statement: "SELECT * FROM cars WHERE a = :a AND b = :b",
            arguments: ["a": 1, "b": "x", "unused": 3])
        let two = try SubscriptionQuery(
            statement: "select *\nfrom `cars` where (a == :a) and b=:b;", arguments: ["b": "x", "a": 1])
        let three = try SubscriptionQuery(
            statement: "SELECT * FROM cars WHERE a = :a AND b = :b", arguments: ["a": 2, "b": "x"])
        let four = try SubscriptionQuery(
            statement: "SELECT * FROM cars WHERE a = :a AND b != :b", arguments: ["a": 1, "b": "x"])
        #expect(one.canonicalKey == two.canonicalKey)
        #expect(one.canonicalKey != three.canonicalKey)
        #expect(one.canonicalKey != four.canonicalKey)
        #expect(one.collection == "cars")
        #expect(one.warnings.map(\.code) == [.unusedArgument])
    }

    @Test("exactly the documents that the query selects match")
    func matches() throws {
        let store = MemoryStore()
        _ = try store.execute(
            "INSERT INTO c DOCUMENTS (:d)",
            [
                "d": [
                    ["_id": 1, "t": "a", "o": ["x": 1]], ["_id": 2, "t": "b"], ["_id": 3, "t": .null],
                    ["_id": 4],
                ]
            ])
        let queries = [
            "SELECT * FROM c", "SELECT * FROM c WHERE t = 'a'", "SELECT * FROM c WHERE NOT t = 'a'",
            "SELECT * FROM c WHERE o.x IN :l", "SELECT * FROM COLLECTION c (o REGISTER) WHERE o.x = 1",
            "SELECT * FROM c WHERE _id > 1 AND lower(t) LIKE 'b%'",
        ]
        for text in queries {
            let arguments: ObjectValue = ["l": [1, 2]]
            let query = try SubscriptionQuery(statement: text, arguments: arguments)
            var matching: [Value] = []
            try store.scan(query.collection) { record in
                if try query.matches(record) { matching.append(record.id.value) }
                return true
            }
            let selected = try store.rows(text, arguments).map { $0["_id"] ?? .null }
            #expect(matching == selected, "\(text)")
        }
    }
}
