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

@Suite("asOf and history", .timeLimit(.minutes(4)))
struct PastTests {
    /// Writes the log's snapshot at its head, and removes the operations through an offset.
    static func truncate(
        _ log: any OperationLog, through offset: Offset, _ bench: QueryBench
    ) async throws {
        let database = DatabaseID(QueryBench.database)
        let fold = try await Materializer.open(
            database, log: log, folder: "\(bench.folder)/fold-\(offset)", logger: Logger(label: "test"))
        try await fold.advance()
        _ = try await fold.writeSnapshot { true }
        await fold.close()
        try await log.truncate(database, through: offset, keepingHashesAfter: 0)
    }

    private func rows(_ client: QueryClient, at offset: Int, _ statement: String) async throws -> [String] {
        let body: Value = ["statement": .string(statement), "asOf": .int(Int64(offset))]
        let answer = try await client.post(Array(JSONText.print(body).utf8))
        #expect(answer.status == 200, "\(answer.body)")
        #expect(answer.transactionID == Int64(offset))
        return answer.rows
    }

    @Test("a read at each offset, in any order, gives what a read gave then; so does a document's history")
    func agreesWithReads() async throws {
        try await QueryBench.run { _, client async throws in
            var random = SplitMix64(seed: 5)
            let select = "SELECT * FROM c ORDER BY _id"
            var then: [[String]] = [[]]
            for step in 1...Depth.pick(fast: 25, deep: 200) {
                let id = random.below(5)
                let statements = [
                    "INSERT INTO c DOCUMENTS ({'_id': \(id), 'n': \(step)}) ON ID CONFLICT DO UPDATE",
                    "UPDATE c SET n = n + 1, l = [\(step)] WHERE _id = \(id)",
                    "UPDATE c APPLY k INCREMENT BY 1", "DELETE FROM c WHERE _id = \(id)",
                ]
                _ = try await client.execute(statements[random.below(4)])
                let now = try await client.execute(select)
                if now.transactionID == Int64(then.count) { then.append(now.rows) }
            }
            for _ in 0..<30 {
                let offset = random.below(then.count)
                #expect(try await rows(client, at: offset, select) == then[offset], "at \(offset)")
                let id = random.below(5)
                let document = try await client.get("/api/v5/history/c/\(id)?at=\(offset)").lines[0]
                let row = then[offset].first {
                    $0.contains("\"_id\":\(id),") || $0.hasSuffix("\"_id\":\(id)}")
                }
                let text = document["document"].map { JSONText.print($0, sortedKeys: true) }
                #expect(text == row ?? "null", "document \(id) at \(offset)")
            }
        }
    }

    @Test("asOf in the query, as a text and as a time; aggregates and rights as in the present")
    func forms() async throws {
        try await QueryBench.run { bench, client async throws in
            _ = try await client.execute("INSERT INTO c DOCUMENTS ({'_id': 'a'}), ({'_id': 'b'})")
            try await Task.sleep(for: .milliseconds(20))
            let between = RFC3339.text(clamping: UInt64(Date().timeIntervalSince1970 * 1_000))
            try await Task.sleep(for: .milliseconds(20))
            _ = try await client.execute("DELETE FROM c")
            for point in ["1", between] {
                let body: Value = ["statement": "SELECT COUNT(*) AS n FROM c", "asOf": .string(point)]
                let answer = try await client.post(Array(JSONText.print(body).utf8))
                #expect(answer.rows == [#"{"n":2}"#])
                #expect(answer.transactionID == 1)
                let query = try await client.open(
                    "/api/v5/store/execute?asOf=\(point)", method: "POST",
                    body: ["statement": "SELECT COUNT(*) AS n FROM c"])
                let text = String(buffer: try await query.body.collect(upTo: 1_000_000))
                #expect(text.contains(#""items":[{"n":2}]"#), "\(text)")
            }
            let long = RFC3339.text(clamping: 0)
            let before = try await client.post(
                Array(#"{"statement":"SELECT * FROM c","asOf":"\#(long)"}"#.utf8))
            #expect(before.transactionID == 0 && before.items.isEmpty)
            let rules = AccessRules(queriesByCollection: ["c": ["_id = 'a'"]])
            let limited = client.with(token: bench.token(Grant(read: rules, queryLanguage: 1)))
            #expect(try await rows(limited, at: 1, "SELECT * FROM c") == [#"{"_id":"a"}"#])
        }
    }

    @Test("a time is found where a read of the log ends with its bytes, not with its operations")
    func largeOperations() async throws {
        try await QueryBench.run { _, client async throws in
            let large = String(repeating: "x", count: 600_000)
            for id in 1...4 {
                _ = try await client.execute("INSERT INTO c DOCUMENTS ({'_id': \(id), 't': '\(large)'})")
            }
            try await Task.sleep(for: .milliseconds(20))
            let time = RFC3339.text(clamping: UInt64(Date().timeIntervalSince1970 * 1_000))
            // A second read begins at a mark of the first.
            for _ in 0..<2 {
                let body: Value = ["statement": "SELECT COUNT(*) AS n FROM c", "asOf": .string(time)]
                let answer = try await client.post(Array(JSONText.print(body).utf8))
                #expect(answer.rows == [#"{"n":4}"#] && answer.transactionID == 4)
            }
            _ = try await client.execute("INSERT INTO c DOCUMENTS ({'_id': 5})")
            let later = try await client.get("/api/v5/changes?since=\(time)").lines
            #expect(later.map { $0["id"] } == [5])
        }
    }

    @Test("a point that is none, the future and a write are refused")
    func refused() async throws {
        let bench = try QueryBench()
        let log = try await bench.openLog()
        try await bench.serving(log) { client async throws in
            func code(_ body: String) async throws -> String? {
                let answer = try await client.post(Array(body.utf8))
                #expect(answer.status == 400)
                return answer.code
            }
            let select = #""statement":"SELECT * FROM c""#
            #expect(try await code("{\(select),\"asOf\":-1}") == "QUERY-0101")
            #expect(try await code("{\(select),\"asOf\":true}") == "QUERY-0101")
            #expect(try await code("{\(select),\"asOf\":\"yesterday\"}") == "QUERY-0101")
            #expect(try await code("{\(select),\"asOf\":\"2026-02-30T00:00:00Z\"}") == "QUERY-0101")
            #expect(try await code("{\(select),\"asOf\":1}") == "QUERY-0501")
            let write = #""statement":"INSERT INTO c DOCUMENTS ({})""#
            #expect(try await code("{\(write),\"asOf\":0}") == "QUERY-0502")
            #expect(try await client.get("/api/v5/history/c/x?at=1").code == "QUERY-0501")
            #expect(try await client.get("/api/v5/history/c/x?limit=1001").code == "SRV-0400")
            let wrong = try await client.get("/api/v5/history/c/x?at=x")
            #expect(wrong.code == "QUERY-0101" && wrong.text.contains(#"\"at\" must be"#))
            let twice = try await client.open(
                "/api/v5/store/execute?asOf=0", method: "POST",
                body: ["statement": "SELECT * FROM c", "asOf": 0])
            #expect(twice.status == .badRequest)
        }
        await log.close()
    }

    @Test(
        "behind a truncation asOf, history and changes are a 410 that names the oldest state; 0 begins there")
    func truncated() async throws {
        try await QueryBench.run { bench, client async throws in
            for n in 1...6 {
                _ = try await client.execute(
                    "INSERT INTO c DOCUMENTS ({'_id': 1, 'n': \(n)}) ON ID CONFLICT DO UPDATE")
            }
            let log = try SQLiteOperationLog(path: "\(bench.folder)/log.sqlite")
            try await Self.truncate(log, through: 4, bench)
            await log.close()
            for n in 7...8 { _ = try await client.execute("UPDATE c SET n = \(n)") }
            #expect(try await rows(client, at: 6, "SELECT * FROM c") == [#"{"_id":1,"n":6}"#])
            #expect(try await rows(client, at: 7, "SELECT * FROM c") == [#"{"_id":1,"n":7}"#])
            let gone = try await client.post(Array(#"{"statement":"SELECT * FROM c","asOf":5}"#.utf8))
            #expect(gone.status == 410 && gone.code == "QUERY-0503")
            #expect(gone.body["error"]?["oldest"] == 6)
            #expect(gone.body["error"]?["oldestTime"]?.stringValue?.hasSuffix("Z") == true)
            for path in ["changes?since=3", "history/c/1?at=2"] {
                let answer = try await client.get("/api/v5/\(path)")
                #expect(answer.status == 410 && answer.error?["oldest"] == 6, "\(path)")
            }
            let history = try await client.get("/api/v5/history/c/1").lines[0]
            #expect(history["entries"]?.arrayValue?.map { $0["transactionId"] } == [8, 7])
            #expect(history["complete"] == false && history["oldest"] == 6)
            let first = history["entries"]?.arrayValue?.last?["changes"]?.arrayValue?.first
            #expect(first?["path"] == ["n"] && first?["old"] == 6 && first?["new"] == 7)
            let all = try await client.get("/api/v5/changes?values=both").lines
            #expect(all.map { $0["oldValue"]?["n"] } == [6, 7])
        }
    }

    @Test("after a truncation amid random writes, each offset that is left reads as it read then")
    func truncatedAmidWrites() async throws {
        try await QueryBench.run { bench, client async throws in
            var random = SplitMix64(seed: Depth.seed)
            let select = "SELECT * FROM c ORDER BY _id"
            var then: [[String]] = [[]]
            var oldest = 0
            for round in 0..<Depth.pick(fast: 2, deep: 6) {
                for step in 1...12 {
                    let id = random.below(4)
                    let statements = [
                        "INSERT INTO c DOCUMENTS ({'_id': \(id), 'n': \(step)}) ON ID CONFLICT DO UPDATE",
                        "UPDATE c APPLY k INCREMENT BY \(step)", "DELETE FROM c WHERE _id = \(id)",
                    ]
                    // The first one writes, so that there is something to truncate.
                    _ = try await client.execute(statements[step == 1 ? 0 : random.below(3)])
                    let now = try await client.execute(select)
                    if now.transactionID == Int64(then.count) { then.append(now.rows) }
                }
                guard round % 2 == 0 else { continue }
                let log = try SQLiteOperationLog(path: "\(bench.folder)/log.sqlite")
                oldest = then.count - 1
                try await Self.truncate(log, through: Offset(UInt64(random.below(oldest))), bench)
                await log.close()
            }
            let truncation = oldest
            for offset in truncation..<then.count {
                #expect(try await rows(client, at: offset, select) == then[offset], "at \(offset)")
                for id in 0..<4 {
                    let answer = try await client.get("/api/v5/history/c/\(id)?at=\(offset)")
                    let row = then[offset].first { $0.hasPrefix("{\"_id\":\(id)") }
                    let document = try answer.lines[0]["document"]
                    #expect(document.map { JSONText.print($0, sortedKeys: true) } == row ?? "null")
                }
            }
        }
    }

    @Test("a history is newest first, in pages; ids are texts or JSON; a time before 1970 is none")
    func history() async throws {
        let bench = try QueryBench()
        let log = try await bench.openLog()
        try await bench.serving(log) { client async throws in
            let id: Value = ["k": 1]
            let texts: Value = "1"
            for n in 0..<Int64(4) {
                for key in [id, texts] {
                    _ = try await client.execute(
                        "INSERT INTO c DOCUMENTS (:d) ON ID CONFLICT DO UPDATE",
                        ["d": ["_id": key, "n": .int(n)]])
                }
            }
            func page(_ path: String) async throws -> Value {
                try await client.get("/api/v5/history/c/\(path)").lines[0]
            }
            let first = try await page("%7B%22k%22%3A1%7D?limit=3")
            #expect(first["id"] == id && first["more"] == true && first["complete"] == true)
            #expect(first["entries"]?.arrayValue?.map { $0["transactionId"] } == [7, 5, 3])
            let second = try await page("%7B%22k%22%3A1%7D?limit=3&before=3")
            #expect(second["entries"]?.arrayValue?.map { $0["transactionId"] } == [1])
            #expect(second["more"] == false)
            #expect(
                second["entries"]?.arrayValue?.first?["changes"]?.arrayValue?.first?["action"] == "added")
            #expect(try await page("%221%22")["entries"]?.arrayValue?.count == 4)
            // No document has the number: the text is meant.
            #expect(try await page("1")["entries"]?.arrayValue?.count == 4)
            #expect(try await page("tom")["id"] == "tom")
            #expect(try await page("no%2Fslash")["id"] == "no/slash")
        }
        await log.close()
    }
}
