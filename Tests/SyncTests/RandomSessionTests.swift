import CRDT
import DQL
import Exchange
import TestSupport
import Testing

@testable import Sync

@Suite("A session under random events")
struct RandomSessionTests {
    private static let codes = Set(SyncErrorCode.allCases.map(\.rawValue))

    private func event(_ generator: inout SplitMix64) -> Event {
        let key = Exemplars.key(Int64(generator.below(3)))
        let position = LogPosition(
            logID: Exemplars.position.logID, offset: generator.pick([0, 299, 300, 301, .max]), hash: 1)
        switch generator.below(50) {
        case 0: return .opened
        case 1..<9: return .frame(generator.pick(Exemplars.frames).frame.encoded())
        case 9: return .frame(generator.bytes(count: generator.below(20)))
        case 10:
            return .subscribe(
                SubscriptionRequest(
                    key: [UInt8(generator.below(2))], statement: "SELECT * FROM cars",
                    arguments: .object(ObjectValue()), cursor: generator.chance(50) ? position : nil))
        case 11: return .unsubscribe(key: [UInt8(generator.below(2))])
        case 12:
            return .ownActors(
                OwnHistory(heads: [ActorHead(actor: Exemplars.actor, sequence: 7, hash: 9)]))
        case 13: return .ownOperations(actor: Exemplars.actor, [(sequence: 8, bytes: [1, 2])])
        case 14: return .ownOperations(actor: Exemplars.actor, [])
        case 15: return .ownOperationAdded(Exemplars.actor)
        case 16, 17: return .stored
        case 18: return .wanting([key])
        case 19: return .outdated(generator.chance(50) ? [key] : [])
        case 20: return generator.chance(50) ? .wanted([key]) : .vectors([])
        case 21: return .frontier([], head: position, isBehind: generator.chance(50))
        case 22:
            let page = CatchUpPage(
                documents: [Exemplars.state], candidates: [], offset: position.offset,
                head: generator.chance(50) ? position : nil)
            return .page(subscription: UInt64(generator.below(7)), page)
        case 23:
            let change = FoldedOperation.Change(key: key, delta: [0], before: [0], after: [0])
            let operation = FoldedOperation(
                position: position, stamp: Stamp(time: 1, actor: Exemplars.actor),
                origin: generator.chance(30) ? 1 : nil, changes: generator.chance(50) ? [change] : [])
            return generator.chance(50) ? .operations([operation], through: position) : .lagging(position)
        case 24: return .appended([Acknowledgement(actor: Exemplars.actor, sequence: 1)])
        case 25:
            return .refused(
                [],
                [
                    Refusal(
                        actor: Exemplars.actor, sequence: 2,
                        error: SyncError(generator.pick(SyncErrorCode.allCases), "random"))
                ])
        case 26: return .repairNeeds(generator.chance(80) ? [key] : [])
        case 27: return .repairStaged
        case 28:
            return .repaired(
                RepairOutcome.Repaired(
                    actor: ActorID(9), left: [ActorID(8)], pending: [ActorID(9)], refused: []))
        case 29: return .holdings([DocumentVersion(key: key, vector: [0])], isLast: generator.chance(50))
        case 30: return .lacking(generator.chance(50) ? [key] : [])
        case 31: return .statesAdmitted(position)
        case 32:
            let states: [HistoryComparison.State] = [.open, .closed, .forked]
            return .historyCompared([
                HistoryComparison(
                    actor: Exemplars.actor, admitted: 3, state: generator.pick(states),
                    isExact: generator.chance(50))
            ])
        case 33: return .seenNoted
        case 34: return .returning([key])
        case 35, 36:
            return .held(
                key: [UInt8(generator.below(2))], [DocumentVersion(key: key, vector: Exemplars.vector)],
                isLast: generator.chance(50))
        case 37, 38:
            var answer = HoldingsAnswer()
            if generator.chance(50) { answer.documents = [Exemplars.state] }
            if generator.chance(50) { answer.gone = [DocumentVersion(key: key, vector: Exemplars.vector)] }
            if generator.chance(50) { answer.through = key.id }
            return .compared(subscription: UInt64(generator.below(7)), answer)
        case 39:
            let id = UInt64(generator.below(7))
            return generator.chance(50) ? .unknownPlace(subscription: id) : .tooCostly(subscription: id)
        case 40, 41:
            let isOpen = generator.chance(50)
            let mark = UInt64(generator.below(3))
            return .grantChanged(ReadAccess(collection: { _ in isOpen }, mark: { _ in mark }))
        case 42: return .renew(token: "t")
        case 43: return .renewed
        case 44: return .met(MeshMeeting(head: position, requests: []))
        case 45:
            let deferral = Deferral(actor: Exemplars.actor, sequence: 7, documents: [key])
            return .deferred([], [deferral], [], offset: 300)
        case 46: return .basesGiven(areHeld: generator.chance(50))
        case 47: return .linksBrought
        default: return .states([(key: key, state: generator.chance(50) ? [1] : nil)], at: position)
        }
    }

    @Test("any events in any order end in a typed close or go on, and nothing follows a close")
    func anything() {
        for seed in Depth.seeds(fast: 2_000, deep: 100_000) {
            var generator = SplitMix64(seed: seed)
            var session = generator.pick([
                SessionTests.openPeer(), SessionTests.openServer(credit: 500),
                SessionTests.openPeer(version: 3), SessionTests.openServer(credit: 500, version: 3),
                SessionTests.session(.peer), SessionTests.session(.server(origin: 1)),
            ])
            for _ in 0..<60 {
                let wasClosed = session.isClosed
                let event = event(&generator)
                guard session.mayReceive(event) else { continue }
                let actions = session.receive(event)
                session.checkInvariants()
                #expect(!wasClosed || actions.isEmpty, "seed \(seed)")
                // The exemplar of a close frame carries a code of ours too.
                let code = SessionTests.code(actions)
                #expect(code.map(Self.codes.contains) ?? true, "seed \(seed): \(code ?? "")")
                #expect((code != nil) == (session.isClosed && !wasClosed), "seed \(seed)")
            }
        }
    }

    @Test("any frames and answers in any state of a link end in a typed close or go on")
    func links() {
        for seed in Depth.seeds(fast: 500, deep: 100_000) {
            var generator = SplitMix64(seed: seed)
            var session = generator.pick([
                SessionTests.session(.mesh(Exemplars.link(isDialer: true))),
                SessionTests.session(.mesh(Exemplars.link(isDialer: false))), MeshSessionTests.open(),
            ])
            if !session.isOpen, generator.chance(80) { _ = session.receive(.opened) }
            if !session.isOpen, generator.chance(50) {
                _ = session.receive(
                    .frame(Frame.hello(Exemplars.meshHello(feed: Exemplars.otherFeed)).encoded()))
            }
            for _ in 0..<20 {
                let wasClosed = session.isClosed
                var bytes = generator.pick(Exemplars.frames).frame.encoded()
                if generator.chance(30) { bytes[generator.below(bytes.count)] ^= UInt8(generator.below(256)) }
                let event = generator.chance(60) ? .frame(bytes) : event(&generator)
                guard session.mayReceive(event) else { continue }
                let actions = session.receive(event)
                session.checkInvariants()
                #expect(!wasClosed || actions.isEmpty, "seed \(seed)")
                if let code = SessionTests.code(actions), !Self.codes.contains(code) {
                    // A close frame of the other side may carry any code.
                    guard case .frame(let bytes) = event else {
                        Issue.record("seed \(seed): \(code) after \(event)")
                        continue
                    }
                    #expect((try? Frame(decoding: bytes))?.name == "close", "seed \(seed): \(code)")
                }
            }
        }
    }

    @Test("a server asks for what servers do, a peer for what peers do, whatever the other side sends")
    func roles() {
        for seed in Depth.seeds(fast: 1_500, deep: 100_000) {
            var generator = SplitMix64(seed: seed)
            var (isServer, session) = generator.pick([
                (true, SessionTests.openServer(credit: 500, version: 3)),
                (true, SessionTests.openServer(credit: 500, version: 3, isBehind: true)),
                (false, SessionTests.openPeer(version: 3)),
            ])
            for _ in 0..<40 {
                let event = event(&generator)
                guard event.isServers ?? isServer == isServer, session.mayReceive(event) else { continue }
                for action in session.receive(event) where action.isServers ?? isServer != isServer {
                    Issue.record("seed \(seed): \(isServer ? "a server" : "a peer") asks for \(action)")
                    return
                }
            }
        }
    }
}

extension Event {
    /// Whether it is a server's driver that brings it; nil where both do.
    fileprivate var isServers: Bool? {
        switch self {
        case .opened, .frame, .states, .failed, .finish, .disconnected: nil
        case .lacking, .statesAdmitted, .frontier, .page, .unknownPlace, .tooCostly, .compared,
            .grantChanged, .renewed, .operations, .lagging, .appended, .refused,
            .deferred:
            true
        case .subscribe, .unsubscribe, .ownActors, .historyCompared, .repairNeeds, .repairStaged, .repaired,
            .seenNoted, .holdings, .held, .ownOperations, .ownOperationAdded, .stored, .returning, .wanting,
            .outdated, .wanted, .vectors, .renew, .met, .linksBrought, .basesGiven,
            .tell, .took, .renewCertificate:
            false
        }
    }
}

extension Action {
    /// Whether it is a server's store that performs it; nil where both do.
    fileprivate var isServers: Bool? {
        switch self {
        case .send, .close, .report, .readStates, .presence: nil
        case .readFrontier, .readPage, .compareHeld, .awaitOperations, .append, .compareHoldings,
            .admitStates, .checkToken:
            true
        case .readOwnActors, .compareHistory, .readOwnOperations, .store, .stage, .unstage, .startOver, .hide,
            .findOutdated, .readHeld, .acknowledge, .askForAnswers, .readVectors, .settle, .repair,
            .stageRepair, .readHoldings, .noteSeen, .meet, .settleLinks, .giveBases, .presenceOpens, .taken,
            .certificate, .certificateTold:
            false
        }
    }
}
