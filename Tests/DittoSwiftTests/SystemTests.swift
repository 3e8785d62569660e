import Mimeo
import TestSupport
import Testing

@testable import DittoSwift

@Suite("System parameters and system collections of a store")
struct SystemTests {
    private func rows(_ ditto: Ditto, _ query: String) async throws -> [String] {
        try await ditto.store.execute(query: query).items.map { $0.jsonString() }
    }

    @Test("ALTER SYSTEM sets and shows, until the store closes unless PERSIST is said")
    func parameters() async throws {
        try await withTemporaryDirectory { directory in
            let first = try await Ditto.openAlone(config: .local(directory))
            let set = "ALTER SYSTEM SET DQL_REQUEST_TIMEOUT_SECONDS = 7"
            #expect(try await rows(first, set) == [#"{"dql_request_timeout_seconds":7}"#])
            try await first.store.execute(
                query: "ALTER SYSTEM SET dql_statement_cache_size = :n PERSIST", arguments: ["n": 3])
            #expect(
                try await rows(first, "SHOW dql_statement_cache_size") == [#"{"dql_statement_cache_size":3}"#]
            )
            await first.close()
            let second = try await Ditto.openAlone(config: .local(directory))
            #expect(
                try await rows(second, "SHOW dql_request_timeout_seconds")
                    == [#"{"dql_request_timeout_seconds":0}"#])
            #expect(
                try await rows(second, "SHOW dql_statement_cache_size") == [
                    #"{"dql_statement_cache_size":3}"#
                ])
            try await second.store.execute(query: "ALTER SYSTEM RESET ALL")
            await second.close()
            let third = try await Ditto.openAlone(config: .local(directory))
            #expect(
                try await rows(third, "SHOW dql_statement_cache_size")
                    == [#"{"dql_statement_cache_size":4096}"#])
            await third.close()
        }
    }

    @Test("a file of parameters that is no JSON keeps the store from opening, and is left as it is")
    func damagedParameters() async throws {
        try await withTemporaryDirectory { directory in
            let file = directory.appendingPathComponent("system_parameters.json")
            try Data("{".utf8).write(to: file)
            await #expect { try await Ditto.openAlone(config: .local(directory)) } throws: { error in
                error.localizedDescription.hasPrefix("SDK-0403: ")
            }
            #expect(try Data(contentsOf: file) == Data("{".utf8))
        }
    }

    @Test("an unknown parameter and a value of another type are refused at their place")
    func refusedParameters() async throws {
        try await withDitto { ditto in
            await #expect { try await ditto.store.execute(query: "SHOW dql_strict") } throws: { error in
                error.localizedDescription.contains("unknown parameter 'dql_strict'")
            }
            await #expect {
                try await ditto.store.execute(query: "ALTER SYSTEM SET dql_strict_mode = 3")
            } throws: { error in
                storeReason(error) == "queryArgumentsInvalid"
            }
        }
    }

    @Test("strict mode holds for the statements after it")
    func strictMode() async throws {
        try await withDitto { ditto in
            try await ditto.store.execute(
                query: "INSERT INTO c DOCUMENTS ({'_id': 1, 'm': {'a': 1}, 'r': 2})")
            #expect(try await rows(ditto, "SELECT * FROM c") == [#"{"_id":1,"m":{"a":1},"r":2}"#])
            try await ditto.store.execute(query: "ALTER SYSTEM SET DQL_STRICT_MODE = true")
            #expect(try await rows(ditto, "SELECT * FROM c") == [#"{"_id":1,"r":2}"#])
            #expect(
                try await rows(ditto, "SELECT * FROM COLLECTION c (m MAP)")
                    == [#"{"_id":1,"m":{"a":1},"r":2}"#])
        }
    }

    @Test("size limits are parameters")
    func sizes() async throws {
        try await withDitto { ditto in
            try await ditto.store.execute(query: "ALTER SYSTEM SET DOCUMENT_SIZE_HARD_LIMIT_BYTES = 1024")
            await #expect {
                try await ditto.store.execute(
                    query: "INSERT INTO c DOCUMENTS (:d)",
                    arguments: ["d": ["t": String(repeating: "x", count: 2_000)]])
            } throws: { error in
                if case DittoSwiftError.validationError(.sizeLimitExceeded) = error { true } else { false }
            }
        }
    }

    @Test("a limited subscription is a mistake, and without DQL_RESTRICT_SUBSCRIPTIONS not supported yet")
    func limitedSubscription() async throws {
        try await withDitto { ditto in
            func refusal() -> String? {
                do {
                    try ditto.sync.registerSubscription(query: "SELECT * FROM c LIMIT 1")
                    return nil
                } catch {
                    return String(error.localizedDescription.prefix(8))
                }
            }
            #expect(refusal() == "DQL-0701")
            try await ditto.store.execute(query: "ALTER SYSTEM SET DQL_RESTRICT_SUBSCRIPTIONS = false")
            #expect(refusal() == "SDK-0306")
        }
    }

    @Test("a statement that runs too long is cancelled, and the store goes on")
    func timeout() async throws {
        try await withDitto { ditto in
            let rows: [[String: Any?]] = (0..<300).map { ["_id": $0, "list": Array(0..<300)] }
            try await ditto.store.execute(query: "INSERT INTO c DOCUMENTS (:d)", arguments: ["d": rows])
            try await ditto.store.execute(query: "ALTER SYSTEM SET DQL_REQUEST_TIMEOUT_SECONDS = 1")
            let endless = """
                SELECT RAW ANY a IN list SATISFIES ANY b IN list SATISFIES ANY c IN list SATISFIES \
                a + b + c < 0 END END END FROM c
                """
            await #expect { try await ditto.store.execute(query: endless) } throws: { error in
                error.localizedDescription.contains("DQL_REQUEST_TIMEOUT_SECONDS")
            }
            #expect(try await self.rows(ditto, "SELECT COUNT(*) AS n FROM c") == [#"{"n":300}"#])
        }
    }

    @Test("RETURNING fills the items beside the ids")
    func returning() async throws {
        try await withDitto { ditto in
            let inserted = try await ditto.store.execute(
                query: "INSERT INTO c DOCUMENTS ({'_id': 1, 'n': 1}) RETURNING *")
            #expect(inserted.items.map { $0.jsonString() } == [#"{"_id":1,"n":1}"#])
            #expect(inserted.mutatedDocumentIDs().count == 1)
            let counted = try await ditto.store.execute(
                query: "UPDATE c APPLY hits INCREMENT BY 2 WHERE _id = 1 RETURNING hits")
            #expect(counted.items.map { $0.jsonString() } == [#"{"hits":2}"#])
        }
    }

    @Test("collections, shared statements, the system and the peers are collections")
    func collections() async throws {
        try await withDitto { ditto in
            try await ditto.store.execute(query: "INSERT INTO cars DOCUMENTS ({'_id': 1})")
            try await ditto.store.execute(query: "INSERT INTO boats DOCUMENTS ({'_id': 1})")
            #expect(
                try await rows(ditto, "SELECT name FROM system:collections ORDER BY name")
                    == [#"{"name":"boats"}"#, #"{"name":"cars"}"#])
            #expect(try await rows(ditto, "SELECT 1 + 1 AS two FROM system:dual") == [#"{"two":2}"#])
            #expect(try await rows(ditto, "SELECT * FROM system:indexes").isEmpty)
            #expect(try await rows(ditto, "SELECT * FROM system:data_sync_info").isEmpty)
            #expect(
                try await rows(
                    ditto,
                    "SELECT `value` FROM system:system_info WHERE namespace = 'sdk' AND key = 'version'")
                    == [#"{"value":"\#(Ditto.version)"}"#])
            #expect(
                try await rows(ditto, "SELECT statement FROM system:shared_statements")
                    .contains { $0.contains("INSERT INTO boats") })
            await #expect {
                try await ditto.store.execute(query: "DELETE FROM system:collections")
            } throws: { error in
                storeReason(error) == "queryInvalid"
            }
        }
    }

    @Test("an observer of a system collection is told of changes that no commit tells")
    func observedSystemCollection() async throws {
        try await withDitto { ditto in
            try await ditto.store.execute(
                query: "ALTER SYSTEM SET live_query_system_collection_refresh_interval = 100")
            let seen = Collected<Int>()
            let observer = try ditto.store.registerObserver(query: "SELECT * FROM system:collections") {
                seen.add($0.items.count)
            }
            #expect(await seen.wait { $0.last == 0 }.last == 0)
            try await ditto.store.execute(query: "INSERT INTO cars DOCUMENTS ({'_id': 1})")
            #expect(await seen.wait { $0.last == 1 }.last == 1)
            observer.cancel()
        }
    }

    @Test("what the device's clock and time zones say")
    func clock() async throws {
        try await withDitto { ditto in
            let now = try #require(
                try await ditto.store.execute(query: "SELECT clock() AS now FROM system:dual")
                    .items.first?.value["now"] as? Int)
            #expect(abs(Double(now) / 1_000 - Date().timeIntervalSince1970) < 60)
            #expect(
                try await rows(
                    ditto,
                    "SELECT date_format(0, '%Y-%m-%d %H:%M', 'Asia/Tokyo') AS t FROM system:dual")
                    == [#"{"t":"1970-01-01 09:00"}"#])
        }
    }
}
