import CRDT
import DQL
import Exchange
import Testing

@testable import Sync

@Suite("The order of two subscriptions at a peer (decision 0200)")
struct SubscriptionOrderTests {
    private static func position(_ offset: Offset) -> LogPosition {
        LogPosition(logID: Exemplars.logID, offset: offset, hash: offset.rawValue)
    }

    private static func state(_ collection: CollectionName, _ id: Int64) -> DocumentUpdate {
        DocumentUpdate(
            key: DocumentKey(collection: collection, id: Exemplars.key(id).id), content: .state([1, 2, 3]))
    }

    private static func operations(_ offset: Offset, _ updates: [DocumentUpdate]) -> Event {
        .frame(
            Frame.operations(Frame.Operations(position: position(offset), updates: updates)).encoded())
    }

    private static func page(
        _ id: UInt64, _ documents: [DocumentUpdate], end: Offset?
    ) -> Event {
        .frame(
            Frame.catchUp(
                Frame.CatchUp(id: id, documents: documents, end: end.map { position($0) })
            ).encoded())
    }

    private static func stored(_ actions: [Action]) -> [Reception] {
        actions.compactMap { if case .store(let reception) = $0 { reception } else { nil } }
    }

    /// A peer that subscribes two collections, as 1 and 2, and has both up to 300.
    private static func peer() -> Session {
        var session = SessionTests.openPeer()
        for (key, name) in [([UInt8(1)], "posts"), ([UInt8(2)], "replies")] {
            _ = session.receive(
                .subscribe(
                    SubscriptionRequest(
                        key: key, statement: "SELECT * FROM \(name)", arguments: .object(ObjectValue()),
                        cursor: position(300))))
        }
        return session
    }

    @Test("a subscription that has caught up is shown, and goes on, while another one catches up")
    func completeOneByOne() {
        var session = Self.peer()
        let first = Self.stored(session.receive(Self.page(2, [Self.state("replies", 1)], end: 310)))
        #expect(first.map(\.publishes) == [[2]])
        _ = session.receive(.stored)
        let staged = session.receive(Self.page(1, [Self.state("posts", 1)], end: nil))
        #expect(Self.stored(staged).isEmpty)
        #expect(staged.contains { if case .stage = $0 { true } else { false } })
        _ = session.receive(.stored)
        let live = Self.stored(session.receive(Self.operations(311, [Self.state("replies", 2)])))
        #expect(live.map { $0.cursors.map(\.key) } == [[[2]]])
        _ = session.receive(.stored)
        let second = Self.stored(session.receive(Self.page(1, [], end: 311)))
        #expect(second.map(\.publishes) == [[1]])
    }

    @Test("once both are live, an operation on both is shown in one step")
    func liveTogether() {
        var session = Self.peer()
        for id in [UInt64(1), 2] {
            _ = session.receive(Self.page(id, [], end: 310))
            _ = session.receive(.stored)
        }
        let both = [Self.state("posts", 1), Self.state("replies", 1)]
        let shown = Self.stored(session.receive(Self.operations(311, both)))
        #expect(shown.map { $0.updates.map(\.key) } == [both.map(\.key)])
        #expect(shown.map { $0.cursors.map(\.position) } == [[Self.position(311), Self.position(311)]])
    }
}
