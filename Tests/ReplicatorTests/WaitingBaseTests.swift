import CRDT
import Exchange
import Identity
import Machine
import OperationLog
import Replica
import Sync
import TestSupport
import Testing

@testable import Replicator

/// What the server says of an operation whose base its log lacks, and of stamps that it has refused.
@Suite("A base that may still come, and stamps that never will")
struct WaitingBaseTests {
    private func id(_ name: String) throws -> DocumentID { try DocumentID(.string(name)) }

    /// A document that an actor has written on top of another state, and the change.
    private func edit(
        _ document: Document, by actor: UInt64, _ time: UInt64
    ) throws -> (document: Document, delta: Delta) {
        let stamp = Stamp(time: time << 16, actor: ActorID(actor))
        var editor = DocumentEditor(document: document, stamp: stamp)
        editor.create()
        try editor.set(["by\(actor)"], .int(Int64(time)))
        return (editor.document, try #require(editor.pending.delta(stamp: stamp)))
    }

    private func operation(
        by actor: UInt64, _ sequence: SequenceNumber, _ name: String, _ delta: Delta
    ) throws -> [UInt8] {
        let change = CRDT.Operation.Change(collection: "c", id: try id(name), delta: delta.encoded())
        return CRDT.Operation(
            actor: ActorID(actor), sequence: sequence, timestamp: delta.stamp.time, changes: [change]
        ).encoded()
    }

    /// A fold of these operations.
    private func withFold(_ operations: [[UInt8]], _ body: (Materialization) throws -> Void) throws {
        try withTemporaryDirectory { folder in
            let replica = try Materialization(
                directory: folder.path, environment: .system, logger: TestBench.quiet)
            let log = try #require(LogID(bytes: Array(repeating: 1, count: LogID.byteCount)))
            let items = operations.enumerated().map { place, bytes in
                Materialization.LogItem(
                    position: LogPosition(logID: log, offset: Offset(UInt64(place) + 1), hash: 1),
                    bytes: bytes)
            }
            if !items.isEmpty { _ = try replica.fold(items) }
            try body(replica)
            try replica.close()
        }
    }

    /// The actors whose operation waits, of one that rests on this document.
    private func waiting(on base: Document, behind folded: [[UInt8]]) throws -> Set<ActorID> {
        let change = try edit(base, by: 9, 50).delta
        var found: Set<ActorID> = []
        try withFold(folded) { replica in
            let check = AdmissionCheck(
                replica: replica, grant: .everything, wallMilliseconds: 1_000_000, unfolded: nil, term: 0)
            let judgement = try check.judge([try operation(by: 9, 1, "a", change)], authorKey: "k")
            #expect(judgement.refusals.map(\.error.code) == ["SYNC-0405"])
            #expect(judgement.requests.isEmpty && judgement.dependsOnFold)
            found = judgement.mayWait
        }
        return found
    }

    @Test("waits for an actor that the log has not met, and for one that has written less so far")
    func comes() throws {
        let first = try edit(Document(), by: 1, 20)
        #expect(try waiting(on: first.document, behind: []) == [ActorID(9)])
        let other = try operation(by: 1, 1, "b", edit(Document(), by: 1, 19).delta)
        #expect(try waiting(on: first.document, behind: [other]) == [ActorID(9)])
    }

    @Test("what the log has had of a base is deleted anew, once the rest of it has come")
    func lost() throws {
        let first = try edit(Document(), by: 1, 20)
        let later = try operation(by: 1, 1, "b", edit(Document(), by: 1, 21).delta)
        try withFold([later]) { replica in
            let check = AdmissionCheck(
                replica: replica, grant: .everything, wallMilliseconds: 1_000_000, unfolded: nil, term: 0)
            let write = try operation(by: 9, 1, "a", edit(first.document, by: 9, 50).delta)
            let judgement = try check.judge([write], authorKey: "k")
            #expect(judgement.refusals.isEmpty && judgement.dependsOnFold)
            #expect(judgement.lost.map(\.key) == [DocumentKey(collection: "c", id: try id("a"))])
            #expect(judgement.lost.map(\.vector) == [first.document.vector.encoded()])
        }
        let both = try edit(first.document, by: 2, 30)
        #expect(try waiting(on: both.document, behind: [later]) == [ActorID(9)])
        #expect(try waiting(on: both.document, behind: []) == [ActorID(9)])
    }

    @Test("closes no actor for a session that waits, and takes the operation when its base is there")
    func deferred() async throws {
        try await TestBench.run { bench in
            let hub = try await DatabaseHub.open(
                TestBench.database, log: bench.log, folder: bench.folder.appendingPathComponent("waits").path,
                logger: TestBench.quiet)
            let session = try #require(await hub.enter())
            let identity = Identity(
                userID: "u", databaseID: TestBench.database, peerKey: "k", grant: .everything,
                expiresAtSeconds: .max)
            let base = try edit(Document(), by: 1, 20)
            let resting = try operation(by: 9, 1, "a", edit(base.document, by: 9, 50).delta)
            let early = try await hub.admission.admit([resting], defers: true, from: session) { identity }
            guard case .deferred(let acknowledged, let deferrals, let refusals, _) = early else {
                Issue.record("\(early)")
                return
            }
            #expect(acknowledged.isEmpty && refusals.isEmpty)
            #expect(deferrals.map(\.actor) == [ActorID(9)])
            #expect(try await bench.log.head(of: TestBench.database).offset == 0)
            let both = [try operation(by: 1, 1, "a", base.delta), resting]
            let late = try await hub.admission.admit(both, defers: true, from: session) { identity }
            guard case .appended(let taken, _) = late else {
                Issue.record("\(late)")
                return
            }
            #expect(Set(taken.map(\.actor)) == [ActorID(1), ActorID(9)])
            await hub.close()
        }
    }

    @Test("stamps are void behind the last operation of a closed actor, and of no other")
    func void() throws {
        let first = try edit(Document(), by: 1, 20)
        let written = try operation(by: 1, 1, "a", first.delta)
        let refusal = RefusalRecord.operation(actor: ActorID(1), sequence: 2, after: 20 << 16).encoded()
        let key = DocumentKey(collection: "c", id: try id("a"))
        let other = DocumentKey(collection: "c", id: try id("b"))
        let (later, last) = (Self.vector(1, 25), Self.vector(1, 20))
        try withFold([written, refusal]) { replica in
            let found = try [(key, later), (other, later), (key, last), (key, Self.vector(2, 25))].map {
                try Self.void($0.0, $0.1, replica)
            }
            #expect(found == [last, last, nil, nil])
        }
        try withFold([written]) { replica in
            let found = try Self.void(key, later, replica)
            #expect(found == nil)
        }
    }

    private static func vector(_ actor: UInt64, _ time: UInt64) -> VersionVector {
        VersionVector([.init(actor: ActorID(actor), time: time << 16)])
    }

    private static func void(
        _ key: DocumentKey, _ held: VersionVector, _ replica: Materialization
    ) throws -> VersionVector? {
        try replica.read { transaction in try transaction.void(of: key, held: held) }
    }
}
