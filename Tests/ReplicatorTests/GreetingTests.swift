import CRDT
import Foundation
import Identity
import OperationLog
import TestSupport
import Testing

@testable import Replicator
@testable import Sync

@Suite("What a greeting is told", .timeLimit(.minutes(2)))
struct GreetingTests {
    private func operation(_ actor: UInt64, _ sequence: UInt64) throws -> CRDT.Operation {
        let stamp = Stamp(time: sequence << 16, actor: ActorID(actor))
        let fresh = try #require(try FreshDocument(ObjectValue([(key: "a", value: 1)]), stamp: stamp))
        return CRDT.Operation(
            actor: stamp.actor, sequence: sequence, timestamp: stamp.time,
            changes: [
                .init(collection: "c", id: try DocumentID(.int(Int64(sequence))), delta: fresh.delta)
            ])
    }

    private func greet(
        _ hub: DatabaseHub, _ log: SQLiteOperationLog, as key: String?, naming actors: [UInt64],
        acknowledged: UInt64
    ) async throws -> (told: [UInt64], isBehind: Bool, hashes: Int) {
        let identity = Identity(
            userID: "u", databaseID: "db", peerKey: key, grant: .everything, expiresAtSeconds: .max)
        let store = ServerStore(hub: hub, log: log, database: "db", session: 1, identity: identity)
        var hello = Frame.Hello(
            version: 2, databaseID: "db", peerKey: key ?? "", wallMilliseconds: 9, credit: 1,
            actors: actors.map { Frame.ActorHead(actor: ActorID($0), sequence: 9, hash: 1) }, head: nil)
        hello.acknowledged = actors.map {
            Frame.Acknowledgement(actor: ActorID($0), sequence: acknowledged)
        }
        guard
            case .frontier(let heads, _, let isBehind, let hashes)? = try await store.perform(
                .readFrontier(hello))
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
}
