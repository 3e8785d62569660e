import CRDT
import DQL
import Exchange

/// One connection between two stores as a state machine without sockets or clocks: the same type on both
/// ends.
///
/// Every event returns actions; some actions are answered by later events. The driver performs the actions
/// of one session in order and delivers events one at a time.
///
/// Invariants of Sync (`Shared/Rules.md`): 1. Nothing leaves a store before it is durable; nothing is
/// acknowledged before it is durable in the log. 4. A cursor names log, position, content and filter; if
/// any differs, reconcile. 5. Every message either advances the receiver durably or makes it ask. 6.
/// Visibility moves from one operation boundary to the next; nothing outside grant and subscription is
/// sent.
///
/// Bounds: unsent and unstored data frames are limited by credit on both sides (`Limits.creditBytes` and
/// one frame); a publisher keeps no operations per receiver, only positions.
///
/// Parts: this file has the handshake and the table of legal frames, `FlowControl` credit and what leaves,
/// `Assembly` messages in chunks. The rest is done by four machines, whose state is their own: `Reader`
/// asks for documents and stores them, `Writer` uploads, `Publisher` serves subscriptions, `Admitter` takes
/// operations to the log. They tell each other `Message`s, and that list is the drawing. A peer is a reader
/// and a writer, a server a publisher and an admitter. Between two small peers each is a reader and a
/// publisher: nobody uploads, because neither has the log.
public struct Session: Sendable {
    private let own: Introduction
    private(set) var phase = Phase.created
    /// True if the peer has links, and this server takes what they bring.
    private var takesLinks = false
    /// True if the other side knows presence, and so does this one.
    private var hasPresence = false
    private var isPresenceOpen = false
    /// True if both small peers take newer certificates.
    private var takesCertificates = false
    private(set) var flow: FlowControl
    private var assembly: Assembly
    /// Frames of the other small peer that came before this side has met it, and their bytes.
    private var early: (frames: [[UInt8]], bytes: Int) = ([], 0)
    private(set) var reader: Reader?
    private(set) var writer: Writer?
    private(set) var publisher: Publisher?
    private(set) var admitter: Admitter?

    /// A session that waits for `opened`.
    public init(_ configuration: Configuration) {
        own = Introduction(configuration)
        flow = FlowControl(
            creditBytes: configuration.creditBytes, batchBytes: configuration.batchBytes,
            trace: configuration.trace)
        assembly = Assembly(kept: configuration.kept, holding: configuration.holdingPart)
        switch configuration.role {
        case .peer:
            reader = Reader()
            writer = Writer(
                wallMilliseconds: configuration.wallMilliseconds, writeRules: configuration.writeRules)
        case .server(let origin):
            publisher = Publisher(
                origin: origin, access: configuration.access, sharing: configuration.sharing,
                interruption: configuration.interruption, holding: configuration.holding)
            admitter = Admitter()
        case .mesh:
            reader = Reader()
            // No session is an operation's origin: echo is suppressed by what the other side has.
            publisher = Publisher(
                origin: 0, access: configuration.access, sharing: nil,
                interruption: configuration.interruption, known: EchoFilter())
        }
    }

    /// True if the session has ended; later events are no-ops.
    public var isClosed: Bool { flow.isClosed }
    /// True if the handshake is complete.
    public var isOpen: Bool { flow.isOpen }
    /// The part of a message in chunks that a later session can continue.
    public var partial: PartialMessage? { assembly.partial }

    /// Handles one event and returns the resulting actions, in order. An answer that was not asked for is a
    /// mistake of the driver, and traps.
    public mutating func receive(_ event: Event) -> [Action] {
        guard !flow.isClosed else { return [] }
        let before = flow.traced(name)
        defer { flow.trace(.session, from: before, to: name) }
        do throws(SyncError) {
            try handle(event)
            openPresence()
            if writer?.hasRepair ?? false { try toWriter(.eventHandled) }
            guard flow.waitingBytes <= Limits.waitingBytes else {
                throw SyncError(.unavailable, "\(flow.waitingBytes) bytes wait for the other side's credit")
            }
        } catch {
            // The last frame: the other side is told why.
            flow.send(.close(error))
            end(error)
        }
        return flow.takeActions()
    }

    private mutating func handle(_ event: Event) throws(SyncError) {
        switch event {
        case .opened: try open()
        case .frame(let bytes): try arrived(bytes)
        case .failed(let reason): throw SyncError(.unavailable, reason)
        case .finish(let error): throw error
        case .disconnected: flow.close()
        case .tell(let news): if hasPresence, flow.isOpen { flow.send(.presence(news)) }
        case .renewCertificate(let der): renewCertificate(der)
        case .took(let position): if hasPresence, flow.isOpen { flow.send(.taken(position)) }
        case .ownActors(let history): try greet(history)
        case .met(let meeting): try met(meeting)
        case .frontier(let heads, let head, let isBehind, let hashes):
            try answerGreeting(heads, head, isBehind, hashes)
        case .page(let id, let page): try toPublisher(.page(id: id, page))
        case .unknownPlace(let id): try toPublisher(.unknownPlace(id: id))
        case .compared(let id, let answer): try toPublisher(.compared(id: id, answer))
        case .tooCostly(let id): try toPublisher(.tooCostly(id: id))
        case .grantChanged(let access): if publisher != nil { try toPublisher(.grantChanged(access)) }
        case .operations(let operations, let position):
            try toPublisher(.operations(operations, through: position))
        case .lagging(let head): try toPublisher(.lagging(head))
        case .states(let states, let position, let gone):
            if publisher != nil {
                try toPublisher(.states(states, at: position, gone: gone))
            } else {
                try toWriter(.states(states, at: position))
            }
        case .appended(let acknowledgements, let offset):
            try toAdmitter(.appended(acknowledgements, offset: offset))
        case .refused(let acknowledgements, let refusals, let offset):
            try toAdmitter(.refused(acknowledgements, refusals, offset: offset))
        case .deferred(let acknowledgements, let deferrals, let refusals, let offset):
            try toAdmitter(.deferred(acknowledgements, deferrals, refusals, offset: offset))
        case .renewed: try toAdmitter(.renewed)
        case .lacking(let keys, let declined): try toAdmitter(.lacking(keys, declined: declined))
        case .statesAdmitted(let position, let declined):
            try toAdmitter(.statesAdmitted(position, declined: declined))
        default: try handleAtPeer(event)
        }
    }

    private mutating func renewCertificate(_ der: [UInt8]) {
        guard takesCertificates, flow.isOpen else { return }
        flow.send(.certificate(der))
        flow.perform(.certificateTold(der))
    }

    /// A reader tells its presence from the moment on at which the session is open.
    private mutating func openPresence() {
        guard hasPresence, !isPresenceOpen, reader != nil, flow.isOpen else { return }
        isPresenceOpen = true
        flow.perform(.presenceOpens)
    }

    private mutating func handleAtPeer(_ event: Event) throws(SyncError) {
        switch event {
        case .subscribe(let request): try toReader(.subscribe(request))
        case .unsubscribe(let key): try toReader(.unsubscribe(key: key))
        case .wanted(let keys): try toReader(.wanted(keys))
        case .stored: try toReader(.stored)
        case .returning(let keys): try toReader(.returning(keys))
        case .wanting(let keys): try toReader(.wanting(keys))
        case .outdated(let keys): try toReader(.outdated(keys))
        case .vectors(let versions): try toReader(.vectors(versions))
        case .held(let key, let versions, let isLast):
            try toReader(.held(key: key, versions, isLast: isLast))
        case .ownOperationAdded(let actor):
            try toReader(.storeChanged)
            if writer != nil { try toWriter(.ownOperationAdded(actor)) }
        case .historyCompared(let comparisons): try toWriter(.historyCompared(comparisons))
        case .seenNoted: try toWriter(.seenNoted)
        case .ownOperations(let actor, let operations): try toWriter(.ownOperations(actor, operations))
        case .holdings(let versions, let isLast): try toWriter(.holdings(versions, isLast: isLast))
        case .repairNeeds(let keys): try toWriter(.repairNeeds(keys))
        case .repairStaged: try toWriter(.repairStaged)
        case .repaired(let outcome): try toWriter(.repaired(outcome))
        case .renew(let token): try toWriter(.renew(token: token))
        case .basesGiven(let areHeld): try toWriter(.basesGiven(areHeld: areHeld))
        case .linksBrought: if writer != nil { try toWriter(.linksBrought) }
        default: preconditionFailure("\(event) is handled elsewhere")
        }
    }

    // MARK: The machines

    private mutating func toReader(_ event: Reader.Event) throws(SyncError) {
        precondition(reader != nil, "this session reads nothing")
        guard let messages = try reader?.handle(event, &flow), !messages.isEmpty else { return }
        for message in messages { try deliver(message) }
    }

    private mutating func toWriter(_ event: Writer.Event) throws(SyncError) {
        precondition(writer != nil, "this session writes nothing")
        guard let messages = try writer?.handle(event, &flow), !messages.isEmpty else { return }
        for message in messages { try deliver(message) }
    }

    private mutating func toPublisher(_ event: Publisher.Event) throws(SyncError) {
        precondition(publisher != nil, "this session publishes nothing")
        guard let messages = try publisher?.handle(event, &flow), !messages.isEmpty else { return }
        for message in messages { try deliver(message) }
    }

    private mutating func toAdmitter(_ event: Admitter.Event) throws(SyncError) {
        precondition(admitter != nil, "this session admits nothing")
        guard let messages = try admitter?.handle(event, &flow), !messages.isEmpty else { return }
        for message in messages { try deliver(message) }
    }

    private mutating func deliver(_ message: Message) throws(SyncError) {
        switch message {
        case .exchangeBegins(let resumesStaged):
            try toReader(.exchangeBegins(resumesStaged: resumesStaged))
        case .barrierReached(let ask): try toReader(.barrierReached(ask))
        case .askNext: try toReader(.askNext)
        case .acknowledged(let acknowledgements, let offset):
            try toReader(.acknowledged(acknowledgements, offset: offset))
        case .rightsChanged: try toReader(.rightsChanged)
        case .repairIsDue: try toReader(.repairIsDue)
        case .mayRepair: try toReader(.mayRepair)
        case .mayFollow(let position): try toReader(.mayFollow(to: position))
        case .lendStream(let position): try toReader(.lendStream(to: position))
        case .fetchForRepair(let keys): try toReader(.fetchForRepair(keys))
        case .repairEnded(let isFollowed, let isAnotherDue):
            try toReader(.repairEnded(isFollowed: isFollowed, isAnotherDue: isAnotherDue))
        case .announce(let key): try toReader(.announce(key: key))
        case .askWhenReached(let ask):
            // Another small peer is asked at once: nothing is uploaded to it that it could lack.
            guard writer != nil else {
                try toReader(.barrierReached(ask))
                return try toReader(.askNext)
            }
            try toWriter(.askWhenReached(ask))
        case .purged(let keys): try toWriter(.purged(keys))
        case .readerIsIdle: try toWriter(.readerIsIdle)
        case .repairStates(let states, let position, let isComplete):
            try toWriter(.repairStates(states, at: position, isComplete: isComplete))
        case .streamWillNotFollow: try toWriter(.streamWillNotFollow)
        case .streamLent(let reception): try toWriter(.streamLent(reception))
        case .resume: try toWriter(.resume)
        case .beginExchange: try toWriter(.beginExchange)
        case .appendBegan: try toPublisher(.appendBegan)
        case .appendEnded(let offset): try toPublisher(.appendEnded(through: offset))
        case .progressTold(let size): try toAdmitter(.progressTold(size: size))
        // Between small peers nobody has uploaded anything that would be answered.
        case .answersSkipped(let offset):
            if admitter != nil { try toAdmitter(.answersSkipped(through: offset)) }
        }
    }

    // MARK: Frames

    private mutating func arrived(_ bytes: [UInt8]) throws(SyncError) {
        guard bytes.count <= Limits.frameBytes else {
            throw SyncError(.frameTooLarge, "a frame of \(bytes.count) bytes exceeds \(Limits.frameBytes)")
        }
        if phase == .meeting { return try keepEarly(bytes) }
        let frame = try Frame(decoding: bytes)
        guard case .chunk(let isLast, let piece, let hash, let place) = frame else {
            return try dispatch(frame, size: bytes.count)
        }
        guard flow.isOpen else { throw unexpected("a chunk") }
        guard let message = try assembly.take(piece, isLast: isLast, of: hash, at: place) else {
            // A large message may take its time.
            if reader != nil { try toReader(.chunk) }
            return
        }
        let inner = try Frame(decoding: message)
        if case .chunk = inner { throw unexpected("a chunk of chunks") }
        try dispatch(inner, size: message.count)
    }

    /// The other side may have opened the session already.
    private mutating func keepEarly(_ bytes: [UInt8]) throws(SyncError) {
        guard early.bytes + bytes.count <= Limits.earlyBytes else {
            throw SyncError(.creditExceeded, "\(early.bytes) bytes came before this side had met the other")
        }
        early.frames.append(bytes)
        early.bytes += bytes.count
    }

    /// The table of legal frames: after the handshake each has a machine that takes it; any other is refused.
    private mutating func dispatch(_ frame: Frame, size: Int) throws(SyncError) {
        if frame.isData { try flow.spend(size) }
        let (isReader, isWriter) = (reader != nil, writer != nil)
        let (isPublisher, isAdmitter) = (publisher != nil, admitter != nil)
        if isReader, isPublisher, flow.isOpen { try toPublisher(.otherSideHas(frame.documents)) }
        switch frame {
        // Before it is open:
        case .close(let error): end(error)
        case .hello(let hello) where phase == .awaitingHello: try greeted(hello)
        case .granted where isWriter && phase == .greeted: try toWriter(.granted)
        case _ where !flow.isOpen: throw unexpected(frame.name)
        // Any session:
        case .credit(let bytes): try credited(bytes)
        case .presence(let news) where hasPresence && isPublisher: flow.perform(.presence(news))
        case .taken(let position) where hasPresence && isReader && isPublisher:
            flow.perform(.taken(position))
        case .certificate(let der) where takesCertificates: flow.perform(.certificate(der))
        // A reader:
        case .catchUp(let page) where isReader: try toReader(.catchUp(page, size: size))
        case .operations(let operations) where isReader: try toReader(.operations(operations, size: size))
        case .progress(let position, let skipped) where isReader && (isWriter || !skipped):
            try toReader(skipped ? .skipped(position, size: size) : .progress(position))
        case .states(let states, let position, let isPart, let gone) where isReader:
            try toReader(.states(states, at: position, isPart: isPart, gone: gone, size: size))
        case .subscriptionRefused(let id, let error, let hides) where isReader:
            try toReader(.subscriptionRefused(id: id, error, hides: hides))
        case .list(let id, let last) where isReader: try toReader(.list(id: id, after: last))
        case .granted where isReader && !isWriter: try toReader(.rightsChanged)
        // A writer:
        case .acknowledged(let acknowledgements, let offset) where isWriter:
            try toWriter(.acknowledged(acknowledgements, offset: offset))
        case .refused(let refusal) where isWriter: try toWriter(.refused(refusal))
        case .deferred(let deferral) where isWriter: try toWriter(.deferred(deferral))
        case .reconciled(let position, let declined) where isWriter:
            try toWriter(.reconciled(position, declined: declined))
        case .want(let keys, _) where isWriter: try toWriter(.want(keys))
        // A publisher:
        case .subscribe(let request) where isPublisher: try toPublisher(.subscribe(request, size: size))
        case .unsubscribe(let id) where isPublisher: try toPublisher(.unsubscribe(id: id))
        case .held(let id, let versions, let isLast) where isPublisher:
            let page = HoldingsPage(candidates: versions, isLast: isLast)
            try toPublisher(.held(id: id, page, size: size))
        case .want(let keys, let held) where isPublisher: try toPublisher(.want(keys, held: held))
        // An admitter:
        case .upload(let operations) where isAdmitter: try toAdmitter(.upload(operations, size: size))
        case .holdings(let versions, let isLast) where isAdmitter:
            let page = HoldingsPage(candidates: versions, isLast: isLast)
            try toAdmitter(.holdings(page, size: size))
        case .states(let states, _, let isPart, _) where isAdmitter:
            try toAdmitter(.states(states, isPart: isPart))
        case .renewal(let token) where isAdmitter: try toAdmitter(.renewal(token: token))
        default: throw unexpected(frame.name)
        }
    }

    private func unexpected(_ what: String) -> SyncError {
        .unexpected(what, while: flow.isOpen ? "open" : phase == .created ? "created" : "greeting")
    }

    private mutating func credited(_ bytes: UInt64) throws(SyncError) {
        try flow.credited(bytes)
        if reader != nil { try toReader(.credited) }
        if writer != nil { try toWriter(.credited) }
        if publisher != nil { try toPublisher(.credited) }
    }

    // MARK: The handshake

    private mutating func open() throws(SyncError) {
        precondition(phase == .created, "a session is opened once; it is \(phase)")
        if let link = own.link {
            phase = .awaitingHello
            if link.isDialer { flow.send(.hello(hello([], nil))) }
            return
        }
        guard writer != nil else { return phase = .awaitingHello }
        phase = .readingActors
        flow.perform(.readOwnActors)
    }

    /// A peer speaks first; a server answers once.
    private mutating func greet(_ history: OwnHistory) throws(SyncError) {
        precondition(phase == .readingActors, "own actors were not asked for; the session is \(phase)")
        phase = .awaitingHello
        var hello = hello(history.heads, history.seen)
        hello.proof = own.proof
        hello.hasPresence = own.hasPresence
        try toWriter(.greet(history, hello))
    }

    private mutating func greeted(_ hello: Frame.Hello) throws(SyncError) {
        // Both sides speak the older of the two versions.
        guard hello.version >= leastVersion else {
            throw SyncError(.versionMismatch, "protocol version \(hello.version) is not spoken any more")
        }
        guard hello.databaseID == own.databaseID else {
            throw SyncError(.wrongDatabase, "the other side serves another database")
        }
        if let isProven = own.isProven, !isProven(hello.proof) {
            throw SyncError(.keyNotProven, "the peer does not prove to hold the key that its token names")
        }
        flow.greeted(hello)
        if let link = own.link { return try meet(hello, over: link) }
        phase = .greeted
        hasPresence = own.hasPresence && hello.hasPresence
        if writer != nil {
            try toWriter(.hello(hello))
        } else {
            var history = OwnHistory(
                heads: hello.actors, acknowledged: hello.acknowledged, seen: hello.head,
                declined: hello.declined)
            history.hasLinks = hello.hasLinks
            takesLinks = hello.hasLinks
            flow.perform(.readFrontier(history))
        }
    }

    /// The server's half of the handshake: its head, and how far it knows the peer's actors.
    private mutating func answerGreeting(
        _ heads: [ActorHead], _ head: LogPosition, _ isBehind: Bool, _ hashes: [OperationHashes]
    ) throws(SyncError) {
        precondition(expectsFrontier, "no frontier was asked for; the session is \(phase)")
        flow.open()
        try toAdmitter(
            .greeted(
                head: head, isBehind: isBehind, takesLinks: takesLinks,
                defers: takesLinks && flow.version >= Limits.meshVersion))
        var hello = hello(heads, head)
        hello.isBehind = isBehind
        hello.hasLinks = takesLinks
        if takesLinks, flow.version >= Limits.meshVersion { hello.version = Limits.meshVersion }
        hello.hasPresence = hasPresence
        hello.hashes = hashes
        flow.send(.hello(hello))
        try toPublisher(.greeted(head: head))
    }

    /// Another small peer has greeted.
    private mutating func meet(_ hello: Frame.Hello, over link: MeshLink) throws(SyncError) {
        guard let other = hello.mesh, other.syncGroup == link.greeting.syncGroup else {
            throw SyncError(.otherGroup, "the other peer belongs to another sync group, or is no small peer")
        }
        guard other.feed != link.greeting.feed else {
            let isItself = other.starts == link.greeting.starts && other.start == link.greeting.start
            throw isItself
                ? SyncError(.doubleLink, "this address leads to the peer itself")
                : SyncError(.sameStore, "two running stores have one feed: one is a copy of the other")
        }
        phase = .meeting
        hasPresence = own.hasPresence && other.record != nil
        takesCertificates = link.greeting.takesCertificates && other.takesCertificates
        let difference = Int64(clamping: hello.wallMilliseconds) - Int64(clamping: own.wallMilliseconds)
        flow.perform(.report(.connected(clockDifferenceMilliseconds: difference)))
        flow.perform(.meet(other, peerKey: hello.peerKey))
    }

    /// The store has met the other one: the session is open, and each side asks for its subscriptions.
    private mutating func met(_ meeting: MeshMeeting) throws(SyncError) {
        precondition(phase == .meeting, "nobody was met; the session is \(phase)")
        phase = .greeted
        if let link = own.link, !link.isDialer { flow.send(.hello(hello([], nil))) }
        flow.open()
        // Before the frames that came early: they may be news.
        openPresence()
        try toPublisher(.greeted(head: meeting.head))
        for request in meeting.requests { try toReader(.subscribe(request)) }
        try toReader(.exchangeBegins(resumesStaged: true))
        let frames = early.frames
        early = ([], 0)
        for frame in frames where !flow.isClosed { try arrived(frame) }
    }

    var expectsFrontier: Bool { phase == .greeted && publisher != nil && !flow.isOpen }

    /// The name of its state, for logs and traps.
    var name: String { flow.isClosed ? "closed" : flow.isOpen ? "open" : phase.name }

    /// The version that this side speaks at least; a peer with links and its server agree on the later one.
    private var leastVersion: UInt64 { own.link == nil ? Limits.protocolVersion : Limits.meshVersion }

    private func hello(_ heads: [ActorHead], _ head: LogPosition?) -> Frame.Hello {
        var hello = Frame.Hello(
            version: leastVersion, databaseID: own.databaseID, peerKey: own.peerKey,
            wallMilliseconds: own.wallMilliseconds,
            credit: UInt64(own.creditBytes), actors: heads, head: head)
        hello.kept = partial.map { Frame.Kept(hash: $0.hash, count: UInt64($0.count)) }
        hello.mesh = own.link?.greeting
        return hello
    }

    private mutating func end(_ error: SyncError) {
        flow.perform(.close(error))
        flow.close()
    }

    /// The present state. Mutating only to be read in place: a non-mutating call would copy the session,
    /// which costs more than a short event.
    public mutating func standing() -> Standing {
        Standing(
            waitingBytes: flow.waitingBytes, catchingUp: publisher?.countCatchingUp() ?? 0,
            isClosed: flow.isClosed)
    }
}
