import CRDT
import FaultDisk
import Foundation
import GRDB
import Synchronization
import TestSupport
import Testing
import WriteAhead

@testable import OperationLog

@Suite("SQLite log: power cuts")
struct LogPowerCutTests {
    /// Cuts that one file lives through, each after the recovery from the one before.
    static let cutsPerFile = 3

    @Test("no acknowledged operation is lost, nothing is damaged, and a call is stored whole or not at all")
    func cuts() async throws {
        for seed in FaultRun.seeds(cutsEach: Self.cutsPerFile) {
            try await withFaultDisk(seed: seed) { disk, folder in
                let path = folder.appendingPathComponent("log.sqlite").path
                let load = LogLoad(seed: seed)
                for round in 0..<Self.cutsPerFile {
                    try await load.run(path, disk)
                    disk.restart()
                    try await load.verify(path, "seed \(seed), cut \(round + 1)")
                }
            }
        }
    }
}

extension LogPowerCutTests {
    @Test("the same check finds what a log loses that does not sync its commits")
    func checkCanFail() async throws {
        let loss = "an acknowledged call is not where it was said to be"
        var losses: [String] = []
        // A few are enough nearly always; which call a cut meets depends on the threads too.
        for seed in 1...200 as ClosedRange<UInt64> where !losses.contains(loss) {
            try await withFaultDisk(seed: seed) { disk, folder in
                let path = folder.appendingPathComponent("log.sqlite").path
                let load = LogLoad(seed: seed)
                try await load.run(path, disk, synchronous: "NORMAL")
                disk.restart()
                do {
                    losses += try await load.problems(path)
                } catch let error as OperationLogError where error.code == .corrupt {
                    // The mark has told it. Without the mark the log opens with what is left.
                    WriteAheadMark.remove(of: path)
                    losses += try await load.problems(path)
                }
            }
        }
        #expect(losses.contains(loss), "\(losses)")
    }
}

/// One call of `append`.
private struct Call {
    let actor: UInt64
    let sequences: ClosedRange<SequenceNumber>
    /// Where its operations are, once it was answered.
    var offsets: [Offset]?
}

/// The faults that a check finds.
private struct Findings {
    private(set) var texts: [String] = []

    mutating func check(_ isRight: Bool, _ otherwise: String) {
        if !isRight { texts.append(otherwise) }
    }

    mutating func check(_ call: Call, _ entries: [LogEntry], after start: Offset) {
        let found = entries.filter {
            $0.actor == ActorID(call.actor) && call.sequences.contains($0.sequence)
        }
        guard let offsets = call.offsets else {
            let isCut = found.first?.offset == start.next
            let isTail = found.map(\.sequence) == Array(call.sequences.suffix(found.count))
            let isWhole = found.count == call.sequences.count || isCut
            return check(found.isEmpty || isTail && isWhole, "half of a call is there")
        }
        check(
            found.map(\.offset) == offsets.filter { $0 > start },
            "an acknowledged call is not where it was said to be")
    }
}

/// Appenders, readers and checkpoints on one log until the power goes, and what must be there afterwards.
final class LogLoad: Sendable {
    private struct State {
        var dice: SplitMix64
        var calls: [Call] = []
        /// The database was made, so it must be there.
        var isCreated = false
        /// The snapshot that was finished last, with its chunks.
        var snapshot: (LogSnapshot, chunks: [[UInt8]])?
        /// How far entries were removed, and how far that may have been done.
        var truncated: (done: Offset, tried: Offset) = (0, 0)
        /// The last entry that a reader was given: nothing is shown before it is durable (rule 8).
        var seen: LogEntry?
    }

    private let state: Mutex<State>
    private static let actors: ClosedRange<UInt64> = 1...4

    init(seed: UInt64) { state = Mutex(State(dice: SplitMix64(seed: seed ^ 0xC07))) }

    private func draw(below bound: Int) -> Int { state.withLock { $0.dice.below(bound) } }

    /// Works until the power is off; it goes off at a moment that the seed decides.
    func run(_ path: String, _ disk: FaultDisk, synchronous: String = "FULL") async throws {
        disk.cutPower(duringCall: 1 + draw(below: draw(below: 4) == 0 ? 40 : 400))
        guard let log = try? SQLiteOperationLog(path: path) else { return }
        do {
            try await log.createDatabase("db")
            try log.pool.unsafeReentrantWrite { try $0.execute(sql: "PRAGMA synchronous = \(synchronous)") }
            state.withLock { $0.isCreated = true }
            await withTaskGroup(of: Void.self) { group in
                for actor in Self.actors { group.addTask { await self.append(actor, to: log, disk) } }
                group.addTask { await self.checkpoint(log, disk) }
                group.addTask { await self.retain(log, disk) }
            }
        } catch {}
        await log.close()
    }

    /// Appends after the log's own frontier of the actor: a call that failed may have been stored.
    private func append(_ actor: UInt64, to log: SQLiteOperationLog, _ disk: FaultDisk) async {
        guard let frontier = try? await log.frontier(of: [ActorID(actor)], in: "db") else { return }
        var next = (frontier[ActorID(actor)]?.sequence ?? 0).next
        while !disk.isOff {
            let count = 1 + draw(below: 3)
            let size = draw(below: 10) == 0 ? draw(below: 30_000) : draw(below: 900)
            let call = Call(actor: actor, sequences: next...next.advanced(by: count - 1))
            let index = state.withLock { state in
                state.calls.append(call)
                return state.calls.count - 1
            }
            let requests = call.sequences.map {
                request(
                    actor, $0, size: size, touches: [.document("c", Self.document($0.rawValue % 7))])
            }
            guard let outcomes = try? await log.append(requests, to: "db") else { return }
            let offsets = outcomes.compactMap { outcome in
                if case .appended(let offset) = outcome { offset } else { nil as Offset? }
            }
            state.withLock { $0.calls[index].offsets = offsets }
            next = next.advanced(by: count)
        }
    }

    private static func document(_ number: UInt64) -> DocumentID {
        guard let id = try? DocumentID(.int(Int64(number))) else { preconditionFailure("a number is an id") }
        return id
    }

    /// Reads and checkpoints beside the appenders, as a busy service's do.
    private func checkpoint(_ log: SQLiteOperationLog, _ disk: FaultDisk) async {
        while !disk.isOff {
            let after = state.withLock { $0.seen?.offset ?? 0 }
            if let last = try? await log.read("db", after: after).last { state.withLock { $0.seen = last } }
            let mode: Database.CheckpointMode = draw(below: 3) == 0 ? .truncate : .passive
            _ = try? await log.pool.writeWithoutTransaction { try $0.checkpoint(mode) }
            try? await Task.sleep(for: .milliseconds(1))
        }
    }

    /// Writes snapshots and removes what is before them.
    private func retain(_ log: SQLiteOperationLog, _ disk: FaultDisk) async {
        while !disk.isOff {
            try? await Task.sleep(for: .milliseconds(3))
            do {
                let position = try await log.head(of: "db")
                let draft = try await log.beginSnapshot(of: "db", at: position)
                let chunks = (0...draw(below: 3)).map { _ in
                    [UInt8](repeating: UInt8(draw(below: 256)), count: 1 + draw(below: 5_000))
                }
                for chunk in chunks { try await log.add(chunk, to: draft, in: "db") }
                let snapshot = try await log.finish(draft, in: "db")
                state.withLock { $0.snapshot = (snapshot, chunks) }
                guard draw(below: 2) == 0 else { continue }
                let through = position.offset.advanced(by: -draw(below: Int(position.offset.rawValue) + 1))
                state.withLock { $0.truncated.tried = max($0.truncated.tried, through) }
                try await log.truncate("db", through: through, keepingHashesAfter: 0)
                state.withLock { $0.truncated.done = max($0.truncated.done, through) }
            } catch {}
        }
    }

    /// The snapshot is the one that was finished last or a later one, and whole; what was removed stays so.
    private func checkRetention(_ log: SQLiteOperationLog, _ found: inout Findings) async throws -> Offset {
        let (known, truncated) = state.withLock { ($0.snapshot, $0.truncated) }
        let through = try await log.truncation(of: "db").offset
        let isKnown = (truncated.done...truncated.tried).contains(through)
        found.check(isKnown, "what was removed is there, or more is gone")
        state.withLock { $0.truncated = (through, through) }
        let snapshot = try await log.snapshot(of: "db")
        found.check(through <= snapshot?.position.offset ?? 0, "entries went without a snapshot")
        found.check(snapshot?.number ?? 0 >= known?.0.number ?? 0, "the snapshot is an older one")
        guard let snapshot else { return through }
        var chunks: [[UInt8]] = []
        try await log.readSnapshot(snapshot, of: "db") { chunks.append($0) }
        if let known, known.0.number == snapshot.number {
            found.check(chunks == known.chunks, "the snapshot has another content")
        }
        state.withLock { $0.snapshot = (snapshot, chunks) }
        return through
    }

    func verify(_ path: String, _ moment: String) async throws {
        let found = try await problems(path)
        #expect(found.isEmpty, "\(moment): \(found)")
    }

    /// Returns what is wrong. All acknowledged entries must be there, at the offsets that were told; each
    /// other call must be there whole or not at all; and the log must accept appends.
    func problems(_ path: String) async throws -> [String] {
        var found = Findings()
        let log = try SQLiteOperationLog(path: path)
        let (calls, isCreated, seen) = state.withLock { ($0.calls, $0.isCreated, $0.seen) }
        let exists = try await log.databaseExists("db")
        found.check(exists || !isCreated, "the database is gone")
        let start = exists ? try await checkRetention(log, &found) : 0
        let entries = exists ? try await readAll(log, after: start) : []
        let offsets = Array(start.next..<start.advanced(by: entries.count + 1))
        found.check(entries.map(\.offset) == offsets, "an offset is missing")
        if let seen, seen.offset > start {
            found.check(entries.contains(seen), "what a reader has seen is gone")
        }
        for call in calls { found.check(call, entries, after: start) }
        let frontier = exists ? try await log.frontier(of: Self.actors.map { ActorID($0) }, in: "db") : [:]
        for (actor, end) in frontier {
            let sequences = entries.filter { $0.actor == actor }.map(\.sequence)
            let expected = Array(end.sequence.next.advanced(by: -sequences.count)..<end.sequence.next)
            found.check(sequences == expected, "the frontier is another than the entries'")
        }
        await log.close()
        try edit(path) { db in
            let check = try String.fetchOne(db, sql: "PRAGMA integrity_check")
            found.check(check == "ok", "the file is damaged")
        }
        acknowledge(entries)
        return found.texts
    }

    /// Entries that are there after a restart are on the disk: they count as acknowledged from now on. A call
    /// that was lost may be made again with another content.
    private func acknowledge(_ entries: [LogEntry]) {
        state.withLock { state in
            state.calls = state.calls.compactMap { call in
                let offsets = entries.filter {
                    $0.actor == ActorID(call.actor) && call.sequences.contains($0.sequence)
                }.map(\.offset)
                guard !offsets.isEmpty else { return nil }
                return Call(actor: call.actor, sequences: call.sequences, offsets: offsets)
            }
            state.seen = entries.last
        }
    }
}
