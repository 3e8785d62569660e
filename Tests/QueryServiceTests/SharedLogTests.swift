import CRDT
import Foundation
import Identity
import OperationLog
import QueryService
import Testing

@Suite("Projections of a shared log")
struct SharedLogTests {
    @Test("two services on one log see each other's writes at once")
    func twoServices() async throws {
        try await QueryBench.each { bench in
            let logs = [try await bench.openLog(), try await bench.openLog()]
            try await bench.serving(logs[0], projection: "one") { one async throws in
                try await bench.serving(logs[1], projection: "two") { two async throws in
                    _ = try await one.execute("INSERT INTO c DOCUMENTS ({'_id': 1, 'n': 0})")
                    for number in 1...20 {
                        let (writer, reader) = number % 2 == 0 ? (one, two) : (two, one)
                        let update = try await writer.execute("UPDATE c SET n = n + 1")
                        #expect(update.transactionID == Int64(number) + 1)
                        #expect(try await reader.execute("SELECT n FROM c").rows == ["{\"n\":\(number)}"])
                    }
                }
            }
            for log in logs { await log.close() }
        }
    }

    @Test("of two services that write one document at the same time, neither overwrites what the other did")
    func contention() async throws {
        try await QueryBench.each { bench in
            let logs = [try await bench.openLog(), try await bench.openLog()]
            try await bench.serving(logs[0], projection: "one") { one async throws in
                try await bench.serving(logs[1], projection: "two") { two async throws in
                    _ = try await one.execute("INSERT INTO c DOCUMENTS ({'_id': 1, 'n': 0})")
                    let answers = try await withThrowingTaskGroup(of: [QueryAnswer].self) { group in
                        for client in [one, two, one, two] {
                            group.addTask {
                                var answers: [QueryAnswer] = []
                                for _ in 0..<10 {
                                    answers.append(try await client.execute("UPDATE c SET n = n + 1"))
                                }
                                let insert = "INSERT INTO c DOCUMENTS ({'_id': 'once'})"
                                answers.append(try await client.execute(insert))
                                return answers
                            }
                        }
                        return try await group.reduce(into: []) { $0 += $1 }
                    }
                    let updates = answers.filter { $0.body["queryType"] == "update" && $0.status == 200 }
                        .count
                    #expect(
                        try await two.execute("SELECT n FROM c WHERE _id = 1").rows == ["{\"n\":\(updates)}"])
                    let inserts = answers.filter { $0.body["queryType"] == "insert" }
                    #expect(inserts.count == 1)
                    let refused = answers.filter { $0.status != 200 }.compactMap(\.code)
                    #expect(refused.allSatisfy { ["DQL-0601", "QUERY-0302"].contains($0) })
                    #expect(refused.filter { $0 == "DQL-0601" }.count == 3)
                }
            }
            for log in logs { await log.close() }
        }
    }

    @Test("a projection whose folder was deleted or damaged is rebuilt equal", arguments: [false, true])
    func rebuilt(_ isDamaged: Bool) async throws {
        let bench = try QueryBench()
        let log = try await bench.openLog()
        let before = try await bench.serving(log) { client async throws in
            for number in 0..<20 {
                _ = try await client.execute(
                    "INSERT INTO c DOCUMENTS ({'_id': \(number), 'm': {'n': \(number)}})")
            }
            _ = try await client.execute("UPDATE c SET m.k = 'x' WHERE _id < 10")
            _ = try await client.execute("DELETE FROM c WHERE _id = 5")
            return try await client.execute("SELECT * FROM c").rows
        }
        let folder = "\(bench.folder)/query/\(QueryBench.database)"
        try #require(FileManager.default.fileExists(atPath: "\(folder)/replica.sqlite"))
        try FileManager.default.removeItem(atPath: folder)
        try FileManager.default.createDirectory(atPath: folder, withIntermediateDirectories: true)
        let rubbish = Data(repeating: 0x5A, count: isDamaged ? 4_096 : 0)
        try rubbish.write(to: URL(fileURLWithPath: "\(folder)/replica.sqlite"))
        let after = try await bench.serving(log) { client async throws in
            #expect(try await client.execute("INSERT INTO d DOCUMENTS ({'_id': 1})").transactionID == 23)
            return try await client.execute("SELECT * FROM c").rows
        }
        #expect(before.count == 19)
        #expect(after == before)
        await log.close()
    }

    @Test("a projection of a log that was replaced is built anew from the new one")
    func replaced() async throws {
        try await QueryBench.each { bench in
            let first = try await bench.openLog()
            try await bench.serving(first) { client async throws in
                for number in 0..<3 {
                    _ = try await client.execute("INSERT INTO old DOCUMENTS ({'_id': \(number)})")
                }
            }
            await first.close()
            for name in try FileManager.default.contentsOfDirectory(atPath: bench.folder)
            where name != "query" {
                try FileManager.default.removeItem(atPath: "\(bench.folder)/\(name)")
            }
            let second = try await bench.openLog()
            try await bench.serving(second) { client async throws in
                #expect(try await client.execute("SELECT * FROM old").items == [])
                #expect(try await client.execute("INSERT INTO new DOCUMENTS ({'_id': 1})").transactionID == 1)
                #expect(try await client.execute("SELECT * FROM new").items.count == 1)
            }
            await second.close()
        }
    }
}
