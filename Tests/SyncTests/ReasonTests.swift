import CRDT
import Exchange
import Foundation
import Testing

@testable import Sync

/// The table of reasons: `SyncErrorCode.remedies`. What a replicator's admission finds (SYNC-0401 to 0408)
/// is raised in ReplicatorTests; what a session makes of it is here.
@Suite("The reasons to end a session, and to refuse a subscription or a write")
struct ReasonTests {
    /// A session that is about to be told something, and what.
    struct Case: Sendable, CustomTestStringConvertible {
        let code: SyncErrorCode
        let session: @Sendable () -> Session
        let event: Event

        var testDescription: String { code.rawValue }
    }

    private static func frame(_ frame: Frame) -> Event { .frame(frame.encoded()) }

    private static func greeted(_ role: Session.Role) -> Session {
        var session = SessionTests.session(role)
        _ = session.receive(.opened)
        return session
    }

    /// Every reason that ends a session, raised.
    static let ends: [Case] = [
        Case(code: .malformedFrame, session: { SessionTests.openServer() }, event: .frame([0xA1])),
        Case(
            code: .unknownMessage, session: { SessionTests.openPeer() }, event: .frame([0xA1, 0, 0x18, 99])),
        Case(
            code: .frameTooLarge, session: { SessionTests.openPeer() },
            event: .frame([UInt8](repeating: 0, count: Limits.frameBytes + 1))),
        Case(code: .unexpectedMessage, session: { SessionTests.openServer() }, event: SessionTests.hello()),
        Case(
            code: .creditExceeded, session: { SessionTests.openServer(credit: 0) },
            event: frame(.upload([Exemplars.operation]))),
        Case(
            code: .versionMismatch, session: { greeted(.server(origin: 1)) },
            event: SessionTests.hello(version: 2)),
        Case(
            code: .wrongDatabase, session: { greeted(.server(origin: 1)) }, event: SessionTests.hello("other")
        ),
        Case(
            code: .malformedOperation, session: { SessionTests.openServer() },
            event: frame(.upload([[1, 2, 3]]))),
        Case(
            code: .malformedOperation, session: { SessionTests.openServer() },
            event: frame(.upload([unstorable]))),
        Case(code: .sequenceGap, session: appending, event: refusal(.sequenceGap)),
        Case(code: .actorConflict, session: appending, event: refusal(.actorConflict)),
        Case(code: .baseNotCovered, session: answered, event: .wanting([Exemplars.key(2)])),
        Case(
            code: .clockTooFarAhead, session: movedForClock, event: frame(.refused(told(.clockTooFarAhead)))),
        Case(
            code: .keyNotProven,
            session: {
                var session = Session(
                    Session.Configuration(
                        role: .server(origin: 1), databaseID: "d", peerKey: "", wallMilliseconds: 5,
                        access: .everything, isProven: { $0 == [1] }))
                _ = session.receive(.opened)
                return session
            }, event: SessionTests.hello()),
        Case(
            code: .damaged, session: { SessionTests.openServer() },
            event: .finish(SyncError(.damaged, "the server's log is damaged"))),
        Case(code: .unavailable, session: { SessionTests.openPeer() }, event: .failed("disk")),
        Case(
            code: .expired, session: { SessionTests.openServer() },
            event: .finish(SyncError(.expired, "the token has expired"))),
        Case(
            code: .goingAway, session: { SessionTests.openServer() },
            event: .finish(SyncError(.goingAway, "later"))
        ),
        Case(
            code: .otherGroup, session: { greeted(.mesh(Exemplars.link(isDialer: false))) },
            event: SessionTests.hello(version: 4)),
        Case(
            code: .sameStore, session: { greeted(.mesh(Exemplars.link(isDialer: false))) },
            event: frame(.hello(copied))),
        Case(
            code: .doubleLink, session: { greeted(.mesh(Exemplars.link(isDialer: false))) },
            event: frame(.hello(Exemplars.meshHello(feed: Exemplars.logID)))),
        Case(
            code: .linkDenied, session: { greeted(.mesh(Exemplars.link(isDialer: true))) },
            event: .finish(SyncError(.linkDenied, "the application does not want it"))),
        Case(
            code: .sealRefused, session: { greeted(.mesh(Exemplars.link(isDialer: true))) },
            event: .finish(SyncError(.sealRefused, "a seal does not verify"))),
        Case(
            code: .securityMismatch, session: { greeted(.mesh(Exemplars.link(isDialer: true))) },
            event: .finish(SyncError(.securityMismatch, "the other side speaks no TLS"))),
        Case(
            code: .doubleLink, session: { greeted(.mesh(Exemplars.link(isDialer: true))) },
            event: .finish(SyncError(.doubleLink, "another link stays"))),
        Case(
            code: .tokenRefused, session: { SessionTests.openServer(version: 3) },
            event: frame(.renewal(token: String(repeating: "x", count: Limits.accessTokenBytes + 1)))),
    ]

    /// An operation whose sequence has 64 bits.
    private static let unstorable = Operation(
        actor: Exemplars.actor, sequence: 0x8000_0000_0000_0000, timestamp: 10, changes: []
    ).encoded()

    /// A greeting of the same feed, of another start.
    private static let copied: Frame.Hello = {
        var hello = Exemplars.meshHello(feed: Exemplars.logID)
        hello.mesh?.start = 9
        return hello
    }()

    private static func told(_ code: SyncErrorCode) -> Refusal {
        Refusal(actor: Exemplars.actor, sequence: 1, error: SyncError(code, "refused"))
    }

    private static func refusal(_ code: SyncErrorCode) -> Event { .refused([], [told(code)]) }

    /// A server that is appending an upload.
    private static func appending() -> Session {
        var server = SessionTests.openServer()
        _ = server.receive(frame(.upload([Exemplars.operation])))
        return server
    }

    /// A peer that has fetched what a change rests on, and stores it.
    private static func answered() -> Session {
        var peer = SessionTests.openPeer()
        let operations = Frame.Operations(position: Exemplars.position, updates: [Exemplars.delta])
        _ = peer.receive(frame(.operations(operations)))
        _ = peer.receive(.wanting([Exemplars.key(2)]))
        _ = peer.receive(.vectors([]))
        _ = peer.receive(frame(.states([(key: Exemplars.key(2), state: nil)])))
        return peer
    }

    /// A peer that has sent an operation.
    private static func sent() -> Session {
        var peer = SessionTests.openPeer()
        _ = peer.receive(.ownOperationAdded(Exemplars.actor))
        _ = peer.receive(
            .ownOperations(
                actor: Exemplars.actor, [(sequence: SequenceNumber(1), bytes: Exemplars.operation)]))
        _ = peer.receive(.ownOperations(actor: Exemplars.actor, []))
        return peer
    }

    /// A peer that has moved an operation because of its clock, and sent it again.
    private static func movedForClock() -> Session {
        var peer = SessionTests.openPeer()
        let left = ActorID(9)
        func send(_ actor: ActorID) {
            let bytes = Exemplars.operation
            _ = peer.receive(.ownOperations(actor: actor, [(sequence: SequenceNumber(1), bytes: bytes)]))
            _ = peer.receive(.ownOperations(actor: actor, []))
        }
        _ = peer.receive(.ownOperationAdded(left))
        send(left)
        let refusal = Refusal(actor: left, sequence: 1, error: SyncError(.clockTooFarAhead, "told"))
        _ = peer.receive(frame(.refused(refusal)))
        let outcome = RepairOutcome.Repaired(
            actor: Exemplars.actor, left: [left], pending: [Exemplars.actor], refused: [])
        _ = peer.receive(.repaired(outcome))
        send(Exemplars.actor)
        return peer
    }

    @Test(
        "each of them is raised, named, and the last thing that is sent; nothing is stored", arguments: ends)
    func end(_ item: Case) throws {
        var session = item.session()
        #expect(!session.isClosed)
        let actions = session.receive(item.event)
        #expect(SessionTests.code(actions) == item.code.rawValue)
        let last = try #require(SessionTests.sent(actions).last)
        guard case .close(let told) = last else {
            Issue.record("the last frame is \(last.name)")
            return
        }
        #expect(told.code == item.code.rawValue)
        #expect(!told.message.isEmpty)
        #expect(
            !actions.contains {
                switch $0 {
                case .store, .stage, .append, .admitStates, .repair, .hide: true
                default: false
                }
            })
        #expect(session.receive(.stored).isEmpty)
    }

    @Test("every reason that the table lets end a session is among them, and no other")
    func completeness() {
        let inTable = SyncErrorCode.allCases.filter { $0.remedies[.session] != nil }
        #expect(Set(inTable) == Set(Self.ends.map(\.code)))
        #expect(SyncErrorCode.allCases.allSatisfy { !$0.remedies.isEmpty })
    }

    @Test(
        "a refused write is repaired as the table says",
        arguments: SyncErrorCode.allCases.filter { $0.remedies[.write] != nil })
    func write(_ code: SyncErrorCode) throws {
        var peer = Self.sent()
        let actions = peer.receive(Self.frame(.refused(Self.told(code))))
        let repairs = actions.compactMap { if case .repair(let repair) = $0 { repair } else { nil } }
        let repair = try #require(repairs.first)
        #expect(peer.isOpen)
        #expect(repair.isForClock == (code.remedies[.write] == .writeAgain))
        #expect(repair.refused.map(\.error.code) == (repair.isForClock ? [] : [code.rawValue]))

        var server = Self.appending()
        let told = SessionTests.sent(server.receive(Self.refusal(code)))
        #expect(told.contains(.refused(Self.told(code))))
        #expect(server.isOpen != [.sequenceGap, .actorConflict].contains(code))
    }

    @Test("what a peer does then is what the description says for other languages")
    func description() throws {
        let tests = URL(fileURLWithPath: #filePath).resolvingSymlinksInPath().deletingLastPathComponent()
        let page = tests.deletingLastPathComponent().deletingLastPathComponent()
            .appendingPathComponent("Shared/Sync/Wire/wire.cddl")
        let lines = try String(contentsOf: page, encoding: .utf8).split(separator: "\n").map(String.init)
        let described = lines.filter { $0.hasPrefix("; SYNC-") }
        let table = SyncErrorCode.allCases.flatMap { code in
            code.remedies.map { "; \(code.rawValue) \($0.key.rawValue): \($0.value.rawValue)" }
        }
        #expect(described.sorted() == table.sorted())
    }

    @Test("a reason of a later version ends a session like one that may pass")
    func unknown() throws {
        var peer = SessionTests.openPeer()
        let close = Frame.close(SyncError(code: "SYNC-0999", message: "later"))
        #expect(SessionTests.code(peer.receive(Self.frame(close))) == "SYNC-0999")
        #expect(SyncError(code: "SYNC-0999", message: "later").remedy == .reconnectLater)
    }
}
