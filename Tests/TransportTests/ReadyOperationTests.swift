import CRDT
import DQL
import Exchange
import Foundation
import Logging
import Machine
import Replica
import Synchronization
import TestSupport
import Testing

@testable import Sync
@testable import Transport

@Suite("A peer's store tells the operation of its latest commit at once")
struct ReadyOperationTests {
    /// What is at hand behind a sequence.
    private func ready(
        _ store: PeerStore, _ actor: ActorID, after sequence: SequenceNumber
    ) -> [(sequence: SequenceNumber, bytes: [UInt8])]? {
        let action = Action.readOwnOperations(actor: actor, after: sequence, maxBytes: 1 << 20)
        guard case .ownOperations(actor, let operations)? = store.ready(action)?.first else { return nil }
        return operations
    }

    /// A store that takes note of every commit of its replica.
    private func open(_ folder: URL) throws -> (PeerReplica, PeerStore) {
        let numbers = Atomic<UInt64>(6)
        let environment = Environment(
            wallMilliseconds: { 1_800_000_000_000 },
            random: { numbers.add(1, ordering: .relaxed).newValue }, pause: { _ in })
        let replica = try PeerReplica(
            directory: folder.path, environment: environment, logger: Logger(label: "ready"))
        let store = PeerStore(replica: replica, executor: .inline, report: { _ in }, acknowledged: {})
        _ = replica.addListener { store.note($0) }
        return (replica, store)
    }

    private func withStore(_ body: (PeerReplica, PeerStore) throws -> Void) throws {
        try withTemporaryDirectory { folder in
            let (replica, store) = try open(folder)
            try body(replica, store)
            try replica.close()
        }
    }

    private func insert(_ replica: PeerReplica, _ id: Int64, bytes: Int = 10) throws {
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

    @Test("not once a repair has moved it to another actor")
    func repaired() async throws {
        try await withTemporaryDirectory { folder in
            let (replica, store) = try open(folder)
            let actor = replica.actor
            try insert(replica, 1)
            try insert(replica, 2)
            let gone = DocumentKey(collection: "c", id: try DocumentID(.int(2)))
            let repair = RepairRequest(admitted: [actor: 0], refused: [], gone: [gone], seen: nil)
            while case .repairNeeds(let keys)? = try await store.perform(.repair(repair)) {
                let states = try keys.map { key in (key, try replica.read { try $0.state(of: key) }) }
                _ = try await store.perform(.stageRepair(states))
            }
            #expect(replica.actor != actor)
            #expect(ready(store, actor, after: 1) == nil)
            try replica.close()
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
