import CRDT
import DQL
import Exchange
import Foundation
import Identity
import OperationLog
import TestSupport
import Testing

@testable import Replicator
@testable import Sync

@Suite("What a greeting is told", .timeLimit(.minutes(2)))
struct GreetingTests {
    private func operation(_ actor: UInt64, _ sequence: SequenceNumber) throws -> CRDT.Operation {
        let stamp = Stamp(time: sequence.rawValue << 16, actor: ActorID(actor))
        let fresh = try #require(try FreshDocument(ObjectValue([(key: "a", value: 1)]), stamp: stamp))
        return CRDT.Operation(
            actor: stamp.actor, sequence: sequence, timestamp: stamp.time,
            changes: [
                .init(collection: "c", id: try DocumentID(.int(Int64(sequence.rawValue))), delta: fresh.delta)
            ])
    }

    private func greet(
        _ hub: DatabaseHub, _ log: SQLiteOperationLog, as key: String?, naming actors: [UInt64],
        acknowledged: UInt64 = 0, seen: LogPosition? = nil
    ) async throws -> (told: [UInt64], isBehind: Bool, hashes: Int) {
        let identity = Identity(
            userID: "u", databaseID: "db", peerKey: key, grant: .everything, expiresAtSeconds: .max)
        let store = ServerStore(hub: hub, log: log, database: "db", session: 1, identity: identity)
        let history = OwnHistory(
            heads: actors.map { ActorHead(actor: ActorID($0), sequence: 9, hash: 1) },
            acknowledged: actors.map {
                Acknowledgement(actor: ActorID($0), sequence: SequenceNumber(acknowledged))
            }, seen: seen)
        guard
            case .frontier(let heads, _, let isBehind, let hashes)? = try await store.perform(
                .readFrontier(history))
        else { throw SyncError(.unavailable, "no answer") }
        return (heads.map { $0.actor.rawValue }.sorted(), isBehind, hashes.count)
    }

    @Test("nothing of another key's actors: not how far they are, nor by what it makes a server ask")
    func ownOnly() async throws {
        try await withTemporaryDirectory { folder in
            let log = try SQLiteOperationLog(path: folder.appendingPathComponent("log.sqlite").path)
            try await log.createDatabase("db")
            let mine = try (1...2).map { AppendRequest(try operation(1, $0), authorKey: "mine") }
            let others = try (1...3).map { AppendRequest(try operation(2, $0), authorKey: "others") }
            _ = try await log.append(mine + others, to: "db")
            let hub = try await DatabaseHub.open(
                "db", log: log, folder: folder.appendingPathComponent("fold").path, logger: TestBench.quiet)
            let own = try await greet(hub, log, as: "mine", naming: [1, 2], acknowledged: 0)
            #expect(own == ([1], false, 1))
            let other = try await greet(hub, log, as: "others", naming: [1, 2], acknowledged: 0)
            #expect(other == ([2], false, 1))
            let nobody = try await greet(hub, log, as: nil, naming: [1, 2], acknowledged: 0)
            #expect(nobody == ([], false, 0))
            // A claim about another's actor says nothing, whether it is true or not; one about an own actor,
            // or one that the log does not know, is the claim that the log was restored.
            for claim in [2, 3, 4, 100] as [UInt64] {
                #expect(try await !greet(hub, log, as: "mine", naming: [2], acknowledged: claim).isBehind)
            }
            #expect(try await !greet(hub, log, as: "mine", naming: [1], acknowledged: 2).isBehind)
            #expect(try await greet(hub, log, as: "mine", naming: [1], acknowledged: 3).isBehind)
            #expect(try await greet(hub, log, as: "mine", naming: [9], acknowledged: 1).isBehind)
            await hub.close()
            await log.close()
        }
    }

    /// The reaping of a document of which a vector is the last that was written.
    private func reaping(of document: Document, id: DocumentID, by actor: UInt64) -> CRDT.Operation {
        CRDT.Operation(
            actor: ActorID(actor), sequence: 1, timestamp: 1 << 40,
            changes: [.init(collection: "c", id: id, delta: ReapingChange.encode(at: document.vector))])
    }

    /// A document inserted at 1, deleted at 2 and reaped at 3: `body` has the log and its fold.
    private func withReaped(_ body: (SQLiteOperationLog, DatabaseHub) async throws -> Void) async throws {
        try await withTemporaryDirectory { folder in
            let log = try SQLiteOperationLog(path: folder.appendingPathComponent("log.sqlite").path)
            try await log.createDatabase("db")
            let insert = try operation(1, 1)
            let stamp = Stamp(time: 9 << 16, actor: ActorID(1))
            var document = Document()
            _ = document.apply(try Delta(decoding: insert.changes[0].delta, stamp: insert.stamp))
            var editor = DocumentEditor(document: document, stamp: stamp)
            editor.delete()
            let deletion = CRDT.Operation(
                actor: stamp.actor, sequence: 2, timestamp: stamp.time,
                changes: [
                    .init(
                        collection: "c", id: insert.changes[0].id,
                        delta: try #require(editor.pending.delta(stamp: stamp)).encoded())
                ])
            let all = [insert, deletion, reaping(of: editor.document, id: insert.changes[0].id, by: 9)]
            _ = try await log.append(all.map { AppendRequest($0, authorKey: "mine") }, to: "db")
            let hub = try await DatabaseHub.open(
                "db", log: log, folder: folder.appendingPathComponent("fold").path, logger: TestBench.quiet)
            try await body(log, hub)
            await hub.close()
            await log.close()
        }
    }

    @Test("a page behind which something was deleted and reaped since is none: it would not be told")
    func reapedBetweenPages() async throws {
        try await withReaped { log, hub in
            #expect(try hub.materializer.replica.reapFloor() == 2)
            let identity = Identity(
                userID: "u", databaseID: "db", peerKey: nil, grant: .everything, expiresAtSeconds: .max)
            let store = ServerStore(hub: hub, log: log, database: "db", session: 1, identity: identity)
            let query = try SubscriptionQuery(statement: "SELECT * FROM c")
            func isRead(_ start: PageStart) async throws -> Bool {
                let answer = try await store.perform(
                    .readPage(
                        subscription: 1, query: query, access: .everything, after: start, maxBytes: 1 << 20))
                if case .page = answer { return true }
                #expect({ if case .unknownPlace = answer { true } else { false } }())
                return false
            }
            // The next page of a catch-up from a cursor, or a fall-back, that had come to 1.
            #expect(try await !isRead(.offset(1, namesAfter: 0)))
            #expect(try await isRead(.offset(2, namesAfter: 0)))
            // Who began with nothing when the log ended at 1 may have got the document; at 2 it was gone.
            #expect(try await !isRead(.offset(0, namesAfter: 1)))
            #expect(try await isRead(.offset(0, namesAfter: 2)))
            #expect(try await isRead(.offset(0, namesAfter: 3)))
        }
    }

    @Test("a log with another history was put back, though what the peer has seen is behind a reaping")
    func putBackBehindReaping() async throws {
        try await withReaped { log, hub in
            #expect(try hub.materializer.replica.reapFloor() > 1)
            let seen = try #require(try await log.position(at: 1, in: "db"))
            #expect(try await !greet(hub, log, as: "mine", naming: [1], seen: seen).isBehind)
            let other = LogPosition(logID: seen.logID, offset: 1, hash: seen.hash + 1)
            #expect(try await greet(hub, log, as: "mine", naming: [1], seen: other).isBehind)
        }
    }
}
