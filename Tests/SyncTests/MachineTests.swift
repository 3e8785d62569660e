import CRDT
import Exchange
import Synchronization
import Testing

@testable import Sync

@Suite("The machines of a session")
struct MachineTests {
    private static func frame(_ frame: Frame) -> Event { .frame(frame.encoded()) }

    @Test("a driver may give an answer that was asked for, once, and no other")
    func answers() {
        var peer = SessionTests.session(.peer)
        let actors = Event.ownActors(OwnHistory())
        #expect(!peer.mayReceive(actors))
        _ = peer.receive(.opened)
        #expect(peer.mayReceive(actors))
        _ = peer.receive(actors)
        #expect(!peer.mayReceive(actors))
        _ = peer.receive(SessionTests.hello())
        #expect(peer.mayReceive(.seenNoted))
        _ = peer.receive(.seenNoted)
        #expect(!peer.mayReceive(.seenNoted))
        for answer in [Event.stored, .repairStaged, .vectors([]), .outdated([]), .renewed] {
            #expect(!peer.mayReceive(answer))
        }
        _ = peer.receive(Self.frame(.progress(Exemplars.position)))
        #expect(peer.mayReceive(.stored))
        var server = SessionTests.openServer()
        #expect(server.mayReceive(.lagging(Exemplars.position)))
        #expect(!server.mayReceive(.appended([])))
        _ = server.receive(Self.frame(.upload([Exemplars.operation])))
        #expect(server.mayReceive(.appended([])))
        #expect(!server.mayReceive(.stored), "a server stores nothing")
        _ = server.receive(.disconnected)
        #expect(server.mayReceive(.stored), "nothing is asked of a closed session")
    }

    @Test("a session between small peers moves no own write, because it has no log to move it to")
    func linkMovesNothing() {
        var link = MeshSessionTests.open()
        _ = link.receive(Self.frame(.progress(Exemplars.position)))
        #expect(link.mayReceive(.stored))
        #expect(!link.mayReceive(.returning([Exemplars.key(1)])))
    }

    @Test("states that come before their request has left end the session: nobody can have asked for them")
    func unasked() {
        var peer = SessionTests.openPeer()
        let actions = peer.receive(.wanted([Exemplars.key(1)]))
        #expect(actions.contains { if case .readVectors = $0 { true } else { false } })
        let states = Frame.states([(key: Exemplars.key(1), state: nil)])
        #expect(
            SessionTests.code(peer.receive(Self.frame(states))) == SyncErrorCode.unexpectedMessage.rawValue)
    }

    @Test("a second greeting ends the session, also while histories are compared")
    func secondHello() {
        var peer = SessionTests.session(.peer)
        _ = peer.receive(.opened)
        let head = ActorHead(actor: Exemplars.actor, sequence: 7, hash: 9)
        _ = peer.receive(.ownActors(OwnHistory(heads: [head])))
        _ = peer.receive(SessionTests.hello())
        #expect(
            SessionTests.code(peer.receive(SessionTests.hello()))
                == SyncErrorCode.unexpectedMessage.rawValue)
    }

    @Test("each transition is told with the names of both states")
    func transitions() {
        final class Heard: Sendable {
            let all = Mutex<[Transition]>([])
        }
        let heard = Heard()
        var configuration = Session.Configuration(
            role: .peer, databaseID: "d", peerKey: "", wallMilliseconds: 5, access: .everything)
        configuration.trace = { transition in heard.all.withLock { $0.append(transition) } }
        var peer = Session(configuration)
        _ = peer.receive(.opened)
        let head = ActorHead(actor: Exemplars.actor, sequence: 7, hash: 9)
        _ = peer.receive(.ownActors(OwnHistory(heads: [head])))
        _ = peer.receive(SessionTests.hello())
        _ = peer.receive(
            .historyCompared([
                HistoryComparison(actor: Exemplars.actor, admitted: 7, state: .open, isExact: true)
            ]))
        _ = peer.receive(.seenNoted)
        _ = peer.receive(Self.frame(.progress(Exemplars.position)))
        _ = peer.receive(.stored)
        let told = heard.all.withLock { $0 }
        let writer = ["greeting", "comparing histories", "noting the server's head", "exchanging"]
        #expect(told.filter { $0.machine == .writer }.map(\.to) == Array(writer.dropFirst()))
        #expect(told.filter { $0.machine == .writer }.map(\.from) == Array(writer.dropLast()))
        #expect(told.filter { $0.machine == .reader }.map(\.to) == ["storing", "idle"])
        #expect(
            told.filter { $0.machine == .session }.map(\.to) == [
                "reading own actors", "awaiting the other side's hello", "greeted", "open",
            ])
    }
}
