import CRDT
import DQL
import Exchange
import Sync

func fuzzFrame(_ bytes: [UInt8]) {
    guard let frame = try? Frame(decoding: bytes) else { return }
    let encoded = frame.encoded()
    guard let again = try? Frame(decoding: encoded) else {
        return require(false, "what a frame is written as does not decode")
    }
    require(again.encoded() == encoded, "a frame is written in two ways")
}

/// Bytes as events: any of them in any state must let the session go on, or close it with a code of ours (or
/// the one that the other side gave); the close comes last, and nothing after it.
func fuzzSession(_ bytes: [UInt8]) { drive(bytes) { _, _ in } }

/// The actions that an input leads a session to: "asks readPage", "sends catchUp", "closes SYNC-0104". They
/// show whether seeds and corpus reach deep code, beyond greeting, subscription and credit.
public func reachedBySession(_ bytes: [UInt8]) -> Set<String> {
    var reached: Set<String> = []
    drive(bytes) { event, actions in
        for action in actions {
            switch action {
            case .send(let frame):
                guard let frame = try? Frame(decoding: frame) else {
                    require(false, "what a session sends does not decode")
                    return
                }
                reached.insert("sends \(name(of: frame))")
            case .close(let error):
                // What the other side closes with may be any text.
                guard !event.isFrame || SyncErrorCode(rawValue: error.code) != nil else { continue }
                reached.insert("closes \(error.code)")
            default: reached.insert("asks \(name(of: action))")
            }
        }
    }
    return reached
}

/// The name of an enumeration's case.
private func name(of value: Any) -> String {
    Mirror(reflecting: value).children.first?.label ?? "\(value)"
}

private func drive(_ bytes: [UInt8], _ watch: (Event, [Action]) -> Void) {
    var source = EventSource(bytes: bytes)
    var session = source.session()
    var steps = 0
    while let event = source.next(), steps < 2_000 {
        steps += 1
        // An answer that was not asked for is a driver's mistake, not a stranger's.
        guard session.mayReceive(event) else { continue }
        let wasClosed = session.isClosed
        let actions = session.receive(event)
        session.checkInvariants()
        watch(event, actions)
        require(!wasClosed || actions.isEmpty, "a closed session does something")
        let closes = actions.indices.filter { if case .close = actions[$0] { true } else { false } }
        require(
            closes.count == (session.isClosed && !wasClosed && !event.endsSilently ? 1 : 0), "closes once")
        guard let place = closes.first, case .close(let error) = actions[place] else { continue }
        require(place == actions.count - 1, "a close is not the last action")
        require(!error.code.isEmpty || event.isFrame, "a close without a code")
    }
}

extension Event {
    /// The transport is gone: nobody is left to be told.
    fileprivate var endsSilently: Bool { if case .disconnected = self { true } else { false } }
    fileprivate var isFrame: Bool { if case .frame = self { true } else { false } }
}

/// Reads events from a fuzzer's bytes.
private struct EventSource {
    let bytes: [UInt8]
    var place = 0

    init(bytes: [UInt8]) { self.bytes = bytes }

    mutating func byte() -> UInt8 {
        defer { place += 1 }
        return place < bytes.count ? bytes[place] : 0
    }

    mutating func run() -> [UInt8] {
        let length = Int(byte()) << 8 | Int(byte())
        let start = min(place, bytes.count)
        let end = min(start + length, bytes.count)
        place = end
        return Array(bytes[start..<end])
    }

    private mutating func key() -> DocumentKey {
        guard let id = try? DocumentID(.int(Int64(byte() % 8))) else {
            preconditionFailure("an integer is an id")
        }
        return DocumentKey(collection: byte() % 2 == 0 ? "cars" : "boats", id: id)
    }

    private mutating func position() -> LogPosition {
        guard let log = LogID(bytes: Array(repeating: byte() % 2, count: LogID.byteCount)) else {
            preconditionFailure("sixteen bytes are an id")
        }
        let offsets: [Offset] = [0, 1, 299, 300, 301, Offset(UInt64(Int64.max)), .max]
        return LogPosition(logID: log, offset: offsets[Int(byte()) % offsets.count], hash: 1)
    }

    private mutating func actor() -> ActorID { ActorID(UInt64(byte() % 4)) }
    private mutating func flag() -> Bool { byte() % 2 == 1 }

    mutating func session() -> Session {
        let kind = byte()
        let role: Session.Role =
            kind & 32 != 0
            ? .mesh(Self.link(feed: 0, isDialer: kind & 64 == 0))
            : kind % 2 == 0 ? .peer : .server(origin: 1)
        var session = Session(
            Session.Configuration(
                role: role, databaseID: "d", peerKey: "",
                wallMilliseconds: 5, creditBytes: kind & 4 == 0 ? 4_194_304 : 400,
                batchBytes: kind & 8 == 0 ? 262_144 : 64,
                access: ReadAccess(collection: { $0 != "hidden" })))
        guard kind & 2 != 0 else { return session }
        let first: [Event] =
            kind & 32 != 0
            ? [.opened, .frame(Self.greetingOfLink), .met(MeshMeeting(head: position(), requests: []))]
            : kind % 2 == 0
                ? [.opened, .ownActors(OwnHistory()), .frame(hello), .seenNoted]
                : [.opened, .frame(hello), .frontier([], head: position(), isBehind: kind & 16 != 0)]
        for event in first where session.mayReceive(event) { _ = session.receive(event) }
        return session
    }

    private static func link(feed: UInt8, isDialer: Bool) -> Session.MeshLink {
        guard let feed = LogID(bytes: Array(repeating: feed, count: LogID.byteCount)) else {
            preconditionFailure("sixteen bytes are an id")
        }
        var greeting = MeshGreeting(feed: feed)
        greeting.takesVoid = true
        return Session.MeshLink(isDialer: isDialer, greeting: greeting)
    }

    /// The greeting of another small peer.
    private static let greetingOfLink: [UInt8] = {
        var other = Session(
            Session.Configuration(
                role: .mesh(link(feed: 1, isDialer: true)), databaseID: "d", peerKey: "",
                wallMilliseconds: 5, access: .everything))
        for case .send(let frame) in other.receive(.opened) { return frame }
        preconditionFailure("who dials speaks first")
    }()

    /// A greeting that either side takes.
    private var hello: [UInt8] {
        var writer = CBORWriter()
        writer.map(count: 7)
        for (key, number) in [(0, 1), (1, 3)] as [(UInt64, UInt64)] {
            writer.unsigned(key)
            writer.unsigned(number)
        }
        writer.unsigned(2)
        writer.text("d")
        writer.unsigned(3)
        writer.text("")
        for (key, number) in [(4, 9), (5, 2_000)] as [(UInt64, UInt64)] {
            writer.unsigned(key)
            writer.unsigned(number)
        }
        writer.unsigned(6)
        writer.array(count: 0)
        return writer.bytes
    }

    mutating func next() -> Event? {
        guard place < bytes.count else { return nil }
        switch byte() % 48 {
        case 0...7: return .frame(run())
        case 8: return .opened
        case 9: return .subscribe(request())
        case 10: return .unsubscribe(key: [byte() % 3])
        case 11:
            return .ownActors(
                OwnHistory(heads: [ActorHead(actor: actor(), sequence: 7, hash: 9)], seen: position()))
        case 12:
            return .ownOperations(
                actor: actor(), flag() ? [] : [(sequence: SequenceNumber(UInt64(byte())), bytes: run())])
        case 13: return .ownOperationAdded(actor())
        case 14...17: return .stored
        case 18: return .wanting([key()])
        case 19: return .outdated(flag() ? [key()] : [])
        case 20: return flag() ? .vectors([candidate()]) : .wanted([key(), key()])
        case 21: return .returning([key()])
        case 22: return .held(key: [byte() % 3], [candidate()], isLast: flag())
        case 23: return .repairNeeds(flag() ? [key()] : [])
        case 24: return .repairStaged
        case 25: return .seenNoted
        case 26: return .holdings([candidate()], isLast: flag())
        case 27: return .historyCompared([standing()])
        case 28:
            let current = actor()
            let left: Set<ActorID> = flag() ? [actor()] : []
            return .repaired(
                RepairOutcome.Repaired(
                    actor: current, left: left, pending: flag() ? [actor()] : [], refused: []))
        case 40: return .met(MeshMeeting(head: position(), requests: flag() ? [request()] : []))
        case 41:
            let deferral = Deferral(
                actor: actor(), sequence: SequenceNumber(UInt64(byte() % 4)).next, documents: [key()])
            return .deferred([], [deferral], [], offset: Offset(UInt64(byte())))
        case 42: return .basesGiven(areHeld: flag())
        case 43: return .linksBrought
        case 44: return .took(position())
        case 45: return .renewCertificate(run())
        default: return nextOfServer()
        }
    }

    private mutating func nextOfServer() -> Event {
        switch byte() % 16 {
        case 0: return .frontier([], head: position(), isBehind: flag())
        case 1: return .page(subscription: UInt64(byte() % 8), page())
        case 2:
            let id = UInt64(byte() % 8)
            return flag() ? .unknownPlace(subscription: id) : .tooCostly(subscription: id)
        case 3:
            var answer = HoldingsAnswer()
            if flag() { answer.documents = [update()] }
            if flag() { answer.gone = [candidate()] }
            if flag() { answer.hidden = [key()] }
            if flag() { answer.through = key().id }
            return .compared(subscription: UInt64(byte() % 8), answer)
        case 4:
            let (isOpen, mark) = (flag(), UInt64(byte() % 4))
            return .grantChanged(ReadAccess(collection: { _ in isOpen }, mark: { _ in mark }))
        case 5: return .operations([operation()], through: position())
        case 6: return .lagging(position())
        case 7:
            return .appended(
                [Acknowledgement(actor: actor(), sequence: 1)], offset: Offset(UInt64(byte())))
        case 8:
            let codes = SyncErrorCode.allCases
            let refusal = Refusal(
                actor: actor(), sequence: SequenceNumber(UInt64(byte() % 4)).next,
                error: SyncError(codes[Int(byte()) % codes.count], "fuzzed"))
            return .refused([], [refusal])
        case 9:
            return .states(
                [(key: key(), state: flag() ? EncodedState(run()) : nil)], at: flag() ? position() : nil,
                gone: flag() ? [candidate()] : [])
        case 10: return .lacking(flag() ? [key()] : [])
        case 11: return .statesAdmitted(position())
        case 12: return .failed("fuzzed")
        case 13: return .renewed
        case 14: return .renew(token: "t")
        default: return .disconnected
        }
    }

    private mutating func standing() -> HistoryComparison {
        let states: [HistoryComparison.State] = [.open, .closed, .forked]
        return HistoryComparison(
            actor: actor(), admitted: SequenceNumber(UInt64(byte() % 8)), state: states[Int(byte()) % 3],
            isExact: flag())
    }

    private mutating func request() -> SubscriptionRequest {
        SubscriptionRequest(
            key: [byte() % 3], statement: flag() ? "SELECT * FROM cars" : "SELECT * FROM boats WHERE a = 1",
            arguments: .object(ObjectValue()), cursor: flag() ? position() : nil,
            resume: flag() ? run() : nil, holds: flag())
    }

    private mutating func candidate() -> DocumentVersion {
        let vector = flag() ? VersionVector([.init(actor: actor(), time: 9)]).encoded() : run()
        return DocumentVersion(key: key(), vector: vector)
    }

    private mutating func update() -> DocumentUpdate {
        switch byte() % 3 {
        case 0: DocumentUpdate(key: key(), content: .state(EncodedState(run())))
        case 1: DocumentUpdate(key: key(), content: .gone(run()))
        default:
            DocumentUpdate(key: key(), content: .delta(Stamp(time: 9, actor: actor()), EncodedDelta(run())))
        }
    }

    private mutating func page() -> CatchUpPage {
        let (head, reached) = (flag() ? position() : nil, flag() ? position() : nil)
        return CatchUpPage(
            documents: flag() ? [DocumentUpdate(key: key(), content: .state(EncodedState(run())))] : [],
            candidates: flag() ? [candidate()] : [], offset: Offset(UInt64(byte())), head: head,
            reached: reached)
    }

    private mutating func operation() -> FoldedOperation {
        let change = FoldedOperation.Change(
            key: key(), delta: flag() ? EncodedDelta(run()) : nil, before: flag() ? EncodedState(run()) : nil,
            after: EncodedState(run()),
            gone: flag() ? run() : nil)
        return FoldedOperation(
            position: position(), stamp: Stamp(time: 1, actor: actor()), origin: flag() ? 1 : nil,
            changes: [change])
    }
}
