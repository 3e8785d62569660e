import CRDT
import Exchange
import Foundation
import LogFakes
import OperationLog
import Replica
import Synchronization
import TestSupport
import Testing

@testable import ServiceKit

@Suite("The materializations of one process", .timeLimit(.minutes(2)))
struct MaterializationsTests {
    /// The offsets that one service was told.
    private final class Told: Sendable {
        private let state = Mutex<(start: Offset?, offsets: [Offset])>((nil, []))
        var start: Offset? { state.withLock { $0.start } }
        var offsets: [Offset] { state.withLock { $0.offsets } }
        func begin(_ position: LogPosition) { state.withLock { $0.start = position.offset } }
        func note(_ folded: [FoldedOperation]) {
            state.withLock { $0.offsets += folded.map(\.position.offset) }
        }
    }

    private static func append(_ number: UInt64, to log: any OperationLog) async throws {
        let operation = CRDT.Operation(
            actor: ActorID(7), sequence: SequenceNumber(number), timestamp: number << 16, changes: [])
        let record = OperationRecord(
            actor: operation.actor, sequence: operation.sequence, timestamp: operation.timestamp,
            bytes: operation.encoded())
        _ = try await log.append([AppendRequest(record: record, authorKey: "", touches: [])], to: "d")
    }

    private func withLog(
        _ body: (SQLiteOperationLog, Materializations, URL) async throws -> Void
    ) async throws {
        try await withTemporaryDirectory { folder in
            let log = try SQLiteOperationLog(path: folder.appendingPathComponent("log.sqlite").path)
            try await log.createDatabase("d")
            let place = folder.appendingPathComponent("folds")
            let materializations = Materializations(of: log, folder: place.path, logger: TestBench.quiet)
            try await body(log, materializations, place)
            await log.close()
        }
    }

    private func folders(_ place: URL) throws -> [String] {
        try FileManager.default.contentsOfDirectory(atPath: place.path).sorted()
    }

    @Test("services share one fold on disk; each hears of everything after it has come, once and in order")
    func shared() async throws {
        try await withLog { log, materializations, place in
            let (first, second) = (Told(), Told())
            let one = try await materializations.open(
                "d", beginning: { first.begin($0) }, onFold: { first.note($0) })
            for number: UInt64 in 1...20 { try await Self.append(number, to: log) }
            let other = try await materializations.open(
                "d", beginning: { second.begin($0) }, onFold: { second.note($0) })
            #expect(one.materializer === other.materializer)
            for number: UInt64 in 21...40 { try await Self.append(number, to: log) }
            try await other.materializer.advance()
            #expect(first.start == 0)
            #expect(first.offsets == (1...40).map { Offset($0) })
            let start = try #require(second.start)
            #expect(second.offsets == ((start.rawValue + 1)...40).map { Offset($0) })
            #expect(try folders(place) == ["d"])
            // What is told ends with the share; the other service goes on.
            await one.close()
            await one.close()
            try await Self.append(41, to: log)
            try await other.materializer.advance()
            #expect(first.offsets.count == 40)
            #expect(second.offsets.last == 41)
            await other.close()
            #expect(throws: ReplicaError.self) { try other.materializer.replica.checkpoint() }
            let again = try await materializations.open("d")
            #expect(again.materializer !== other.materializer)
            #expect(await again.materializer.position.offset == 41)
            await again.close()
        }
    }

    @Test("many that open a database at once get one materializer, and the last one to leave closes it")
    func atOnce() async throws {
        try await withLog { _, materializations, place in
            for _ in 0..<5 {
                let shares = try await withThrowingTaskGroup(of: Materializations.Share.self) { group in
                    for _ in 0..<8 { group.addTask { try await materializations.open("d") } }
                    return try await group.reduce(into: []) { $0.append($1) }
                }
                #expect(Set(shares.map { ObjectIdentifier($0.materializer) }).count == 1)
                #expect(try folders(place) == ["d"])
                await withDiscardingTaskGroup { group in
                    for share in shares { group.addTask { await share.close() } }
                }
                for share in shares { await share.waitForEnd() }
            }
        }
    }

    @Test("a log that was restored ends every share, and the next opening folds it from the start")
    func restored() async throws {
        try await withTemporaryDirectory { folder in
            let lost = try SQLiteOperationLog(path: folder.appendingPathComponent("log.sqlite").path)
            try await lost.createDatabase("d")
            for number: UInt64 in 1...3 { try await Self.append(number, to: lost) }
            let log = PassingOnLog(lost)
            let place = folder.appendingPathComponent("folds")
            let materializations = Materializations(of: log, folder: place.path, logger: TestBench.quiet)
            let shares = [try await materializations.open("d"), try await materializations.open("d")]
            try await shares[0].materializer.advance()
            let restored = try SQLiteOperationLog(path: folder.appendingPathComponent("other.sqlite").path)
            try await restored.createDatabase("d")
            try await Self.append(1, to: restored)
            log.failOver(to: restored)
            await #expect(throws: (any Error).self) { try await shares[0].materializer.advance() }
            let next = try await materializations.open("d")
            for share in shares {
                await share.waitForEnd()
                #expect(await share.materializer.hasLostHistory)
                await share.close()
            }
            try await next.materializer.advance()
            #expect(await next.materializer.position.offset == 1)
            #expect(try folders(place) == ["d"])
            await next.close()
            await lost.close()
            await restored.close()
        }
    }

    @Test("who discards a fold ends it for everybody, and the next opening folds the log again")
    func discarded() async throws {
        try await withLog { log, materializations, place in
            try await Self.append(1, to: log)
            let shares = [try await materializations.open("d"), try await materializations.open("d")]
            try await shares[0].materializer.advance()
            await shares[0].close(discards: true)
            await shares[1].waitForEnd()
            #expect(await shares[1].materializer.hasLostHistory)
            let next = try await materializations.open("d")
            #expect(await next.materializer.position.offset == 0)
            try await next.materializer.advance()
            #expect(await next.materializer.position.offset == 1)
            await shares[1].close()
            try await next.materializer.advance()
            await next.close()
        }
    }

    @Test("folders that no service has any more go, but those that are open stay")
    func unused() async throws {
        try await withLog { log, materializations, place in
            for database in ["d", "e"] as [DatabaseID] {
                if database == "e" { try await log.createDatabase("e") }
                let share = try await materializations.open(database)
                try await share.materializer.advance()
                if database == "d" { await share.close() }
            }
            // A folder that a service did not make, as in a data folder that has other things too.
            let mine = place.appendingPathComponent("mine")
            try FileManager.default.createDirectory(at: mine, withIntermediateDirectories: true)
            try Data("text".utf8).write(to: mine.appendingPathComponent("notes.txt"))
            Materializations.removeUnused(in: place.path)
            #expect(try folders(place).sorted() == ["e", "mine"])
            let files = try FileManager.default.contentsOfDirectory(atPath: mine.path)
            #expect(files == ["notes.txt"])
            try FileManager.default.removeItem(at: mine)
            try await materializations.erase("e")
            Materializations.removeUnused(in: place.path)
            #expect(!FileManager.default.fileExists(atPath: place.path))
        }
    }

    @Test("an erased database leaves no folder, whoever has a share of it")
    func erased() async throws {
        try await withLog { _, materializations, place in
            let share = try await materializations.open("d")
            #expect(materializations.keeps("d"))
            // Several holders erase it, as each service does.
            try await withThrowingDiscardingTaskGroup { group in
                for _ in 0..<3 { group.addTask { try await materializations.erase("d") } }
            }
            #expect(!materializations.keeps("d"))
            #expect(try folders(place) == [])
            await share.waitForEnd()
            await share.close()
        }
    }
}
