import CRDT
import DQL
import Testing

@testable import Sync

@Suite("Naming what is held")
struct ListingTests {
    private static func request(
        _ key: UInt8, of collection: String = "cars", cursor: LogPosition? = nil
    ) -> SubscriptionRequest {
        SubscriptionRequest(
            key: [key], statement: "SELECT * FROM \(collection) WHERE n = \(key)",
            arguments: .object(ObjectValue()), cursor: cursor, holds: true)
    }

    /// A peer that is asked what it holds of a subscription: whether it names all of the collection.
    private static func namesAll(_ peer: inout Session, _ id: UInt64) -> Bool? {
        var found: Bool?
        var events: [Event] = [.frame(Frame.list(id: id).encoded())]
        while let event = events.popLast() {
            for action in peer.receive(event) {
                switch action {
                case .readHeld(let request, after: _, let isWhole):
                    found = isWhole
                    events.append(.held(key: request.key, [], isLast: true))
                case .unstage, .store: events.append(.stored)
                default: break
                }
            }
        }
        return found
    }

    @Test("the first subscription of a collection names all that is held of it, others what matches")
    func firstNamesAll() {
        var peer = SessionTests.openPeer()
        _ = peer.receive(.subscribe(Self.request(7)))
        #expect(Self.namesAll(&peer, 1) == true)
        _ = peer.receive(.subscribe(Self.request(3)))
        #expect(Self.namesAll(&peer, 2) == false)
        _ = peer.receive(.subscribe(Self.request(4, of: "boats")))
        #expect(Self.namesAll(&peer, 3) == true)
    }

    @Test(
        "when rights change one of a collection's subscriptions names all, the same in the next session"
    )
    func oneNamesAll() {
        var peer = SessionTests.openPeer()
        _ = peer.receive(.subscribe(Self.request(7)))
        #expect(Self.namesAll(&peer, 1) == true)
        _ = peer.receive(.subscribe(Self.request(3)))
        #expect(Self.namesAll(&peer, 2) == false)
        #expect(Self.namesAll(&peer, 1) == false)
        #expect(Self.namesAll(&peer, 2) == true)
        var next = SessionTests.openPeer()
        _ = next.receive(.subscribe(Self.request(7, cursor: Exemplars.position)))
        _ = next.receive(.subscribe(Self.request(3, cursor: Exemplars.position)))
        #expect(Self.namesAll(&next, 1) == false)
        #expect(Self.namesAll(&next, 2) == true)
        // Without it the other one does.
        _ = next.receive(.unsubscribe(key: [3]))
        _ = next.receive(.stored)
        #expect(Self.namesAll(&next, 1) == true)
    }

    @Test("a new subscription beside one that was complete before names what matches")
    func besideComplete() {
        var peer = SessionTests.openPeer()
        _ = peer.receive(.subscribe(Self.request(7, cursor: Exemplars.position)))
        _ = peer.receive(.subscribe(Self.request(3)))
        #expect(Self.namesAll(&peer, 2) == false)
    }
}
