import CRDT
import DQL
import Foundation
import Logging
import Replica
import Sync
import Synchronization
import TestSupport
import Testing

@testable import Transport

@Suite("A peer's store tells the operation of its latest commit at once")
struct ReadyOperationTests {
    /// What is at hand behind a sequence.
    private func ready(
        _ store: PeerStore, _ actor: ActorID, after sequence: UInt64
    ) -> [(sequence: UInt64, bytes: [UInt8])]? {
        let action = Action.readOwnOperations(actor: actor, after: sequence, maxBytes: 1 << 20)
        guard case .ownOperations(actor, let operations)? = store.ready(action) else { return nil }
        return operations
    }

    private func withStore(_ body: (Replica, PeerStore) throws -> Void) throws {
        try withTemporaryDirectory { folder in
            let environment = Environment(
                wallMilliseconds: { 1_800_000_000_000 }, random: { 7 }, pause: { _ in })
            let replica = try Replica(
                directory: folder.path, role: .peer, environment: environment, logger: Logger(label: "ready"))
            let store = PeerStore(replica: replica, executor: .inline, report: { _ in }, acknowledged: {})
            let listener = replica.addListener { store.note($0) }
            try body(replica, store)
            replica.removeListener(listener)
            try replica.close()
        }
    }

    private func insert(_ replica: Replica, _ id: Int64, bytes: Int = 10) throws {
        let fields = ObjectValue(unique: [
            (key: "t", value: .string(String(repeating: "x", count: bytes)))
        ])
        _ = try replica.write { transaction in
            try transaction.insert(
                "c", DocumentID(.int(id)), fields, declared: TypeDeclaration(kind: .map),
                objectsAreRegisters: false)
        }
    }

    @Test("once, and with the bytes that a read finds")
    func same() throws {
        try withStore { replica, store in
            try insert(replica, 1)
            let stored = try replica.ownOperations(of: replica.actor, after: 0, maxBytes: 1 << 20)
            let told = try #require(ready(store, replica.actor, after: 0))
            #expect(told.map(\.sequence) == [1])
            #expect(told.map(\.bytes) == stored.map(\.bytes))
            #expect(ready(store, replica.actor, after: 0) == nil)
        }
    }

    @Test("not where another one is between, nor of another actor, nor what is large")
    func others() throws {
        try withStore { replica, store in
            try insert(replica, 1)
            try insert(replica, 2)
            #expect(ready(store, replica.actor, after: 0) == nil)
            #expect(ready(store, ActorID(8), after: 1) == nil)
            #expect(ready(store, replica.actor, after: 1)?.map(\.sequence) == [2])
            try insert(replica, 3)
            try insert(replica, 4, bytes: 10_000)
            #expect(ready(store, replica.actor, after: 2) == nil)
            #expect(ready(store, replica.actor, after: 3) == nil)
        }
    }
}
