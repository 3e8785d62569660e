import AsyncHTTPClient
import CRDT
import Foundation
import Identity
import OperationLog
import QueryService
import ServiceKit
import TestSupport
import Testing

/// A client of a live query: the rows that it has after the events so far.
private struct Followed {
    var rows: [Value] = []
    var position: Int64 = 0
    /// True once the first result has come, also that of an empty log at offset 0.
    var hasResult = false
    var isOpen = true
    private var parts: [Value] = []

    mutating func apply(_ event: Value) throws {
        position = event["transactionId"]?.intValue ?? position
        switch event["event"] {
        case "result":
            parts += event["items"]?.arrayValue ?? []
            if event["more"] != true { (rows, parts, hasResult) = (parts, [], true) }
        case "change":
            func indexes(_ name: String) -> [Int] {
                (event[name]?.arrayValue ?? []).compactMap { $0.intValue.map { Int($0) } }
            }
            let moves = (event["moves"]?.arrayValue ?? []).compactMap { pair -> (Int, Int)? in
                guard let ends = pair.arrayValue, let from = ends[0].intValue, let to = ends[1].intValue
                else { return nil }
                return (Int(from), Int(to))
            }
            let gone = Set(indexes("deletions") + moves.map(\.0))
            var rest = rows.indices.filter { !gone.contains($0) }.map { rows[$0] }[...]
            let count = rows.count - indexes("deletions").count + indexes("insertions").count
            let arrivals = Dictionary(uniqueKeysWithValues: moves.map { ($0.1, rows[$0.0]) })
            let given = Dictionary(
                uniqueKeysWithValues: (event["rows"]?.arrayValue ?? []).compactMap { pair in
                    pair.arrayValue.map { (Int($0[0].intValue ?? -1), $0[1]) }
                })
            let inserted = Set(indexes("insertions"))
            var now: [Value] = []
            for place in 0..<count {
                let kept = inserted.contains(place) ? nil : arrivals[place] ?? rest.popFirst()
                now.append(try #require(given[place] ?? kept))
            }
            rows = now
        case "closed": isOpen = false
        default: break
        }
    }
}

@Suite("observe", .timeLimit(.minutes(4)))
struct ObserveTests {
    private static let lines = ["Accept": "application/x-ndjson"]

    private func open(
        _ client: QueryClient, _ statement: String, _ arguments: Value = .object(ObjectValue()),
        headers: [String: String] = lines
    ) async throws -> HTTPClientResponse {
        try await client.open(
            "/api/v5/store/observe", headers: headers, method: "POST",
            body: ["statement": .string(statement), "args": arguments])
    }

    @Test("a number that JSON cannot hold is null in a result and in a change, and a warning says so")
    func unwritableNumbers() async throws {
        try await QueryBench.run { _, client async throws in
            _ = try await client.execute("INSERT INTO c DOCUMENTS ({'_id': 1, 'x': 1e308 * 10})")
            let stream = try await open(client, "SELECT x FROM c ORDER BY _id")
            var iterator = LineReader(stream)
            let first = try #require(try await iterator.next())
            #expect(first["items"] == [["x": .null]])
            let warnings: Value = ["a row has inf, which JSON cannot hold: null stands in its place"]
            #expect(first["warnings"] == warnings)
            _ = try await client.execute("INSERT INTO c DOCUMENTS ({'_id': 2, 'x': 5})")
            let plain = try #require(try await iterator.next())
            #expect(plain["rows"] == [[1, ["x": 5]]] && plain["warnings"] == nil)
            _ = try await client.execute("INSERT INTO c DOCUMENTS ({'_id': 3, 'x': 1e308 * 10})")
            let change = try #require(try await iterator.next())
            #expect(change["rows"] == [[2, ["x": .null]]] && change["warnings"] == warnings)
        }
    }

    @Test("the rows come first, then each change of them with indexes and the new rows")
    func changes() async throws {
        try await QueryBench.run { _, client async throws in
            _ = try await client.execute("INSERT INTO c DOCUMENTS ({'_id': 1, 'n': 1}), ({'_id': 2, 'n': 2})")
            let stream = try await open(
                client, "SELECT * FROM c WHERE n < :most ORDER BY n", ["most": 10])
            #expect(stream.headers.first(name: "cache-control")?.contains("no-store") == true)
            var iterator = LineReader(stream)
            let first = try #require(try await iterator.next())
            #expect(first["event"] == "result" && first["transactionId"] == 1)
            #expect(first["items"] == [["_id": 1, "n": 1], ["_id": 2, "n": 2]])
            _ = try await client.execute("UPDATE c SET n = 3 WHERE _id = 1")
            let moved = try #require(try await iterator.next())
            #expect(moved["event"] == "change" && moved["transactionId"] == 2)
            #expect(moved["moves"] == [[0, 1]] || moved["moves"] == [[1, 0]])
            #expect(moved["updates"] == [1] && moved["rows"] == [[1, ["_id": 1, "n": 3]]])
            // Neither concerns the query.
            _ = try await client.execute("INSERT INTO d DOCUMENTS ({'_id': 1, 'n': 1})")
            _ = try await client.execute("INSERT INTO c DOCUMENTS ({'_id': 3, 'n': 30})")
            _ = try await client.execute("DELETE FROM c WHERE _id = 2")
            let removed = try #require(try await iterator.next())
            #expect(removed["deletions"] == [0] && removed["transactionId"] == 5)
            #expect(removed["rows"] == [])
        }
    }

    @Test("joins and aggregates are observed, and a result above a megabyte comes in parts")
    func anySelect() async throws {
        try await QueryBench.run { _, client async throws in
            let long = String(repeating: "x", count: 100_000)
            let documents = (0..<25).map {
                Value.object(ObjectValue([("_id", .int($0)), ("t", .string(long))]))
            }
            _ = try await client.execute("INSERT INTO c DOCUMENTS (:d)", ["d": .array(documents)])
            var parts = LineReader(try await open(client, "SELECT * FROM c"))
            var sizes: [Int] = []
            while let part = try await parts.next() {
                sizes.append(part["items"]?.arrayValue?.count ?? 0)
                if part["more"] != true { break }
            }
            #expect(sizes.count == 3 && sizes.reduce(0, +) == 25)
            var count = LineReader(
                try await open(
                    client,
                    "SELECT COUNT(*) AS n, x.k AS k FROM c JOIN x USE INDEX '' ON c._id = x.n GROUP BY x.k"))
            #expect(try await count.next()?["items"] == [])
            _ = try await client.execute("INSERT INTO x DOCUMENTS ({'_id': 'a', 'n': 3, 'k': 'k'})")
            #expect(try await count.next()?["rows"] == [[0, ["n": 1, "k": "k"]]])
        }
    }

    @Test("a follower that comes again hears current if nothing was touched, else the result")
    func resumed() async throws {
        try await QueryBench.run { _, client async throws in
            _ = try await client.execute("INSERT INTO c DOCUMENTS ({'_id': 1, 'n': 1})")
            let statement = "SELECT * FROM c WHERE n = 1"
            // Keeps the recent operations in memory.
            let other = try await open(client, "SELECT * FROM d")
            for event in ["current", "result"] {
                _ = try await client.execute("INSERT INTO d DOCUMENTS ({})")
                var reader = LineReader(
                    try await open(
                        client, statement,
                        headers: ["Accept": "application/x-ndjson", "Last-Event-ID": "1"]))
                let first = try #require(try await reader.next())
                #expect(first["event"] == .string(event))
                #expect(first["transactionId"] ?? 0 != 1)
                _ = try await client.execute("UPDATE c SET m = 1 WHERE _id = 1")
            }
            let future = try await open(
                client, statement, headers: ["Accept": "application/x-ndjson", "Last-Event-ID": "99"])
            var reader = LineReader(future)
            #expect(try await reader.next()?["event"] == "result")
            withExtendedLifetime(other) {}
        }
    }

    @Test("as events: names, ids, and the statement in the query")
    func events() async throws {
        let bench = try QueryBench()
        let log = try await bench.openLog()
        try await bench.serving(log) { client async throws in
            _ = try await client.execute("INSERT INTO c DOCUMENTS ({'_id': 1})")
            let path =
                "/api/v5/store/observe?statement=SELECT+*+FROM+c+WHERE+_id+%3D+:id&args=%7B%22id%22:1%7D"
            let stream = try await client.open(path)
            #expect(stream.headers.first(name: "content-type") == "text/event-stream; charset=utf-8")
            #expect(stream.headers.first(name: "x-accel-buffering") == "no")
            var text = ""
            for try await buffer in stream.body {
                text += String(buffer: buffer)
                if text.hasSuffix("\n\n") { break }
            }
            #expect(
                text == "event: result\nid: 1\ndata: "
                    + #"{"event":"result","transactionId":1,"items":[{"_id":1}]}"# + "\n\n")
            #expect(try await client.get(path, method: "HEAD").text == "")
        }
        await log.close()
    }

    @Test(
        "a request that cannot be observed is refused before the stream begins",
        arguments: [
            ("{}", 400, "QUERY-0101"), (#"{"statement":"SELECT * FROM"}"#, 400, "DQL-0107"),
            (#"{"statement":"DELETE FROM c"}"#, 400, "QUERY-0101"),
            (#"{"statement":"SELECT * FROM c","asOf":0}"#, 400, "QUERY-0101"),
            (#"{"statement":"SELECT * FROM c WHERE n = :n"}"#, 400, "DQL-0501"),
            (#"{"statement":"SELECT * FROM c","argz":{}}"#, 400, "QUERY-0101"),
        ])
    func refused(_ body: String, _ status: Int, _ code: String) async throws {
        let bench = try QueryBench()
        let log = try await bench.openLog()
        try await bench.serving(log) { client async throws in
            let response = try await client.open(
                "/api/v5/store/observe", method: "POST", body: try JSONText.parse(body))
            let text = String(buffer: try await response.body.collect(upTo: 100_000))
            #expect(Int(response.status.code) == status)
            #expect(try JSONText.parse(text)["error"]?["code"] == .string(code), "\(text)")
            let limited = client.with(
                token: bench.token(
                    Grant(read: AccessRules(queriesByCollection: ["d": ["true"]]), queryLanguage: 1)))
            let other = try await limited.open(
                "/api/v5/store/observe", method: "POST", body: ["statement": "SELECT * FROM c"])
            #expect(other.status == .forbidden)
        }
        await log.close()
    }

    @Test("rows beyond a live query's memory are refused, at the beginning and later")
    func tooLarge() async throws {
        var bounds = QueryServicePart.Bounds()
        bounds.observedBytes = 100_000
        let bench = try QueryBench()
        let log = try await bench.openLog()
        try await bench.serving(log, bounds: bounds) { client async throws in
            let long = String(repeating: "x", count: 30_000)
            var stream = LineReader(try await open(client, "SELECT * FROM c"))
            #expect(try await stream.next()?["items"] == [])
            for _ in 0..<4 {
                _ = try await client.execute("INSERT INTO c DOCUMENTS ({'t': :t})", ["t": .string(long)])
            }
            var last: Value?
            while let event = try await stream.next() { last = event }
            #expect(last?["event"] == "closed")
            #expect(last?["error"]?["code"] == "QUERY-0505")
            let again = try await open(client, "SELECT * FROM c")
            #expect(again.status == .badRequest)
            var narrow = LineReader(try await open(client, "SELECT _id FROM c"))
            #expect(try await narrow.next()?["items"]?.arrayValue?.count == 4)
        }
        await log.close()
    }

    @Test("a live query ends when the token does, and says why")
    func expired() async throws {
        let bench = try QueryBench()
        let log = try await bench.openLog()
        try await bench.serving(log) { client async throws in
            var stream = LineReader(try await open(client, "SELECT * FROM c"))
            #expect(try await stream.next()?["event"] == "result")
            bench.clock.advance(by: 1_000)
            let last = try #require(try await stream.next())
            #expect(last["event"] == "closed" && last["error"]?["code"] == "AUTH-0105")
            #expect(try await stream.next() == nil)
        }
        await log.close()
    }

    @Test("followers of any rights that are cut anywhere and come again end with the query's answer")
    func model() async throws {
        try await QueryBench.run { bench, client async throws in
            var random = SplitMix64(seed: 23)
            let rules = AccessRules(queriesByCollection: ["c": ["_id < 4"], "d": ["true"]])
            let limited = client.with(token: bench.token(Grant(read: rules, queryLanguage: 1)))
            let queries = [
                "SELECT * FROM c ORDER BY n, _id", "SELECT * FROM c WHERE n > 40 ORDER BY _id DESC LIMIT 3",
                "SELECT COUNT(*) AS k, MAX(n) AS most FROM c", "SELECT _id, m FROM c WHERE _id > 1",
                "SELECT c._id AS c, d._id AS d FROM c JOIN d USE INDEX '' ON c.n = d.n ORDER BY c, d",
            ]
            var all: [(QueryClient, String, Followed, LineReader?)] = []
            for reader in [client, limited] {
                for query in queries { all.append((reader, query, Followed(), nil)) }
            }
            for _ in 0..<Depth.pick(fast: 6, deep: 60) {
                for index in all.indices where all[index].3 == nil || random.chance(30) {
                    let since = all[index].2.position
                    var headers = Self.lines
                    if since > 0 { headers["Last-Event-ID"] = "\(since)" }
                    all[index].3 = LineReader(try await open(all[index].0, all[index].1, headers: headers))
                }
                for _ in 0..<random.below(8) {
                    let (id, n) = (random.below(8), random.below(100))
                    let statements = [
                        "INSERT INTO c DOCUMENTS ({'_id': \(id), 'n': \(n)}) ON ID CONFLICT DO UPDATE",
                        "INSERT INTO d DOCUMENTS ({'_id': \(id), 'n': \(n)}) ON ID CONFLICT DO UPDATE",
                        "UPDATE c SET n = \(n), m.x = \(id) WHERE _id <= \(id)",
                        "DELETE FROM c WHERE _id = \(id)",
                    ]
                    _ = try await client.execute(statements[random.below(4)])
                }
                for index in all.indices {
                    let (reader, query) = (all[index].0, all[index].1)
                    let wanted = try await reader.execute(query)
                    // An answer may lag: events come until the rows are the same, or until time is over.
                    let end = ContinuousClock.now + .seconds(30)
                    while all[index].2.rows != wanted.items || !all[index].2.hasResult, .now < end {
                        let event = try #require(try await all[index].3?.next())
                        try all[index].2.apply(event)
                    }
                    #expect(all[index].2.rows == wanted.items, "\(query)")
                }
            }
        }
    }
}
