import Dispatch
import Synchronization
import TestSupport
import Testing

@testable import DittoSwift

@Suite("Which changes an observer's query is run again for")
struct ObservedChangesTests {
    private func put(_ ditto: Ditto, _ id: Int, _ group: String, in collection: String = "c") async throws {
        try await ditto.store.execute(
            query: "INSERT INTO \(collection) DOCUMENTS (:d) ON ID CONFLICT DO UPDATE",
            arguments: ["d": ["_id": id, "team": group]])
    }

    /// Writes a document that an observer without a condition sees, and waits for that: by then everything
    /// before it has been told. Done twice, because the one waits for the other's commit.
    private func awaitQuiet(_ ditto: Ditto, _ observers: [DittoStoreObserver]) async throws {
        let seen = Collected<Int>()
        let last = try ditto.store.registerObserver(query: "SELECT * FROM c WHERE team = 'last'") {
            seen.add($0.items.count)
        }
        _ = await seen.wait { $0.count == 1 }
        for round in 1...2 {
            try await put(ditto, 1_000_000 + round, "last")
            _ = await seen.wait { $0.last == round }
        }
        last.cancel()
        try await ditto.store.execute(query: "EVICT FROM c WHERE team = 'last'")
        #expect(await eventually { !observers.contains { $0.isBusy } })
    }

    @Test(
        "a change that the condition cannot touch runs nothing, whatever is done with the documents",
        arguments: [
            "SELECT * FROM c WHERE team = :g", "SELECT _id FROM c WHERE team = :g",
            "SELECT COUNT(*) AS n FROM c WHERE team = :g",
            "SELECT * FROM c WHERE team = :g ORDER BY _id DESC LIMIT 1",
            "SELECT team, MAX(_id) AS m FROM c WHERE team = :g GROUP BY team HAVING MAX(_id) > 0",
            "SELECT DISTINCT team FROM c WHERE team = :g",
        ])
    func untouched(query: String) async throws {
        try await withDitto { ditto in
            try await put(ditto, 1, "mine")
            try await put(ditto, 2, "theirs")
            let calls = Collected<String>()
            let observer = try ditto.store.registerObserver(query: query, arguments: ["g": "mine"]) {
                calls.add($0.items.map { $0.jsonString() }.joined())
            }
            _ = await calls.wait { $0.count == 1 }
            try await awaitQuiet(ditto, [observer])
            let before = observer.runs
            for round in 0..<20 { try await put(ditto, 2 + round, "theirs") }
            try await ditto.store.execute(query: "DELETE FROM c WHERE _id = 2")
            try await awaitQuiet(ditto, [observer])
            #expect(observer.runs == before)
            #expect(calls.all.count == 1)
            // One that enters is seen, and that it has left again.
            try await put(ditto, 3, "mine")
            try await awaitQuiet(ditto, [observer])
            #expect(observer.runs > before)
            let entered = observer.runs
            try await put(ditto, 3, "theirs")
            try await awaitQuiet(ditto, [observer])
            #expect(observer.runs > entered)
            #expect(calls.all.last == calls.all.first)
        }
    }

    @Test(
        "a document of the result that is deleted, evicted or moved out of it is told",
        arguments: [
            "DELETE FROM c WHERE _id = 1", "EVICT FROM c WHERE _id = 1",
            "UPDATE c SET team = 'theirs' WHERE _id = 1", "UPDATE c UNSET team WHERE _id = 1",
        ])
    func left(change: String) async throws {
        try await withDitto { ditto in
            for id in 1...3 { try await put(ditto, id, id < 3 ? "mine" : "theirs") }
            let rows = Collected<[Int]>()
            let counts = Collected<Int>()
            try ditto.store.registerObserver(query: "SELECT * FROM c WHERE team = 'mine'") { result in
                rows.add(result.items.compactMap { $0.value["_id"] as? Int }.sorted())
            }
            try ditto.store.registerObserver(query: "SELECT COUNT(*) AS n FROM c WHERE team = 'mine'") {
                counts.add($0.items.first?.value["n"] as? Int ?? -1)
            }
            _ = await rows.wait { $0.count == 1 }
            _ = await counts.wait { $0.count == 1 }
            try await ditto.store.execute(query: change)
            #expect(await rows.wait { $0.count == 2 } == [[1, 2], [2]])
            #expect(await counts.wait { $0.count == 2 } == [2, 1])
        }
    }

    @Test("observers of one field's value, of another's and of a range are each told of what is theirs")
    func routing() async throws {
        try await withDitto { ditto in
            let queries = [
                "SELECT * FROM c WHERE team = 1", "SELECT * FROM c WHERE team = 2",
                "SELECT * FROM c WHERE team = 1.0 AND n > 5", "SELECT * FROM c WHERE _id = 7",
                "SELECT * FROM c WHERE n > 5", "SELECT * FROM c WHERE 2 = team",
                "SELECT * FROM c WHERE team = 1 OR team = 2", "SELECT * FROM c WHERE team IS MISSING",
            ]
            let latest = Mutex<[String: [Int]]>([:])
            for query in queries {
                try ditto.store.registerObserver(query: query) { result in
                    let ids = result.items.compactMap { $0.value["_id"] as? Int }.sorted()
                    latest.withLock { $0[query] = ids }
                }
            }
            #expect(await eventually { latest.withLock { $0.count } == queries.count })
            let changes = [
                "INSERT INTO c DOCUMENTS ({'_id': 7, 'team': 1, 'n': 9})",
                "INSERT INTO c DOCUMENTS ({'_id': 8, 'team': 2, 'n': 1})",
                "UPDATE c SET team = 2 WHERE _id = 7", "UPDATE c SET n = 1 WHERE _id = 7",
                "UPDATE c SET team = 1.0, n = 7 WHERE _id = 8", "UPDATE c UNSET team WHERE _id = 8",
                "UPDATE c SET team = 'one' WHERE _id = 7", "DELETE FROM c",
            ]
            for change in changes {
                try await ditto.store.execute(query: change)
                for query in queries {
                    let wanted = try await ditto.store.execute(query: query).items.compactMap {
                        $0.value["_id"] as? Int
                    }.sorted()
                    #expect(
                        await eventually { latest.withLock { $0[query] } == wanted }, "\(change): \(query)")
                }
            }
        }
    }

    @Test(
        "where any change can matter, every change of the collections that are read is looked at",
        arguments: [
            "SELECT * FROM c", "SELECT COUNT(*) AS n FROM c",
            "SELECT * FROM c WHERE _id IN (SELECT RAW _id FROM c WHERE team = :g)",
            "SELECT * FROM c WHERE team = :g AND clock() > 0",
            "SELECT c._id FROM c JOIN d ON d.team = c.team WHERE c.team = :g",
        ])
    func ungated(query: String) async throws {
        try await withDitto { ditto in
            try await ditto.store.execute(query: "CREATE INDEX d_group ON d (team)")
            try await put(ditto, 1, "mine")
            let calls = Collected<Int>()
            let observer = try ditto.store.registerObserver(query: query, arguments: ["g": "mine"]) {
                calls.add($0.items.count)
            }
            _ = await calls.wait { $0.count == 1 }
            let before = observer.runs
            try await put(ditto, 2, "theirs")
            #expect(await eventually { observer.runs > before })
        }
    }

    @Test("under random writes an observer ends with what its query gives", arguments: [1, 2, 3] as [UInt64])
    func everyFinalState(seed: UInt64) async throws {
        try await withDitto { ditto in
            let queries = (0..<8).flatMap { group in
                [
                    "SELECT * FROM c WHERE team = 'g\(group)'",
                    "SELECT COUNT(*) AS n, SUM(n) AS s FROM c WHERE team >= 'g\(group)' AND n < 500",
                    "SELECT _id, n FROM c WHERE team = 'g\(group)' ORDER BY n, _id LIMIT 3",
                ]
            }
            let latest = Mutex<[Int: String]>([:])
            for (number, query) in queries.enumerated() {
                try ditto.store.registerObserver(query: query) { result in
                    let text = result.items.map { $0.jsonString() }.sorted().joined()
                    latest.withLock { $0[number] = text }
                }
            }
            var dice = SplitMix64(seed: seed)
            for _ in 0..<60 {
                try await ditto.store.transaction { transaction in
                    for _ in 0..<Int.random(in: 1...8, using: &dice) {
                        let id = Int.random(in: 0..<60, using: &dice)
                        if Int.random(in: 0..<5, using: &dice) == 0 {
                            try await transaction.execute(query: "DELETE FROM c WHERE _id = \(id)")
                        } else {
                            let group = Int.random(in: 0..<8, using: &dice)
                            let n = Int.random(in: 0..<1_000, using: &dice)
                            try await transaction.execute(
                                query: "INSERT INTO c DOCUMENTS (:d) ON ID CONFLICT DO UPDATE",
                                arguments: ["d": ["_id": id, "team": "g\(group)", "n": n] as [String: Any?]])
                        }
                    }
                }
            }
            for (number, query) in queries.enumerated() {
                let wanted = try await ditto.store.execute(query: query).items.map { $0.jsonString() }
                    .sorted().joined()
                #expect(
                    await eventually { latest.withLock { $0[number] } == wanted }, "\(query), seed \(seed)")
            }
        }
    }

    @Test("more documents than are remembered: every change of the collection matters, and nothing is lost")
    func manyDocuments() async throws {
        try await withDitto { ditto in
            let count = Limits.observedDocuments + 1
            try await ditto.store.transaction { transaction in
                for start in stride(from: 0, to: count, by: 1_000) {
                    let part = (start..<min(start + 1_000, count)).map {
                        ["_id": $0, "team": "mine"] as [String: Any?]
                    }
                    try await transaction.execute(
                        query: "INSERT INTO c DOCUMENTS (:all)", arguments: ["all": part])
                }
            }
            let counts = Collected<Int>()
            let observer = try ditto.store.registerObserver(
                query: "SELECT COUNT(*) AS n FROM c WHERE team = 'mine'"
            ) { counts.add($0.items.first?.value["n"] as? Int ?? -1) }
            _ = await counts.wait { $0.count == 1 }
            let before = observer.runs
            try await put(ditto, -1, "theirs")
            #expect(await eventually { observer.runs > before })
            try await put(ditto, 0, "theirs")
            #expect(await eventually { counts.all.last == count - 1 })
        }
    }

    @Test("what reading means can change: the observers run again")
    func strictness() async throws {
        try await withDitto { ditto in
            try await ditto.store.execute(query: "INSERT INTO c DOCUMENTS ({'_id': 1, 'a': {'b': 1}})")
            let counts = Collected<Int>()
            try ditto.store.registerObserver(query: "SELECT * FROM c WHERE a.b = 1") {
                counts.add($0.items.count)
            }
            _ = await counts.wait { $0.count == 1 }
            try await ditto.store.execute(query: "ALTER SYSTEM SET DQL_STRICT_MODE = true")
            let seen = await counts.wait { $0.count >= 2 }
            #expect(seen == [1, 0])
            // Also what is looked at from now on is looked at strictly: this matters to nobody who reads so.
            let before = try #require(ditto.store.observers.first).runs
            try await ditto.store.execute(query: "ALTER SYSTEM SET DQL_STRICT_MODE = false")
            #expect(await counts.wait { $0.count >= 3 } == [1, 0, 1])
            #expect(try #require(ditto.store.observers.first).runs > before)
            try await ditto.store.execute(query: "UPDATE c SET a.b = 2")
            #expect(await counts.wait { $0.count >= 4 } == [1, 0, 1, 0])
        }
    }
}
