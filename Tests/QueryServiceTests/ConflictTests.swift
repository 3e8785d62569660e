import CRDT
import Identity
import OperationLog
import ServiceKit
import Testing

@testable import QueryService

/// Operations of two peers that knew nothing of each other.
@Suite("Concurrent values", .timeLimit(.minutes(4)))
struct ConflictTests {
    /// Appends the first operation of an actor: it sets fields of one document and has seen no other write.
    private static func append(
        _ log: any OperationLog, actor: UInt64, at milliseconds: UInt64, author: String, _ key: DocumentKey,
        _ fields: [(path: [String], value: Value)]
    ) async throws {
        let stamp = Stamp(time: milliseconds << 16, actor: ActorID(actor))
        var editor = DocumentEditor(document: Document(), stamp: stamp)
        for field in fields { try editor.set(field.path, field.value) }
        let delta = try #require(editor.pending.delta(stamp: stamp))
        let change = CRDT.Operation.Change(collection: key.collection, id: key.id, delta: delta.encoded())
        let operation = CRDT.Operation(
            actor: stamp.actor, sequence: 1, timestamp: stamp.time, changes: [change])
        let outcome = try await log.append(
            [AppendRequest(operation, authorKey: author)], to: DatabaseID(QueryBench.database))
        try #require(outcome.count == 1)
    }

    private static func key(_ id: String) throws -> DocumentKey {
        DocumentKey(collection: "boats", id: try DocumentID(.string(id)))
    }

    @Test("a history names the writes that a write did not know of, also where the earlier value shows")
    func history() async throws {
        try await QueryBench.each { bench in
            let log = try await bench.openLog()
            let fram = try Self.key("fram")
            try await Self.append(
                log, actor: 11, at: 1_700_000_000_000, author: "pk-anna", fram,
                [(["name"], "Fram"), (["masts"], 3)])
            try await Self.append(
                log, actor: 12, at: 1_700_000_060_000, author: "user:ben", fram,
                [(["name"], "Forward"), (["length"], 39)])
            // It comes last, and is older than both.
            try await Self.append(
                log, actor: 13, at: 1_600_000_000_000, author: "pk-carl", fram, [(["name"], "Avant")])
            try await bench.serving(log) { client in
                _ = try await client.execute("UPDATE boats SET name = 'Fram II' WHERE _id = 'fram'")
                let answer = try await client.get("/api/v5/history/boats/fram").lines[0]
                let entries = answer["entries"]?.arrayValue ?? []
                #expect(entries.map { $0["transactionId"] } == [4, 3, 2, 1])
                let told = { (member: String) in
                    entries.map { entry -> [Value?] in
                        let changes = entry["changes"]?.arrayValue ?? []
                        return changes.filter { $0["path"] == ["name"] }.map { $0[member] }
                    }
                }
                #expect(told("concurrentWith") == [[nil], [[1, 2]], [[1]], [nil]])
                // The oldest one does not show, and is told all the same.
                #expect(told("written") == [[nil], ["Avant"], [nil], [nil]])
                let others = entries.flatMap { $0["changes"]?.arrayValue ?? [] }
                    .filter { $0["path"] != ["name"] }
                #expect(!others.isEmpty && others.allSatisfy { $0["concurrentWith"] == nil })
            }
            await log.close()
        }
    }

    @Test("are told with their authors and times, until a write chooses one")
    func told() async throws {
        try await QueryBench.each { bench in
            let log = try await bench.openLog()
            let (fram, gjoa) = (try Self.key("fram"), try Self.key("gjoa"))
            try await Self.append(
                log, actor: 11, at: 1_700_000_000_000, author: "pk-anna", fram,
                [(["name"], "Fram"), (["crew", "cook"], "Lindstrøm"), (["masts"], 3)])
            try await Self.append(
                log, actor: 12, at: 1_700_000_060_000, author: "user:ben", fram,
                [(["name"], "Forward"), (["crew", "cook"], "Juell")])
            try await Self.append(
                log, actor: 13, at: 1_700_000_000_000, author: "pk-anna", gjoa, [(["name"], "Gjøa")])
            try await bench.serving(log) { client in
                let list = try await client.get("/api/v5/conflicts/boats").lines[0]
                #expect(list["documents"]?.arrayValue?.map { $0["id"] } == ["fram"])
                #expect(list["documents"]?.arrayValue?.first?["paths"] == [["crew", "cook"], ["name"]])
                #expect(list["more"] == false)
                let one = try await client.get("/api/v5/conflicts/boats/fram").lines[0]
                let fields = one["fields"]?.arrayValue ?? []
                #expect(fields.map { $0["path"] } == [["crew", "cook"], ["name"]])
                let values = fields.last?["values"]?.arrayValue ?? []
                #expect(values.map { $0["value"] } == ["Forward", "Fram"])
                #expect(values.map { $0["shown"] } == [true, false])
                #expect(values.map { $0["user"] } == ["user:ben", .null])
                #expect(values.map { $0["peer"] } == [.null, "pk-anna"])
                #expect(
                    values.map { $0["time"] } == ["2023-11-14T22:14:20.000Z", "2023-11-14T22:13:20.000Z"])
                #expect(one["exists"] == true && (one["bytes"]?.intValue ?? 0) > 50)
                // A choice: the value that shows, which is written again, or the other one.
                for (path, chosen) in [("name", "Forward"), ("crew.cook", "Lindstrøm")] {
                    _ = try await client.execute(
                        "UPDATE boats SET \(path) = :chosen WHERE _id = 'fram'", ["chosen": .string(chosen)])
                }
                let after = try await client.get("/api/v5/conflicts/boats/fram").lines[0]
                #expect(after["fields"] == [])
                #expect(try await client.get("/api/v5/conflicts/boats").lines[0]["documents"] == [])
                #expect(
                    try await client.execute("SELECT name, crew.cook AS cook FROM boats WHERE _id = 'fram'")
                        .rows
                        == [#"{"cook":"Lindstrøm","name":"Forward"}"#])
                let none = try await client.get("/api/v5/conflicts/boats/never").lines[0]
                #expect(none["exists"] == false && none["fields"] == [] && none["bytes"] == 0)
            }
            await log.close()
        }
    }

    @Test("of documents that may not be read are told to nobody")
    func rights() async throws {
        try await QueryBench.each { bench in
            let log = try await bench.openLog()
            for id in ["mine", "theirs"] {
                let number: UInt64 = id == "mine" ? 20 : 30
                for actor in number..<(number + 2) {
                    try await Self.append(
                        log, actor: actor, at: 1_700_000_000_000 + actor, author: "pk-\(actor)",
                        try Self.key(id),
                        [(["n"], .int(Int64(actor)))])
                }
            }
            let rules = AccessRules(everything: false, queriesByCollection: ["boats": ["_id == 'mine'"]])
            let token = bench.token(Grant(read: rules, queryLanguage: 1))
            try await bench.serving(log) { client in
                let few = client.with(token: token)
                let list = try await few.get("/api/v5/conflicts/boats").lines[0]
                #expect(list["documents"]?.arrayValue?.map { $0["id"] } == ["mine"])
                #expect(try await few.get("/api/v5/conflicts/boats/mine").status == 200)
                #expect(try await few.get("/api/v5/conflicts/boats/theirs").code == "QUERY-0202")
                #expect(try await few.get("/api/v5/conflicts/boats/never").code == "QUERY-0202")
                #expect(try await few.get("/api/v5/conflicts/cars").code == "QUERY-0202")
                let all = try await client.get("/api/v5/conflicts/boats?limit=1").lines[0]
                #expect(all["documents"]?.arrayValue?.count == 1 && all["more"] == true)
                #expect(try await client.get("/api/v5/conflicts/boats?limit=0").code == "SRV-0400")
                #expect(try await client.with(token: nil).get("/api/v5/conflicts/boats").status == 401)
            }
            await log.close()
        }
    }
}
