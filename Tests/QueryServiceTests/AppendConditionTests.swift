import CRDT
import Testing

@testable import QueryService

/// Decision 0072: if others touch data that a transaction writes or copies, all its statements run again.
@Suite("The condition under which a transaction is appended", .timeLimit(.minutes(5)))
struct AppendConditionTests {
    /// A transaction, and what a second service writes between its draft and its append.
    private struct Case: Sendable {
        let name: String
        let statements: [String]
        let other: String
        /// The rows of both collections, and the rows of the statement before the last, afterwards.
        var rows: [String] = []
        var seen: Value = .array([])
        var attempts = 2
        var status = 200
    }

    private static let cases = [
        Case(
            name: "a document that it writes",
            statements: ["SELECT RAW n FROM c WHERE _id = 1", "UPDATE c SET n = n + 1 WHERE _id = 1"],
            other: "UPDATE c SET n = n + 10 WHERE _id = 1",
            rows: [#"{"_id":1,"n":11}"#, #"{"_id":2,"n":0}"#], seen: [10]),
        Case(
            name: "a document that its second statement writes",
            statements: [
                "UPDATE c SET n = 5 WHERE _id = 1", "SELECT RAW n FROM c WHERE _id = 2",
                "UPDATE c SET n = n + 1 WHERE _id = 2",
            ], other: "UPDATE c SET n = 40 WHERE _id = 2",
            rows: [#"{"_id":1,"n":5}"#, #"{"_id":2,"n":41}"#], seen: [40]),
        Case(
            name: "a collection that it copies from",
            statements: ["SELECT RAW COUNT(*) FROM c", "INSERT INTO d SELECT * FROM c"],
            other: "INSERT INTO c DOCUMENTS ({'_id': 3, 'n': 3})",
            rows: [
                #"{"_id":1,"n":0}"#, #"{"_id":2,"n":0}"#, #"{"_id":3,"n":3}"#, #"{"_id":1,"n":0}"#,
                #"{"_id":2,"n":0}"#, #"{"_id":3,"n":3}"#,
            ], seen: [3]),
        Case(
            name: "the id that it inserts",
            statements: ["SELECT RAW _id FROM c WHERE _id = 3", "INSERT INTO c DOCUMENTS ({'_id': 3})"],
            other: "INSERT INTO c DOCUMENTS ({'_id': 3, 'n': 7})",
            rows: [#"{"_id":1,"n":0}"#, #"{"_id":2,"n":0}"#, #"{"_id":3,"n":7}"#], attempts: 1, status: 400),
        // A SELECT adds no condition: its rows are those of the snapshot.
        Case(
            name: "a document that it only reads",
            statements: ["SELECT RAW n FROM c WHERE _id = 2", "UPDATE c SET n = 1 WHERE _id = 1"],
            other: "UPDATE c SET n = 9 WHERE _id = 2",
            rows: [#"{"_id":1,"n":1}"#, #"{"_id":2,"n":9}"#], seen: [0], attempts: 1),
    ]

    @Test("it runs again when others touched what it writes or copies, and not for what it only reads")
    func conditions() async throws {
        try await QueryBench.each { bench in
            let (log, other) = (MeddledLog(try await bench.openLog()), try await bench.openLog())
            try await bench.serving(log, projection: "one") { one async throws in
                try await bench.serving(other, projection: "two") { two async throws in
                    for tried in Self.cases {
                        for text in [
                            "DELETE FROM c", "DELETE FROM d",
                            "INSERT INTO c DOCUMENTS ({'_id': 1, 'n': 0}), ({'_id': 2, 'n': 0})",
                        ] { #expect(try await one.execute(text).status == 200) }
                        try await Self.check(tried, one, two, log)
                    }
                }
            }
            await log.close()
            await other.close()
        }
    }

    private static func check(
        _ tried: Case, _ one: QueryClient, _ two: QueryClient, _ log: MeddledLog
    ) async throws {
        log.meddle {
            let written = try await two.execute(tried.other)
            #expect(written.status == 200)
        }
        let body: Value = ["transaction": .array(tried.statements.map { ["statement": .string($0)] })]
        let answer = try await one.post(Array(JSONText.print(body).utf8))
        #expect(answer.status == tried.status, "\(tried.name): \(answer.body)")
        #expect(log.attempts == tried.attempts, "\(tried.name)")
        let results = answer.body["results"]?.arrayValue ?? []
        let seen = results.dropLast().last?["items"]
        #expect(seen == (tried.status == 200 ? tried.seen : nil), "\(tried.name): \(answer.body)")
        let c = try await two.execute("SELECT * FROM c ORDER BY _id").rows
        let d = try await two.execute("SELECT * FROM d ORDER BY _id").rows
        #expect(c + d == tried.rows, "\(tried.name)")
    }
}
