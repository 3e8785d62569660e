import CRDT
import DQL
import Exchange
import Testing

@testable import Sync

@Suite("Naming what is held")
struct ListingTests {
    private static func request(
        _ key: UInt8, of collection: CollectionName = "cars", cursor: LogPosition? = nil
    ) -> SubscriptionRequest {
        SubscriptionRequest(
            key: [key], statement: "SELECT * FROM \(collection) WHERE n = \(key)",
            arguments: .object(ObjectValue()), cursor: cursor, holds: true)
    }

    /// A peer that is asked what it holds of a subscription: whether it names all of the collection.
    private static func namesAll(
        _ peer: inout Session, _ id: UInt64, after last: DocumentID? = nil
    ) -> Bool? {
        var found: Bool?
        var events: [Event] = [.frame(Frame.list(id: id, after: last).encoded())]
        while let event = events.popLast() {
            for action in peer.receive(event) {
                switch action {
                case .readHeld(let request, after: _, let isWhole):
                    found = isWhole
                    events.append(.held(key: request.key, [], isLast: true))
                case .unstage, .startOver, .store: events.append(.stored)
                default: break
                }
            }
        }
        return found
    }

    /// Lets a subscription's catch-up end: whether the next one that is named names all of the collection.
    private static func endCatchUp(_ peer: inout Session, _ id: UInt64) -> Bool? {
        var page = Frame.CatchUp(id: id)
        page.end = Exemplars.position
        _ = peer.receive(.frame(Frame.catchUp(page).encoded()))
        for case .readHeld(let request, after: _, let isWhole) in peer.receive(.stored) {
            _ = peer.receive(.held(key: request.key, [], isLast: true))
            return isWhole
        }
        return nil
    }

    /// Where a server goes on behind a list that was asked for when the stream had moved on; `isReading` says
    /// whether states that it reads since before that are still on their way.
    private static func start(isReading: Bool) -> PageStart? {
        var server = SessionTests.openServer()
        _ = server.receive(.frame(Frame.want([Exemplars.key(1)]).encoded()))
        let later = LogPosition(logID: Exemplars.logID, offset: Exemplars.position.offset.next, hash: 7)
        if !isReading {
            _ = server.receive(.states([(key: Exemplars.key(1), state: nil)], at: later, gone: []))
        }
        _ = server.receive(.operations([], through: later))
        var subscribe = Frame.Subscribe(
            id: 1, statement: "SELECT * FROM cars", arguments: .object(ObjectValue()))
        subscribe.holds = true
        _ = server.receive(.frame(Frame.subscribe(subscribe).encoded()))
        _ = server.receive(.frame(Frame.held(id: 1, [], isLast: true).encoded()))
        for case .readPage(_, _, _, let start, _) in server.receive(
            .compared(subscription: 1, HoldingsAnswer()))
        {
            return start
        }
        return nil
    }

    @Test("what changed since states were read that come behind a list is told behind it")
    func statesBehindList() {
        let position = Exemplars.position
        let later = LogPosition(logID: Exemplars.logID, offset: position.offset.next, hash: 7)
        #expect(Self.start(isReading: true) == .resumed(position, namesAfter: position.offset))
        #expect(Self.start(isReading: false) == .resumed(later, namesAfter: later.offset))
    }

    @Test("the first subscription of a collection names all that is held, others behind it what matches")
    func firstNamesAll() {
        var peer = SessionTests.openPeer()
        _ = peer.receive(.subscribe(Self.request(7)))
        #expect(Self.namesAll(&peer, 1) == true)
        _ = peer.receive(.subscribe(Self.request(3)))
        #expect(Self.namesAll(&peer, 2) == nil)
        _ = peer.receive(.subscribe(Self.request(4, of: "boats")))
        #expect(Self.namesAll(&peer, 3) == true)
        #expect(Self.endCatchUp(&peer, 1) == false)
    }

    @Test("when rights change one of a collection's subscriptions names all, and the others wait for it")
    func oneNamesAll() {
        var peer = SessionTests.openPeer()
        _ = peer.receive(.subscribe(Self.request(7, cursor: Exemplars.position)))
        _ = peer.receive(.subscribe(Self.request(3, cursor: Exemplars.position)))
        #expect(Self.namesAll(&peer, 2) == true)
        #expect(Self.namesAll(&peer, 1) == nil)
        #expect(Self.endCatchUp(&peer, 2) == false)
        #expect(Self.endCatchUp(&peer, 1) == nil)
        // And again.
        #expect(Self.namesAll(&peer, 1) == true)
        #expect(Self.namesAll(&peer, 2) == nil)
    }

    @Test(
        "what waits for one that names all does so itself where that is cancelled or refused",
        arguments: [true, false])
    func instead(isCancelled: Bool) {
        var peer = SessionTests.openPeer()
        _ = peer.receive(.subscribe(Self.request(7, cursor: Exemplars.position)))
        _ = peer.receive(.subscribe(Self.request(3, cursor: Exemplars.position)))
        #expect(Self.namesAll(&peer, 1) == true)
        #expect(Self.namesAll(&peer, 2) == nil)
        let refusal = Frame.subscriptionRefused(id: 1, SyncError(.readNotGranted, "no"), hides: false)
        var actions = peer.receive(isCancelled ? .unsubscribe(key: [7]) : .frame(refusal.encoded()))
        if isCancelled { actions += peer.receive(.stored) }
        let isWhole = actions.lazy.compactMap { action in
            if case .readHeld(let request, after: _, let isWhole) = action, request.key == [3] {
                isWhole
            } else {
                Bool?.none
            }
        }.first
        #expect(isWhole == true)
    }

    @Test("one that goes on from an earlier session names all of the rest, and speaks for no other")
    func resumed() {
        var peer = SessionTests.openPeer()
        _ = peer.receive(.subscribe(Self.request(7, cursor: Exemplars.position)))
        _ = peer.receive(.subscribe(Self.request(3, cursor: Exemplars.position)))
        #expect(Self.namesAll(&peer, 1, after: Exemplars.key(5).id) == true)
        #expect(Self.namesAll(&peer, 2) == true)
    }

    @Test("beside one that was complete before a new one names what matches; that one all, if it is asked")
    func besideComplete() {
        var peer = SessionTests.openPeer()
        _ = peer.receive(.subscribe(Self.request(7, cursor: Exemplars.position)))
        _ = peer.receive(.subscribe(Self.request(3)))
        #expect(Self.namesAll(&peer, 2) == false)
        #expect(Self.namesAll(&peer, 1) == true)
    }

    @Test("from the moment when a server asks what is held the cursor says nothing")
    func distrusted() {
        var peer = SessionTests.openPeer()
        _ = peer.receive(.subscribe(Self.request(7, cursor: Exemplars.position)))
        _ = Self.endCatchUp(&peer, 1)
        // A frame of the stream waits for a state when the server asks.
        let operations = Frame.Operations(position: Exemplars.position, updates: [Exemplars.delta])
        _ = peer.receive(.frame(Frame.operations(operations).encoded()))
        _ = peer.receive(.wanting([Exemplars.delta.key]))
        _ = peer.receive(.vectors([]))
        #expect(peer.receive(.frame(Frame.list(id: 1).encoded())).isEmpty)
        // It may not be read any more: that says nothing of it.
        let hidden = Frame.states([(key: Exemplars.delta.key, state: nil)], at: Exemplars.position)
        let actions = peer.receive(.frame(hidden.encoded()))
        let stored = actions.compactMap { if case .store(let batch) = $0 { batch } else { nil } }
        #expect(stored.map(\.distrusts) == [[[7]]])
        let settled = actions.compactMap {
            if case .settle(_, let distrusted) = $0 { distrusted } else { nil }
        }
        #expect(settled == [[[7]]])
        let begun = peer.receive(.stored)
        #expect(begun.contains { if case .startOver(subscription: [7]) = $0 { true } else { false } })
    }
}
