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
            ("SELECT * FROM c JOIN d ON c.a = d._id", "Unsupported feature: Joining"),
            ("SELECT RAW a FROM c", "Unsupported feature: A projection other than wildcard (*)"),
            ("SELECT c.* FROM c", "Unsupported feature: A projection other than wildcard (*)"),
            ("SHOW ALL", "Unsupported feature: non-SELECT statement in sync subscription"),
            (
                "INSERT INTO c DOCUMENTS ({'a': 1})",
                "Unsupported feature: non-SELECT statement in sync subscription"
            ),
            ("DELETE FROM c", "Unsupported feature: non-SELECT statement in sync subscription"),
        ])
    func refused(_ statement: String, _ message: String) {
        let error = #expect(throws: DQLError.self) { try SubscriptionQuery(statement: statement) }
        #expect(error?.code == .unsupportedSubscription)
        #expect(error?.message == message)
    }

    @Test(
        "the part that cannot be subscribed to is shown at its place",
        arguments: [
            ("SELECT *,\n a FROM c", 2, 2), ("SELECT a.b FROM c", 1, 8), ("SELECT DISTINCT * FROM c", 1, 8),
            ("SELECT * FROM c USE IDS 'a'", 1, 25), ("SELECT * FROM c ORDER BY a.b", 1, 26),
            ("SELECT * FROM c WHERE a = 1\nLIMIT 1", 2, 7), ("SELECT * FROM c OFFSET 1", 1, 24),
            ("SELECT * FROM c GROUP BY a", 1, 26), ("SELECT * FROM c\n  JOIN d ON c.a = d._id", 2, 3),
            ("\n /* all */ SHOW ALL", 2, 12), ("SELECT * FROM c WHERE a IN (SELECT RAW b FROM d)", 1, 23),
            ("SELECT * FROM c WHERE a = ", 1, 27), ("SELECT * FROM c WHERE nope(a)", 1, 23),
            ("SELECT * FROM c\nWHERE a = :missing", 2, 11),
        ])
    func place(_ statement: String, _ line: Int, _ column: Int) {
        let error = #expect(throws: DQLError.self) { try SubscriptionQuery(statement: statement) }
        #expect(error?.position == SourcePosition(line: line, column: column), "\(statement)")
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

    @Test("without the restriction ORDER BY and LIMIT say which documents come first, not which match")
    func windowed() throws {
        let store = MemoryStore()
        _ = try store.execute(
            "INSERT INTO c DOCUMENTS (:d)", ["d": [["_id": 1, "n": 3], ["_id": 2, "n": 1], ["_id": 3]]])
        let text = "SELECT * FROM c WHERE n > 0 ORDER BY n LIMIT :k"
        let query = try SubscriptionQuery(statement: text, arguments: ["k": 1], isRestricted: false)
        #expect(query.isWindowed)
        #expect(try query.initialDocumentIDs(in: store) == [DocumentID(2)])
        var matching: [Value] = []
        try store.scan("c") { record in
            if try query.matches(record) { matching.append(record.id.value) }
            return true
        }
        #expect(matching == [1, 2])
        let plain = try SubscriptionQuery(statement: "SELECT * FROM c WHERE n > 0")
        #expect(!plain.isWindowed)
        #expect(try plain.initialDocumentIDs(in: store).count == 2)
        let error = #expect(throws: DQLError.self) {
            try SubscriptionQuery(statement: "SELECT a FROM c LIMIT 1", isRestricted: false)
        }
        #expect(error?.code == .unsupportedSubscription)
    }

    @Test("a query of the legacy language is the same subscription")
    func legacy() throws {
        let legacy = try SubscriptionQuery(
            legacy: "make == $args.make && year > 2000", from: "cars", arguments: ["make": "Audi"])
        let query = try SubscriptionQuery(
            statement: "SELECT * FROM cars WHERE make = :make AND year > 2000", arguments: ["make": "Audi"])
        #expect(legacy.canonicalKey == query.canonicalKey)
        #expect(legacy.collection == "cars")
        #expect(throws: DQLError.self) { try SubscriptionQuery(legacy: "make ==", from: "cars") }
    }

    @Test("equal values that every match has are told, with keys that are equal when = says so")
    func equalities() throws {
        let query = try SubscriptionQuery(
            statement:
                "SELECT * FROM c WHERE a = :a AND 'x' = o.k AND _id = 7 AND b > 1 AND (d = 1 OR e = 2)",
            arguments: ["a": 1])
        #expect(query.equalities.map(\.path) == [["a"], ["o", "k"], ["_id"]])
        #expect(query.equalities.map(\.value) == [1, "x", 7])
        let store = MemoryStore()
        _ = try store.execute(
            "INSERT INTO c DOCUMENTS (:d)",
            ["d": [["_id": 7, "a": 1.0, "o": ["k": "x"]], ["_id": 8, "a": .null], ["_id": 9, "a": "1"]]])
        var keys: [[Bool]] = []
        try store.scan("c") { record in
            keys.append(try query.equalities.map { try $0.key(of: record) == $0.key })
            return true
        }
        #expect(keys == [[true, true, true], [false, false, false], [false, false, false]])
    }

    @Test(
        "what does not confine a document to one value is no equality",
        arguments: [
            "SELECT * FROM c", "SELECT * FROM c WHERE a = 1 OR b = 2", "SELECT * FROM c WHERE NOT a = 1",
            "SELECT * FROM c WHERE a = null", "SELECT * FROM c WHERE a = b",
            "SELECT * FROM c WHERE lower(a) = 'x'",
            "SELECT * FROM c WHERE a IN (1, 2)",
        ])
    func noEqualities(_ statement: String) throws {
        #expect(try SubscriptionQuery(statement: statement).equalities.isEmpty)
    }

    @Test("a declared type is the one that is looked up")
    func declaredEqualities() throws {
        let store = MemoryStore()
        _ = try store.execute("INSERT INTO COLLECTION c (n COUNTER) DOCUMENTS ({'_id': 1, 'n': 5})")
        _ = try store.execute("UPDATE c SET n = 'text'")
        let query = try SubscriptionQuery(statement: "SELECT * FROM COLLECTION c (n COUNTER) WHERE n = 5")
        var found: [Bool] = []
        try store.scan("c") { record in
            found.append(try query.matches(record))
            found.append(try query.equalities[0].key(of: record) == query.equalities[0].key)
            return true
        }
        #expect(found == [true, true])
    }
}
