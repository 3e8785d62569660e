import DittoSwift
import Foundation
import Synchronization

/// The last result of an observer: enough of it to tell it from any other.
private struct Told: Equatable, Sendable {
    var count = 0
    var sum = 0
    var mixed = 0

    init(_ result: DittoQueryResult) {
        for item in result.items {
            let value = item.value
            let id = value["_id"] as? Int ?? 0
            let n = value["n"] as? Int ?? 0
            count += 1
            sum &+= n
            mixed ^= (id &* 31) &+ n &* 1_000_003
            item.dematerialize()
        }
    }

    init() {}
}

private let teams = 200
private let documents = 50_000
private let writesPerSecond = 2_000
private let writesPerTransaction = 50

/// 200 observers on 50,000 documents while 2,000 writes a second arrive: memory, and whether every observer
/// ends with what is there.
func watch(_ directory: String, seconds: Double) async throws {
    let ditto = try await Ditto.openAlone(config: config(directory))
    try await load(ditto)
    let told = Mutex([Told](repeating: Told(), count: teams))
    let calls = Mutex(0)
    for team in 0..<teams {
        try ditto.store.registerObserver(
            query: "SELECT * FROM c WHERE team = :team", arguments: ["team": team]
        ) { result in
            let now = Told(result)
            told.withLock { $0[team] = now }
            calls.withLock { $0 += 1 }
        }
    }
    let wanted = try await expected(ditto)
    let began = try await until(60) { told.withLock { $0 } == wanted }
    let before = memory("VmRSS")
    let written = try await write(ditto, seconds: seconds)
    let end = try await expected(ditto)
    let settled = try await until(120) { told.withLock { $0 } == end }
    let wrong = told.withLock { zip($0, end).count { $0 != $1 } }
    say([
        "observers": teams, "documents": documents, "writes": written.count, "seconds": written.seconds,
        "writesPerSecond": Double(written.count) / written.seconds, "calls": calls.withLock { $0 },
        "firstSeconds": began, "settledSeconds": settled, "wrong": wrong, "residentBefore": before,
        "residentPeak": memory("VmHWM"), "privateNow": memory("RssAnon"),
    ])
    await ditto.close()
}

private func load(_ ditto: Ditto) async throws {
    try await ditto.store.execute(query: "CREATE INDEX IF NOT EXISTS c_team ON c (team)")
    for start in stride(from: 0, to: documents, by: 1_000) {
        let part = (start..<start + 1_000).map { number in
            [
                "_id": number, "team": number % teams, "n": number,
                "note": String(repeating: "x", count: 200),
            ] as [String: Any?]
        }
        try await ditto.store.execute(query: "INSERT INTO c DOCUMENTS (:all)", arguments: ["all": part])
    }
}

/// Transactions of 50 writes, 40 a second; a tenth of the writes lets a document change sides.
private func write(_ ditto: Ditto, seconds: Double) async throws -> (count: Int, seconds: Double) {
    let start = Clock.seconds()
    var count = 0
    var dice = UInt64(9)
    func roll(_ sides: Int) -> Int {
        dice = dice &* 6_364_136_223_846_793_005 &+ 1_442_695_040_888_963_407
        return Int((dice >> 33) % UInt64(sides))
    }
    while Clock.seconds() - start < seconds {
        var changed: [Int: [String: Any?]] = [:]
        while changed.count < writesPerTransaction {
            let id = roll(documents)
            changed[id] = ["_id": id, "n": roll(1_000_000)]
            if roll(10) == 0 { changed[id]?["team"] = roll(teams) }
        }
        try await ditto.store.execute(
            query: "INSERT INTO c DOCUMENTS (:all) ON ID CONFLICT DO UPDATE",
            arguments: ["all": Array(changed.values)])
        count += writesPerTransaction
        let due = start + Double(count) / Double(writesPerSecond)
        let pause = due - Clock.seconds()
        if pause > 0 { try await Task.sleep(for: .seconds(pause)) }
    }
    return (count, Clock.seconds() - start)
}

private func expected(_ ditto: Ditto) async throws -> [Told] {
    var all: [Told] = []
    for team in 0..<teams {
        all.append(
            Told(
                try await ditto.store.execute(
                    query: "SELECT * FROM c WHERE team = :team", arguments: ["team": team])))
    }
    return all
}

/// How long it took until the condition held; at most `limit`.
private func until(_ limit: Double, _ condition: () -> Bool) async throws -> Double {
    let start = Clock.seconds()
    while !condition(), Clock.seconds() - start < limit { try await Task.sleep(for: .milliseconds(5)) }
    return Clock.seconds() - start
}
