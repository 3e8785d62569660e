import CRDT
import Exchange
import Testing

@testable import Sync

@Suite("An operation whose base may still come")
struct DeferralTests {
    private static let actor = Exemplars.actor

    private static func operation(_ sequence: SequenceNumber) -> [UInt8] {
        Operation(actor: actor, sequence: sequence, timestamp: 10 + sequence.rawValue, changes: []).encoded()
    }

    private static func deferral(_ sequence: SequenceNumber) -> Deferral {
        Deferral(actor: actor, sequence: sequence, documents: [Exemplars.key(1)])
    }

    private static func frame(_ frame: Frame) -> Event { .frame(frame.encoded()) }

    private static func appended(_ actions: [Action]) -> (sequences: [SequenceNumber], defers: Bool)? {
        actions.lazy.compactMap { action in
            guard case .append(let operations, _, let defers) = action else { return nil }
            return (operations.compactMap { try? OperationHeader.peek($0).sequence }, defers)
        }.first
    }

    private static func hello(version: UInt64) -> Frame.Hello {
        var hello = Frame.Hello(
            version: version, databaseID: "d", peerKey: "", wallMilliseconds: 0, credit: 1 << 20, actors: [],
            head: nil)
        hello.hasLinks = true
        return hello
    }

    private static func server(_ version: UInt64) -> (Session, told: Frame.Hello?) {
        var session = SessionTests.session(.server(origin: 1))
        _ = session.receive(.opened)
        _ = session.receive(frame(.hello(hello(version: version))))
        let sent = SessionTests.sent(
            session.receive(.frontier([], head: Exemplars.position, isBehind: false)))
        let told = sent.lazy.compactMap { if case .hello(let hello) = $0 { hello } else { nil } }.first
        return (session, told)
    }

    @Test("is told to the peer, and what follows it of its actor is dropped until it comes again")
    func server() throws {
        var (session, told) = Self.server(4)
        #expect(told?.version == 4 && told?.hasLinks == true)
        let first = Self.appended(session.receive(Self.frame(.upload([1, 2].map(Self.operation)))))
        #expect(first?.sequences == [1, 2] && first?.defers == true)
        let answer = Acknowledgement(actor: Self.actor, sequence: 1)
        let sent = SessionTests.sent(session.receive(.deferred([answer], [Self.deferral(2)], [])))
        #expect(sent.contains(.acknowledged([answer])))
        #expect(sent.contains(.deferred(Self.deferral(2))))
        // It was under way already.
        #expect(Self.appended(session.receive(Self.frame(.upload([Self.operation(3)])))) == nil)
        let again = Self.appended(session.receive(Self.frame(.upload([2, 3].map(Self.operation)))))
        #expect(again?.sequences == [2, 3])
    }

    @Test("is refused as ever where the peer speaks an earlier version")
    func earlier() {
        var (session, told) = Self.server(3)
        #expect(told?.version == 3)
        let first = Self.appended(session.receive(Self.frame(.upload([Self.operation(1)]))))
        #expect(first?.defers == false)
    }

    /// A peer with three own operations that has listed what its links brought, and has sent them.
    private static func peer() -> Session {
        var session = SessionTests.session(.peer)
        _ = session.receive(.opened)
        var history = OwnHistory(
            heads: [ActorHead(actor: actor, sequence: 3, hash: 1)], acknowledged: [], seen: nil, declined: nil
        )
        history.hasLinks = true
        _ = session.receive(.ownActors(history))
        var hello = hello(version: 4)
        hello.head = Exemplars.position
        _ = session.receive(frame(.hello(hello)))
        let place = HistoryComparison(actor: actor, admitted: 0, state: .open, isExact: true)
        _ = session.receive(.historyCompared([place]))
        _ = session.receive(.seenNoted)
        list(&session)
        upload(&session, [1, 2, 3])
        return session
    }

    private static func list(_ session: inout Session) {
        _ = session.receive(.holdings([], isLast: true))
        _ = session.receive(frame(.reconciled(Exemplars.position)))
    }

    private static func upload(_ session: inout Session, _ sequences: [SequenceNumber]) {
        let sent = SessionTests.sent(
            session.receive(.ownOperations(actor: actor, sequences.map { ($0, operation($0)) })))
        #expect(sent.contains(.upload(sequences.map(operation))))
        _ = session.receive(.ownOperations(actor: actor, []))
    }

    private static func asks(_ actions: [Action]) -> Bool {
        actions.contains { if case .giveBases = $0 { true } else { false } }
    }

    private static func lists(_ actions: [Action]) -> Bool {
        actions.contains { if case .readHoldings(_, ofLinks: true) = $0 { true } else { false } }
    }

    @Test("is sent again after its documents were given, twice, and then waits for news of links")
    func peer() throws {
        var session = Self.peer()
        for _ in 0..<2 {
            #expect(Self.asks(session.receive(Self.frame(.deferred(Self.deferral(1))))))
            #expect(Self.lists(session.receive(.basesGiven(areHeld: true))))
            Self.list(&session)
            Self.upload(&session, [1, 2, 3])
        }
        #expect(!Self.asks(session.receive(Self.frame(.deferred(Self.deferral(1))))))
        #expect(!session.isClosed)
        #expect(Self.lists(session.receive(.linksBrought)))
        Self.list(&session)
        Self.upload(&session, [1, 2, 3])
    }

    @Test("lists of what links brought, one after another, let own operations go between them")
    func between() {
        var session = Self.peer()
        #expect(Self.lists(session.receive(.linksBrought)))
        _ = session.receive(.linksBrought)
        _ = session.receive(.ownOperationAdded(Self.actor))
        _ = session.receive(.holdings([], isLast: true))
        let ended = session.receive(Self.frame(.reconciled(Exemplars.position)))
        #expect(!Self.lists(ended))
        #expect(ended.contains { if case .readOwnOperations = $0 { true } else { false } })
        let next: [(sequence: SequenceNumber, bytes: [UInt8])] = [(4, Self.operation(4))]
        let uploaded = session.receive(.ownOperations(actor: Self.actor, next))
        #expect(SessionTests.sent(uploaded).contains(.upload([Self.operation(4)])))
        #expect(Self.lists(uploaded))
        // With nothing to upload the next list begins at once.
        _ = session.receive(.linksBrought)
        _ = session.receive(.holdings([], isLast: true))
        let read = session.receive(Self.frame(.reconciled(Exemplars.position)))
        #expect(!Self.lists(read))
        #expect(Self.lists(session.receive(.ownOperations(actor: Self.actor, []))))
    }

    @Test("is moved where its base is not here any more")
    func moved() {
        var session = Self.peer()
        _ = session.receive(Self.frame(.deferred(Self.deferral(2))))
        let actions = session.receive(.basesGiven(areHeld: false))
        let repairs = actions.compactMap { if case .repair(let request) = $0 { request } else { nil } }
        #expect(repairs.first?.refused.map(\.sequence) == [2])
        #expect(repairs.first?.refused.first?.error.isOfBase == true)
    }

    @Test("ends a session that sent nothing of it")
    func unexpected() {
        var session = Self.peer()
        let other = Deferral(actor: ActorID(7), sequence: 1, documents: [Exemplars.key(1)])
        #expect(
            SessionTests.code(session.receive(Self.frame(.deferred(other))))
                == SyncErrorCode.unexpectedMessage.rawValue)
    }
}
