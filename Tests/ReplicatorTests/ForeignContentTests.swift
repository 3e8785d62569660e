import CRDT
import Exchange
import Foundation
import Logging
import Machine
import Replica
import ServiceKit
import TestSupport
import Testing

@testable import Sync
@testable import Transport

@Suite("What a server sent and does not decode")
struct ForeignContentTests {
    private static let junk: [UInt8] = [1, 2, 3]

    private static func batch(_ content: DocumentUpdate.Content, _ key: DocumentKey) -> Reception {
        Reception(
            updates: [DocumentUpdate(key: key, content: content)], cursors: [], publishes: nil, settles: [])
    }

    private static func actions() throws -> [Action] {
        let key = DocumentKey(collection: "c", id: try DocumentID(.int(1)))
        let page = StagedPage(
            subscription: [1], updates: [DocumentUpdate(key: key, content: .state(EncodedState(junk)))])
        return [
            .store(batch(.state(EncodedState(junk)), key)), .stage(page),
            .store(batch(.delta(Stamp(time: 1, actor: ActorID(1)), EncodedDelta(junk)), key)),
            .stageRepair([(key: key, state: EncodedState(junk))]),
            .findOutdated([DocumentVersion(key: key, vector: junk)], subscription: [1]),
        ]
    }

    @Test("ends the session as malformed, not as this side's fault, and nothing of it is stored")
    func malformed() async throws {
        let folder = FileManager.default.temporaryDirectory.appendingPathComponent(UUID().uuidString)
        defer { try? FileManager.default.removeItem(at: folder) }
        let replica = try PeerReplica(
            directory: folder.path, environment: .system, logger: Logger(label: "test"))
        let store = PeerStore(
            replica: replica, executor: BlockingExecutor(label: "test", isSerial: true), report: { _ in },
            acknowledged: {})
        for action in try Self.actions() {
            guard case .finish(let error)? = try await store.perform(action) else {
                Issue.record("\(action) did not end the session")
                continue
            }
            #expect(error.code == SyncErrorCode.malformedFrame.rawValue)
        }
        #expect(try replica.read { try $0.collectionNames() }.isEmpty)
        try replica.close()
    }
}
