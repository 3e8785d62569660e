import CRDT
import OperationLog
import Testing

@Suite("Writes that wait together")
struct WriteGroupTests {
    @Test("they are appended together, each is answered by itself, and one that fails takes no other along")
    func together() async throws {
        try await QueryBench.each { bench in
            let log = TamperedLog(try await bench.openLog())
            try await bench.serving(log) { client async throws in
                _ = try await client.execute("INSERT INTO c DOCUMENTS ({'_id': 'n', 'k': 0})")
                let kinds = 4
                let answers = try await withThrowingTaskGroup(of: (kind: Int, answer: QueryAnswer).self) {
                    group in
                    for number in 0..<28 {
                        let statements = [
                            "INSERT INTO c DOCUMENTS ({'_id': \(number)})",
                            "UPDATE c SET k = k + 1 WHERE _id = 'n'",
                            "INSERT INTO c DOCUMENTS ({'_id': 'same'})",
                            "INSERT INTO c DOCUMENTS (\(number))",
                        ]
                        group.addTask {
                            (number % kinds, try await client.execute(statements[number % kinds]))
                        }
                    }
                    return try await group.reduce(into: []) { $0.append($1) }
                }
                let taken = answers.filter { $0.answer.status == 200 }
                #expect((0..<kinds).map { kind in taken.count { $0.kind == kind } } == [7, 7, 1, 0])
                #expect(Set(taken.compactMap(\.answer.transactionID)).count == 15)
                let refused = Set(answers.filter { $0.answer.status != 200 }.map(\.answer.status))
                #expect(refused == [400])
                #expect(try await client.execute("SELECT k FROM c WHERE _id = 'n'").rows == [#"{"k":7}"#])
                #expect(try await client.execute("SELECT _id FROM c").items.count == 9)
                #expect(log.largestAppend > 1)
            }
            await log.close()
        }
    }

    @Test("two services that write the same documents lose no write")
    func twoServices() async throws {
        try await QueryBench.each { bench in
            let logs = [try await bench.openLog(), try await bench.openLog()]
            try await bench.serving(logs[0]) { one async throws in
                try await bench.serving(logs[1], projection: "other") { two async throws in
                    _ = try await one.execute(
                        "INSERT INTO c DOCUMENTS ({'_id': 1, 'k': 0}), ({'_id': 2, 'k': 0})")
                    let added = try await withThrowingTaskGroup(of: Int.self) { group in
                        for number in 0..<24 {
                            group.addTask {
                                let client = number % 2 == 0 ? one : two
                                let statement = "UPDATE c SET k = k + 1 WHERE _id = \(1 + number / 2 % 2)"
                                return try await client.execute(statement).status == 200 ? 1 : 0
                            }
                        }
                        return try await group.reduce(0, +)
                    }
                    #expect(
                        try await two.execute("SELECT SUM(k) AS s FROM c").rows == [#"{"s":\#(added)}"#])
                }
            }
            for log in logs { await log.close() }
        }
    }
}
