import CRDT
import Foundation
import Identity
import LogFakes
import Machine
import OperationLog
import Replica
import ServiceKit
import Sync
import Synchronization
import TestSupport
import Testing

@testable import Replicator

@Suite("Admission to the log", .timeLimit(.minutes(2)))
struct AdmissionTests {
    /// An operation that writes `bytes` bytes of text into one document without having seen anything.
    private func operation(actor: UInt64, bytes: Int) throws -> [UInt8] {
        let stamp = Stamp(time: 1 << 16, actor: ActorID(actor))
        var editor = DocumentEditor(document: Document(), stamp: stamp)
        try editor.set(["text"], .string(String(repeating: "x", count: bytes)))
        let delta = try #require(editor.pending.delta(stamp: stamp))
        let change = CRDT.Operation.Change(
            collection: "c", id: try DocumentID(.string("a")), delta: delta.encoded())
        return CRDT.Operation(actor: stamp.actor, sequence: 1, timestamp: stamp.time, changes: [change])
            .encoded()
    }

    @Test("concurrent values that together exceed what a session can carry are refused")
    func documentTooLarge() throws {
        try withTemporaryDirectory { folder in
            let replica = try Materialization(
                directory: folder.path, environment: .system, logger: TestBench.quiet)
            let logID = try #require(LogID(bytes: Array(repeating: 1, count: LogID.byteCount)))
            let half = Replicator.Limits.documentBytes / 2 + 1
            let first = try operation(actor: 1, bytes: half)
            _ = try replica.fold([
                Materialization.LogItem(position: LogPosition(logID: logID, offset: 1, hash: 1), bytes: first)
            ])
            let check = AdmissionCheck(
                replica: replica, grant: .everything,
                wallMilliseconds: Environment.system.wallMilliseconds(), unfolded: nil, term: 0)
            let judgement = try check.judge([try operation(actor: 2, bytes: half)], authorKey: "")
            #expect(judgement.refusals.map(\.error.code) == ["SYNC-0407"])
            #expect(judgement.requests.isEmpty)
            try replica.close()
        }
    }

    /// A fold that holds nothing, and its check.
    private func withCheck(
        _ unfolded: UnfoldedDocuments? = nil, _ body: (AdmissionCheck) throws -> Void
    ) throws {
        try withTemporaryDirectory { folder in
            let replica = try Materialization(
                directory: folder.path, environment: .system, logger: TestBench.quiet)
            try body(
                AdmissionCheck(
                    replica: replica, grant: .everything,
                    wallMilliseconds: Environment.system.wallMilliseconds(), unfolded: unfolded, term: 0))
            try replica.close()
        }
    }

    fileprivate func edit(
        _ document: Document, by actor: UInt64, _ time: UInt64, _ field: String, bytes: Int = 1
    ) throws -> (document: Document, delta: Delta) {
        let stamp = Stamp(time: time << 16, actor: ActorID(actor))
        var editor = DocumentEditor(document: document, stamp: stamp)
        editor.create()
        try editor.set([field], .string(String(repeating: "x", count: bytes)))
        return (editor.document, try #require(editor.pending.delta(stamp: stamp)))
    }

    fileprivate func operation(
        by actor: UInt64, _ sequence: SequenceNumber, _ time: UInt64, _ deltas: [(String, Delta)]
    ) throws -> [UInt8] {
        let changes = try deltas.map { name, delta in
            CRDT.Operation.Change(
                collection: "c", id: try DocumentID(.string(name)), delta: delta.encoded())
        }
        return CRDT.Operation(
            actor: ActorID(actor), sequence: sequence, timestamp: time << 16, changes: changes
        ).encoded()
    }

    @Test("nothing rests on a part of an operation that is refused, nor on one whose append is not noted")
    func partsOfRefused() throws {
        let (document, small) = try edit(Document(), by: 1, 1, "f")
        let large = try edit(Document(), by: 1, 1, "f", bytes: Replicator.Limits.documentBytes + 1).delta
        let next = try edit(document, by: 2, 2, "g").delta
        let first = try operation(by: 1, 1, 1, [("a", small), ("b", large)])
        let second = try operation(by: 2, 1, 2, [("a", next)])
        try withCheck { check in
            let judgement = try check.judge([first, second], authorKey: "k")
            #expect(judgement.refusals.map(\.error.code) == ["SYNC-0407", "SYNC-0405"])
            #expect(judgement.requests.isEmpty)
            #expect(judgement.written.isEmpty)
            #expect(judgement.dependsOnFold)
        }
    }

    @Test("what was appended, and what is being appended, covers a base and counts for a document's size")
    func behindUnfolded() throws {
        let (document, one) = try edit(Document(), by: 1, 1, "f")
        let two = try edit(document, by: 1, 2, "g").delta
        let first = try operation(by: 1, 1, 1, [("a", one)])
        let second = try operation(by: 1, 2, 2, [("a", two)])
        let unfolded = UnfoldedDocuments()
        try withCheck(unfolded) { check in
            #expect(try check.judge([second], authorKey: "k").refusals.map(\.error.code) == ["SYNC-0405"])
            let judgement = try check.judge([first], authorKey: "k")
            #expect(judgement.requests.count == 1)
            #expect(try check.judge([second], authorKey: "k", behind: judgement.written).refusals.isEmpty)
            unfolded.note(judgement.written, bytes: first.count, through: 1)
            #expect(try check.judge([second], authorKey: "k").refusals.isEmpty)
            let key = UnfoldedKey(DocumentKey(collection: "c", id: try DocumentID(.string("a"))))
            unfolded.note(
                [key: UnfoldedDocument(vector: VersionVector(), bytes: Replicator.Limits.documentBytes)],
                bytes: 1, through: 2)
            let full = try check.judge([second], authorKey: "k")
            #expect(full.refusals.map(\.error.code) == ["SYNC-0407"])
            #expect(full.dependsOnFold)
        }
    }

    /// Three operations that each insert a document of 200 KB: an upload of two parts, in hubs of this bench.
    private func uploads() throws -> [[UInt8]] {
        try (1...3 as ClosedRange<UInt64>).map { number in
            let delta = try edit(Document(), by: 1, number, "f", bytes: 200_000).delta
            return try operation(by: 1, SequenceNumber(number), number, [("d\(number)", delta)])
        }
    }

    private func withHub(
        _ body: @escaping @Sendable (TestBench, DatabaseHub, UInt64) async throws -> Void
    ) async throws {
        var bounds = AdmissionBounds()
        bounds.partBytes = 262_144
        try await TestBench.run { [bounds] bench in
            let hub = try await DatabaseHub.open(
                TestBench.database, log: bench.log, folder: bench.folder.appendingPathComponent("parts").path,
                logger: TestBench.quiet, bounds: bounds)
            try await body(bench, hub, try #require(await hub.enter()))
            await hub.close()
        }
    }

    fileprivate func identity(_ grant: Grant) -> Identity {
        Identity(
            userID: "u", databaseID: TestBench.database, peerKey: "k", grant: grant, expiresAtSeconds: .max)
    }

    @Test("a part is judged by the rights of that moment; what stood before stays")
    func rightsBetweenParts() async throws {
        try await withHub { bench, hub, session in
            let (all, none) = (identity(.everything), identity(.nothing))
            let asked = Mutex(0)
            // Twice for the first part.
            let event = try await hub.admission.admit(try uploads(), from: session) {
                asked.withLock { count in
                    count += 1
                    return count <= 2 ? all : none
                }
            }
            guard case .refused(let acknowledged, let refusals, _) = event else {
                Issue.record("\(event)")
                return
            }
            #expect(acknowledged.map(\.sequence) == [2])
            #expect(refusals.map(\.error.code) == ["SYNC-0401"])
            #expect(refusals.map(\.sequence) == [3])
        }
    }

    @Test("what was judged by rights that have changed since is not appended")
    func rightsBehindJudgement() async throws {
        try await withHub { bench, hub, session in
            let (all, none) = (identity(.everything), identity(.nothing))
            let asked = Mutex(0)
            let event = try await hub.admission.admit(try uploads(), from: session) {
                asked.withLock { count in
                    count += 1
                    return count == 1 ? all : none
                }
            }
            guard case .refused(let acknowledged, let refusals, _) = event else {
                Issue.record("\(event)")
                return
            }
            #expect(acknowledged.isEmpty)
            #expect(refusals.first?.sequence == 1)
            #expect(Set(refusals.map(\.error.code)) == ["SYNC-0401"])
        }
    }

    @Test("a session that has ended goes no further than the part that is being appended")
    func endsBetweenParts() async throws {
        try await withHub { bench, hub, session in
            let everything = identity(.everything)
            let asked = Mutex(0)
            let uploads = try uploads()
            let admitting = Task {
                try await hub.admission.admit(uploads, from: session) {
                    if asked.withLock({ count in
                        count += 1
                        return count == 3
                    }) {
                        withUnsafeCurrentTask { $0?.cancel() }
                    }
                    return everything
                }
            }
            await #expect(throws: CancellationError.self) { try await admitting.value }
            #expect(try await bench.log.head(of: TestBench.database).offset == 2)
        }
    }

    @Test("a part behind one that does not stand is not appended: all of it is judged again, in one piece")
    func partThatDoesNotStand() async throws {
        try await withTemporaryDirectory { folder in
            let log = ConflictingLog(
                try SQLiteOperationLog(path: folder.appendingPathComponent("log.sqlite").path))
            _ = try await log.createDatabase("db")
            var bounds = AdmissionBounds()
            bounds.partBytes = 1
            let hub = try await DatabaseHub.open(
                "db", log: log, folder: folder.appendingPathComponent("fold").path, logger: TestBench.quiet,
                bounds: bounds)
            let session = try #require(await hub.enter())
            let everything = identity(.everything)
            let event = try await hub.admission.admit(try uploads(), from: session) { everything }
            guard case .appended(let acknowledged, _) = event else {
                Issue.record("\(event)")
                return
            }
            #expect(acknowledged.map(\.sequence) == [3])
            #expect(log.appended.withLock(\.self) == [1, 3])
            await hub.close()
            await log.close()
        }
    }

    @Test("what comes again before it is folded is not sent back to whoever brought it")
    func broughtTwice() async throws {
        try await withTemporaryDirectory { folder in
            let log = HeldLog(
                try SQLiteOperationLog(path: folder.appendingPathComponent("log.sqlite").path))
            _ = try await log.createDatabase("db")
            let hub = try await DatabaseHub.open(
                "db", log: log, folder: folder.appendingPathComponent("fold").path, logger: TestBench.quiet)
            let session = try #require(await hub.enter())
            let everything = identity(.everything)
            let uploads = try (1...3 as ClosedRange<UInt64>).map { number in
                let delta = try edit(Document(), by: 1, number, "f").delta
                return try operation(by: 1, SequenceNumber(number), number, [("\(number)", delta)])
            }
            log.isHeld.withLock { $0 = true }
            for _ in 0..<2 { _ = try await hub.admission.admit(uploads, from: session) { everything } }
            log.isHeld.withLock { $0 = false }
            try await hub.materializer.advance()
            var origins: [UInt64?] = []
            while origins.count < uploads.count {
                guard
                    case .operations(let folded, _)? = await hub.operations(
                        after: Offset(UInt64(origins.count)), for: session)
                else { break }
                origins += folded.map(\.origin)
            }
            #expect(origins == [session, session, session])
            await hub.close()
            await log.close()
        }
    }

    @Test("nothing is appended that was judged by a fold of what the log does not have any more")
    func judgedByALostFold() async throws {
        try await withTemporaryDirectory { folder in
            let first = try SQLiteOperationLog(path: folder.appendingPathComponent("log.sqlite").path)
            let other = try SQLiteOperationLog(path: folder.appendingPathComponent("other.sqlite").path)
            for log in [first, other] { _ = try await log.createDatabase("db") }
            let log = PassingOnLog(first)
            let hub = try await DatabaseHub.open(
                "db", log: log, folder: folder.appendingPathComponent("fold").path, logger: TestBench.quiet)
            let session = try #require(await hub.enter())
            let everything = identity(.everything)
            let uploads = try (1...2 as ClosedRange<UInt64>).map { actor in
                let delta = try edit(Document(), by: actor, 1, "f").delta
                return try operation(by: actor, 1, 1, [("\(actor)", delta)])
            }
            _ = try await hub.admission.admit([uploads[0]], from: session) { everything }
            try await hub.materializer.advance()
            log.failOver(to: other)
            await #expect(throws: (any Error).self) {
                _ = try await hub.admission.admit([uploads[1]], from: session) { everything }
            }
            #expect(try await other.head(of: "db").offset == 0)
            await hub.close()
            await first.close()
            await other.close()
        }
    }
}

extension AdmissionTests {
    @Test(
        "nothing is judged by what was appended and not folded, and is lost since", arguments: [false, true])
    func judgedByALostAppend(meanwhile: Bool) async throws {
        try await withTemporaryDirectory { folder in
            let (first, copy) = try await logAndCopy(in: folder)
            let log = HeldLog(first)
            let hub = try await DatabaseHub.open(
                "db", log: log, folder: folder.appendingPathComponent("fold").path, logger: TestBench.quiet)
            let session = try #require(await hub.enter())
            let everything = identity(.everything)
            let (document, one) = try edit(Document(), by: 1, 1, "f")
            let base = try operation(by: 1, 1, 1, [("a", one)])
            let next = try operation(by: 2, 1, 2, [("a", try edit(document, by: 2, 2, "g").delta)])
            log.isHeld.withLock { $0 = true }
            _ = try await hub.admission.admit([base], from: session) { everything }
            log.successor.withLock { $0 = copy }
            if !meanwhile { log.giveWay() }
            let event = try await hub.admission.admit([next], from: session) { everything }
            guard case .refused(_, let refusals, _) = event else {
                Issue.record("\(event)")
                return
            }
            #expect(refusals.map(\.error.code) == ["SYNC-0405"])
            await hub.close()
            await first.close()
            await copy.close()
        }
    }

    /// An empty log, and a copy of it to fail over to.
    private func logAndCopy(in folder: URL) async throws -> (SQLiteOperationLog, SQLiteOperationLog) {
        let paths = ["log", "copy"].map { folder.appendingPathComponent("\($0).sqlite").path }
        let empty = try SQLiteOperationLog(path: paths[0])
        _ = try await empty.createDatabase("db")
        await empty.close()
        try FileManager.default.copyItem(atPath: paths[0], toPath: paths[1])
        return (try SQLiteOperationLog(path: paths[0]), try SQLiteOperationLog(path: paths[1]))
    }

    /// An actor's only write, and the same as another actor has moved it.
    private func written(by actor: UInt64) throws -> [UInt8] {
        try operation(by: actor, 1, 1, [("\(actor)", try edit(Document(), by: actor, 1, "f").delta)])
    }

    private func moved(_ actor: UInt64) throws -> [UInt8] {
        let delta = try edit(Document(), by: actor + 10, 2, "f").delta
        return CRDT.Operation(
            actor: ActorID(actor + 10), sequence: 1, timestamp: 2 << 16,
            origin: try CRDT.Operation(decoding: try written(by: actor)).identity,
            changes: [
                .init(collection: "c", id: try DocumentID(.string("\(actor)")), delta: delta.encoded())
            ]
        ).encoded()
    }

    @Test("a refusal that was judged by a lost history does not get into the log that took its place")
    func refusedByALostFold() async throws {
        try await withTemporaryDirectory { folder in
            let (first, copy) = try await logAndCopy(in: folder)
            let log = HeldLog(first)
            let hub = try await DatabaseHub.open(
                "db", log: log, folder: folder.appendingPathComponent("fold").path, logger: TestBench.quiet)
            let session = try #require(await hub.enter())
            let everything = identity(.everything)
            // Two writes, of each of which a copy of its store has brought the same.
            for actor in [1, 2] as [UInt64] {
                _ = try await hub.admission.admit([try moved(actor)], from: session) { everything }
            }
            try await hub.materializer.advance()
            let event = try await hub.admission.admit([try written(by: 1)], from: session) { everything }
            guard case .refused(_, let refusals, _) = event else {
                Issue.record("\(event)")
                return
            }
            #expect(refusals.map(\.error.code) == ["SYNC-0408"])
            log.successor.withLock { $0 = copy }
            await #expect(throws: (any Error).self) {
                _ = try await hub.admission.admit([try written(by: 2)], from: session) { everything }
            }
            #expect(try await copy.head(of: "db").offset == 0)
            await hub.close()
            await first.close()
            await copy.close()
        }
    }

    @Test("a state that is taken back is appended only if the tombstone that it adds to is still there")
    func statesBesideTombstones() async throws {
        try await withTemporaryDirectory { folder in
            let log = WatchedLog(
                try SQLiteOperationLog(path: folder.appendingPathComponent("log.sqlite").path))
            _ = try await log.createDatabase("db")
            let hub = try await DatabaseHub.open(
                "db", log: log, folder: folder.appendingPathComponent("fold").path, logger: TestBench.quiet)
            let session = try #require(await hub.enter())
            let everything = identity(.everything)
            let (document, one) = try edit(Document(), by: 1, 1, "f")
            var remover = DocumentEditor(document: document, stamp: Stamp(time: 2 << 16, actor: ActorID(1)))
            remover.delete()
            let removal = try #require(remover.pending.delta(stamp: Stamp(time: 2 << 16, actor: ActorID(1))))
            let uploads = [
                try operation(by: 1, 1, 1, [("a", one)]), try operation(by: 1, 2, 2, [("a", removal)]),
            ]
            _ = try await hub.admission.admit(uploads, from: session) { everything }
            let (dead, living) = (
                DocumentKey(collection: "c", id: try DocumentID(.string("a"))),
                DocumentKey(collection: "c", id: try DocumentID(.string("b")))
            )
            let held = try edit(document, by: 2, 3, "g").document.encoded()
            _ = try await hub.admission.admit(
                [(dead, held), (living, held)], everything, isReturn: true)
            let conditions = log.conditions.withLock(\.self)
            // The log has had a part of the other document, which is deleted anew under the same condition.
            #expect(
                conditions.map(\.reads) == [[.document("c", dead.id), .document("c", living.id)]])
            #expect(conditions.map(\.readAt) == [2])
            await hub.close()
            await log.close()
        }
    }
}

/// A log that remembers the conditions it was asked to keep.
private final class WatchedLog: PassingOnLog, @unchecked Sendable {
    let conditions = Mutex<[AppendCondition]>([])

    override func append(_ requests: [AppendRequest], to database: DatabaseID) async throws -> [AppendOutcome]
    {
        conditions.withLock { $0 += requests.compactMap(\.condition) }
        return try await super.append(requests, to: database)
    }
}

/// A log that finds the condition of the first append broken.
private final class ConflictingLog: PassingOnLog, @unchecked Sendable {
    /// How many operations each append had.
    let appended = Mutex<[Int]>([])

    override func append(_ requests: [AppendRequest], to database: DatabaseID) async throws -> [AppendOutcome]
    {
        let isFirst = appended.withLock { appended in
            appended.append(requests.count)
            return appended.count == 1
        }
        guard !isFirst else { return requests.map { _ in .conflict(.condition(offset: 1)) } }
        return try await super.append(requests, to: database)
    }
}

/// A log whose readers see nothing new while it is held, and that can give way to another one at an append.
private final class HeldLog: PassingOnLog, @unchecked Sendable {
    let isHeld = Mutex(false)
    let successor = Mutex<SQLiteOperationLog?>(nil)

    /// Fails over, where a successor waits, and is not held any more.
    func giveWay() {
        let successor = successor.withLock { successor in
            defer { successor = nil }
            return successor
        }
        guard let successor else { return }
        failOver(to: successor)
        isHeld.withLock { $0 = false }
    }

    override func append(_ requests: [AppendRequest], to database: DatabaseID) async throws -> [AppendOutcome]
    {
        giveWay()
        return try await super.append(requests, to: database)
    }

    override func read(
        _ database: DatabaseID, after offset: Offset, limit: ReadLimit
    ) async throws -> [LogEntry] {
        isHeld.withLock(\.self) ? [] : try await super.read(database, after: offset, limit: limit)
    }
}
