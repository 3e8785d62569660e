import CRDT
import FaultDisk
import Foundation
import GRDB
import Synchronization
import TestSupport
import Testing

@testable import OperationLog

@Suite("SQLite log: recovery from a failed commit")
struct RecoveryTests {
    @Test(
        "a failed commit is unknown to its caller, and the log takes it when it comes again",
        .timeLimit(.minutes(5)))
    func once() async throws {
        try await withTemporaryPath { path in
            let recoveries = Mutex(0)
            var options = quick()
            options.onRecovery = { recoveries.withLock { $0 += 1 } }
            let log = try SQLiteOperationLog(path: path, options: options)
            try await log.createDatabase("db")
            _ = try await log.append([request(1, 1)], to: "db")
            var changes = log.changes(in: "db").makeAsyncIterator()
            _ = await changes.next()
            log.pool.add(transactionObserver: FailingCommit(), extent: .databaseLifetime)
            #expect(try await code { _ = try await log.append([request(1, 2)], to: "db") } == .commitFailed)
            #expect(try await eventually { log.status.refusal == nil })
            #expect(try await readAll(log).map(\.offset) == [1])
            #expect(try await log.append([request(1, 2)], to: "db") == [.appended(offset: 2)])
            #expect(try await log.append([request(1, 2)], to: "db") == [.duplicate(through: 2)])
            #expect(await changes.next() != nil)
            #expect(try await log.createDatabase("new"))
            #expect(recoveries.withLock { $0 } == 1)
            await log.close()
        }
    }

    @Test(
        "a disk whose syncs fail for a time is tried again until they succeed, and reads go on meanwhile",
        .timeLimit(.minutes(5)))
    func persistentFailure() async throws {
        try await withFaultDisk(seed: 158) { disk, folder in
            let path = folder.appendingPathComponent("log.sqlite").path
            let log = try SQLiteOperationLog(path: path, options: quick())
            try await log.createDatabase("db")
            _ = try await log.append(requests(1, 1...3), to: "db")
            disk.fail(.failedSync, atCall: 1, persistently: true)
            #expect(try await code { _ = try await log.append([request(1, 4)], to: "db") } == .commitFailed)
            let faults = disk.counts.faults
            #expect(try await eventually { disk.counts.faults > faults + 2 })
            #expect(log.status.refusal?.code == .poisoned)
            #expect(try await code { _ = try await log.append([request(2, 1)], to: "db") } == .poisoned)
            #expect(try await readAll(log).map(\.offset) == [1, 2, 3])
            disk.heal()
            #expect(try await eventually { log.status.refusal == nil })
            #expect(try await log.append([request(2, 1)], to: "db") == [.appended(offset: 4)])
            disk.cutPower()
            await log.close()
            disk.restart()
            let again = try SQLiteOperationLog(path: path)
            // What failed never comes back, although its frames were written.
            #expect(try await readAll(again).map(\.actor) == [1, 1, 1, 2].map { ActorID($0) })
            await again.close()
        }
    }

    @Test("damage, and a file that another one replaced, are not recovered from", .timeLimit(.minutes(5)))
    func never() async throws {
        try await withTemporaryPath { path in
            let log = try SQLiteOperationLog(path: path, options: quick())
            try await log.createDatabase("db")
            _ = try await log.append([request(1, 1, size: 50_000)], to: "db")
            try await log.scrub()
            log.pool.releaseMemory()
            let file = try #require(FileHandle(forUpdatingAtPath: path))
            let size = try file.seekToEnd()
            try file.seek(toOffset: 4_096)
            try file.write(contentsOf: Data(repeating: 0xAA, count: Int(size) - 4_096))
            try file.close()
            #expect(try await code { _ = try await log.append([request(1, 2)], to: "db") } == .corrupt)
            try await Task.sleep(for: .milliseconds(100))
            #expect(log.status.refusal?.code == .corrupt)
            await log.close()
        }
        try await withTemporaryPath { path in
            let log = try SQLiteOperationLog(path: path, options: quick())
            try await log.createDatabase("db")
            try FileManager.default.copyItem(atPath: path, toPath: path + ".copy")
            log.pool.add(transactionObserver: FailingCommit(), extent: .databaseLifetime)
            #expect(rename(path + ".copy", path) == 0)
            #expect(try await code { _ = try await log.append([request(1, 1)], to: "db") } == .commitFailed)
            try await Task.sleep(for: .milliseconds(100))
            #expect(log.status.refusal?.code == .poisoned)
            await log.close()
            #expect(try await code { _ = try await log.append([request(1, 1)], to: "db") } == .poisoned)
        }
    }

    @Test(
        "no acknowledged operation is lost over failures, recoveries and a power cut, and none comes twice",
        .timeLimit(.minutes(Depth.pick(fast: 5, deep: 60))))
    func campaign() async throws {
        for seed in Depth.seeds(fast: 2, deep: 600) {
            try await withFaultDisk(seed: seed) { disk, folder in
                let path = folder.appendingPathComponent("log.sqlite").path
                let log = try SQLiteOperationLog(path: path, options: quick())
                try await log.createDatabase("db")
                let load = RecoveringLoad(seed: seed, disk: disk, log: log)
                try await load.run()
                disk.cutPower()
                await log.close()
                disk.restart()
                let again = try SQLiteOperationLog(path: path)
                let entries = try await readAll(again)
                #expect(load.differences(entries).isEmpty, "seed \(seed): \(load.differences(entries))")
                await again.close()
            }
        }
    }
}

/// Three appenders over a disk that fails now and then. Each repeats a call until it is acknowledged.
private final class RecoveringLoad: Sendable {
    private static let calls: UInt64 = 25

    private let disk: FaultDisk
    private let log: SQLiteOperationLog
    private let dice: Mutex<SplitMix64>
    private let acknowledged = Mutex<[Offset: (actor: UInt64, sequence: UInt64)]>([:])

    init(seed: UInt64, disk: FaultDisk, log: SQLiteOperationLog) {
        (self.disk, self.log) = (disk, log)
        dice = Mutex(SplitMix64(seed: seed ^ 0x158))
    }

    private func draw(below bound: Int) -> Int { dice.withLock { $0.below(bound) } }

    func run() async throws {
        try await withThrowingTaskGroup(of: Void.self) { group in
            for actor in 1...3 as ClosedRange<UInt64> { group.addTask { try await self.append(actor) } }
            let breaking = Task { try await self.breakDisk() }
            try await group.waitForAll()
            breaking.cancel()
            _ = await breaking.result
        }
        disk.heal()
    }

    private func breakDisk() async throws {
        let kinds: [FaultDisk.Fault] = [.ioError, .diskFull, .shortWrite, .failedSync]
        defer { disk.heal() }
        while true {
            disk.fail(
                kinds[draw(below: kinds.count)], atCall: 1 + draw(below: 12),
                persistently: draw(below: 2) == 0)
            try await Task.sleep(for: .milliseconds(1 + draw(below: 8)))
            disk.heal()
            try await Task.sleep(for: .milliseconds(1 + draw(below: 4)))
        }
    }

    private func append(_ actor: UInt64) async throws {
        for sequence in 1...Self.calls {
            let size = draw(below: 5) == 0 ? 20_000 : 300
            while true {
                let requests = [request(actor, SequenceNumber(sequence), size: size)]
                do {
                    let outcome = try await log.append(requests, to: "db")[0]
                    guard case .appended(let offset) = outcome else { throw Unexpected(outcome: outcome) }
                    acknowledged.withLock { $0[offset] = (actor, sequence) }
                    break
                } catch let error as OperationLogError {
                    let isKnown = [.commitFailed, .poisoned, .storageFull, .storageFailed, .busy]
                        .contains(error.code)
                    guard isKnown else { throw error }
                    try await Task.sleep(for: .milliseconds(1))
                }
            }
        }
    }

    private struct Unexpected: Error { let outcome: AppendOutcome }

    /// Returns how the entries differ from what was acknowledged: each call at its offset, and nothing else.
    func differences(_ entries: [LogEntry]) -> [String] {
        let expected = acknowledged.withLock { $0 }
        let found = entries.map { "\($0.offset): \($0.actor) \($0.sequence)" }
        let wanted = expected.sorted { $0.key < $1.key }.map { offset, call in
            "\(offset): \(ActorID(call.actor)) \(SequenceNumber(call.sequence))"
        }
        return found == wanted ? [] : found.difference(from: wanted).map { "\($0)" }
    }
}

private func quick() -> SQLiteOperationLog.Options {
    var options = SQLiteOperationLog.Options()
    options.recoveryPause = .milliseconds(2)
    options.busyTimeout = .milliseconds(500)
    return options
}

/// Fails every commit of the connections that are open now.
private final class FailingCommit: TransactionObserver, Sendable {
    func observes(eventsOfKind eventKind: DatabaseEventKind) -> Bool { true }
    func databaseDidChange(with event: DatabaseEvent) {}
    func databaseWillCommit() throws { throw DatabaseError(resultCode: .SQLITE_IOERR_FSYNC) }
    func databaseDidCommit(_ db: Database) {}
    func databaseDidRollback(_ db: Database) {}
}
