import CRDT
import DQL
import DQLCorpus
import Synchronization
import Testing

/// Running and finished requests, as a store shows them.
private final class Requests: SystemCollections, @unchecked Sendable {
    // Used by one test on one thread.
    var removed: [DocumentID] = []

    func rows(of collection: SystemCollection) throws -> [ObjectValue]? {
        guard collection == .activeRequests || collection == .requestHistory else { return nil }
        return (1...3).map {
            ObjectValue([(key: "_id", value: .int($0)), (key: "elapsed", value: .int($0 * 10))])
        }
    }

    func remove(_ ids: [DocumentID], from collection: SystemCollection) throws { removed += ids }
}

/// A clock that goes one on each time it is asked.
private final class Clock: Sendable {
    private let now = Mutex<UInt64>(0)

    func next() -> UInt64 {
        now.withLock { now in
            now += 1
            return now
        }
    }
}

@Suite("Requests and plans")
struct RequestTests {
    @Test("DELETE of requests goes to their keeper, with all of its clauses")
    func deletesRequests() throws {
        let requests = Requests()
        var options = ExecutionOptions()
        options.system = requests
        let statement = try PreparedStatement(
            "DELETE FROM system:request_history WHERE elapsed > 5 LIMIT 1 OFFSET 1 RETURNING elapsed")
        #expect(statement.isReadOnly && statement.collectionsWritten == ["system:request_history"])
        let rows = try statement.rows(in: MemoryStore(), options: options)
        #expect(rows == [["elapsed": 20]])
        #expect(requests.removed == [try DocumentID(2)])
        _ = try PreparedStatement("DELETE FROM system:active_requests").rows(
            in: MemoryStore(), options: options)
        #expect(requests.removed.count == 4)
    }

    @Test("where nobody keeps requests they cannot be deleted")
    func refusesDelete() throws {
        let error = #expect(throws: DQLError.self) {
            try PreparedStatement("DELETE FROM system:request_history").rows(in: MemoryStore())
        }
        #expect(error?.code == .collectionNotOffered)
        #expect(throws: DQLError.self) { try PreparedStatement("EVICT FROM system:request_history") }
    }

    private func operators(
        _ statement: String, _ store: MemoryStore, _ arguments: ObjectValue = ObjectValue()
    )
        throws -> [String]
    {
        let rows = try store.execute("EXPLAIN " + statement, arguments).rows
        let children = rows.first?["plan"]?["children"]?.arrayValue ?? []
        return children.compactMap { $0["#operator"]?.stringValue }
    }

    private func store() throws -> MemoryStore {
        let store = MemoryStore(usesIndexes: true)
        _ = try store.execute("CREATE INDEX by_a ON c (a)")
        _ = try store.execute("CREATE INDEX by_bc ON c (b, c DESC)")
        _ = try store.execute("INSERT INTO c DOCUMENTS ({'_id': 1, 'a': 1, 'b': 2})")
        return store
    }

    static let plans: [(String, [String])] = [
        ("SELECT * FROM c WHERE a = 1", ["indexScan", "fetch", "filter"]),
        ("SELECT * FROM c WHERE a = :a", ["indexScan", "fetch", "filter"]),
        ("SELECT * FROM c WHERE a IN :list", ["indexScan", "fetch", "filter"]),
        ("SELECT * FROM c WHERE a != 1", ["indexScan", "fetch", "filter"]),
        ("SELECT * FROM c WHERE a LIKE 'x%'", ["indexScan", "fetch", "filter"]),
        ("SELECT * FROM c WHERE a IS MISSING", ["indexScan", "fetch", "filter"]),
        ("SELECT * FROM c WHERE lower(a) = 'x'", ["scan", "filter"]),
        ("SELECT * FROM c WHERE a = 1 OR b = 2", ["unionScan", "fetch", "filter"]),
        ("SELECT * FROM c WHERE a = 1 OR d = 2", ["scan", "filter"]),
        ("SELECT * FROM c WHERE a = 1 AND b = 2", ["intersectScan", "fetch", "filter"]),
        (
            "SELECT /*+ {\"#intersects\": 1} */ * FROM c WHERE a = 1 AND b = 2",
            ["indexScan", "fetch", "filter"]
        ),
        ("SELECT a FROM c WHERE a > 1", ["indexScan", "fetch", "filter"]),
        ("SELECT a FROM c WHERE a > 1 ORDER BY a", ["indexScan", "filter"]),
        ("SELECT COUNT(*) FROM c WHERE a > 1", ["indexScan"]),
        ("SELECT COUNT(*) FROM c", ["countScan"]),
        ("SELECT * FROM c ORDER BY a LIMIT 5", ["indexScan", "fetch", "limit"]),
        ("SELECT * FROM c ORDER BY a", ["scan", "sort"]),
        ("SELECT /*+ {\"#prefer_order\": true} */ * FROM c ORDER BY a", ["indexScan", "fetch"]),
        ("SELECT * FROM c WHERE b = 2 ORDER BY c.c DESC LIMIT 5", ["indexScan", "fetch", "filter", "limit"]),
        ("SELECT * FROM c WHERE a = 1 USE INDEX ''", []),
        ("SELECT * FROM c USE INDEX '' WHERE a = 1", ["scan", "filter"]),
        ("SELECT * FROM c USE INDEX 'by_a' WHERE a = 1 AND b = 2", ["indexScan", "fetch", "filter"]),
        ("SELECT * FROM c USE INDEX 'nope' WHERE a = 1", ["scan", "filter"]),
        (
            "SELECT * FROM c USE DIRECTIVES '{\"#index\": \"by_bc\"}' WHERE a = 1 AND b = 2",
            ["indexScan", "fetch", "filter"]
        ),
        ("SELECT /*+ {\"#disable_index_scan\": true} */ * FROM c WHERE a = 1", ["scan", "filter"]),
        ("SELECT * FROM c WHERE a = 1 AND a = 2", ["scan", "filter"]),
        ("SELECT * FROM COLLECTION c (a REGISTER) WHERE a = 1", ["scan", "filter"]),
        ("UPDATE c SET d = 1 WHERE a = 1", ["indexScan", "fetch", "filter", "update"]),
        ("SELECT * FROM d JOIN c ON c.a = d.x", ["scan", "nlJoin"]),
    ]

    @Test("a statement is planned on what its condition and its hints say", arguments: plans)
    func planned(_ statement: String, _ wanted: [String]) throws {
        guard !wanted.isEmpty else {
            #expect(throws: DQLError.self) { try operators(statement, store()) }
            return
        }
        let found = try operators(statement, store()).filter { $0 != "projection" && $0 != "finalProjection" }
        #expect(found == wanted, "\(statement)")
    }

    @Test("an index that is being built, or that cuts its keys, is not relied upon")
    func notReady() throws {
        let store = MemoryStore(usesIndexes: true)
        _ = try store.execute("CREATE INDEX by_a ON c (a)")
        #expect(try operators("SELECT * FROM c WHERE a = 1", store).first == "indexScan")
        _ = try store.execute("DROP INDEX by_a ON c")
        #expect(try operators("SELECT * FROM c WHERE a = 1", store).first == "scan")
    }

    @Test("PROFILE gives the rows and then what they took")
    func profile() throws {
        let store = try store()
        let rows = try store.execute("PROFILE SELECT a FROM c WHERE a = 1").rows
        #expect(rows.count == 2 && rows.first == ["a": 1])
        let profile = rows.last?["~request_profile"]
        #expect(profile?["resultCount"] == 1 && profile?["state"] == "completed")
        #expect(profile?["queryType"] == "select")
        let written = try store.execute("PROFILE UPDATE c SET z = 1 WHERE a = 1")
        #expect(written.mutatedDocumentIDs == [try DocumentID(1)])
        #expect(written.rows.last?["~request_profile"]?["queryType"] == "update")
    }

    /// The rows that passed each operator of a PROFILE, as `name in>out`, and its time.
    private func costs(_ statement: String, _ store: MemoryStore) throws -> [(rows: String, time: Int64)] {
        let clock = Clock()
        var options = ExecutionOptions()
        options.nanoseconds = { clock.next() }
        let prepared = try PreparedStatement("PROFILE \(statement)")
        let rows =
            prepared.isReadOnly
            ? try prepared.rows(in: store, options: options)
            : try prepared.execute(in: store, options: options) { try DocumentID(99) }.rows
        let profile = rows.last?["~request_profile"]
        let steps = profile?["plan"]?["children"]?.arrayValue ?? []
        let times = steps.map { $0["#stats"]?["phaseTimes"]?["total"]?.intValue ?? 0 }
        // The whole is what the steps took, and what choosing the plan took.
        #expect(times.reduce(1, +) <= profile?["times"]?["elapsed"]?.intValue ?? 0, "\(statement)")
        return zip(steps, times).map { step, time in
            func count(_ key: String) -> String { step["#stats"]?[key].map { "\($0.intValue ?? -1)" } ?? "" }
            let name = step["#operator"]?.stringValue ?? ""
            return ("\(name) \(count("documentsIn"))>\(count("documentsOut"))", time)
        }
    }

    @Test(
        "PROFILE tells the rows and the time of each step",
        arguments: [
            ("SELECT * FROM n", ["scan >9", "projection 9>9", "finalProjection 9>9"]),
            (
                "SELECT * FROM n WHERE a > 6",
                ["scan >9", "filter 9>3", "projection 3>3", "finalProjection 3>3"]
            ),
            (
                "SELECT * FROM n WHERE a > 99",
                ["scan >9", "filter 9>0", "projection 0>0", "finalProjection 0>0"]
            ),
            (
                "SELECT a FROM n WHERE a > 2 ORDER BY b DESC LIMIT 3 OFFSET 1",
                [
                    "scan >9", "filter 9>7", "sort 7>4", "limit 4>3", "projection 3>3",
                    "finalProjection 3>3",
                ]
            ),
            (
                "SELECT DISTINCT b FROM n ORDER BY b",
                ["scan >9", "distinct 9>3", "sort 3>3", "projection 3>3", "finalProjection 3>3"]
            ),
            (
                "SELECT b, COUNT(*) AS n FROM n GROUP BY b HAVING b > 0 ORDER BY n",
                [
                    "scan >9", "group 9>3", "filter 3>2", "sort 2>2", "projection 2>2",
                    "finalProjection 2>2",
                ]
            ),
            (
                "SELECT x.a FROM n AS x JOIN n AS y ON y._id = x.b WHERE x.a > 3",
                ["scan >9", "nlJoin 9>6", "filter 6>4", "projection 4>4", "finalProjection 4>4"]
            ),
            (
                "SELECT * FROM c WHERE a = 1",
                ["indexScan >1", "fetch 1>1", "filter 1>1", "projection 1>1", "finalProjection 1>1"]
            ),
            ("UPDATE n SET z = 1 WHERE a > 6", ["scan >9", "filter 9>3", "update 3>3"]),
            (
                "DELETE FROM n WHERE a > 1 ORDER BY a LIMIT 2",
                ["scan >9", "filter 9>8", "sort 8>8", "limit 8>2", "delete 2>2"]
            ),
        ])
    func costsOfSteps(_ statement: String, _ wanted: [String]) throws {
        let store = try store()
        for a in 1...9 as ClosedRange<Int64> {
            _ = try store.execute(
                "INSERT INTO n DOCUMENTS (:d)", ["d": ["_id": .int(a), "a": .int(a), "b": .int(a % 3)]])
        }
        let found = try costs(statement, store)
        #expect(found.map(\.rows) == wanted)
        for step in found where !step.rows.hasPrefix("limit") && !step.rows.hasPrefix("indexScan") {
            #expect(step.time > 0 || step.rows.contains("0>0") || !step.rows.contains(">"), "\(step)")
        }
    }

    @Test("what EXPLAIN is about has to be readable, what PROFILE is about writable")
    func grants() throws {
        let explained = try PreparedStatement("EXPLAIN DELETE FROM c WHERE a IN (SELECT RAW b FROM d)")
        #expect(explained.isReadOnly && Set(explained.collectionsRead) == ["c", "d"])
        #expect(explained.collectionsWritten.isEmpty)
        let profiled = try PreparedStatement("PROFILE DELETE FROM c")
        #expect(!profiled.isReadOnly && profiled.collectionsWritten == ["c"])
        #expect(try PreparedStatement("PROFILE EVICT FROM c").evicts && !profiled.evicts)
        #expect(try !PreparedStatement("EXPLAIN EVICT FROM c").evicts)
        let join = try PreparedStatement("SELECT * FROM a JOIN b ON b._id = a.x LEFT JOIN c ON c._id = b.y")
        #expect(join.collectionsRead == ["a", "b", "c"])
    }

    @Test("a subscription takes no subquery")
    func subscription() throws {
        let error = #expect(throws: DQLError.self) {
            try SubscriptionQuery(statement: "SELECT * FROM c WHERE a IN (SELECT RAW b FROM d)")
        }
        #expect(error?.code == .unsupportedSubscription)
    }
}
