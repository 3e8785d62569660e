import TestSupport
import Testing

@testable import DittoSwift

@Suite("Indexes and requests of a store", .timeLimit(.minutes(5)))
struct IndexAndRequestTests {
    private func rows(_ ditto: Ditto, _ query: String) async throws -> [String] {
        try await ditto.store.execute(query: query).items.map { $0.jsonString() }
    }

    @Test("an index is created, shown, used and dropped by statements")
    func indexes() async throws {
        try await withDitto { ditto in
            try await ditto.store.execute(query: "INSERT INTO c DOCUMENTS ({'_id': 1, 'a': 5}), ({'_id': 2})")
            #expect(try await rows(ditto, "CREATE INDEX by_a ON c (a DESC)") == [])
            let shown = try await rows(ditto, "SELECT RAW _id FROM system:indexes")
            #expect(shown == [#"{"$1":"c.by_a"}"#] || shown == [#""c.by_a""#], "\(shown)")
            let plan = try await rows(ditto, "EXPLAIN SELECT * FROM c WHERE a = 5")
            #expect(plan.first?.contains(#""indexScan""#) == true, "\(plan)")
            #expect(try await rows(ditto, "SELECT _id FROM c WHERE a > 1") == [#"{"_id":1}"#])
            let again = await #expect(throws: DittoSwiftError.self) {
                try await ditto.store.execute(query: "CREATE INDEX by_a ON c (b)")
            }
            #expect(again?.localizedDescription.hasPrefix("DQL-0613") == true)
            try await ditto.store.execute(query: "DROP INDEX by_a ON c")
            #expect(try await rows(ditto, "SELECT * FROM system:indexes") == [])
        }
    }

    @Test("ADVISE AND PROVISION creates what ADVISE recommends")
    func provision() async throws {
        try await withDitto { ditto in
            let advice = try await rows(ditto, "ADVISE AND PROVISION SELECT * FROM c WHERE b = 1")
            #expect(advice.first?.contains(#""createdIndexes":["idx_c_b"]"#) == true, "\(advice)")
            let again = try await rows(ditto, "ADVISE AND PROVISION SELECT * FROM c WHERE b = 1")
            #expect(again.first?.contains(#""createdIndexes":[]"#) == true, "\(again)")
        }
    }

    @Test("requests are remembered, those that failed with their code, until they are deleted")
    func history() async throws {
        try await withDitto { ditto in
            try await ditto.store.execute(query: "INSERT INTO c DOCUMENTS ({'_id': 1})")
            _ = try? await ditto.store.execute(query: "INSERT INTO c DOCUMENTS ({'_id': 1})")
            let failed = try await rows(
                ditto, "SELECT queryType, state, error FROM system:request_history WHERE state = 'failed'")
            #expect(failed == [#"{"queryType":"insert","state":"failed","error":"DQL-0601"}"#])
            let running = try await rows(ditto, "SELECT statement, state FROM system:active_requests")
            #expect(
                running == [
                    #"{"statement":"SELECT statement, state FROM system:active_requests","state":"running"}"#
                ])
            try await ditto.store.execute(query: "DELETE FROM system:request_history")
            #expect(try await rows(ditto, "SELECT * FROM system:request_history").count == 1)
            try await ditto.store.execute(query: "ALTER SYSTEM SET dql_request_history_size = 2")
            for _ in 0..<5 { _ = try await rows(ditto, "SELECT * FROM c") }
            #expect(try await rows(ditto, "SELECT * FROM system:request_history").count == 2)
        }
    }

    @Test("a statement ends when the task that waits for it is cancelled, or its request is deleted")
    func cancellation() async throws {
        try await withDitto { ditto in
            let list = Array(repeating: "1", count: 400).joined(separator: ",")
            try await ditto.store.execute(query: "INSERT INTO c DOCUMENTS ({'_id': 1, 'l': [\(list)]})")
            // 400 to the fourth: longer than anybody waits.
            let endless = """
                SELECT RAW ANY a IN l SATISFIES ANY b IN l SATISFIES ANY d IN l SATISFIES ANY e IN l SATISFIES
                e > 1 END END END END FROM c
                """
            let task = Task { try await ditto.store.execute(query: endless) }
            while try await rows(ditto, "SELECT * FROM system:active_requests WHERE queryType = 'select'")
                .count < 2
            {
                await Task.yield()
            }
            task.cancel()
            let cancelled = await task.result
            #expect(throws: DittoSwiftError.self) { try cancelled.get() }
            let other = Task { try await ditto.store.execute(query: endless) }
            while try await rows(ditto, "SELECT * FROM system:active_requests WHERE queryType = 'select'")
                .count < 2
            {
                await Task.yield()
            }
            try await ditto.store.execute(
                query: "DELETE FROM system:active_requests WHERE statement LIKE 'SELECT RAW ANY%'")
            let deleted = await other.result
            #expect(throws: DittoSwiftError.self) { try deleted.get() }
            let states = try await rows(
                ditto, "SELECT state, error FROM system:request_history WHERE state = 'cancelled'")
            #expect(
                states == Array(repeating: #"{"state":"cancelled","error":"DQL-0610"}"#, count: 2),
                "\(states)")
        }
    }
}
