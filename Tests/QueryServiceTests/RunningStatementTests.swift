import AsyncHTTPClient
import CRDT
import Foundation
import OperationLog
import ServiceKit
import Testing

@testable import QueryService

/// Statements that compute for as long as they are let.
@Suite("Statements that take long", .serialized, .timeLimit(.minutes(5)))
struct RunningStatementTests {
    private static let condition =
        "ANY a IN l SATISFIES ANY b IN l SATISFIES ANY c IN l SATISFIES a + b + c < 0 END END END"
    private static let select = "SELECT RAW _id FROM c WHERE \(condition)"

    private static func fill(_ client: QueryClient) async throws {
        let list = Value.array((0..<400).map { .int($0) })
        let filled = try await client.execute(
            "INSERT INTO c DOCUMENTS ({'_id': 1, 'l': :l}), ({'_id': 2, 'l': :l})", ["l": list])
        #expect(filled.status == 200)
    }

    /// Waits until a credential has so many running statements, and returns them.
    private static func running(_ client: QueryClient, _ count: Int) async throws -> [Value] {
        for _ in 0..<2_000 {
            let rows = try await client.send("/api/v5/requests").body["requests"]?.arrayValue ?? []
            if rows.count == count { return rows }
            try await Task.sleep(for: .milliseconds(10))
        }
        Issue.record("\(count) statements never run")
        return []
    }

    @Test("its owner lists and cancels it, another credential cannot, and the admin can")
    func cancelling() async throws {
        try await QueryBench.run { bench, client async throws in
            try await Self.fill(client)
            let other = client.with(token: bench.token(user: "eve"))
            async let first = client.execute(Self.select)
            let mine = try #require(try await Self.running(client, 1).first)
            #expect(mine["statement"]?.stringValue == Self.select)
            #expect(mine["rows"]?.intValue == 0 && mine["isEnding"] == false && mine["credential"] == nil)
            let id = try #require(mine["id"]?.intValue)
            #expect(try await Self.running(other, 0).isEmpty)
            let foreign = try await other.send("/api/v5/requests/\(id)", method: "DELETE")
            #expect(foreign.status == 404 && foreign.code == "QUERY-0404")
            #expect(try await client.send("/api/v5/requests/\(id)", method: "DELETE").status == 200)
            let ended = try await first
            #expect(ended.status == 409 && ended.code == "QUERY-0402")

            let credential = String(repeating: "k", count: 43)
            try credential.write(toFile: bench.adminFile, atomically: true, encoding: .utf8)
            let path = "/admin/query-service/databases/\(QueryBench.database)/requests"
            async let second = client.execute(Self.select)
            _ = try await Self.running(client, 1)
            #expect(try await client.send(path).status == 401)
            let all = try await client.send(path, bearer: credential).body["requests"]?.arrayValue ?? []
            #expect(all.first?["credential"] == "user:ada")
            let number = try #require(all.first?["id"]?.intValue)
            let gone = try await client.send("\(path)/\(number)", method: "DELETE", bearer: credential)
            #expect(gone.status == 200)
            #expect(try await second.code == "QUERY-0402")
            let nowhere = "/admin/query-service/databases/none/requests"
            #expect(try await client.send(nowhere, bearer: credential).code == "QUERY-0201")
        }
    }

    @Test("one more than a credential may have is a 429 with a time to retry; another credential goes on")
    func tooMany() async throws {
        var evaluation = EvaluationOptions()
        evaluation.statementsPerCredential = 2
        try await QueryBench.run(evaluation: evaluation) { bench, client async throws in
            try await Self.fill(client)
            async let first = client.execute(Self.select)
            async let second = client.execute("PROFILE \(Self.select)")
            let running = try await Self.running(client, 2)
            let third = try await client.execute("SELECT RAW _id FROM c WHERE _id = 1")
            #expect(third.status == 429 && third.code == "SRV-0429" && third.retryAfter == "1")
            let other = client.with(token: bench.token(user: "eve"))
            #expect(try await other.execute("SELECT RAW _id FROM c WHERE _id = 1").rows == ["1"])
            for row in running {
                let path = "/api/v5/requests/\(row["id"]?.intValue ?? 0)"
                #expect(try await client.send(path, method: "DELETE").status == 200)
            }
            #expect(try await [first.code, second.code] == ["QUERY-0402", "QUERY-0402"])
            #expect(try await client.execute("SELECT RAW _id FROM c WHERE _id = 1").status == 200)
        }
    }

    @Test("a client that closes its connection ends its statement, a read and a write alike")
    func clientGone() async throws {
        try await QueryBench.run { _, client async throws in
            try await Self.fill(client)
            let statements = [Self.select, "UPDATE c SET x = 1 WHERE \(Self.condition)"]
            for statement in statements {
                let task = Task { try await client.execute(statement) }
                _ = try await Self.running(client, 1)
                task.cancel()
                _ = try await Self.running(client, 0)
                _ = await task.result
            }
        }
    }

    @Test(
        "writes that compute for long hold up no other write and no read",
        arguments: [
            "UPDATE c SET x = 1 WHERE \(condition)", "DELETE FROM c WHERE \(condition)",
            "INSERT INTO d SELECT * FROM c WHERE \(condition)",
            "UPDATE c SET x = \(condition)", "PROFILE UPDATE c SET x = 1 WHERE \(condition)",
        ])
    func slowWrites(_ statement: String) async throws {
        try await QueryBench.run { bench, client async throws in
            try await Self.fill(client)
            let heavy = client.with(token: bench.token(user: "eve"))
            async let first = heavy.execute(statement)
            async let second = heavy.execute(statement)
            let running = try await Self.running(heavy, 2)
            for number in 0..<3 {
                let write = try await client.execute("INSERT INTO e DOCUMENTS ({'_id': \(number)})")
                #expect(write.status == 200)
            }
            #expect(try await client.execute("SELECT RAW COUNT(*) FROM e").rows == ["3"])
            for row in running {
                let path = "/api/v5/requests/\(row["id"]?.intValue ?? 0)"
                _ = try await heavy.send(path, method: "DELETE")
            }
            #expect(try await [first.code, second.code] == ["QUERY-0402", "QUERY-0402"])
            #expect(try await client.execute("SELECT RAW COUNT(*) FROM c").rows == ["2"])
        }
    }

    /// An evaluation, as long as anybody has it.
    private struct Weak {
        weak var evaluation: Evaluation?
    }

    /// Waits until so many statements run, and returns their evaluations.
    private static func evaluations(_ pool: EvaluationPool, _ count: Int) async throws -> [Weak] {
        func running() -> [Evaluation] { pool.statements(in: DatabaseID(QueryBench.database)) }
        #expect(try await comes { running().count == count })
        return running().map { Weak(evaluation: $0) }
    }

    private static func comes(_ condition: () -> Bool) async throws -> Bool {
        for _ in 0..<6_000 where !condition() { try await Task.sleep(for: .milliseconds(10)) }
        return condition()
    }

    @Test("writes that have waited in their lane leave nothing behind: what they held is given back")
    func waited() async throws {
        try await QueryBench.each { bench in
            let (log, pool) = (MeddledLog(try await bench.openLog()), EvaluationPool())
            try await bench.serving(log, pool: pool) { client async throws in
                _ = try await client.execute("INSERT INTO c DOCUMENTS ({'_id': 0})")
                let (gate, opening) = AsyncStream<Void>.makeStream()
                log.meddle { for await _ in gate {} }
                // The client opens eight connections at most.
                let writes = (1...7).map { number in
                    Task { try await client.execute("INSERT INTO c DOCUMENTS ({'_id': \(number)})") }
                }
                let kept = try await Self.evaluations(pool, writes.count)
                opening.finish()
                for write in writes { #expect(try await write.value.status == 200) }
                #expect(try await Self.comes { kept.allSatisfy { $0.evaluation == nil } })
            }
            await log.close()
        }
    }

    @Test("a write that is too slow for the quick lane is done in a slow one, once, beside the quick ones")
    func slowWriteDone() async throws {
        try await QueryBench.run { bench, client async throws in
            let list = Value.array((0..<60).map { .int($0) })
            for id in 1...4 {
                _ = try await client.execute(
                    "INSERT INTO c DOCUMENTS ({'_id': \(id), 'l': :l})", ["l": list])
            }
            let slow = "UPDATE c APPLY n INCREMENT BY 1 WHERE NOT (\(Self.condition))"
            let update = try await client.execute(slow)
            #expect(update.status == 200 && update.body["mutatedDocumentIds"]?.arrayValue?.count == 4)
            for _ in 0..<3 {
                let quick = try await client.execute("UPDATE c SET q = 1 WHERE _id = 1")
                #expect(quick.status == 200)
            }
            #expect(try await client.execute(slow).status == 200)
            #expect(try await client.execute("SELECT RAW n FROM c").rows == ["2", "2", "2", "2"])
            #expect(try await client.execute("SELECT RAW q FROM c WHERE _id = 1").rows == ["1"])
        }
    }

    @Test("writes that wait with one that is too slow go the slow way with it, and are done once each")
    func slowGroup() async throws {
        try await QueryBench.each { bench in
            let (log, pool) = (MeddledLog(try await bench.openLog()), EvaluationPool())
            try await bench.serving(log, pool: pool) { client async throws in
                let list = Value.array((0..<60).map { .int($0) })
                for id in 1...4 {
                    _ = try await client.execute(
                        "INSERT INTO c DOCUMENTS ({'_id': \(id), 'l': :l})", ["l": list])
                }
                let (gate, opening) = AsyncStream<Void>.makeStream()
                log.meddle { for await _ in gate {} }
                // The client opens eight connections at most.
                let texts =
                    ["INSERT INTO c DOCUMENTS ({'_id': 0})"]
                    + (1...4).map {
                        "UPDATE c APPLY n INCREMENT BY 1 WHERE NOT (\(Self.condition)) AND _id <> -\($0)"
                    } + ["UPDATE c SET q = 1 WHERE _id = 1", "UPDATE c SET q = 2 WHERE _id = 2"]
                let writes = texts.map { text in Task { try await client.execute(text) } }
                _ = try await Self.evaluations(pool, writes.count)
                opening.finish()
                for write in writes { #expect(try await write.value.status == 200) }
                #expect(
                    try await client.execute("SELECT RAW n FROM c WHERE _id > 0").rows
                        == ["4", "4", "4", "4"])
                #expect(try await client.execute("SELECT RAW q FROM c").rows.sorted() == ["1", "2"])
            }
            await log.close()
        }
    }

    @Test("an answer of too many bytes is an error that names its bound")
    func answerBytes() async throws {
        var bounds = QueryServicePart.Bounds()
        bounds.answerBytes = 20_000
        try await QueryBench.run(bounds: bounds) { _, client async throws in
            try await Self.fill(client)
            for statement in [
                "SELECT RAW repeat('x', 9000) FROM c",
                "UPDATE c SET x = 1 RETURNING repeat('x', 9000) AS a, repeat('y', 9000) AS b",
            ] {
                let answer = try await client.execute(
                    statement.replacing("9000)", with: "15000)"))
                #expect(answer.status == 400 && answer.code == "QUERY-0405", "\(answer.body)")
            }
            #expect(try await client.execute("SELECT RAW x FROM c").rows == [])
        }
    }

    @Test("a long statement is parsed in the pool, and its errors keep their place")
    func longText() async throws {
        try await QueryBench.run { _, client async throws in
            let terms = (0..<2_000).map { "a = \($0)" }.joined(separator: " OR ")
            #expect(try await client.execute("SELECT * FROM c WHERE \(terms)").status == 200)
            let wrong = try await client.execute("SELECT * FROM c WHERE \(terms) OR")
            #expect(wrong.status == 400 && wrong.code?.hasPrefix("DQL-") == true)
        }
    }
}

@Suite("One at a time, the credentials in turn")
struct FairLineTests {
    /// Lets those in who wait, one after the other, and returns their credentials.
    private actor Order {
        private var line = FairLine()
        private var order: [String] = []

        func begin(_ times: [(String, Duration)]) {
            _ = line.enter("first")
            for (credential, time) in times { line.charge([credential], time) }
        }
        func pass(_ credential: String, _ id: UInt64) async {
            if line.enter(credential) { _ = await line.wait(credential, id, nil).value() }
            order.append(credential)
            line.leave(credential)
        }
        func end() { line.leave("first") }
        var count: Int { line.count }
        var passed: [String] { order }
    }

    private static func order(of credentials: [String], after times: [(String, Duration)]) async -> [String] {
        let line = Order()
        await line.begin(times)
        await withDiscardingTaskGroup { group in
            for (number, credential) in credentials.enumerated() {
                group.addTask { await line.pass(credential, UInt64(number)) }
                while await line.count < number + 2 { await Task.yield() }
            }
            await line.end()
        }
        return await line.passed
    }

    @Test("one whose writes take long comes after those whose do not, and equals take turns")
    func lightFirst() async {
        let times = [("bulk", Duration.milliseconds(700)), ("small", .milliseconds(5))]
        let order = await Self.order(of: ["bulk", "bulk", "small", "new", "bulk", "small"], after: times)
        #expect(order == ["new", "small", "small", "bulk", "bulk", "bulk"])
        #expect(await Self.order(of: ["a", "a", "b"], after: []) == ["a", "b", "a"])
    }

    @Test("a line that is never empty remembers so many who have left, those who used most")
    func charged() {
        var line = FairLine()
        #expect(!line.enter("in") && line.enter("waits"))
        line.charge(["waits"], .microseconds(1))
        for number in 0..<5_000 {
            line.charge(["\(number)"], .milliseconds(number == 7 ? 900 : min(number, 1)))
            #expect(line.charged <= 2 + 2 * QueryService.Limits.absentWriters)
        }
        #expect(line.charged >= QueryService.Limits.absentWriters)
        // Whoever comes back has the time that is remembered, or is one credit behind the one who used most.
        #expect(line.used(by: "7") == .milliseconds(900))
        #expect(line.used(by: "waits") == .microseconds(1))
        #expect(line.used(by: "0") == nil)
    }

    @Test("a credential with many waits behind each other one once")
    func turns() async {
        actor Line {
            private var line = FairLine()
            private var order: [String] = []

            func pass(_ credential: String, _ id: UInt64) async {
                if line.enter(credential) {
                    guard case .isIn = await line.wait(credential, id, nil).value() else {
                        return order.append("gone")
                    }
                }
                order.append(credential)
                await Task.yield()
                line.leave(credential)
            }

            func enter(_ credential: String) -> Bool { line.enter(credential) }
            func leave(_ credential: String) { line.leave(credential) }
            func giveUp(_ id: UInt64) { line.giveUp(id) }
            var count: Int { line.count }
            var passed: [String] { order }
        }
        let line = Line()
        #expect(await line.enter("first") == false)
        await withDiscardingTaskGroup { group in
            for (number, credential) in ["a", "a", "a", "b", "c", "d"].enumerated() {
                group.addTask { await line.pass(credential, UInt64(number)) }
                while await line.count < number + 2 { await Task.yield() }
            }
            await line.giveUp(5)
            while await line.passed.isEmpty { await Task.yield() }
            await line.giveUp(5)
            await line.leave("first")
        }
        #expect(await line.passed == ["gone", "a", "b", "c", "a", "a"])
        #expect(await line.count == 0)
    }
}
