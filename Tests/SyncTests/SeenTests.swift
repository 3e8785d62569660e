import CRDT
import DQL
import Exchange
import Testing

@testable import Sync

@Suite("The position of the server's log that a peer has seen")
struct SeenTests {
    private static let own = ActorHead(actor: ActorID(5), sequence: 9, hash: 1)

    private static func position(_ offset: Offset) -> LogPosition {
        LogPosition(logID: Exemplars.logID, offset: offset, hash: offset.rawValue)
    }

    private static func batches(_ actions: [Action]) -> [Reception] {
        actions.compactMap { if case .store(let batch) = $0 { batch } else { nil } }
    }

    private static func repairs(_ actions: [Action]) -> [RepairRequest] {
        actions.compactMap { if case .repair(let repair) = $0 { repair } else { nil } }
    }

    /// A peer's session whose server refuses to go on with its actor.
    private static func closedPeer(isServerBehind: Bool = false) -> (session: Session, actions: [Action]) {
        var session = SessionTests.session(.peer)
        _ = session.receive(.opened)
        _ = session.receive(.ownActors(OwnHistory(heads: [own])))
        var hello = Frame.Hello(
            version: 3, databaseID: "d", peerKey: "", wallMilliseconds: 9, credit: 1 << 20, actors: [],
            head: Exemplars.position)
        hello.isBehind = isServerBehind
        _ = session.receive(.frame(Frame.hello(hello).encoded()))
        let standing = HistoryComparison(actor: own.actor, admitted: 4, state: .closed, isExact: true)
        var actions = session.receive(.historyCompared([standing]))
        guard isServerBehind else { return (session, actions) }
        _ = session.receive(.holdings([], isLast: true))
        actions = session.receive(.frame(Frame.reconciled(Exemplars.position).encoded()))
        return (session, actions)
    }

    @Test("the greeting's head is noted before anything is asked for")
    func greeting() {
        var session = SessionTests.session(.peer)
        _ = session.receive(.opened)
        _ = session.receive(.ownActors(OwnHistory()))
        let noted = session.receive(SessionTests.hello()).compactMap { action -> LogPosition? in
            if case .noteSeen(let position, replaces: false, _) = action { position } else { nil }
        }
        #expect(noted == [Exemplars.position])
    }

    @Test("whatever is stored notes the position that it stands for")
    func stored() {
        var session = SessionTests.openPeer()
        let progress = Frame.progress(Self.position(301)).encoded()
        #expect(Self.batches(session.receive(.frame(progress))).map(\.seen) == [Self.position(301)])
        _ = session.receive(.stored)
        let operations = Frame.Operations(position: Self.position(302), updates: [Exemplars.state])
        let stream = Frame.operations(operations).encoded()
        #expect(Self.batches(session.receive(.frame(stream))).map(\.seen) == [Self.position(302)])
    }

    @Test("states that were fetched note the position they were read at, also with what is older")
    func fetched() {
        var session = SessionTests.openPeer()
        _ = session.receive(.wanted([Exemplars.key(1)]))
        _ = session.receive(.vectors([]))
        let states = Frame.states([(key: Exemplars.key(1), state: [1])], at: Self.position(400)).encoded()
        #expect(Self.batches(session.receive(.frame(states))).map(\.seen) == [Self.position(400)])
        _ = session.receive(.stored)
        let progress = Frame.progress(Self.position(350)).encoded()
        #expect(Self.batches(session.receive(.frame(progress))).map(\.seen) == [Self.position(400)])
    }

    @Test("pages that are staged note the position they were read at, and a server names it on every one")
    func staged() throws {
        var session = SessionTests.openPeer()
        let query = try SubscriptionQuery(statement: "SELECT * FROM c")
        _ = session.receive(
            .subscribe(
                SubscriptionRequest(
                    key: query.canonicalKey, statement: "SELECT * FROM c", arguments: .object(ObjectValue()),
                    cursor: nil)))
        var page = Frame.CatchUp(id: 1, documents: [Exemplars.state])
        page.asOf = Self.position(310)
        let staged = session.receive(.frame(Frame.catchUp(page).encoded())).compactMap {
            if case .stage(let page) = $0 { page.seen } else { nil }
        }
        #expect(staged == [Self.position(310)])

        var server = SessionTests.openServer()
        SessionTests.grow(&server)
        let subscribe = Frame.Subscribe(
            id: 1, statement: "SELECT * FROM c", arguments: .object(ObjectValue()))
        _ = server.receive(.frame(Frame.subscribe(subscribe).encoded()))
        let large = DocumentUpdate(
            key: Exemplars.key(1),
            content: .state(EncodedState([UInt8](repeating: 1, count: Limits.batchBytes))))
        let read = CatchUpPage(
            documents: [large, large], candidates: [], offset: 300, head: nil, asOf: Self.position(312))
        let named = SessionTests.sent(server.receive(.page(subscription: 1, read))).compactMap { frame in
            if case .catchUp(let page) = frame { page.asOf } else { LogPosition?.none }
        }
        #expect(named == [Self.position(312), Self.position(312)])
    }

    @Test("what was staged of a log that has lost its end is not gone on with")
    func stagedOfAnotherLog() throws {
        var session = SessionTests.session(.peer)
        let query = try SubscriptionQuery(statement: "SELECT * FROM c")
        _ = session.receive(
            .subscribe(
                SubscriptionRequest(
                    key: query.canonicalKey, statement: "SELECT * FROM c", arguments: .object(ObjectValue()),
                    cursor: nil, resume: [9])))
        _ = session.receive(.opened)
        _ = session.receive(.ownActors(OwnHistory(seen: Self.position(400))))
        var hello = Frame.Hello(
            version: 3, databaseID: "d", peerKey: "", wallMilliseconds: 9, credit: 1 << 20, actors: [],
            head: Exemplars.position)
        hello.isBehind = true
        _ = session.receive(.frame(Frame.hello(hello).encoded()))
        _ = session.receive(.holdings([], isLast: true))
        _ = session.receive(.frame(Frame.reconciled(Exemplars.position).encoded()))
        let asked = SessionTests.sent(session.receive(.seenNoted)).compactMap { frame in
            if case .subscribe(let subscribe) = frame { subscribe } else { Frame.Subscribe?.none }
        }
        #expect(asked.count == 1 && asked.allSatisfy { $0.resume == nil })
    }

    /// A peer that has greeted; `declined` it told, and a server says `hello`.
    private static func greeted(declined: [UInt8]?, isBehind: Bool) -> Session {
        var session = SessionTests.session(.peer)
        _ = session.receive(.opened)
        _ = session.receive(.ownActors(OwnHistory(seen: position(400), declined: declined)))
        var hello = Frame.Hello(
            version: 3, databaseID: "d", peerKey: "", wallMilliseconds: 9, credit: 1 << 20, actors: [],
            head: position(400))
        hello.isBehind = isBehind
        _ = session.receive(.frame(Frame.hello(hello).encoded()))
        return session
    }

    private static func ended(_ actions: [Action]) -> Bool {
        actions.contains { if case .close(let error) = $0 { error.remedy == .reconnect } else { false } }
    }

    @Test("what a restored log was not given is offered anew when rights change", arguments: [false, true])
    func rightsComeBack(_ isEarly: Bool) {
        var session = Self.greeted(declined: [1], isBehind: false)
        let granted = Event.frame(Frame.granted.encoded())
        if isEarly {
            #expect(!Self.ended(session.receive(granted)))
            #expect(Self.ended(session.receive(.seenNoted)))
        } else {
            #expect(!Self.ended(session.receive(.seenNoted)))
            #expect(Self.ended(session.receive(granted)))
        }
        #expect(session.isClosed)
    }

    @Test("rights that change while a log is given back end the session where it has not taken all")
    func rightsChangeBetween() {
        for declined in [nil, [UInt8(2)]] {
            var session = Self.greeted(declined: [1], isBehind: true)
            _ = session.receive(.holdings([], isLast: true))
            _ = session.receive(.frame(Frame.granted.encoded()))
            let reconciled = Frame.reconciled(Self.position(400), declined: declined)
            _ = session.receive(.frame(reconciled.encoded()))
            #expect(Self.ended(session.receive(.seenNoted)) == (declined != nil))
            // A peer that owes nothing goes on, whatever its rights.
            #expect(Self.ended(session.receive(.frame(Frame.granted.encoded()))) == false)
        }
    }

    @Test("rights that change in the midst of a reconcile leave nothing untold", arguments: [false, true])
    func declined(_ isLate: Bool) {
        var session = SessionTests.openServer(isBehind: true)
        func told(_ actions: [Action]) -> [[UInt8]?] {
            SessionTests.sent(actions).compactMap { frame in
                if case .reconciled(_, let declined) = frame { declined } else { [UInt8]??.none }
            }
        }
        let keys = (1...2).map { Exemplars.key(Int64($0)) }
        let page = keys.map { DocumentVersion(key: $0, vector: VersionVector().encoded()) }
        #expect(told(session.receive(.frame(Frame.holdings([page[0]], isLast: false).encoded()))) == [])
        #expect(told(session.receive(.frame(Frame.holdings([page[1]], isLast: true).encoded()))) == [])
        #expect(told(session.receive(.lacking([], declined: isLate ? nil : [1]))) == [])
        guard isLate else {
            #expect(told(session.receive(.lacking([], declined: [2]))) == [[]])
            return
        }
        #expect(told(session.receive(.lacking([keys[1]]))) == [])
        #expect(
            told(session.receive(.frame(Frame.states([(key: keys[1], state: [1])], at: nil).encoded()))) == []
        )
        #expect(told(session.receive(.statesAdmitted(Self.position(301), declined: [1]))) == [[1]])
    }

    @Test("a subscription that was cancelled begins anew, whatever is asked for with it")
    func cancelled() {
        var session = SessionTests.openPeer()
        func request(_ resume: [UInt8]?) -> SubscriptionRequest {
            SubscriptionRequest(
                key: [1], statement: "SELECT * FROM c", arguments: .object(ObjectValue()), cursor: nil,
                resume: resume)
        }
        func asked(_ actions: [Action]) -> [[UInt8]?] {
            SessionTests.sent(actions).compactMap { frame in
                if case .subscribe(let subscribe) = frame { subscribe.resume } else { [UInt8]??.none }
            }
        }
        #expect(asked(session.receive(.subscribe(request([9])))) == [[9]])
        _ = session.receive(.unsubscribe(key: [1]))
        #expect(asked(session.receive(.stored) + session.receive(.subscribe(request([9])))) == [nil])
    }

    @Test("a subscription of which a session is told twice is one")
    func toldTwice() {
        var session = SessionTests.openPeer()
        let request = SubscriptionRequest(
            key: [1], statement: "SELECT * FROM c", arguments: .object(ObjectValue()), cursor: nil)
        #expect(SessionTests.sent(session.receive(.subscribe(request))).count == 1)
        #expect(SessionTests.sent(session.receive(.subscribe(request))).isEmpty)
    }

    @Test("writes that were passed over are acknowledged without an offset, so that their writer asks")
    func passedOver() {
        func told(_ events: [Event]) -> [Frame] {
            var server = SessionTests.openServer()
            for event in events { _ = server.receive(event) }
            let operation = Exemplars.operation
            _ = server.receive(.frame(Frame.upload([operation]).encoded()))
            let admitted = Acknowledgement(actor: Exemplars.actor, sequence: 1)
            return SessionTests.sent(server.receive(.appended([admitted], offset: 350)))
        }
        let admitted = [Acknowledgement(actor: Exemplars.actor, sequence: 1)]
        #expect(told([]).contains(.acknowledged(admitted, offset: 350)))
        #expect(told([.lagging(Self.position(349))]).contains(.acknowledged(admitted, offset: 350)))
        #expect(told([.lagging(Self.position(350))]).contains(.acknowledged(admitted, offset: 0)))
    }

    @Test("an answer ends within its bound, however large the documents are that were read together")
    func largeStates() {
        var server = SessionTests.openServer()
        let keys = (1...4).map { Exemplars.key($0) }
        _ = server.receive(.frame(Frame.want(keys).encoded()))
        let large = EncodedState([UInt8](repeating: 1, count: Limits.answerBytes / 2))
        let actions = server.receive(.states(keys.map { ($0, large) }, at: Exemplars.position))
        #expect(server.publisher?.waitingWants == 0)
        let whole = actions.reduce(0) { sum, action in
            if case .send(let bytes) = action { sum + bytes.count } else { sum }
        }
        #expect(whole < Limits.answerBytes + Limits.frameBytes)
    }

    @Test(
        "a repair notes the position of the states that it shows, unless that of a restored log comes first",
        arguments: [false, true])
    func repaired(_ isServerBehind: Bool) throws {
        var (session, actions) = Self.closedPeer(isServerBehind: isServerBehind)
        let first = try #require(Self.repairs(actions).first)
        #expect(first.closed == [Self.own.actor])
        #expect(first.admitted == [Self.own.actor: 4])
        #expect(first.diverged.isEmpty && first.seen == nil)
        #expect(
            SessionTests.sent(session.receive(.repairNeeds([Exemplars.key(1)]))) == [
                .want([Exemplars.key(1)])
            ])
        let states = Frame.states([(key: Exemplars.key(1), state: [1])], at: Self.position(400)).encoded()
        _ = session.receive(.frame(states))
        let noted = isServerBehind ? nil : Self.position(400)
        #expect(Self.repairs(session.receive(.repairStaged)).map(\.seen) == [noted])
    }

    @Test(
        "writes that are refused for their base again and again are set aside, unless something is admitted")
    func rounds() {
        var (session, first) = Self.closedPeer()
        var last = Self.repairs(first)
        func refuse(_ actor: UInt64, _ sequence: SequenceNumber) {
            _ = session.receive(.ownOperations(actor: ActorID(actor), [(sequence: sequence, bytes: [1])]))
            let refusal = Refusal(
                actor: ActorID(actor), sequence: sequence, error: SyncError(.baseNotCovered, "no base"))
            let actions = session.receive(.frame(Frame.refused(refusal).encoded()))
            last = Self.repairs(actions + session.receive(.ownOperations(actor: ActorID(actor), [])))
        }
        var writing = Self.own.actor
        func move(to actor: UInt64) {
            let outcome = RepairOutcome.Repaired(
                actor: ActorID(actor), left: [writing], pending: [ActorID(actor)], refused: [])
            writing = ActorID(actor)
            _ = session.receive(.repaired(outcome))
            if session.mayReceive(.seenNoted) { _ = session.receive(.seenNoted) }
        }
        for number in 0...UInt64(Limits.roundsForBase) {
            #expect(last.map(\.isFinal) == [false])
            move(to: 100 + number)
            refuse(100 + number, 1)
        }
        #expect(last.map(\.isFinal) == [true])
        move(to: 200)
        _ = session.receive(.ownOperations(actor: ActorID(200), [(sequence: 1, bytes: [1])]))
        let admitted = Frame.acknowledged([Acknowledgement(actor: ActorID(200), sequence: 1)])
        _ = session.receive(.frame(admitted.encoded()))
        refuse(200, 2)
        #expect(last.map(\.isFinal) == [false])
    }

    @Test("after a repair an actor that stays is uploaded before the new one, one that was left is not")
    func goingOn() {
        var (session, _) = Self.closedPeer()
        let outcome = RepairOutcome.Repaired(
            actor: ActorID(7), left: [Self.own.actor], pending: [ActorID(6), ActorID(7)], refused: [])
        _ = session.receive(.repaired(outcome))
        _ = session.receive(.ownOperationAdded(Self.own.actor))
        func read(_ actions: [Action]) -> [ActorID] {
            actions.compactMap { if case .readOwnOperations(let actor, _, _) = $0 { actor } else { nil } }
        }
        #expect(read(session.receive(.seenNoted)) == [ActorID(6)])
        _ = session.receive(.ownOperations(actor: ActorID(6), [(sequence: 1, bytes: [1])]))
        #expect(read(session.receive(.ownOperations(actor: ActorID(6), []))).isEmpty)
        let answer = Frame.acknowledged([Acknowledgement(actor: ActorID(6), sequence: 1)]).encoded()
        #expect(read(session.receive(.frame(answer))) == [ActorID(7)])
        #expect(read(session.receive(.ownOperations(actor: ActorID(7), []))).isEmpty)
    }
}
