// The log beside a bare INSERT loop of the same durability, and the projection beside a bare COPY and upsert,
// in the same run:
//
//     make bench                                       all benchmarks
//     scripts/with-postgres scripts/bench-log          this one; [--rounds 3] [--history 1000000]
//                                                      [--only sqlite,postgres,projection,visible,recovery]

import Foundation
import Logging
import OperationLog
import Postgres
import ServiceKit

func option(_ name: String, _ fallback: Int) -> Int {
    guard let place = CommandLine.arguments.firstIndex(of: name) else { return fallback }
    return CommandLine.arguments.dropFirst(place + 1).first.flatMap { Int($0) } ?? fallback
}

/// Returns whether a part was asked for.
func runs(_ part: String) -> Bool {
    guard let place = CommandLine.arguments.firstIndex(of: "--only") else { return true }
    return CommandLine.arguments.dropFirst(place + 1).first?.split(separator: ",").contains { $0 == part }
        ?? true
}

func median(_ values: [Double]) -> Double { values.sorted()[values.count / 2] }

func text(_ number: Double, _ digits: Int = 0) -> String { String(format: "%.\(digits)f", number) }

/// Turns of the bare loop, one appender and sixty-four, one after the other, so that whatever else the
/// machine does meets all of them; medians of the rates and of the ratios within each turn. The bare loop's
/// connection is new at each turn, and whoever had nothing to do is slow at first: so nobody counts about the
/// first sixty milliseconds, and all are counted for about as long, a quarter of a second.
func compare(
    _ name: String, _ log: any OperationLog, rounds: Int, goal: Double, bare: (Int) -> Double
) async throws {
    var rates: (bare: [Double], one: [Double], many: [Double]) = ([], [], [])
    // Actors of this run alone: a server may have seen another one.
    let firstActor = UInt64.random(in: 1 << 20..<1 << 60)
    for turn in 0..<UInt64(rounds * 5) {
        let first = bare(700)
        _ = try await appendRate(
            log, appenders: 1, operations: 400, firstActor: firstActor + 1_000 * turn + 1)
        let one = try await appendRate(
            log, appenders: 1, operations: 1_200, firstActor: firstActor + 1_000 * turn)
        let second = bare(700)
        _ = try await appendRate(
            log, appenders: 64, operations: 100, firstActor: firstActor + 1_000 * turn + 200)
        let many = try await appendRate(
            log, appenders: 64, operations: 500, firstActor: firstActor + 1_000 * turn + 100)
        rates.bare.append((first + second) / 2)
        rates.one.append(one)
        rates.many.append(many)
    }
    let one = median(zip(rates.one, rates.bare).map { $0 / $1 })
    let many = median(zip(rates.many, rates.bare).map { $0 / $1 })
    print(
        "\(name): bare loop \(text(median(rates.bare)))/s, 1 appender \(text(median(rates.one)))/s = "
            + "\(text(one, 2)) x (goal \(goal)), 64 appenders \(text(median(rates.many)))/s = "
            + "\(text(many, 1)) x (goal 20)")
}

var logger = Logger(label: "bench")
logger.logLevel = .error
let folder = FileManager.default.temporaryDirectory.appendingPathComponent("log-bench-\(UUID().uuidString)")
try FileManager.default.createDirectory(at: folder, withIntermediateDirectories: true)
defer { try? FileManager.default.removeItem(at: folder) }
let rounds = option("--rounds", 3)

if runs("sqlite") {
    let log = try SQLiteOperationLog(path: folder.appendingPathComponent("log.sqlite").path, logger: logger)
    try await log.createDatabase("db")
    try await compare("SQLite", log, rounds: rounds, goal: 0.85) {
        bareSQLiteRate(folder.appendingPathComponent("bare.sqlite").path, rows: $0)
    }
    await log.close()
}

if let url = ProcessInfo.processInfo.environment["MIMEO_TEST_POSTGRES"] {
    if runs("postgres") {
        haveWritten(url)
        let log = try PostgresOperationLog(url: url, logger: logger)
        try await log.createDatabase("db")
        try await compare("PostgreSQL", log, rounds: rounds, goal: 0.8) { barePostgresRate(url, rows: $0) }
        await log.close()
    }
    for each in [1, 100] where runs("projection") {
        try await compareProjection(url, documents: 20_000, each: each, rounds: rounds, logger)
    }
    if runs("visible") { try await measureVisibility(url, appends: 300, logger) }
}

let history = option("--history", 1_000_000)
if history > 0, runs("recovery") {
    try await measureRecovery(operations: history, in: folder, logger)
}
