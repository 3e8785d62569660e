import CRDT
import Exchange
import Testing

@testable import Sync

@Suite("Documents that a peer gives are appended")
struct HoldingsTests {
    private static func frame(_ frame: Frame) -> Event { .frame(frame.encoded()) }

    private static func wanted(_ actions: [Action]) -> [DocumentKey] {
        SessionTests.sent(actions).flatMap { frame -> [DocumentKey] in
            guard case .want(let keys, _) = frame else { return [] }
            return keys
        }
    }

    private static func appended(_ actions: [Action]) -> [Int] {
        actions.compactMap { action -> Int? in
            guard case .admitStates(let states, _) = action else { return nil }
            return states.count
        }
    }

    private static func isReconciled(_ actions: [Action]) -> Bool {
        SessionTests.sent(actions).contains { if case .reconciled = $0 { true } else { false } }
    }

    /// A server's session with a peer that has links; `isBehind`: its log was restored.
    private static func server(isBehind: Bool) -> Session {
        var session = SessionTests.session(.server(origin: 1))
        _ = session.receive(.opened)
        var hello = Frame.Hello(
            version: 4, databaseID: "d", peerKey: "", wallMilliseconds: 0, credit: 1 << 20, actors: [],
            head: nil)
        hello.hasLinks = true
        _ = session.receive(frame(.hello(hello)))
        _ = session.receive(.frontier([], head: Exemplars.position, isBehind: isBehind))
        return session
    }

    /// Gives a page of documents with states of a size, all of which the log lacks. Returns how many each
    /// append takes.
    private static func appends(of count: Int, bytes: Int, isBehind: Bool = false) -> [Int] {
        var session = server(isBehind: isBehind)
        let keys = (1...count).map { Exemplars.key(Int64($0)) }
        let page = keys.map { DocumentVersion(key: $0, vector: VersionVector().encoded()) }
        _ = session.receive(frame(.holdings(page, isLast: true)))
        var actions = session.receive(.lacking(keys))
        var appends: [Int] = []
        while !isReconciled(actions), !actions.isEmpty {
            let wanted = wanted(actions)
            let taken = appended(actions)
            appends += taken
            actions = taken.flatMap { _ in session.receive(.statesAdmitted(Exemplars.position)) }
            for key in wanted {
                let state = EncodedState([UInt8](repeating: 1, count: bytes))
                actions += session.receive(frame(.states([(key: key, state: state)], at: nil)))
            }
        }
        #expect(isReconciled(actions))
        return appends
    }

    @Test("together, however often the server asks for states")
    func together() {
        #expect(Self.appends(of: 40, bytes: 10) == [40])
    }

    @Test("one by one to a restored log, so that none is given twice over a link that breaks")
    func restored() {
        #expect(Self.appends(of: 3, bytes: 10, isBehind: true) == [1, 1, 1])
    }

    @Test("in parts beyond the bytes that may wait")
    func bounded() {
        #expect(Self.appends(of: 40, bytes: Limits.givenBytes / 16) == [16, 16, 8])
    }
}
