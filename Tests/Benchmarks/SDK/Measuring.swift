import DittoSwift
import Foundation
import GRDBSQLite
import Synchronization

/// A document of about 300 bytes of JSON.
func sensor(_ number: Int) -> [String: Any?] {
    [
        "_id": String(format: "sensor-%08d", number), "city": "c\(number % 40)",
        "reading": number * 7_919 % 1_000,
        "unit": "celsius", "place": ["row": number % 97, "shelf": number % 13, "label": "place \(number)"],
        "tags": ["indoor", "calibrated", "batch-\(number / 500)"], "note": String(repeating: "x", count: 80),
    ]
}

/// Documents that nobody changes any more.
private struct Documents: Sendable {
    // Unsafe is safe: values without references that could change.
    nonisolated(unsafe) let list: [[String: Any?]]

    subscript(place: Int) -> [String: Any?] {
        // Safe for the same reason.
        nonisolated(unsafe) let document = list[place]
        return document
    }
}

/// Transactions of one document each and of 1,000, ours and bare SQLite's by turns on the same disk.
func measureRates(_ directory: String) async throws {
    let ditto = try await Ditto.openAlone(config: config(directory + "/ours"))
    let reference = try Bare(directory + "/reference.sqlite")
    var ours: (single: [Double], large: [Double]) = ([], [])
    var bare: (single: [Double], large: [Double]) = ([], [])
    var next = 0
    for _ in 0..<7 {
        // What the application has: the dictionaries for ours, the texts for the reference.
        let documents = Documents(list: (next..<next + 1_200).map(sensor))
        let texts = try documents.list.map(json)
        next += 1_200
        sync()
        var start = Clock.seconds()
        for place in 0..<200 {
            try await ditto.store.execute(
                query: "INSERT INTO sensors DOCUMENTS (:d)", arguments: ["d": documents[place]])
        }
        ours.single.append((Clock.seconds() - start) / 200)
        sync()
        start = Clock.seconds()
        for text in texts[..<200] { try reference.insert([text]) }
        bare.single.append((Clock.seconds() - start) / 200)
        sync()
        start = Clock.seconds()
        try await ditto.store.transaction { transaction in
            try await transaction.execute(
                query: "INSERT INTO sensors DOCUMENTS (:all)",
                arguments: ["all": Array(documents.list[200...])])
        }
        ours.large.append((Clock.seconds() - start) / 1_000)
        sync()
        start = Clock.seconds()
        try reference.insert(Array(texts[200...]))
        bare.large.append((Clock.seconds() - start) / 1_000)
    }
    for (name, our, their) in [
        ("transactions of one document", ours.single, bare.single),
        ("documents, 1,000 a transaction", ours.large, bare.large),
    ] {
        say([
            "name": name, "oursPerSecond": 1 / our.median, "referencePerSecond": 1 / their.median,
            "ratio": zip(our, their).map { $1 / $0 }.median,
        ])
    }
    await ditto.close()
}

/// From a write to the callback that tells it: 100 observers, each of which reads documents of its own. One
/// observer is concerned by each write.
func measureLatency(_ directory: String) async throws {
    let ditto = try await Ditto.openAlone(config: config(directory))
    try await ditto.store.execute(query: "CREATE INDEX IF NOT EXISTS sensors_city ON sensors (city)")
    let all = (0..<4_000).map(sensor)
    try await ditto.store.execute(query: "INSERT INTO sensors DOCUMENTS (:all)", arguments: ["all": all])
    let told = Mutex<[Int: Double]>([:])
    for observer in 0..<100 {
        // Forty of them look at documents that are written to, the others at none.
        try ditto.store.registerObserver(
            query: "SELECT * FROM sensors WHERE city = :city", arguments: ["city": "c\(observer)"]
        ) { result in
            let now = Clock.seconds()
            for item in result.items {
                if let mark = item.value["mark"] as? Int { told.withLock { $0[mark] = $0[mark] ?? now } }
            }
        }
    }
    try await Task.sleep(for: .seconds(1))
    var fromStatement: [Double] = []
    var fromCommit: [Double] = []
    for round in 0..<400 {
        let start = Clock.seconds()
        try await ditto.store.execute(
            query: "UPDATE sensors SET mark = :mark WHERE _id = :id",
            arguments: ["mark": round, "id": String(format: "sensor-%08d", round * 7 % 4_000)])
        let committed = Clock.seconds()
        while told.withLock({ $0[round] }) == nil {
            guard Clock.seconds() - committed < 30 else { break }
            usleep(20)
        }
        let arrived = told.withLock { $0[round] } ?? .infinity
        fromStatement.append(arrived - start)
        fromCommit.append(max(0, arrived - committed))
    }
    say([
        "name": "write to callback, 100 observers", "observers": 100, "rowsEach": 100,
        "fromCommitMilliseconds": fromCommit.median * 1_000,
        "fromStatementMilliseconds": fromStatement.median * 1_000,
        "fromCommit90th": fromCommit.sorted()[fromCommit.count * 9 / 10] * 1_000,
    ])
    await ditto.close()
}

/// The differ on 10,000 items: 100 of them changed; 50 gone, 50 new; and all in the opposite order.
func measureDiffer(_ directory: String) async throws {
    let ditto = try await Ditto.openAlone(config: config(directory))
    let store = ditto.store
    for start in stride(from: 0, to: 10_000, by: 1_000) {
        try await store.execute(
            query: "INSERT INTO sensors DOCUMENTS (:all)",
            arguments: ["all": (start..<start + 1_000).map(sensor)])
    }
    let select = "SELECT * FROM sensors ORDER BY _id"
    var times: [String: [Double]] = [:]
    for round in 0..<9 {
        let differ = DittoDiffer()
        _ = differ.diff(try await store.execute(query: select).items)
        func diff(_ name: String, _ query: String) async throws -> DittoDiff {
            let items = try await store.execute(query: query).items
            let start = Clock.seconds()
            let diff = differ.diff(items)
            times[name, default: []].append(Clock.seconds() - start)
            return diff
        }
        try await store.execute(
            query: "UPDATE sensors SET mark = :m WHERE reading < 10", arguments: ["m": round])
        let changed = try await diff("100 changed", select)
        precondition(changed.updates.count == 100 && changed.moves.isEmpty)
        try await store.execute(query: "DELETE FROM sensors WHERE reading < 5")
        try await store.execute(
            query: "INSERT INTO sensors DOCUMENTS (:all)",
            arguments: ["all": (0..<50).map { sensor(20_000 + round * 1_000 + $0) }])
        let replaced = try await diff("50 gone, 50 new", select)
        precondition(!replaced.insertions.isEmpty)
        try await store.execute(query: "DELETE FROM sensors WHERE _id >= 'sensor-00020000'")
        let gone = (0..<10_000).map(sensor).filter { ($0["reading"] as? Int ?? 9) < 5 }
        try await store.execute(query: "INSERT INTO sensors DOCUMENTS (:all)", arguments: ["all": gone])
        _ = differ.diff(try await store.execute(query: select).items)
        let turned = try await diff("10,000 in the opposite order", select + " DESC")
        precondition(turned.moves.count == 9_999)
    }
    for (name, seconds) in times.sorted(by: { $0.key < $1.key }) {
        say(["name": "differ, 10,000 items, \(name)", "milliseconds": seconds.median * 1_000])
    }
    await ditto.close()
}

private func json(_ document: [String: Any?]) throws -> String {
    String(
        decoding: try JSONSerialization.data(withJSONObject: document.compactMapValues { $0 }), as: UTF8.self)
}

/// A table of JSON texts: what one would write oneself.
private final class Bare {
    struct Failure: Error {
        let message: String
    }

    private var connection: OpaquePointer?
    private var statement: OpaquePointer?

    init(_ path: String) throws {
        guard sqlite3_open(path, &connection) == SQLITE_OK else { throw failure }
        try run("PRAGMA journal_mode = WAL")
        try run("PRAGMA synchronous = FULL")
        try run("CREATE TABLE sensors (id TEXT PRIMARY KEY, body TEXT NOT NULL)")
        let insert = "INSERT INTO sensors VALUES (json_extract(?1, '$._id'), ?1)"
        guard sqlite3_prepare_v2(connection, insert, -1, &statement, nil) == SQLITE_OK else { throw failure }
    }

    deinit {
        sqlite3_finalize(statement)
        sqlite3_close(connection)
    }

    func insert(_ texts: [String]) throws {
        try run("BEGIN IMMEDIATE")
        for text in texts {
            // The text stays where it is until the statement has run.
            let code = text.withCString { bytes in
                sqlite3_bind_text(statement, 1, bytes, -1, nil)
                return sqlite3_step(statement)
            }
            guard code == SQLITE_DONE else { throw failure }
            sqlite3_reset(statement)
        }
        try run("COMMIT")
    }

    private func run(_ sql: String) throws {
        guard sqlite3_exec(connection, sql, nil, nil, nil) == SQLITE_OK else { throw failure }
    }

    private var failure: Failure { Failure(message: String(cString: sqlite3_errmsg(connection))) }
}
