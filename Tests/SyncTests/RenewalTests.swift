import CRDT
import DQL
import Exchange
import Testing

@testable import Sync

@Suite("A newer token in the midst of a session")
struct RenewalTests {
    private func frame(_ token: String) -> Event { .frame(Frame.renewal(token: token).encoded()) }

    private func checked(_ actions: [Action]) -> [String] {
        actions.compactMap { if case .checkToken(let token) = $0 { token } else { nil } }
    }

    private func appended(_ actions: [Action]) -> Int {
        actions.filter { if case .append = $0 { true } else { false } }.count
    }

    private func subscribed(_ server: inout Session, _ collection: CollectionName = "cars") {
        let request = Frame.Subscribe(
            id: 1, statement: "SELECT * FROM \(collection)", arguments: .object(ObjectValue()))
        _ = server.receive(.frame(Frame.subscribe(request).encoded()))
        let end = CatchUpPage(documents: [], candidates: [], offset: 300, head: Exemplars.position)
        _ = server.receive(.page(subscription: 1, end))
    }

    @Test("is sent at once by a peer whose session is open, and waits until it is; the latest counts")
    func peer() {
        var open = SessionTests.openPeer(version: 3)
        #expect(SessionTests.sent(open.receive(.renew(token: "a"))) == [.renewal(token: "a")])
        #expect(SessionTests.sent(open.receive(.renew(token: "b"))) == [.renewal(token: "b")])
        var early = SessionTests.session(.peer)
        _ = early.receive(.opened)
        #expect(early.receive(.renew(token: "a")).isEmpty)
        _ = early.receive(.ownActors(OwnHistory()))
        #expect(early.receive(.renew(token: "b")).isEmpty)
        let sent = SessionTests.sent(early.receive(SessionTests.hello(version: 3)))
        #expect(sent == [.renewal(token: "b")])
    }

    @Test("is not taken by a peer")
    func wrongSide() {
        var wrongSide = SessionTests.openPeer(version: 3)
        #expect(SessionTests.code(wrongSide.receive(frame("a"))) == "SYNC-0104")
    }

    @Test("a peer of a later version is spoken to in this one")
    func laterVersion() {
        var server = SessionTests.openServer(version: 9)
        #expect(checked(server.receive(frame("a"))) == ["a"])
    }

    @Test("one is checked at a time, and of those that come meanwhile the latest")
    func oneAtATime() {
        var server = SessionTests.openServer(version: 3)
        #expect(checked(server.receive(frame("a"))) == ["a"])
        for token in ["b", "c", "d"] { #expect(server.receive(frame(token)).isEmpty) }
        #expect(checked(server.receive(.renewed)) == ["d"])
        #expect(server.receive(.renewed).isEmpty)
    }

    @Test("with the same rights nothing is told, and nothing is read again")
    func sameRights() {
        var server = SessionTests.openServer(version: 3)
        subscribed(&server)
        _ = server.receive(frame("a"))
        #expect(server.receive(.renewed).isEmpty)
        let standing = server.standing()
        #expect(standing.catchingUp == 0)
    }

    @Test("with other rights what may not be read is hidden, and what was refused may be asked for")
    func otherRights() {
        var server = SessionTests.openServer(version: 3)
        subscribed(&server)
        _ = server.receive(frame("a"))
        let none = ReadAccess(collection: { _ in false })
        let told = SessionTests.sent(server.receive(.grantChanged(none)))
        #expect(told.map(\.name) == ["subscriptionRefused", "granted"])
        #expect(server.receive(.renewed).isEmpty)
        #expect(server.isOpen)
    }

    @Test("what is uploaded behind it is judged when it has been checked, in order, and never before")
    func uploads() {
        var server = SessionTests.openServer(version: 3)
        let upload = Event.frame(Frame.upload([Exemplars.operation]).encoded())
        #expect(appended(server.receive(upload)) == 1)
        #expect(checked(server.receive(frame("a"))) == ["a"])
        #expect(appended(server.receive(upload)) == 0)
        // The one that came before the token is answered; what is behind it waits on.
        let acknowledged = [Acknowledgement(actor: Exemplars.actor, sequence: 1)]
        #expect(appended(server.receive(.appended(acknowledged))) == 0)
        #expect(server.receive(frame("b")).isEmpty)
        #expect(appended(server.receive(.renewed)) == 0)
        #expect(appended(server.receive(.renewed)) == 1)
    }
}
