import CRDT
import FaultDisk
import Foundation
import GRDB
import TestSupport
import Testing

@testable import OperationLog

/// Every way through the SQLite driver with its first call failing, then its second, and so on until it
/// passes untouched: what it throws, whether the writer is poisoned, what the file holds after a cut then.
@Suite("SQLite log: every call fails once")
struct LogFailureSweepTests {
    enum Way: CaseIterable, Sendable {
        case create, open, recover, createDatabase, append, appendLarge, read, frontier, checkpoint, close
        case snapshot, replaceSnapshot, truncate, lease, renew, release, retire
    }

    struct Case: Sendable, CustomTestStringConvertible {
        let way: Way
        let fault: FaultDisk.Fault
        let persists: Bool
        /// The log is opened again, and what it shows then counts as acknowledged, before the cut.
        let reopens: Bool
        var isPlain: Bool { !persists && !reopens }
        var testDescription: String {
            "\(way), \(fault)\(persists ? ", for good" : "")\(reopens ? ", then opened again" : "")"
        }
    }

    static let cases = Way.allCases.flatMap { way in
        FaultDisk.Fault.allCases.flatMap { fault in
            [(false, false), (true, false), (false, true)].map {
                Case(way: way, fault: fault, persists: $0.0, reopens: $0.1)
            }
        }
    }.enumerated().filter { FaultRun.takes($0.offset, isPlain: $0.element.isPlain) }.map(\.element)

    @Test("a failing call is a typed error, and what was acknowledged stays", arguments: cases)
    func sweep(_ sweep: Case) async throws {
        try await withTemporaryPath { original in
            try await prepare(original, leavesJournal: sweep.way == .recover)
            var call = 1
            while try await passes(sweep, original, call: call) == false {
                call = FaultRun.call(after: call)
                try #require(call < 100_000)
            }
        }
    }

    /// The second operation is so large that a part of it is written before the commit.
    private func prepare(_ path: String, leavesJournal: Bool) async throws {
        let log = try SQLiteOperationLog(path: leavesJournal ? path + ".open" : path)
        try await log.createDatabase("db")
        _ = try await log.append(requests(1, 1...3, size: 500), to: "db")
        if leavesJournal {
            for suffix in ["", "-wal"] {
                try FileManager.default.copyItem(atPath: log.pool.path + suffix, toPath: path + suffix)
            }
        }
        await log.close()
    }

    /// Takes the way once with the n-th call failing.
    /// - Returns: whether nothing failed any more.
    private func passes(_ sweep: Case, _ original: String, call: Int) async throws -> Bool {
        try await withFaultDisk(seed: UInt64(call)) { disk, folder in
            let path = folder.appendingPathComponent("log.sqlite").path
            if sweep.way != .create {
                for suffix in ["", "-wal"] where FileManager.default.fileExists(atPath: original + suffix) {
                    try FileManager.default.copyItem(atPath: original + suffix, toPath: path + suffix)
                }
            }
            let trial = Trial(
                sweep: sweep, disk: disk, path: path, call: call,
                note: Comment(rawValue: "\(sweep.testDescription), call \(call)"))
            let faults = try await trial.run()
            disk.heal()
            if sweep.reopens { try await trial.reopen() }
            disk.restart()
            try await trial.verify()
            return faults == 0
        }
    }
}

extension LogFailureSweepTests {
    /// A call so large that the index of the write-ahead log has to grow for it.
    @Test("an index that finds the disk full refuses the append, and poisons nothing")
    func indexFull() async throws {
        try await withFaultDisk(seed: 1) { disk, folder in
            let log = try SQLiteOperationLog(path: folder.appendingPathComponent("log.sqlite").path)
            try await log.createDatabase("db")
            let large = requests(1, 1...18, size: 1_000_000)
            disk.fail(.memoryFull, atCall: 1)
            #expect(try await code { _ = try await log.append(large, to: "db") } == .storageFull)
            #expect(disk.counts.faults == 1)
            #expect(try await readAll(log).isEmpty)
            let outcomes = try await log.append(large, to: "db")
            #expect(outcomes.last == .appended(offset: 18))
            await log.close()
        }
    }
}

/// One way through the driver with one call failing.
private final class Trial {
    let sweep: LogFailureSweepTests.Case
    let disk: FaultDisk
    let path: String
    let call: Int
    let note: Comment
    /// The sequences that must be in the log afterwards, and those that may be.
    private var acknowledged: Set<UInt64>
    private var attempted: Set<UInt64> = []
    /// The content of the snapshot that is acknowledged, and of the one that may be there instead.
    private var snapshot: UInt8?
    private var attemptedSnapshot: UInt8?
    private var place: LogPosition?
    private var lease: ActorLease?
    /// True if the lease is certainly lost, false if it certainly is not, else nil.
    private var isLeaseLost: Bool?

    init(sweep: LogFailureSweepTests.Case, disk: FaultDisk, path: String, call: Int, note: Comment) {
        self.sweep = sweep
        self.disk = disk
        self.path = path
        self.call = call
        self.note = note
        acknowledged = sweep.way == .create ? [] : [1, 2, 3]
    }

    private func arm() { disk.fail(sweep.fault, atCall: call, persistently: sweep.persists) }

    /// - Returns: the calls that failed.
    func run() async throws -> UInt64 {
        switch sweep.way {
        case .create, .open, .recover:
            arm()
            let failure = try await code { await (try SQLiteOperationLog(path: self.path)).close() }
            #expect([nil, .cannotOpen].contains(failure), note)
            return disk.counts.faults
        default:
            // What a failed commit leaves; `RecoveryTests` has what comes then.
            let log = try SQLiteOperationLog(path: path, options: withoutRecovery())
            place = try await log.head(of: "db")
            if [.replaceSnapshot, .truncate].contains(sweep.way) { try await writeSnapshot(log, chunk: 1) }
            if [.renew, .release, .retire].contains(sweep.way) {
                lease = try await log.lease("p", of: 1, for: .seconds(600), in: "db")
            }
            arm()
            try await takeWay(log)
            let faults = disk.counts.faults
            if sweep.way != .close { await log.close() }
            return faults
        }
    }

    private func takeWay(_ log: SQLiteOperationLog) async throws {
        switch sweep.way {
        case .createDatabase:
            try await change(log) { _ = try await log.createDatabase("new") }
        case .append: try await append(log, 4...6, size: 300)
        case .appendLarge: try await append(log, 4...9, size: 450_000)
        case .read:
            try await look(log) {
                let entries = try await log.read("db", after: 0)
                #expect(entries.count == 3, self.note)
            }
        case .frontier:
            try await look(log) {
                let frontier = try await log.frontier(of: [ActorID(1)], in: "db")
                #expect(frontier.count == 1, self.note)
            }
        case .checkpoint:
            // SQLite does it by itself after a commit, and tells nobody when it fails.
            _ = try? await log.pool.writeWithoutTransaction { try $0.checkpoint(.truncate) }
            disk.heal()
            try await append(log, 4...4, size: 10)
        case .close: await log.close()
        case .snapshot, .replaceSnapshot:
            try await change(log) { try await self.writeSnapshot(log, chunk: 2) }
        case .truncate:
            try await change(log) { try await log.truncate("db", through: 2, keepingHashesAfter: 0) }
        case .lease:
            try await change(log) {
                self.lease = try await log.lease("p", of: 1, for: .seconds(600), in: "db")
                #expect(self.lease != nil, self.note)
                self.isLeaseLost = false
            }
        case .renew, .release, .retire: try await changeLease(log)
        default: break
        }
    }

    /// A snapshot of three chunks.
    private func writeSnapshot(_ log: SQLiteOperationLog, chunk: UInt8) async throws {
        attemptedSnapshot = chunk
        let draft = try await log.beginSnapshot(of: "db", at: try #require(place))
        for _ in 0..<3 {
            try await log.add([UInt8](repeating: chunk, count: 100_000), to: draft, in: "db")
        }
        _ = try await log.finish(draft, in: "db")
        snapshot = chunk
    }

    private func changeLease(_ log: SQLiteOperationLog) async throws {
        let lease = try #require(lease)
        try await change(log) {
            switch self.sweep.way {
            case .renew:
                #expect(try await log.renew(lease, for: .seconds(900), in: "db"), self.note)
                self.isLeaseLost = false
            case .release:
                try await log.release(lease, retiring: true, in: "db")
                self.isLeaseLost = true
            default:
                try await log.retire([lease.actor], in: "db")
                self.isLeaseLost = true
            }
        }
    }

    private func append(
        _ log: SQLiteOperationLog, _ sequences: ClosedRange<UInt64>, size: Int
    ) async throws {
        attempted.formUnion(sequences)
        try await change(log) {
            let outcomes = try await log.append(requests(1, sequences, size: size), to: "db")
            #expect(outcomes == sequences.map { .appended(offset: Offset($0)) }, self.note)
            self.acknowledged.formUnion(sequences)
        }
    }

    /// A change that fails: full is refused and goes on, everything else poisons the writer; reads go on.
    private func change(_ log: SQLiteOperationLog, _ body: () async throws -> Void) async throws {
        let failure = try await code(body)
        disk.heal()
        #expect([nil, .storageFull, .commitFailed].contains(failure), note)
        if sweep.fault == .diskFull { #expect([nil, .storageFull].contains(failure), note) }
        #expect((log.status.refusal != nil) == (failure == .commitFailed), note)
        #expect(try await sequences(log).isSuperset(of: acknowledged), note)
        guard failure == .commitFailed else {
            if failure == .storageFull { try await appendAgain(log) }
            return
        }
        #expect(try await code { try await appendAgain(log) } == .poisoned, note)
        #expect(try await code { _ = try await log.createDatabase("other") } == .poisoned, note)
    }

    /// The sequences that the log holds, or a snapshot stands for.
    private func sequences(_ log: SQLiteOperationLog) async throws -> Set<UInt64> {
        let cut = try await log.truncation(of: "db").offset
        let sequences = try await readAll(log, after: cut).map(\.sequence.rawValue)
        return Set(sequences).union(1..<cut.next.rawValue)
    }

    /// The snapshot is one of those that may be there, and whole; a lease is what was acknowledged of it.
    private func verifyRetention(_ log: SQLiteOperationLog) async throws {
        let found = try await log.snapshot(of: "db")
        if let found {
            let first = try await log.chunk(0, of: found, in: "db")[0]
            #expect([snapshot, attemptedSnapshot].contains(first), note)
            for index in 0..<3 {
                let whole = [UInt8](repeating: first, count: 100_000)
                #expect(try await log.chunk(index, of: found, in: "db") == whole, note)
            }
        } else {
            #expect(snapshot == nil, note)
        }
        let cut = try await log.truncation(of: "db").offset
        #expect(cut == 0 || (cut == 2 && (found?.position.offset ?? 0) >= cut), note)
        if let isLeaseLost {
            let renewed = try await log.renew(#require(lease), for: .seconds(900), in: "db")
            #expect(renewed != isLeaseLost, note)
        }
    }

    private func appendAgain(_ log: SQLiteOperationLog) async throws {
        let outcomes = try await log.append(requests(1, 4...5, size: 20), to: "db")
        #expect(outcomes == [.appended(offset: 4), .appended(offset: 5)], note)
        attempted = [4, 5]
        acknowledged.formUnion(4...5)
    }

    private func look(_ log: SQLiteOperationLog, _ body: () async throws -> Void) async throws {
        let failure = try await code(body)
        disk.heal()
        #expect([nil, .storageFailed].contains(failure), note)
        try await body()
        #expect(log.status.refusal == nil, note)
    }

    /// Opens the log again: the entries that it shows then are durable, whatever failed before.
    func reopen() async throws {
        let log = try SQLiteOperationLog(path: path)
        try await log.createDatabase("db")
        acknowledged = try await sequences(log)
        if let found = try await log.snapshot(of: "db") {
            snapshot = try await log.chunk(0, of: found, in: "db")[0]
            attemptedSnapshot = snapshot
        }
        let next = UInt64(acknowledged.count) + 1
        let outcomes = try await log.append([request(1, SequenceNumber(next))], to: "db")
        #expect(outcomes == [.appended(offset: Offset(next))], note)
        acknowledged.insert(next)
        attempted = []
        await log.close()
    }

    /// The file after a cut: sound, with everything acknowledged, and of the call that failed all or nothing.
    func verify() async throws {
        let log = try SQLiteOperationLog(path: path)
        try await log.createDatabase("db")
        let found = try await sequences(log)
        #expect(found.isSuperset(of: acknowledged), note)
        let rest = found.subtracting(acknowledged)
        #expect(rest.isEmpty || rest == attempted.subtracting(acknowledged), note)
        try await verifyRetention(log)
        let next = UInt64(found.count) + 1
        let outcomes = try await log.append([request(1, SequenceNumber(next))], to: "db")
        #expect(outcomes == [.appended(offset: Offset(next))], note)
        await log.close()
        try edit(path) { db in
            let check = try String.fetchOne(db, sql: "PRAGMA integrity_check")
            #expect(check == "ok", note)
        }
    }
}
