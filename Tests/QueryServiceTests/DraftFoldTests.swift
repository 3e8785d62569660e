import CRDT
import OperationLog
import TestSupport
import Testing

/// A projection to which statements were written, and one that only the log was folded into: byte for byte
/// the same in all tables, whatever the statements were.
@Suite("The fold of what is drafted here", .timeLimit(.minutes(10)))
struct DraftFoldTests {
    private static let seeds = Depth.seeds(fast: 3, deep: 200)

    /// Runs the requests of a history, some together, and through several services by turns. Returns how many
    /// were taken.
    private static func run(_ history: inout DrawnHistory, _ clients: [QueryClient]) async throws -> Int {
        for statement in DrawnHistory.beginning {
            #expect(try await clients[0].execute(statement).status == 200)
        }
        var taken = 0
        for _ in 0..<Depth.pick(fast: 25, deep: 60) {
            let batch = history.batch()
            taken += try await withThrowingTaskGroup(of: Int.self) { group in
                for (number, request) in batch.enumerated() {
                    let client = clients[number % clients.count]
                    group.addTask {
                        let answer = try await client.post(
                            Array(JSONText.print(request.body).utf8), headers: request.headers)
                        return answer.status == 200 ? 1 : 0
                    }
                }
                return try await group.reduce(0, +)
            }
        }
        return taken
    }

    @Test(
        "in folders, two of which two services write: all tables are as in one that was folded",
        arguments: seeds)
    func inFolders(_ seed: UInt64) async throws {
        let bench = try QueryBench()
        let logs = [try await bench.openLog(), try await bench.openLog()]
        let taken = try await bench.serving(logs[0], projection: "one") { one async throws in
            try await bench.serving(logs[1], projection: "two") { two async throws in
                var history = DrawnHistory(seed: seed)
                let taken = try await Self.run(&history, [one, two])
                // Either folds what the other has written last.
                for client in [one, two] {
                    #expect(try await client.execute("SELECT * FROM c").status == 200)
                }
                return taken
            }
        }
        try await bench.serving(logs[0], projection: "again") { again async throws in
            #expect(try await again.execute("SELECT * FROM c").status == 200)
            #expect(try await again.execute("SELECT * FROM system:indexes").items.count == 2)
        }
        for log in logs { await log.close() }
        #expect(taken > 20)
        let folded = try FoldedTables.inFolder("\(bench.folder)/again/\(QueryBench.database)")
        #expect(folded["history"]?.isEmpty == false)
        for written in ["one", "two"] {
            let tables = try FoldedTables.inFolder("\(bench.folder)/\(written)/\(QueryBench.database)")
            #expect(tables.keys.sorted() == folded.keys.sorted(), "seed \(seed)")
            for (name, rows) in tables {
                #expect(rows == folded[name], "seed \(seed): \(name) of \(written)")
            }
        }
    }

    @Test(
        "in PostgreSQL: all tables are as in a generation that was built from the log",
        .enabled(if: PostgresDatabase.serverURL != nil, "`make test` starts a PostgreSQL"), arguments: seeds)
    func inPostgres(_ seed: UInt64) async throws {
        try await PostgresDatabase.use { url in
            let bench = try QueryBench(postgres: url)
            let logs = [try await bench.openLog(), try await bench.openLog()]
            let (written, folded) = try await bench.serving(logs[0]) { one async throws in
                try await bench.serving(logs[1]) { two async throws in
                    var history = DrawnHistory(seed: seed)
                    #expect(try await Self.run(&history, [one, two]) > 20)
                    let written = try FoldedTables.inPostgres(url)
                    try await Self.rebuild(one, at: url)
                    return (written, try FoldedTables.inPostgres(url))
                }
            }
            for log in logs { await log.close() }
            #expect(written.keys.sorted() == folded.keys.sorted(), "seed \(seed)")
            for (name, rows) in written { #expect(rows == folded[name], "seed \(seed): \(name)") }
        }
    }

    /// Builds the generation anew, and waits until readers use the new one.
    private static func rebuild(_ client: QueryClient, at url: String) async throws {
        let generation = "SELECT generation::text FROM mimeo_projection.databases WHERE id = 'cars'"
        let before = try PostgresDatabase.sql(generation, at: url)
        _ = try PostgresDatabase.sql("SELECT mimeo_projection.rebuild('cars')::text", at: url)
        let end = ContinuousClock.now + .seconds(120)
        while try PostgresDatabase.sql(generation, at: url) == before, ContinuousClock.now < end {
            #expect(try await client.execute("SELECT * FROM c").status == 200)
            try await Task.sleep(for: .milliseconds(20))
        }
        #expect(try PostgresDatabase.sql(generation, at: url) != before)
    }
}

/// Requests of a random history: inserts of one and of many documents, edits, counters, removals,
/// transactions, repeated ones, ones that are refused, on few ids, so that they meet.
private struct DrawnHistory {
    struct Request: Sendable {
        let body: Value
        var headers: [String: String] = [:]
    }

    /// Statements that every history begins with. An index makes its collection, so that these are there
    /// before: their numbers are those of a fold that knows no index yet.
    static let beginning = [
        "INSERT INTO c DOCUMENTS ({'_id': 0, 'n': 0, 't': 'a'})", "INSERT INTO d DOCUMENTS ({'_id': 0})",
        "CREATE INDEX by_n ON c (n DESC, t)", "CREATE INDEX by_t ON d (t)",
    ]

    private var random: SplitMix64
    private var last = 1_000

    init(seed: UInt64) { random = SplitMix64(seed: seed) }

    /// Requests that are sent at the same time.
    mutating func batch() -> [Request] { (0..<(1 + random.below(6))).map { _ in request() } }

    private mutating func request() -> Request {
        guard !random.chance(25) else {
            let steps = (0..<(1 + random.below(5))).map { _ in statement() }
            return Request(body: ["transaction": .array(steps)])
        }
        let single = statement()
        guard random.chance(15) else { return Request(body: single) }
        last += 1
        let key = random.chance(20) ? "key" : "key\(last)"
        return Request(body: single, headers: ["Idempotency-Key": key])
    }

    private mutating func id() -> Value { .int(Int64(random.below(8))) }

    private mutating func collection() -> String { random.pick(["c", "c", "d", "e\(random.below(4))"]) }

    private mutating func value() -> Value {
        switch random.below(6) {
        case 0: .null
        case 1: .bool(random.chance(50))
        case 2: .double(Double(random.below(1_000)) / 8)
        case 3: .string(String(repeating: "ü", count: random.below(300)))
        case 4: .array([.int(Int64(random.below(9))), .string("x")])
        default: .int(Int64(random.below(100)) - 50)
        }
    }

    private mutating func document(_ id: Value) -> Value {
        var fields: [(key: String, value: Value)] = [
            (key: "_id", value: id), (key: "n", value: value()), (key: "t", value: value()),
        ]
        if random.chance(40) {
            fields.append((key: "o", value: ["x": value(), "y": ["z": value()]]))
        }
        return .object(ObjectValue(fields))
    }

    private mutating func statement() -> Value {
        let (name, id) = (collection(), id())
        var arguments: Value = ["id": id, "v": value()]
        let text: String
        switch random.below(13) {
        case 0, 1:
            let rule = random.pick(["", " ON ID CONFLICT DO NOTHING", " ON ID CONFLICT DO UPDATE"])
            text = "INSERT INTO \(name) DOCUMENTS (:d)\(rule)"
            arguments = ["d": document(id)]
        case 2, 3:
            let documents = (0..<(1 + random.below(40))).map { _ -> Value in
                last += 1
                return document(.int(Int64(last)))
            }
            text = "INSERT INTO \(name) DOCUMENTS (:d)"
            arguments = ["d": .array(documents)]
        case 4: text = "UPDATE \(name) SET n = :v WHERE _id = :id"
        case 5: text = "UPDATE \(name) SET o.x = :v, t = 'edited' WHERE _id < :id"
        case 6: text = "UPDATE \(name) APPLY hits INCREMENT BY 3 WHERE _id = :id"
        case 7: text = "UPDATE \(name) UNSET o.x, t WHERE _id = :id"
        case 8: text = "UPDATE \(name) SET n = n WHERE _id = :id"
        case 9: text = "DELETE FROM \(name) WHERE _id = :id"
        case 10: text = "INSERT INTO \(name) SELECT * FROM c WHERE _id = :id ON ID CONFLICT DO UPDATE"
        case 11: text = "DELETE FROM \(name) WHERE _id > 1000 AND _id % 7 = :id"
        default: text = "UPDATE \(name) SET n = -1 WHERE _id > 1000 AND _id % 5 = :id"
        }
        return ["statement": .string(text), "args": arguments]
    }
}
