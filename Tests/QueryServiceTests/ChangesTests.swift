import AsyncHTTPClient
import CRDT
import DQL
import Foundation
import Identity
import Logging
import OperationLog
import QueryService
import ServiceKit
import TestSupport
import Testing

@Suite("Changes", .timeLimit(.minutes(4)))
struct ChangesTests {
    /// One collection's documents may be read.
    private static func reading(_ collection: String, _ query: String) -> Grant {
        Grant(
            read: AccessRules(queriesByCollection: [CollectionName(collection): [query]]), write: .everything,
            queryLanguage: 1)
    }

    @Test(
        "each change of the log is a line, in order, with values and paths; an operation's last line says so")
    func lines() async throws {
        try await QueryBench.run { _, client async throws in
            _ = try await client.execute(
                "INSERT INTO c DOCUMENTS (:docs)",
                ["docs": [["_id": 1, "a": ["b": 1, "c": 2]], ["_id": 2, "a": ["b": 3]]]])
            _ = try await client.execute("UPDATE c SET a.b = 9, n = 1 WHERE _id = 1")
            _ = try await client.execute("DELETE FROM c WHERE _id = 1")
            let answer = try await client.get("/api/v5/changes?values=both")
            #expect(answer.status == 200)
            #expect(answer.headers["content-type"] == "application/x-ndjson")
            #expect(answer.headers["x-ditto-txn-id"] == "3")
            let lines = try answer.lines
            #expect(lines.map { $0["method"] } == ["insert", "insert", "update", "remove"])
            #expect(lines.map { $0["transactionId"] } == [1, 1, 2, 3])
            #expect(lines.map { $0["index"] } == [0, 1, 0, 0])
            #expect(lines.map { $0["last"] } == [nil, true, true, true])
            #expect(lines[0]["value"] == ["_id": 1, "a": ["b": 1, "c": 2]])
            #expect(lines[0]["oldValue"] == .null)
            #expect(lines[2]["changed"] == ["a.b", "n"])
            #expect(lines[2]["oldValue"] == ["_id": 1, "a": ["b": 1, "c": 2]])
            #expect(lines[2]["value"] == ["_id": 1, "a": ["b": 9, "c": 2], "n": 1])
            #expect(lines[3]["value"] == .null)
            #expect(lines[3]["oldValue"] == ["_id": 1, "a": ["b": 9, "c": 2], "n": 1])
            #expect(lines[0]["actor"]?.stringValue?.count == 16)
            #expect(lines[0]["time"]?.stringValue?.hasSuffix("Z") == true)
            let bare = try await client.get("/api/v5/changes?values=none&since=1").lines
            #expect(bare.map { $0["method"] } == ["update", "remove"])
            #expect(bare.allSatisfy { $0["value"] == nil && $0["oldValue"] == nil })
        }
    }

    @Test("a deletion that is written again, of a document that is not there, is no change to anybody")
    func deletedAnew() async throws {
        try await QueryBench.each { bench in
            let log = try await bench.openLog()
            let gone = VersionVector([.init(actor: ActorID(11), time: 1 << 16)])
            let stamp = Stamp(time: 2 << 16, actor: ActorID(12))
            let state = Document().raised(to: gone, by: stamp).encoded()
            let change = CRDT.Operation.Change(
                collection: "c", id: try DocumentID(.int(1)), delta: StateChange.encode(state))
            let operation = CRDT.Operation(
                actor: stamp.actor, sequence: 1, timestamp: stamp.time, changes: [change])
            let request = AppendRequest(operation, authorKey: "leased:replicator")
            _ = try await log.append([request], to: DatabaseID(QueryBench.database))
            try await bench.serving(log) { client in
                _ = try await client.execute("INSERT INTO c DOCUMENTS ({'_id': 2})")
                let lines = try await client.get("/api/v5/changes?values=both").lines
                #expect(lines.map { $0["transactionId"] } == [2])
                let snapshot = try await client.get("/api/v5/changes?since=snapshot").lines
                #expect(snapshot.map { $0["id"] } == [2])
            }
            await log.close()
        }
    }

    @Test("a tombstone that is reaped is no change to anybody, and ends no feed")
    func reaped() async throws {
        try await QueryBench.each { bench in
            let log = try await bench.openLog()
            let actor = ActorID(12)
            let gone = VersionVector([.init(actor: ActorID(11), time: 1 << 16)])
            let tombstone = Document().raised(to: gone, by: Stamp(time: 2 << 16, actor: actor))
            @Sendable func append(_ sequence: SequenceNumber, _ delta: EncodedDelta) async throws {
                let change = CRDT.Operation.Change(
                    collection: "c", id: try DocumentID(.int(1)), delta: delta)
                let operation = CRDT.Operation(
                    actor: actor, sequence: sequence, timestamp: (sequence.rawValue + 1) << 16,
                    changes: [change])
                let request = AppendRequest(operation, authorKey: "leased:replicator")
                _ = try await log.append([request], to: DatabaseID(QueryBench.database))
            }
            try await append(1, StateChange.encode(tombstone.encoded()))
            try await bench.serving(log) { client in
                _ = try await client.execute("INSERT INTO c DOCUMENTS ({'_id': 2})")
                try await append(2, ReapingChange.encode(at: tombstone.vector))
                _ = try await client.execute("INSERT INTO c DOCUMENTS ({'_id': 3})")
                for values in ["none", "new", "both", "changes"] {
                    let lines = try await client.get("/api/v5/changes?values=\(values)").lines
                    #expect(lines.map { $0["transactionId"] } == [2, 4], "\(values)")
                    let later = try await client.get("/api/v5/changes?since=2&values=\(values)").lines
                    #expect(later.map { $0["id"] } == [3], "\(values)")
                }
            }
            await log.close()
        }
    }

    @Test("values=changes has the fields that differ, with their kinds and what hides what")
    func kinds() async throws {
        try await QueryBench.run { _, client async throws in
            _ = try await client.execute(
                "INSERT INTO COLLECTION c (n COUNTER, m MAP(k COUNTER)) DOCUMENTS (:d)",
                ["d": ["_id": 1, "n": 3, "m": ["k": 1]]])
            _ = try await client.execute("UPDATE c APPLY n INCREMENT BY 2, m.k INCREMENT BY -1")
            _ = try await client.execute("UPDATE c SET n = 9")
            _ = try await client.execute("DELETE FROM c")
            let lines = try await client.get("/api/v5/changes?values=changes").lines
            #expect(lines.allSatisfy { $0["value"] == nil && $0["oldValue"] == nil })
            #expect(
                lines[1]["changes"] == [
                    ["path": ["m", "k"], "action": "changed", "kind": "counter", "old": 1, "new": 0],
                    ["path": ["n"], "action": "changed", "kind": "counter", "old": 3, "new": 5],
                ])
            #expect(
                lines[2]["changes"] == [
                    ["path": ["n"], "action": "added", "kind": "register", "new": 9],
                    [
                        "path": ["n"], "action": "changed", "kind": "counter", "old": 5, "new": 5,
                        "newHidden": true,
                    ],
                ])
            let removed = try #require(lines[3]["changes"]?.arrayValue)
            #expect(removed.map { $0["path"] } == [[], ["m"], ["m", "k"], ["n"], ["n"]])
            #expect(removed.map { $0["oldHidden"] } == [nil, nil, nil, nil, true])
            let snapshot = try await client.get("/api/v5/changes?values=changes&since=snapshot").lines
            #expect(snapshot.isEmpty)
        }
    }

    @Test("a number that JSON cannot hold is null in every list of changes, and a warning says so")
    func unwritableNumbers() async throws {
        try await QueryBench.run { _, client async throws in
            _ = try await client.execute("INSERT INTO c DOCUMENTS ({'_id': 1, 'x': 1e308 * 10})")
            _ = try await client.execute("UPDATE c SET x = 0, y = -1e308 * 10")
            let told = { (value: Value?) in
                value?.arrayValue?.first?.stringValue?.hasSuffix(
                    "which JSON cannot hold: null stands in its place")
            }
            for values in ["new", "both", "changes"] {
                let lines = try await client.get("/api/v5/changes?values=\(values)").lines
                #expect(lines.map { told($0["warnings"]) } == [true, true], "\(values)")
            }
            let none = try await client.get("/api/v5/changes?values=none").lines
            #expect(none.map { $0["warnings"] } == [nil, nil])
            let first = try JSONText.parse(await client.get("/api/v5/history/c/1?at=1").text)
            #expect(first["document"] == ["_id": 1, "x": .null] && told(first["warnings"]) == true)
            let whole = try JSONText.parse(await client.get("/api/v5/history/c/1").text)
            #expect(whole["entries"]?.arrayValue?.map { told($0["warnings"]) } == [true, true])
            _ = try await client.execute("UPDATE c SET y = 0")
            let last = try await client.get("/api/v5/changes?since=3").lines
            #expect(last.isEmpty)
        }
    }

    @Test(
        "collection, where, until and limit choose lines; the condition looks at the old value of a removal")
    func filters() async throws {
        try await QueryBench.run { _, client async throws in
            for n in 1...4 {
                _ = try await client.execute("INSERT INTO c DOCUMENTS ({'_id': \(n), 'n': \(n)})")
            }
            _ = try await client.execute("INSERT INTO `d e` DOCUMENTS ({'_id': 9, 'n': 9})")
            _ = try await client.execute("DELETE FROM c WHERE n >= 3")
            func ids(_ query: String) async throws -> [Value] {
                let answer = try await client.get("/api/v5/changes?\(query)")
                #expect(answer.status == 200, "\(answer.text)")
                return try answer.lines.compactMap { $0["id"] }
            }
            #expect(try await ids("collection=d%20e") == [9])
            #expect(try await ids("collection=d+e&collection=c&until=2") == [1, 2])
            #expect(try await ids("collection=d+e&collection=c&since=4") == [9, 3, 4])
            #expect(try await ids("where=n%20%3E%203%20AND%20n%20%3C%209") == [4, 4])
            #expect(try await ids("where=n%20=%201") == [1])
            // A limit never tears an operation.
            #expect(try await ids("limit=1&since=5") == [3, 4])
            #expect(try await ids("limit=2") == [1, 2])
            #expect(try await ids("since=6") == [])
        }
    }

    @Test("since and until take times as well, in which the log had what came before them")
    func times() async throws {
        try await QueryBench.run { _, client async throws in
            var moments: [String] = []
            for n in 1...3 {
                _ = try await client.execute("INSERT INTO c DOCUMENTS ({'_id': \(n)})")
                try await Task.sleep(for: .milliseconds(20))
                moments.append(RFC3339.text(clamping: UInt64(Date().timeIntervalSince1970 * 1_000)))
                try await Task.sleep(for: .milliseconds(20))
            }
            func ids(_ query: String) async throws -> [Value] {
                let answer = try await client.get("/api/v5/changes?\(query)")
                #expect(answer.status == 200, "\(answer.text)")
                return try answer.lines.compactMap { $0["id"] }
            }
            #expect(try await ids("since=\(moments[0])&until=\(moments[1])") == [2])
            #expect(try await ids("since=\(moments[1])") == [3])
            #expect(try await ids("since=1&until=\(moments[1])&feed=continuous") == [2])
            #expect(try await ids("until=\(moments[0])") == [1])
            #expect(try await ids("since=2000-01-01T00:00:00Z&until=2000-01-02T00:00:00Z") == [])
            #expect(try await ids("until=2100-01-01T00:00:00Z") == [1, 2, 3])
        }
    }

    @Test("nothing outside the reader's grant is in a line")
    func grants() async throws {
        try await QueryBench.run { bench, client async throws in
            for id in ["own", "other"] {
                _ = try await client.execute("INSERT INTO c DOCUMENTS ({'_id': '\(id)'})")
            }
            _ = try await client.execute("INSERT INTO d DOCUMENTS ({'_id': 'own'})")
            _ = try await client.execute("UPDATE c SET n = 1")
            let limited = client.with(token: bench.token(Self.reading("c", "_id = 'own'")))
            for query in ["", "?values=none", "?since=snapshot", "?collection=c&where=true"] {
                let lines = try await limited.get("/api/v5/changes\(query)").lines
                #expect(!lines.isEmpty)
                #expect(lines.allSatisfy { $0["collection"] == "c" && $0["id"] == "own" }, "\(query)")
            }
            #expect(try await limited.get("/api/v5/changes").lines.last?["last"] == true)
            let refused = try await limited.get("/api/v5/changes?collection=d")
            #expect(refused.status == 403 && refused.code == "QUERY-0202")
            #expect(try await limited.get("/api/v5/history/c/own").status == 200)
            for path in ["c/other", "c/never", "d/own"] {
                let answer = try await limited.get("/api/v5/history/\(path)")
                #expect(answer.status == 403 && answer.code == "QUERY-0202")
            }
        }
    }

    @Test(
        "a request that cannot be meant is refused with a reason",
        arguments: [
            ("since=soon", 400, "SRV-0400"), ("since=-1", 400, "SRV-0400"), ("since=1.5", 400, "SRV-0400"),
            ("since=99", 400, "QUERY-0501"), ("since=1&since=2", 400, "SRV-0400"),
            ("until=x", 400, "SRV-0400"), ("until=2026-02-30T00:00:00Z", 400, "SRV-0400"),
            ("since=2026-11-26", 400, "SRV-0400"),
            ("limit=0", 400, "SRV-0400"), ("values=old", 400, "SRV-0400"),
            ("feed=always", 400, "SRV-0400"), ("filter=1", 400, "SRV-0400"),
            ("where=n%20%3D", 400, "DQL-0107"), ("where=n%20=%20:n", 400, "DQL-0501"),
            ("where=%FF", 400, "SRV-0400"),
        ])
    func refused(_ query: String, _ status: Int, _ code: String) async throws {
        let bench = try QueryBench()
        let log = try await bench.openLog()
        try await bench.serving(log) { client async throws in
            let answer = try await client.get("/api/v5/changes?\(query)")
            #expect(answer.status == status)
            #expect(answer.code == code, "\(answer.text)")
        }
        await log.close()
    }

    @Test("a client that takes neither lines nor events hears 406; events have names and ids")
    func forms() async throws {
        let bench = try QueryBench()
        let log = try await bench.openLog()
        try await bench.serving(log) { client async throws in
            _ = try await client.execute("INSERT INTO c DOCUMENTS ({'_id': 1}), ({'_id': 2})")
            let path = "/api/v5/changes?values=none"
            let html = try await client.get(path, headers: ["Accept": "text/html"])
            #expect(html.status == 406 && html.code == "SRV-0406")
            let both = try await client.get(
                path, headers: ["Accept": "application/x-ndjson;q=0.2, text/event-stream"])
            #expect(both.headers["content-type"] == "text/event-stream; charset=utf-8")
            #expect(both.headers["x-accel-buffering"] == "no")
            #expect(both.headers["cache-control"]?.contains("no-store") == true)
            let events = both.text.components(separatedBy: "\n\n").filter { !$0.isEmpty }
            #expect(events.count == 2)
            #expect(events[0].hasPrefix("event: change\ndata: {"))
            #expect(events[1].hasPrefix("event: change\nid: 1\ndata: {"))
            let resumed = try await client.get(
                path, headers: ["Accept": "text/event-stream", "Last-Event-ID": "1"])
            #expect(resumed.text == "")
            #expect(try await client.get(path, method: "HEAD").text == "")
        }
        await log.close()
    }

    @Test("a continuous feed tells each change when it comes, and a new one goes on where it was cut")
    func continuous() async throws {
        try await QueryBench.run { _, client async throws in
            _ = try await client.execute("INSERT INTO c DOCUMENTS ({'_id': 0})")
            let open = try await client.open("/api/v5/changes?feed=continuous&since=now")
            for n in 1...5 { _ = try await client.execute("INSERT INTO c DOCUMENTS ({'_id': \(n)})") }
            let first = try await QueryClient.lines(of: open) { $0.count >= 5 }
            #expect(first.map { $0["id"] } == [1, 2, 3, 4, 5])
            // One from the beginning, which is not in memory any more, without an end.
            let whole = try await client.open("/api/v5/changes?feed=continuous&since=0")
            let all = try await QueryClient.lines(of: whole) { $0.count >= 6 }
            #expect(all.map { $0["id"] } == [0, 1, 2, 3, 4, 5])
            let again = try await client.open("/api/v5/changes?feed=continuous&since=4&until=7")
            _ = try await client.execute("UPDATE c SET n = 1 WHERE _id = 5")
            // Ends by itself, with its last operation.
            let rest = try await QueryClient.lines(of: again) { _ in false }
            #expect(rest.map { $0["transactionId"] } == [5, 6, 7])
        }
    }

    @Test("a feed that begins with a snapshot has each document once, and goes on without a gap")
    func snapshot() async throws {
        try await QueryBench.run { _, client async throws in
            let documents = Value.array((0..<500).map { ["_id": .int($0), "n": .int($0)] })
            _ = try await client.execute("INSERT INTO c DOCUMENTS (:d)", ["d": documents])
            _ = try await client.execute("DELETE FROM c WHERE n < 100")
            _ = try await client.execute("UPDATE c SET n = -1 WHERE _id = 499")
            let open = try await client.open("/api/v5/changes?feed=continuous&since=snapshot")
            _ = try await client.execute("DELETE FROM c WHERE _id = 100")
            let lines = try await QueryClient.lines(of: open) { $0.count >= 401 }
            #expect(lines.prefix(400).allSatisfy { $0["method"] == "snapshot" && $0["transactionId"] == 3 })
            #expect(Set(lines.prefix(400).compactMap { $0["id"]?.intValue }) == Set(100..<500))
            #expect(lines[400]["method"] == "remove" && lines[400]["id"] == 100)
            #expect(
                lines.prefix(400).map { $0["last"] == true } == Array(repeating: false, count: 399) + [true])
            // One that matches nothing has no line that would be the last.
            #expect(try await client.get("/api/v5/changes?since=snapshot&collection=d").lines.isEmpty)
        }
    }

    @Test("streams are bounded for each credential and in all, and a closed one makes room")
    func bounded() async throws {
        var bounds = QueryServicePart.Bounds()
        (bounds.streamsOfCredential, bounds.streams) = (2, 3)
        let bench = try QueryBench()
        let log = try await bench.openLog()
        try await bench.serving(log, bounds: bounds) { client async throws in
            let path = "/api/v5/changes?feed=continuous"
            var open: [HTTPClientResponse] = []
            for _ in 0..<2 { open.append(try await client.open(path)) }
            let third = try await client.get(path)
            #expect(third.status == 429 && third.code == "QUERY-0504")
            #expect(third.headers["retry-after"] == "1")
            let others = client.with(token: bench.token(user: "bob"))
            open.append(try await others.open(path))
            #expect(try await others.get(path).status == 429)
            // What is not a stream has room.
            #expect(try await client.execute("SELECT * FROM c").status == 200)
            open.removeAll()
            let end = ContinuousClock.now + .seconds(40)
            var status = 429
            while status == 429, .now < end {
                _ = try await client.execute("INSERT INTO c DOCUMENTS ({})")
                status = Int(try await client.open(path).status.code)
            }
            #expect(status == 200)
        }
        await log.close()
    }

    @Test("a stream ends when its token does, and its last line says why")
    func expired() async throws {
        let bench = try QueryBench()
        let log = try await bench.openLog()
        try await bench.serving(log) { client async throws in
            let open = try await client.open("/api/v5/changes?feed=continuous")
            _ = try await client.execute("INSERT INTO c DOCUMENTS ({'_id': 1})")
            bench.clock.advance(by: 1_000)
            let lines = try await QueryClient.lines(of: open) { _ in false }
            #expect(lines.last?["error"]?["code"] == "AUTH-0105")
        }
        await log.close()
    }

    /// The documents that a consumer of lines has, by collection and id.
    private static func apply(_ lines: [Value], to documents: inout [String: Value]) throws {
        for line in lines {
            let key = "\(line["collection"]?.stringValue ?? "")/\(JSONText.print(line["id"] ?? .null))"
            #expect(
                documents[key] ?? .null == line["oldValue"], "\(key) at \(line["transactionId"] ?? .null)")
            #expect((line["method"] == "insert") == (documents[key] == nil))
            documents[key] = line["value"] == .null ? nil : line["value"]
        }
    }

    @Test(
        "a consumer that is cut anywhere and comes again has every change in order, with its true old value")
    func model() async throws {
        try await QueryBench.run { _, client async throws in
            var random = SplitMix64(seed: 11)
            var (documents, position, seen) = ([String: Value](), Int64(0), 0)
            for round in 0..<Depth.pick(fast: 12, deep: 120) {
                for _ in 0..<random.below(12) {
                    let (c, id, n) = (random.below(2), random.below(6), random.below(100))
                    let statements = [
                        "INSERT INTO c\(c) DOCUMENTS ({'_id': \(id), 'n': \(n)}) ON ID CONFLICT DO UPDATE",
                        "UPDATE c\(c) SET n = \(n) WHERE _id <= \(id)",
                        "UPDATE c\(c) SET m.k\(n % 3) = \(n) WHERE _id = \(id)",
                        "DELETE FROM c\(c) WHERE _id = \(id)",
                    ]
                    _ = try await client.execute(statements[random.below(statements.count)])
                }
                let feed = round % 2 == 0 ? "once" : "continuous"
                let head = try await client.execute("SELECT * FROM c0 LIMIT 1").transactionID ?? 0
                let path = "/api/v5/changes?values=both&feed=\(feed)&since=\(position)&until=\(head)"
                let cut = random.below(20)
                let lines = try await QueryClient.lines(of: try await client.open(path)) { $0.count >= cut }
                // Only whole operations count: the rest comes again.
                let whole = lines.lastIndex { $0["last"] == true }.map { Array(lines[...$0]) } ?? []
                try Self.apply(whole, to: &documents)
                seen += whole.count
                position = whole.last?["transactionId"]?.intValue ?? position
            }
            let rest = try await client.get("/api/v5/changes?values=both&since=\(position)").lines
            try Self.apply(rest, to: &documents)
            #expect(seen > 20)
            for c in 0..<2 {
                let rows = try await client.execute("SELECT * FROM c\(c)").items
                let kept = documents.filter { $0.key.hasPrefix("c\(c)/") }.map(\.value)
                #expect(
                    rows.map { JSONText.print($0, sortedKeys: true) }.sorted()
                        == kept.map { JSONText.print($0, sortedKeys: true) }.sorted())
            }
        }
    }
}
