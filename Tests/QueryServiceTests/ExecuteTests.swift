import CRDT
import Identity
import QueryService
import ServiceKit
import Testing

@Suite("store/execute")
struct ExecuteTests {
    @Test("every member of the envelope is there, for a write, a read and a failure")
    func envelope() async throws {
        try await QueryBench.run { _, client async throws in
            let insert = try await client.execute("INSERT INTO c DOCUMENTS ({'_id': 'a', 'n': 1})")
            #expect(insert.status == 200)
            #expect(
                JSONText.print(insert.body, sortedKeys: true)
                    == #"{"error":{},"items":[],"mutatedDocumentIds":["a"],"queryType":"insert","#
                    + #""totalWarningsCount":0,"transactionId":1,"warnings":[]}"#)
            let select = try await client.execute("SELECT * FROM c WHERE n = :n", ["n": 1, "unused": 2])
            #expect(select.rows == [#"{"_id":"a","n":1}"#])
            #expect(select.body["queryType"] == "select")
            #expect(select.transactionID == 1)
            #expect(select.body["totalWarningsCount"] == 1)
            #expect(
                select.body["warnings"]?.arrayValue?.first?["description"]?.stringValue?.contains("unused")
                    == true)
            let failure = try await client.execute("SELECT * FROM c\nWHERE )")
            #expect(failure.status == 400)
            #expect(failure.code == "DQL-0105")
            #expect(failure.body["error"]?["line"] == 2)
            #expect(failure.body["error"]?["column"] == 7)
            #expect(failure.body["error"]?["message"] == failure.body["error"]?["description"])
            #expect(failure.items == [])
            #expect(failure.body["mutatedDocumentIds"] == [])
            #expect(failure.transactionID == 0)
        }
    }

    @Test("the message of an error has its suggestion, for programs that show nothing else")
    func suggestion() async throws {
        try await QueryBench.run { _, client async throws in
            let failure = try await client.execute("SELECT * FROM c LIMT 3")
            #expect(failure.body["error"]?["suggestion"] == "LIMIT")
            let message = failure.body["error"]?["message"]?.stringValue
            #expect(message?.hasSuffix("found LIMT (did you mean LIMIT?)") == true)
        }
    }

    @Test(
        "a number that JSON cannot hold is null with a warning, wherever it stands in a row",
        arguments: [("1e308 * 10", "inf"), ("-1e308 * 10", "-inf"), ("[{'a': 1e308 * 10}]", "inf")])
    func unwritable(expression: String, told: String) async throws {
        try await QueryBench.run { _, client async throws in
            _ = try await client.execute("INSERT INTO c DOCUMENTS ({'_id': 1, 'x': \(expression)})")
            let warning: Value = [
                "description": .string(
                    "a row has \(told), which JSON cannot hold: null stands in its place")
            ]
            for statement in ["SELECT x FROM c", "UPDATE c SET n = 1 RETURNING x"] {
                let answer = try await client.execute(statement)
                #expect(answer.rows.first?.contains("null") == true)
                #expect(answer.body["warnings"] == [warning] && answer.body["totalWarningsCount"] == 1)
            }
            #expect(try await client.execute("SELECT _id FROM c").body["warnings"] == [])
        }
    }

    @Test("INSERT, UPDATE, SELECT and DELETE with arguments, each seeing the one before")
    func statements() async throws {
        try await QueryBench.run { _, client async throws in
            let documents: Value = [["_id": 1, "color": "red", "m": ["x": 1]], ["_id": 2, "color": "blue"]]
            let insert = try await client.execute("INSERT INTO c DOCUMENTS (:docs)", ["docs": documents])
            #expect(insert.body["mutatedDocumentIds"] == [1, 2])
            let update = try await client.execute(
                "UPDATE c SET color = :c, m.y = 2 WHERE _id = :id", ["c": "green", "id": 1])
            #expect(update.transactionID == 2)
            #expect(
                try await client.execute("SELECT * FROM c WHERE color = 'green'").rows == [
                    #"{"_id":1,"color":"green","m":{"x":1,"y":2}}"#
                ])
            #expect(
                try await client.execute("SELECT COUNT(*) AS n, color FROM c GROUP BY color").items.count == 2
            )
            let removal = try await client.execute("DELETE FROM c WHERE _id = 1")
            #expect(removal.body["mutatedDocumentIds"] == [1])
            #expect(try await client.execute("SELECT _id FROM c").rows == [#"{"_id":2}"#])
            let nothing = try await client.execute("DELETE FROM c WHERE _id = 1")
            #expect(nothing.status == 200)
            #expect(nothing.transactionID == 3)
        }
    }

    @Test("RETURNING, counters, seeds, INSERT … SELECT and SHOW, each through the log")
    func laterStatements() async throws {
        try await QueryBench.run { _, client async throws in
            let seed = "INSERT INTO c INITIAL DOCUMENTS ({'_id': 1, 'n': 1})"
            #expect(try await client.execute(seed).body["mutatedDocumentIds"] == [1])
            #expect(try await client.execute(seed).body["mutatedDocumentIds"] == [])
            for _ in 0..<2 { _ = try await client.execute("UPDATE c APPLY hits INCREMENT BY 2") }
            let update = try await client.execute("UPDATE c SET n = n + 1 WHERE _id = 1 RETURNING *")
            #expect(update.rows == [#"{"_id":1,"hits":4,"n":2}"#])
            _ = try await client.execute("INSERT INTO d SELECT _id, n FROM c")
            #expect(try await client.execute("SELECT * FROM d").rows == [#"{"_id":1,"n":2}"#])
            #expect(
                try await client.execute("SHOW dql_strict_mode").rows == [#"{"dql_strict_mode":false}"#])
            let alter = try await client.execute("ALTER SYSTEM SET dql_strict_mode = true")
            #expect(alter.status == 400 && alter.code == "QUERY-0104")
        }
    }

    @Test("the v4 path is strict: an undeclared object is one REGISTER, and a MAP is not seen undeclared")
    func strictPath() async throws {
        try await QueryBench.run { _, client async throws in
            _ = try await client.execute("INSERT INTO c DOCUMENTS ({'_id': 1, 'm': {'a': 1}})")
            #expect(try await client.execute("SELECT * FROM c", version: "v4").rows == [#"{"_id":1}"#])
            let declared = "SELECT * FROM COLLECTION c (m MAP)"
            #expect(
                try await client.execute(declared, version: "v4").rows == [#"{"_id":1,"m":{"a":1}}"#])
        }
    }

    @Test("a statement that runs longer than anybody waits is cancelled")
    func timeout() async throws {
        var evaluation = EvaluationOptions()
        evaluation.statementTime = .milliseconds(200)
        try await QueryBench.each { [evaluation] bench in
            let log = try await bench.openLog()
            // With another service, whose statements may take their time.
            try await bench.serving(log, projection: "patient") { client async throws in
                let list = Value.array((0..<300).map { .int($0) })
                let insert = try await client.execute(
                    "INSERT INTO c DOCUMENTS ({'_id': 1, 'l': :l})", ["l": list])
                #expect(insert.status == 200)
            }
            try await bench.serving(log, evaluation: evaluation) { client async throws in
                let endless = try await client.execute(
                    """
                    SELECT RAW ANY a IN l SATISFIES ANY b IN l SATISFIES ANY c IN l SATISFIES \
                    a + b + c < 0 END END END FROM c
                    """)
                #expect(endless.status == 400 && endless.code == "QUERY-0401")
            }
            await log.close()
        }
    }

    @Test("system:collections shows what the grant lets its holder read; RETURNING needs the right to read")
    func grantedSystemRows() async throws {
        try await QueryBench.run { bench, client async throws in
            for name in ["cars", "boats"] {
                _ = try await client.execute("INSERT INTO \(name) DOCUMENTS ({'_id': 1})")
            }
            let rules = AccessRules(queriesByCollection: ["cars": ["true"]])
            let grant = Grant(read: rules, write: .everything)
            let guest = client.with(token: bench.token(grant))
            let rows = try await guest.execute("SELECT name FROM system:collections").rows
            #expect(rows == [#"{"name":"cars"}"#])
            let blind = try await guest.execute("INSERT INTO boats DOCUMENTS ({'_id': 2}) RETURNING *")
            #expect(blind.status == 403 && blind.code == "QUERY-0202")
        }
    }

    @Test("a document without an id gets one, which the answer names")
    func generatedID() async throws {
        try await QueryBench.run { _, client async throws in
            let insert = try await client.execute("INSERT INTO c DOCUMENTS ({'a': 1})")
            let id = try #require(insert.body["mutatedDocumentIds"]?.arrayValue?.first?.stringValue)
            #expect(id.utf8.count == 36)
            #expect(
                try await client.execute("SELECT a FROM c WHERE _id = :id", ["id": .string(id)]).rows == [
                    #"{"a":1}"#
                ])
        }
    }

    @Test("fifty inserts at once get fifty contiguous offsets and are all there")
    func concurrent() async throws {
        try await QueryBench.run { _, client async throws in
            let offsets = try await withThrowingTaskGroup(of: Int64?.self) { group in
                for number in 0..<50 {
                    group.addTask {
                        try await client.execute("INSERT INTO c DOCUMENTS ({'_id': \(number)})").transactionID
                    }
                }
                return try await group.reduce(into: [Int64?]()) { $0.append($1) }
            }
            #expect(Set(offsets) == Set((1...50).map { Int64($0) }))
            #expect(try await client.execute("SELECT _id FROM c").items.count == 50)
        }
    }

    @Test("writers that count up one field lose no step")
    func serializedWrites() async throws {
        try await QueryBench.run { _, client async throws in
            _ = try await client.execute("INSERT INTO c DOCUMENTS ({'_id': 1, 'n': 0})")
            try await withThrowingTaskGroup(of: Void.self) { group in
                for _ in 0..<25 {
                    group.addTask { _ = try await client.execute("UPDATE c SET n = n + 1") }
                }
                try await group.waitForAll()
            }
            #expect(try await client.execute("SELECT n FROM c").rows == [#"{"n":25}"#])
        }
    }

    @Test("v4 is strict: an undeclared MAP is not read and not written below; v5 reads and writes it")
    func strictMode() async throws {
        try await QueryBench.run { _, client async throws in
            _ = try await client.execute("INSERT INTO c DOCUMENTS ({'_id': 1, 'm': {'x': 1}})")
            #expect(try await client.execute("SELECT m FROM c").rows == [#"{"m":{"x":1}}"#])
            #expect(try await client.execute("SELECT m FROM c", version: "v4").rows == ["{}"])
            let strict = try await client.execute("UPDATE c SET m.x = 2", version: "v4")
            #expect(strict.status == 400)
            #expect(strict.code?.hasPrefix("DQL-") == true)
            #expect(try await client.execute("UPDATE c SET m.x = 2").status == 200)
            #expect(
                try await client.execute("SELECT m FROM COLLECTION c (m MAP)", version: "v4").rows == [
                    #"{"m":{"x":2}}"#
                ])
        }
    }

    @Test(
        "X-DITTO-TXN-ID is met by a state that has it, a 408 when it does not come, a 400 when malformed"
    )
    func transactionID() async throws {
        var bounds = QueryServicePart.Bounds()
        // Also what the statements may take that are answered.
        bounds.transactionWait = .seconds(3)
        try await QueryBench.run(bounds: bounds) { _, client async throws in
            #expect(try await client.execute("INSERT INTO c DOCUMENTS ({'_id': 1})").status == 200)
            let name = "X-DITTO-TXN-ID"
            #expect(try await client.execute("SELECT * FROM c", headers: [name: "1"]).items.count == 1)
            let beyond = try await client.execute("SELECT * FROM c", headers: [name: "2"])
            #expect(beyond.status == 408)
            #expect(beyond.code == "QUERY-0301")
            for text in ["", "-1", "x", "18446744073709551616"] {
                let malformed = try await client.execute("SELECT * FROM c", headers: [name: text])
                #expect(malformed.status == 400)
                #expect(malformed.code == "QUERY-0101")
            }
        }
    }

    @Test("a reader that asks for a transaction to come is answered once it has")
    func transactionToCome() async throws {
        try await QueryBench.run { _, client async throws in
            async let waiting = client.execute("SELECT * FROM c", headers: ["X-DITTO-TXN-ID": "1"])
            _ = try await client.execute("INSERT INTO c DOCUMENTS ({'_id': 1})")
            #expect(try await waiting.items.count == 1)
        }
    }
}
