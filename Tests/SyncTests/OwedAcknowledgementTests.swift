import CRDT
import DQL
import Exchange
import Testing

@testable import Sync

@Suite("Acknowledgements that are stored with what the stream brings")
struct OwedAcknowledgementTests {
    private static let own = Exemplars.actor

    private static func position(_ offset: Offset) -> LogPosition {
        LogPosition(logID: Exemplars.logID, offset: offset, hash: offset.rawValue)
    }

    private static func progress(_ offset: Offset) -> Event {
        .frame(Frame.progress(position(offset)).encoded())
    }

    private static func acknowledged(_ sequence: SequenceNumber, at offset: Offset) -> Event {
        let item = Acknowledgement(actor: own, sequence: sequence)
        return .frame(Frame.acknowledged([item], offset: offset).encoded())
    }

    /// What is stored at once, and what with a batch.
    private static func stored(_ actions: [Action]) -> (
        alone: [SequenceNumber], together: [OwnAcknowledgement]
    ) {
        var alone: [SequenceNumber] = []
        var together: [OwnAcknowledgement] = []
        for action in actions {
            switch action {
            case .acknowledge(_, let sequence, _): alone.append(sequence)
            case .store(let batch): together += batch.acknowledges
            default: break
            }
        }
        return (alone, together)
    }

    /// A peer that has sent three operations, with one subscription, which is live from 300 on if it is.
    private static func peer(isLive: Bool = true) -> Session {
        var session = SessionTests.openPeer()
        let request = SubscriptionRequest(
            key: [1], statement: "SELECT * FROM cars", arguments: .object(ObjectValue()),
            cursor: position(300))
        _ = session.receive(.subscribe(request))
        if isLive {
            _ = session.receive(.frame(Frame.catchUp(Frame.CatchUp(id: 1, end: position(300))).encoded()))
            _ = session.receive(.stored)
        }
        _ = session.receive(.ownOperationAdded(own))
        let operations: [(sequence: SequenceNumber, bytes: [UInt8])] = [(1, [1]), (2, [2]), (3, [3])]
        _ = session.receive(.ownOperations(actor: own, operations))
        _ = session.receive(.ownOperations(actor: own, []))
        return session
    }

    @Test("one waits for the stream and is stored in one transaction with it")
    func together() {
        var peer = Self.peer()
        #expect(Self.stored(peer.receive(Self.acknowledged(3, at: 301))) == ([], []))
        let found = Self.stored(peer.receive(Self.progress(301)))
        #expect(found.alone == [])
        #expect(found.together == [OwnAcknowledgement(actor: Self.own, through: 3, offset: 301)])
        _ = peer.receive(.stored)
        #expect(Self.stored(peer.receive(Self.progress(302))) == ([], []), "stored once")
    }

    @Test("behind a store that is under way, too")
    func behindStore() {
        var peer = Self.peer()
        _ = peer.receive(Self.progress(301))
        #expect(Self.stored(peer.receive(Self.acknowledged(3, at: 302))) == ([], []))
        #expect(Self.stored(peer.receive(.stored)) == ([], []))
        #expect(Self.stored(peer.receive(Self.progress(302))).together.map(\.through) == [3])
    }

    @Test("of two in a row the first is stored when the second comes")
    func notTwo() {
        var peer = Self.peer()
        _ = peer.receive(Self.acknowledged(1, at: 301))
        #expect(Self.stored(peer.receive(Self.acknowledged(2, at: 302))) == ([1], []))
        #expect(Self.stored(peer.receive(Self.progress(302))).together.map(\.through) == [2])
    }

    @Test("none waits where the stream has been, will not come, or has something else before it")
    func atOnce() {
        var passed = Self.peer()
        _ = passed.receive(Self.progress(301))
        _ = passed.receive(.stored)
        #expect(Self.stored(passed.receive(Self.acknowledged(3, at: 301))) == ([3], []))

        var passing = Self.peer()
        _ = passing.receive(Self.progress(301))
        #expect(Self.stored(passing.receive(Self.acknowledged(3, at: 301))) == ([3], []))

        var skipped = Self.peer()
        #expect(Self.stored(skipped.receive(Self.acknowledged(3, at: 0))) == ([3], []))

        var catchingUp = Self.peer(isLive: false)
        #expect(Self.stored(catchingUp.receive(Self.acknowledged(3, at: 301))) == ([3], []))

        var looking = Self.peer()
        let candidate = DocumentVersion(key: Exemplars.key(1), vector: [0])
        _ = looking.receive(.frame(Frame.catchUp(Frame.CatchUp(id: 1, candidates: [candidate])).encoded()))
        #expect(Self.stored(looking.receive(Self.acknowledged(3, at: 301))) == ([3], []))
    }

    /// A server that has begun to append an upload, with one subscription, live from 300 on.
    private static func server() -> Session {
        var session = SessionTests.openServer()
        let subscribe = Frame.Subscribe(
            id: 1, statement: "SELECT * FROM cars", arguments: .object(ObjectValue()), cursor: nil)
        _ = session.receive(.frame(Frame.subscribe(subscribe).encoded()))
        let end = CatchUpPage(documents: [], candidates: [], offset: 300, head: position(300))
        _ = session.receive(.page(subscription: 1, end))
        _ = session.receive(.frame(Frame.upload([Exemplars.operation]).encoded()))
        return session
    }

    private static let appended = Event.appended(
        [Acknowledgement(actor: own, sequence: 1)], offset: 301)

    @Test("a server tells how far its stream is behind the acknowledgement that belongs to it")
    func progressBehind() {
        var early = Self.server()
        #expect(SessionTests.sent(early.receive(.operations([], through: Self.position(301)))).isEmpty)
        let told = SessionTests.sent(early.receive(Self.appended)).map(\.name)
        #expect(told == ["acknowledged", "progress", "credit"])

        var late = Self.server()
        #expect(SessionTests.sent(late.receive(Self.appended)).map(\.name) == ["acknowledged", "credit"])
        let progress = SessionTests.sent(late.receive(.operations([], through: Self.position(301))))
        #expect(progress == [.progress(Self.position(301))])
    }

    @Test("what the stream passed while nothing was live is told behind the append's answer")
    func passedSilently() {
        var server = SessionTests.openServer()
        let subscribe = Frame.Subscribe(
            id: 1, statement: "SELECT * FROM cars", arguments: .object(ObjectValue()))
        _ = server.receive(.frame(Frame.subscribe(subscribe).encoded()))
        _ = server.receive(.frame(Frame.upload([Exemplars.operation]).encoded()))
        #expect(SessionTests.sent(server.receive(.operations([], through: Self.position(301)))).isEmpty)
        let end = CatchUpPage(documents: [], candidates: [], offset: 301, head: Self.position(301))
        _ = server.receive(.page(subscription: 1, end))
        let told = SessionTests.sent(server.receive(Self.appended)).map(\.name)
        #expect(told == ["acknowledged", "progress", "credit"])

        var peer = Self.peer()
        let atEnd = Self.stored(peer.receive(Self.acknowledged(3, at: 300)))
        #expect(atEnd == ([3], []), "a catch-up ended there")
    }

    @Test("one that waits is stored when a large message begins, and asks where the stream passes it over")
    func largeOrSkipped() {
        var peer = Self.peer()
        _ = peer.receive(Self.acknowledged(3, at: 301))
        let chunk = Frame.chunk(
            isLast: false, [UInt8](repeating: 0, count: Limits.leastChunkBytes), of: 7, at: 0)
        #expect(Self.stored(peer.receive(.frame(chunk.encoded()))) == ([3], []))

        var skipped = Self.peer()
        _ = skipped.receive(Self.acknowledged(3, at: 301))
        let passed = Frame.progress(Self.position(400), skipped: true)
        let offsets = skipped.receive(.frame(passed.encoded())).compactMap { action -> Offset?? in
            if case .acknowledge(_, 3, let offset) = action { .some(offset) } else { nil }
        }
        #expect(offsets == [nil])
    }

    @Test("a position that waits is told before the rights change, and not behind a later one")
    func progressBefore() {
        var changed = Self.server()
        _ = changed.receive(.operations([], through: Self.position(301)))
        let rights = ReadAccess(collection: { _ in true })
        #expect(SessionTests.sent(changed.receive(.grantChanged(rights))).first?.name == "progress")

        var passed = Self.server()
        _ = passed.receive(.operations([], through: Self.position(301)))
        let skipped = SessionTests.sent(passed.receive(.lagging(Self.position(400))))
        #expect(skipped.map(\.name) == ["catchUp"])
        #expect(SessionTests.sent(passed.receive(Self.appended)).map(\.name) == ["acknowledged", "credit"])
    }

    @Test("one that waits is stored when something else than the stream comes")
    func somethingElse() {
        var peer = Self.peer()
        _ = peer.receive(Self.acknowledged(3, at: 301))
        let fallenBack = Frame.catchUp(Frame.CatchUp(id: 1)).encoded()
        #expect(Self.stored(peer.receive(.frame(fallenBack))) == ([3], []))

        var refused = Self.peer()
        _ = refused.receive(Self.acknowledged(2, at: 301))
        let refusal = Refusal(
            actor: Self.own, sequence: 3, error: SyncError(.writeNotGranted, "no"))
        let actions = refused.receive(.frame(Frame.refused(refusal).encoded()))
        #expect(Self.stored(actions) == ([2], []), "a repair begins with what is known")
    }
}

/// Both parts compared.
private func == (
    first: (alone: [SequenceNumber], together: [OwnAcknowledgement]),
    second: ([SequenceNumber], [OwnAcknowledgement])
) -> Bool { first.alone == second.0 && first.together == second.1 }
