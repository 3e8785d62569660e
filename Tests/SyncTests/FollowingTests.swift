import CRDT
import DQL
import Exchange
import Testing

@testable import Sync

@Suite("A repair and what the stream brings up to its states")
struct FollowingTests {
    private static let own = ActorHead(actor: ActorID(5), sequence: 9, hash: 1)

    private static func position(_ offset: Offset) -> LogPosition {
        LogPosition(logID: Exemplars.logID, offset: offset, hash: offset.rawValue)
    }

    private static func repairs(_ actions: [Action]) -> [RepairRequest] {
        actions.compactMap { if case .repair(let repair) = $0 { repair } else { nil } }
    }

    private static func operations(_ offset: Offset, bytes: Int = 3) -> Event {
        let update = DocumentUpdate(
            key: Exemplars.key(Int64(offset.rawValue)),
            content: .state(EncodedState([UInt8](repeating: 1, count: bytes))))
        return .frame(
            Frame.operations(Frame.Operations(position: position(offset), updates: [update])).encoded())
    }

    private static func progress(_ offset: Offset) -> Event {
        .frame(Frame.progress(position(offset)).encoded())
    }

    /// A peer that is live from 300 on, a write of which was refused; the states of its document stand for
    /// 305, and are kept aside.
    private static func staged(
        credit: Int = Limits.creditBytes, before: [Event] = []
    ) -> (session: Session, actions: [Action]) {
        var session = SessionTests.session(.peer, credit: credit)
        _ = session.receive(.opened)
        _ = session.receive(.ownActors(OwnHistory(heads: [own])))
        _ = session.receive(SessionTests.hello())
        let standing = HistoryComparison(actor: own.actor, admitted: 4, state: .open, isExact: true)
        _ = session.receive(.historyCompared([standing]))
        let request = SubscriptionRequest(
            key: [1], statement: "SELECT * FROM cars", arguments: .object(ObjectValue()),
            cursor: position(300))
        _ = session.receive(.subscribe(request))
        _ = session.receive(.seenNoted)
        _ = session.receive(.frame(Frame.catchUp(Frame.CatchUp(id: 1, end: position(300))).encoded()))
        _ = session.receive(.stored)
        _ = session.receive(.ownOperations(actor: own.actor, []))
        let refusal = Refusal(
            actor: own.actor, sequence: 5, error: SyncError(.writeNotGranted, "no"))
        #expect(repairs(session.receive(.frame(Frame.refused(refusal).encoded()))).count == 1)
        for event in before { #expect(repairs(session.receive(event)).isEmpty) }
        _ = session.receive(.repairNeeds([Exemplars.key(1)]))
        let states = Frame.states([(key: Exemplars.key(1), state: [1])], at: position(305)).encoded()
        _ = session.receive(.frame(states))
        let actions = session.receive(.repairStaged)
        return (session, actions)
    }

    private func repaired(isFollowed: Bool, returning: [DocumentKey] = []) -> Event {
        .repaired(
            RepairOutcome.Repaired(
                actor: ActorID(6), left: [], pending: [], refused: [], isFollowed: isFollowed,
                returning: returning))
    }

    @Test("no repair begins while an upload is under way: no state that is fetched would have it")
    func waitsForAnswers() {
        var peer = SessionTests.openPeer()
        _ = peer.receive(.ownOperationAdded(Self.own.actor))
        _ = peer.receive(.ownOperations(actor: Self.own.actor, [(sequence: 5, bytes: [1])]))
        let operations = Self.operations(301)
        _ = peer.receive(operations)
        #expect(Self.repairs(peer.receive(.returning([Exemplars.key(301)]))).isEmpty)
        _ = peer.receive(.ownOperations(actor: Self.own.actor, []))
        #expect(peer.writer?.hasRepair ?? false)
        let all = [Acknowledgement(actor: Self.own.actor, sequence: 5)]
        let begun = Self.repairs(peer.receive(.frame(Frame.acknowledged(all).encoded())))
        #expect(begun.map(\.gone) == [[Exemplars.key(301)]])
    }

    @Test("the repair waits until the stream is where its states are, and takes it along")
    func waits() throws {
        var (session, actions) = Self.staged()
        #expect(Self.repairs(actions).isEmpty)
        #expect(Self.repairs(session.receive(Self.operations(304))).isEmpty)
        let repair = try #require(Self.repairs(session.receive(Self.progress(305))).first)
        let following = try #require(repair.following)
        #expect(following.updates.map(\.key) == [Exemplars.key(304)])
        #expect(following.cursors.map(\.key) == [[1]])
        #expect(following.cursors.map(\.position) == [Self.position(305)])
        #expect(following.streamed == 305 && following.seen == Self.position(305))
        // What comes meanwhile is not taken for stored.
        _ = session.receive(Self.progress(306))
        let after = session.receive(repaired(isFollowed: true))
        let stores = after.compactMap { if case .store(let batch) = $0 { batch } else { nil } }
        #expect(stores.map(\.streamed) == [306] && stores.map(\.updates.count) == [0])
        #expect(session.flow.receiveCredit == Limits.creditBytes)
        #expect(session.reader?.streamed == 305)
    }

    @Test("what had come before is enough; what could not be stored is stored as if nothing had happened")
    func cameBefore() throws {
        var (session, actions) = Self.staged(before: [Self.operations(303), Self.operations(306)])
        let following = try #require(Self.repairs(actions).first?.following)
        #expect(following.updates.count == 2 && following.streamed == 306)
        let after = session.receive(repaired(isFollowed: false))
        let stores = after.compactMap { if case .store(let batch) = $0 { batch } else { nil } }
        #expect(stores.map(\.updates.count) == [2] && stores.map(\.streamed) == [306])
        #expect(session.flow.receiveCredit < Limits.creditBytes)
        _ = session.receive(.stored)
        #expect(session.flow.receiveCredit == Limits.creditBytes)
    }

    @Test("documents that are gone in what follows are repaired next")
    func returning() throws {
        var (session, _) = Self.staged()
        _ = session.receive(Self.operations(305))
        let again = session.receive(repaired(isFollowed: true, returning: [Exemplars.key(305)]))
        #expect(Self.repairs(again).map(\.gone) == [[Exemplars.key(305)]])
    }

    @Test("it does not wait where the stream cannot come: no credit, a page before it, no subscription")
    func doesNotWait() throws {
        let large = Self.staged(credit: 1_000, before: [Self.operations(303, bytes: 1_000)])
        let blind = try #require(Self.repairs(large.actions).first)
        #expect(blind.following == nil && blind.seen == Self.position(305))
        var paged = Self.staged()
        let page = Frame.catchUp(Frame.CatchUp(id: 1)).encoded()
        #expect(Self.repairs(paged.session.receive(.frame(page))).map { $0.following == nil } == [true])
        var cancelled = Self.staged()
        #expect(
            Self.repairs(cancelled.session.receive(.unsubscribe(key: [1]))).map { $0.following == nil } == [
                true
            ])
    }
}
