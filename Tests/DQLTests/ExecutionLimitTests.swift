import CRDT
import DQL
import DQLCorpus
import Synchronization
import Testing

@Suite("Cancellation and memory")
struct ExecutionLimitTests {
    private func store(_ count: Int) throws -> MemoryStore {
        let store = MemoryStore()
        let documents: [Value] = (0..<count).map {
            ["_id": .int(Int64($0)), "a": .int(Int64($0 % 50)), "l": [1, 2, 3]]
        }
        _ = try store.execute("INSERT INTO c DOCUMENTS (:all)", ["all": .array(documents)])
        return store
    }

    private func failure(_ statement: String, _ store: MemoryStore, _ options: ExecutionOptions) -> DQLError?
    {
        do {
            _ = try StatementCompiler.compile(statement).execute(in: store, options: options) {
                try DocumentID(.string("x"))
            }
            return nil
        } catch {
            return error as? DQLError
        }
    }

    static let long = [
        "SELECT * FROM c", "SELECT * FROM c WHERE a = 99", "SELECT COUNT(*) FROM c",
        "SELECT a, COUNT(*) FROM c GROUP BY a", "SELECT * FROM c ORDER BY a", "SELECT DISTINCT a FROM c",
        "UPDATE c SET b = 1", "DELETE FROM c", "EVICT FROM c WHERE a = 99", "INSERT INTO d SELECT * FROM c",
        "SELECT * FROM system:collections",
        "SELECT RAW (ANY x IN l SATISFIES ANY y IN l SATISFIES ANY z IN l SATISFIES z > 9 END END END) "
            + "FROM c WHERE _id < 60",
        "SELECT RAW ANY x WITHIN d SATISFIES x = 77 END FROM c AS d WHERE d._id < 200",
        "DELETE FROM c ORDER BY a DESC LIMIT 3", "SELECT c.a FROM c JOIN d ON d._id = c.a",
    ]

    @Test("a statement that goes on is cancelled", arguments: long)
    func cancelled(_ statement: String) throws {
        let store = try store(600)
        var options = ExecutionOptions()
        options.system = ManyRows()
        #expect(failure(statement, store, options) == nil)
        options.interruption = { .cancelled }
        let error = failure(statement, try self.store(600), options)
        #expect(error?.code == .cancelled, "\(statement)")
        #expect(error?.message == "Query failed: the request was cancelled")
    }

    @Test(
        "statements that read few documents are told by their text",
        arguments: [
            ("SELECT * FROM c WHERE _id = :i", true), ("SELECT a, b FROM c WHERE _id = 'x'", true),
            ("SELECT * FROM c WHERE _id IN ('a', 'b')", true), ("SELECT * FROM c WHERE a = :v", true),
            ("SELECT * FROM c WHERE a BETWEEN 1 AND 2 ORDER BY a LIMIT 3", true),
            ("SELECT * FROM c", false), ("SELECT a FROM c WHERE a = 1", false),
            ("SELECT * FROM c WHERE a LIKE 'x%'", false), ("SELECT COUNT(*) FROM c", false),
            ("SELECT * FROM c WHERE _id = (SELECT RAW _id FROM d LIMIT 1)", false),
            ("SELECT * FROM c JOIN d ON d._id = c.a", false), ("SELECT * FROM system:collections", false),
            ("EXPLAIN SELECT * FROM c WHERE _id = 1", false), ("SHOW ALL", false),
            ("PROFILE SELECT * FROM c WHERE _id = 1", false), ("DELETE FROM c WHERE _id = 1", false),
            ("SELECT * FROM c WHERE _id IN (1, 2, 3, 4, 5, 6, 7, 8, 9)", false),
        ])
    func readsFew(_ statement: String, _ isFew: Bool) throws {
        #expect(try StatementCompiler.compile(statement).readsFew == isFew)
    }

    @Test(
        "a budget of steps, documents or bytes ends a statement, and one that suffices changes nothing",
        arguments: [
            (ExecutionBudget(steps: 2_000, documents: 8, bytes: 10_000), true),
            (ExecutionBudget(steps: 0, documents: 8, bytes: 10_000), false),
            (ExecutionBudget(steps: 2_000, documents: 1, bytes: 10_000), false),
            (ExecutionBudget(steps: 2_000, documents: 8, bytes: 10), false),
        ])
    func budget(_ budget: ExecutionBudget, _ suffices: Bool) throws {
        let store = try store(20)
        let text = "SELECT a, UPPER(REPEAT('x', 20000)) AS u FROM c WHERE _id IN (3, 4, 77)"
        let statement = try StatementCompiler.compile(text)
        let rows = try statement.rows(in: store)
        #expect(rows.count == 2)
        var options = ExecutionOptions()
        options.budget = budget
        let found = try? statement.rows(in: store, options: options)
        #expect(found == (suffices ? rows : nil))
        #expect(failure(text, store, options)?.code == (suffices ? nil : .timeout))
    }

    @Test("with a budget nothing is planned, scanned or looked at that is not counted")
    func uncounted() throws {
        var options = ExecutionOptions()
        options.budget = ExecutionBudget(steps: 2_000, documents: 128, bytes: 100_000)
        // Without an index it would be a scan, of however few documents.
        #expect(failure("SELECT * FROM c WHERE a = 1", try store(2), options)?.code == .timeout)
    }

    @Test("a statement that runs too long ends with the parameter's name")
    func timeout() throws {
        var options = ExecutionOptions()
        options.interruption = { .timeout }
        let error = failure("SELECT * FROM c", try store(600), options)
        #expect(error?.code == .timeout)
        #expect(error?.message.contains("DQL_REQUEST_TIMEOUT_SECONDS") == true)
    }

    @Test(
        "what a statement holds is limited in bytes too",
        arguments: [
            "SELECT DISTINCT b FROM c", "SELECT b, COUNT(*) FROM c GROUP BY b",
            "INSERT INTO d SELECT b FROM c",
            "UPDATE c SET x = 1 RETURNING b", "SELECT MIN(b), MAX(b) FROM c GROUP BY b",
            "SELECT * FROM c WHERE b IN (SELECT RAW b FROM c)",
        ])
    func bytesHeld(_ statement: String) throws {
        let store = MemoryStore()
        let documents: [Value] = (0..<20).map {
            ["_id": .int(Int64($0)), "b": .string(String(repeating: "x", count: 1_000) + "\($0)")]
        }
        _ = try store.execute("INSERT INTO c DOCUMENTS (:all)", ["all": .array(documents)])
        var options = ExecutionOptions()
        #expect(failure(statement, store, options)?.code != .tooManyRows)
        options.materializedBytes = 10_000
        #expect(failure(statement, store, options)?.code == .tooManyRows, "\(statement)")
    }

    @Test(
        "the documents of a statement that writes are limited in bytes, not in number",
        arguments: ["UPDATE c SET x = 1", "DELETE FROM c", "EVICT FROM c", "DELETE FROM c WHERE a >= 0"])
    func targets(_ statement: String) throws {
        var options = ExecutionOptions()
        options.materializedRows = 10
        #expect(failure(statement, try store(200), options) == nil)
        options.materializedBytes = 3_000
        #expect(failure(statement, try store(200), options)?.code == .tooManyRows)
    }

    @Test("a match of LIKE that goes back again and again is cancelled on its way")
    func longMatch() throws {
        let text = String(repeating: "a", count: 200_000)
        let asked = Mutex(0)
        var options = ExecutionOptions()
        options.interruption = {
            asked.withLock { asked in
                asked += 1
                return asked > 3 ? .cancelled : nil
            }
        }
        let prepared = try StatementCompiler.compile("SELECT RAW :text LIKE :pattern FROM system:dual")
        let arguments: ObjectValue = [
            "text": .string(text), "pattern": .string("%_" + String(repeating: "a", count: 5_000) + "b%"),
        ]
        let error = #expect(throws: DQLError.self) {
            try prepared.rows(in: MemoryStore(), arguments: arguments, options: options)
        }
        #expect(error?.code == .cancelled)
        #expect(asked.withLock { $0 } == 4)
    }

    @Test("a statement that is let go on gives all of its rows")
    func goesOn() throws {
        var options = ExecutionOptions()
        options.interruption = { nil }
        #expect(
            try StatementCompiler.compile("SELECT * FROM c").rows(in: store(600), options: options).count
                == 600)
    }

    @Test(
        "what has to be held in memory is bounded",
        arguments: [
            "SELECT * FROM c ORDER BY a", "SELECT DISTINCT _id FROM c",
            "SELECT _id, COUNT(*) FROM c GROUP BY _id",
            "SELECT MEDIAN(_id) FROM c", "SELECT COUNT(DISTINCT _id) FROM c", "INSERT INTO d SELECT * FROM c",
            "DELETE FROM c RETURNING _id", "SELECT RAW ARRAY x FOR x IN :list END FROM system:dual",
            "SELECT RAW OBJECT 'k' : x FOR x IN :list END FROM system:dual",
        ])
    func held(_ statement: String) throws {
        var options = ExecutionOptions()
        options.materializedRows = 99
        let list: [Value] = (0..<100).map { .int($0) }
        func run() throws -> Int {
            let prepared = try StatementCompiler.compile(statement)
            let arguments: ObjectValue = prepared.parameterNames.isEmpty ? [:] : ["list": .array(list)]
            return try prepared.execute(in: store(100), arguments: arguments, options: options) {
                try DocumentID(.string("x"))
            }.rows.count
        }
        let error = #expect(throws: DQLError.self) { try run() }
        #expect(error?.code == .tooManyRows)
        options.materializedRows = 100
        #expect(try run() >= 0)
    }

    @Test("LIMIT keeps sorting within the bound, and plain rows are not held at all")
    func notHeld() throws {
        var options = ExecutionOptions()
        options.materializedRows = 20
        let store = try store(500)
        for statement in ["SELECT * FROM c ORDER BY a LIMIT 9", "SELECT * FROM c", "SELECT MAX(a) FROM c"] {
            #expect(failure(statement, store, options) == nil, "\(statement)")
        }
    }

    @Test("a document whose elements a subscription multiplies does not match it, and ends nobody's sync")
    func subscription() throws {
        let store = MemoryStore()
        let list: Value = .array((0..<200).map { .int($0) })
        _ = try store.execute("INSERT INTO c DOCUMENTS ({'_id': 1, 'l': :l})", ["l": list])
        let nested = "ANY x IN l SATISFIES ANY y IN l SATISFIES ANY z IN l SATISFIES z < 0 END END END"
        let query = try SubscriptionQuery(statement: "SELECT * FROM c WHERE \(nested)")
        let modest = try SubscriptionQuery(
            statement: "SELECT * FROM c WHERE ANY x IN l SATISFIES x = 199 END")
        var matches: [Bool] = []
        try store.scan("c") { record in
            matches += [try query.matches(record), try modest.matches(record)]
            return true
        }
        #expect(matches == [false, true])
    }
}

/// A system collection that is longer than the steps between two checks.
private struct ManyRows: SystemCollections {
    func rows(of collection: SystemCollection) -> [ObjectValue]? {
        (0..<600).map { ["name": .int($0)] }
    }
}
