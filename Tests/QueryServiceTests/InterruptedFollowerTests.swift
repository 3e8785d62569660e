import AsyncHTTPClient
import CRDT
import Foundation
import OperationLog
import ServiceKit
import Testing

@testable import QueryService

/// A consumer of changes that begins again where its stream ended.
private struct Consumer {
    private(set) var lines: [Value] = []
    private(set) var since: Int64 = 0
    private(set) var openings = 0

    /// Follows until a line of this document's insertion, by turns at the clients.
    mutating func follow(_ clients: [QueryClient], until id: Value) async throws {
        while lines.last?["id"] != id {
            let client = clients[openings % clients.count]
            openings += 1
            let path = "/api/v5/changes?since=\(since)&feed=continuous&values=both"
            let answer = try await client.open(path, headers: ["Accept": "application/x-ndjson"])
            guard answer.status == .ok else {
                try await Task.sleep(for: .milliseconds(20))
                continue
            }
            var held: [Value] = []
            var reader = LineReader(answer)
            while let line = try await reader.next(), line["method"] != nil {
                held.append(line)
                guard line["last"] == true else { continue }
                lines += held
                since = line["transactionId"]?.intValue ?? since
                held = []
                if lines.last?["id"] == id { return }
                // A client that reconnects now and then, with several services to choose from.
                if clients.count > 1, lines.count % 7 == 0 { break }
            }
        }
    }
}

@Suite("Followers whose service changes under them", .timeLimit(.minutes(4)))
struct InterruptedFollowerTests {
    private static let credential = String(repeating: "k", count: 43)

    /// Twelve inserts and an update.
    private static func write(thirteen first: Int, to client: QueryClient) async throws {
        let inserts = (first..<first + 12).map { insert($0) }
        for statement in inserts + ["UPDATE c SET n = 1 WHERE _id = \(first)"] {
            #expect(try await client.execute(statement).status == 200)
        }
    }

    private static func insert(_ number: Int) -> String { "INSERT INTO c DOCUMENTS ({'_id': \(number)})" }

    @Test("while a projection is rebuilt they go on, or end with a reason, and lose no change")
    func rebuild() async throws {
        try await QueryBench.run { bench, client async throws in
            try Self.credential.write(toFile: bench.adminFile, atomically: true, encoding: .utf8)
            _ = try await client.execute(Self.insert(0))
            async let consumed = {
                var consumer = Consumer()
                try await consumer.follow([client], until: "end")
                return consumer
            }()
            async let followed = Self.rows(client, until: 31)
            for number in 1..<30 {
                #expect(try await client.execute(Self.insert(number)).status == 200)
                guard number % 9 == 0 else { continue }
                let path = "/admin/query-service/databases/\(QueryBench.database)/rebuilds"
                let begun = try await client.send(path, method: "POST", bearer: Self.credential)
                #expect(begun.status == 202)
            }
            #expect(try await client.execute("INSERT INTO c DOCUMENTS ({'_id': 'end'})").status == 200)
            let lines = try await consumed.lines
            #expect(lines.map { $0["id"] } == (0..<30).map { .int($0) } + ["end"])
            #expect(lines.map { $0["transactionId"] } == (1...31).map { .int($0) })
            #expect(try await followed == 31)
        }
    }

    /// Follows a count until it has reached a number; begins again where the stream ended.
    private static func rows(_ client: QueryClient, until count: Int64) async throws -> Int64 {
        while true {
            let answer = try await client.open(
                "/api/v5/store/observe", headers: ["Accept": "application/x-ndjson"], method: "POST",
                body: ["statement": "SELECT RAW COUNT(*) FROM c"])
            guard answer.status == .ok else {
                try await Task.sleep(for: .milliseconds(20))
                continue
            }
            var reader = LineReader(answer)
            while let event = try await reader.next(), event["event"] != "closed" {
                let changed = event["rows"]?.arrayValue?.first?.arrayValue?[1]
                let row = event["items"]?.arrayValue?.first ?? changed
                if let now = row?.intValue, now >= count { return now }
            }
        }
    }

    @Test(
        "a consumer that goes from one service to another on one PostgreSQL has each change, in order",
        .enabled(if: PostgresDatabase.serverURL != nil, "`make test` starts a PostgreSQL"))
    func twoServices() async throws {
        try await PostgresDatabase.use { url in
            let bench = try QueryBench(postgres: url)
            let logs = [try await bench.openLog(), try await bench.openLog()]
            try await bench.serving(logs[0]) { one async throws in
                try await bench.serving(logs[1]) { two async throws in
                    async let consumed = {
                        var consumer = Consumer()
                        try await consumer.follow([one, two], until: "end")
                        return consumer
                    }()
                    try await withThrowingTaskGroup(of: Void.self) { group in
                        for (place, client) in [one, two, one].enumerated() {
                            group.addTask { try await Self.write(thirteen: place * 100, to: client) }
                        }
                        try await group.waitForAll()
                    }
                    _ = try await two.execute("INSERT INTO c DOCUMENTS ({'_id': 'end'})")
                    let consumer = try await consumed
                    #expect(consumer.openings > 3)
                    #expect(consumer.lines.map { $0["transactionId"] } == (1...40).map { .int($0) })
                    let whole = try await one.get("/api/v5/changes?values=both").lines
                    #expect(consumer.lines == whole)
                }
            }
            for log in logs { await log.close() }
        }
    }
}
