import CRDT
import Exchange
import Testing

@testable import Sync

@Suite("A session of two small peers")
struct MeshSessionTests {
    private static func frame(_ frame: Frame) -> Event { .frame(frame.encoded()) }

    private static var meeting: MeshMeeting { MeshMeeting(head: Exemplars.position, requests: []) }

    /// A listener that has met the other side.
    static func open() -> Session {
        var session = SessionTests.session(.mesh(Exemplars.link(isDialer: false)))
        _ = session.receive(.opened)
        _ = session.receive(frame(.hello(Exemplars.meshHello(feed: Exemplars.otherFeed))))
        _ = session.receive(.met(meeting))
        return session
    }

    @Test("the dialer greets first, and both are open after one hello each way")
    func greeting() throws {
        var dialer = SessionTests.session(.mesh(Exemplars.link(isDialer: true)))
        let hello = try #require(SessionTests.sent(dialer.receive(.opened)).first)
        guard case .hello(let told) = hello else {
            Issue.record("the first frame is \(hello.name)")
            return
        }
        #expect(told.version == 4)
        #expect(told.mesh == Exemplars.greeting(feed: Exemplars.logID))
        #expect(told.actors.isEmpty && told.head == nil)
        var listener = SessionTests.session(
            .mesh(
                Session.MeshLink(isDialer: false, greeting: Exemplars.greeting(feed: Exemplars.otherFeed))))
        #expect(listener.receive(.opened).isEmpty)
        let asked = listener.receive(Self.frame(hello))
        #expect(asked.contains { if case .meet = $0 { true } else { false } })
        #expect(!listener.isOpen)
        let answer = try #require(SessionTests.sent(listener.receive(.met(Self.meeting))).first)
        #expect(listener.isOpen)
        _ = dialer.receive(Self.frame(answer))
        _ = dialer.receive(.met(Self.meeting))
        #expect(dialer.isOpen)
    }

    @Test("a newer certificate is taken and told only where both sides have said that they take them")
    func certificates() {
        for (mine, theirs) in [(true, true), (true, false), (false, true)] {
            var greeting = Exemplars.greeting(feed: Exemplars.logID)
            greeting.takesCertificates = mine
            var session = SessionTests.session(
                .mesh(Session.MeshLink(isDialer: false, greeting: greeting)))
            _ = session.receive(.opened)
            var hello = Exemplars.meshHello(feed: Exemplars.otherFeed)
            hello.mesh?.takesCertificates = theirs
            _ = session.receive(Self.frame(.hello(hello)))
            _ = session.receive(.met(Self.meeting))
            let sent = SessionTests.sent(session.receive(.renewCertificate([7])))
            #expect(sent.contains(.certificate([7])) == (mine && theirs))
            let actions = session.receive(Self.frame(.certificate([9])))
            let isTaken = actions.contains { if case .certificate([9]) = $0 { true } else { false } }
            #expect(isTaken == (mine && theirs))
            #expect(session.isClosed == !(mine && theirs))
        }
    }

    @Test("frames that come before this side has met the other wait for that, and are bounded")
    func early() {
        var session = SessionTests.session(.mesh(Exemplars.link(isDialer: true)))
        _ = session.receive(.opened)
        _ = session.receive(Self.frame(.hello(Exemplars.meshHello(feed: Exemplars.otherFeed))))
        #expect(session.receive(Self.frame(.want([Exemplars.key(1)]))).isEmpty)
        let actions = session.receive(.met(Self.meeting))
        #expect(actions.contains { if case .readStates = $0 { true } else { false } })
        var flooded = SessionTests.session(.mesh(Exemplars.link(isDialer: true)))
        _ = flooded.receive(.opened)
        _ = flooded.receive(Self.frame(.hello(Exemplars.meshHello(feed: Exemplars.otherFeed))))
        var code: String?
        for _ in 0...Limits.earlyBytes / Limits.frameBytes {
            code = SessionTests.code(flooded.receive(.frame([UInt8](repeating: 0, count: Limits.frameBytes))))
        }
        #expect(code == SyncErrorCode.creditExceeded.rawValue)
    }

    @Test(
        "frames of uploads, of reconciles and of tokens end it",
        arguments: [
            Frame.upload([Exemplars.operation]), .acknowledged([]), .holdings([], isLast: true),
            .reconciled(Exemplars.position), .renewal(token: "t"),
            .progress(Exemplars.position, skipped: true),
            .refused(Refusal(actor: Exemplars.actor, sequence: 1, error: Exemplars.error)),
            .hello(Exemplars.meshHello(feed: Exemplars.otherFeed)),
        ])
    func illegal(_ frame: Frame) {
        var session = Self.open()
        #expect(
            SessionTests.code(session.receive(Self.frame(frame))) == SyncErrorCode.unexpectedMessage.rawValue)
    }

    @Test("a link that has fallen behind the live changes goes on at their head")
    func lagging() {
        var session = Self.open()
        let actions = session.receive(.lagging(Exemplars.position))
        #expect(!session.isClosed)
        #expect(actions.contains { if case .awaitOperations = $0 { true } else { false } })
    }

    @Test("an earlier version is refused: it has no links")
    func version() {
        var session = SessionTests.session(.mesh(Exemplars.link(isDialer: false)))
        _ = session.receive(.opened)
        var hello = Exemplars.meshHello(feed: Exemplars.otherFeed)
        hello.version = 3
        #expect(
            SessionTests.code(session.receive(Self.frame(.hello(hello))))
                == SyncErrorCode.versionMismatch.rawValue)
    }

    @Test("candidates of the live stream are looked up, and the older ones fetched before they are stored")
    func candidates() {
        var session = Self.open()
        let operations = Frame.Operations(
            position: Exemplars.position, updates: [Exemplars.state],
            candidates: [DocumentVersion(key: Exemplars.key(3), vector: Exemplars.vector)])
        let looked = session.receive(Self.frame(.operations(operations)))
        #expect(looked.contains { if case .findOutdated = $0 { true } else { false } })
        _ = session.receive(.outdated([Exemplars.key(3)]))
        let asked = SessionTests.sent(session.receive(.vectors([])))
        #expect(asked.contains(.want([Exemplars.key(3)])))
        let stored = session.receive(
            Self.frame(.states([(key: Exemplars.key(3), state: EncodedState([9]))])))
        let receptions = stored.compactMap { if case .store(let reception) = $0 { reception } else { nil } }
        // An answer is from after the frame.
        #expect(receptions.first?.updates.map(\.key) == [Exemplars.key(1), Exemplars.key(3)])
    }
}

@Suite("Presence in a session")
struct PresenceSessionTests {
    private static func frame(_ frame: Frame) -> Event { .frame(frame.encoded()) }

    private static func greeting(_ feed: LogID, hasRecord: Bool) -> MeshGreeting {
        var greeting = Exemplars.greeting(feed: feed)
        if hasRecord { greeting.record = SignedRecord(content: [1], signature: [2]) }
        return greeting
    }

    /// A listener that has met the other side, and what it did then.
    private static func open(_ knows: Bool, _ otherKnows: Bool) -> (session: Session, actions: [Action]) {
        var session = SessionTests.session(
            .mesh(
                Session.MeshLink(isDialer: false, greeting: greeting(Exemplars.logID, hasRecord: knows))))
        _ = session.receive(.opened)
        var hello = Exemplars.meshHello(feed: Exemplars.otherFeed)
        hello.mesh = greeting(Exemplars.otherFeed, hasRecord: otherKnows)
        _ = session.receive(frame(.hello(hello)))
        let actions = session.receive(.met(MeshMeeting(head: Exemplars.position, requests: [])))
        return (session, actions)
    }

    private static func opens(_ actions: [Action]) -> Int {
        actions.count { if case .presenceOpens = $0 { true } else { false } }
    }

    @Test("two peers that both know presence tell and take it; a side that does not is told nothing")
    func links() {
        for (knows, otherKnows) in [(true, true), (true, false), (false, true)] {
            var (session, actions) = Self.open(knows, otherKnows)
            let both = knows && otherKnows
            #expect(Self.opens(actions) == (both ? 1 : 0))
            let told = session.receive(.tell(PresenceNews())) + session.receive(.took(Exemplars.position))
            #expect(SessionTests.sent(told).map(\.name) == (both ? ["presence", "taken"] : []))
            let heard = session.receive(Self.frame(.taken(Exemplars.position)))
            #expect(SessionTests.code(heard) == (both ? nil : SyncErrorCode.unexpectedMessage.rawValue))
            guard both else { continue }
            let news = session.receive(Self.frame(.presence(PresenceNews())))
            #expect(news.contains { if case .presence = $0 { true } else { false } })
        }
    }

    @Test("a server that takes presence says so to a peer that has some, and to no other")
    func servers() {
        for (takes, has) in [(true, true), (true, false), (false, true)] {
            var configuration = Session.Configuration(
                role: .server(origin: 1), databaseID: "d", peerKey: "", wallMilliseconds: 0,
                access: .everything)
            configuration.hasPresence = takes
            var server = Session(configuration)
            _ = server.receive(.opened)
            var hello = Frame.Hello(
                version: 3, databaseID: "d", peerKey: "key", wallMilliseconds: 0, credit: 1 << 20, actors: [])
            hello.hasPresence = has
            _ = server.receive(Self.frame(.hello(hello)))
            let actions = server.receive(.frontier([], head: Exemplars.position, isBehind: false))
            guard case .hello(let answer)? = SessionTests.sent(actions).first else {
                Issue.record("no hello")
                continue
            }
            #expect(answer.hasPresence == (takes && has))
            let heard = server.receive(Self.frame(.presence(PresenceNews())))
            #expect((SessionTests.code(heard) == nil) == (takes && has))
        }
    }

    @Test("a side that has not said that it reads what is void is told none of it", arguments: [true, false])
    func withoutVoid(takes: Bool) throws {
        var hello = Exemplars.meshHello(feed: Exemplars.otherFeed)
        hello.mesh?.takesVoid = takes
        var flow = FlowControl(creditBytes: 1 << 20, batchBytes: 1 << 16, trace: nil)
        flow.greeted(hello)
        flow.open()
        let names = ["operations-void", "states-void"]
        let frames = Exemplars.fourth.filter { names.contains($0.name) }.map(\.frame)
        #expect(frames.count == 2)
        for frame in frames { flow.send(frame) }
        let sent = SessionTests.sent(flow.takeActions())
        #expect((sent == frames) == takes)
        let candidates = sent.flatMap { frame -> [DocumentVersion] in
            switch frame {
            case .operations(let operations): operations.candidates
            case .states(_, _, _, let gone): gone
            default: []
            }
        }
        // A document of which nothing is gone beside that is not named as gone.
        #expect(candidates.map { $0.void != nil } == (takes ? [true, true] : [false]))
    }
}
