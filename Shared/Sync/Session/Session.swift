import CRDT
import DQL
import Exchange

/// One connection between two stores as a state machine without sockets or clocks: the same type on both
/// ends.
///
/// Every event returns actions; some actions are answered by later events. The driver performs the actions
/// of one session in order and delivers events one at a time.
///
/// Invariants of Sync (`Shared/Rules.md`):
/// 1. Nothing leaves a store before it is durable; nothing is acknowledged before it is durable in the log.
/// 4. A cursor names log, position, content and filter; if any differs, reconcile.
/// 5. Every message either advances the receiver durably or makes it ask.
/// 6. Visibility moves from one operation boundary to the next; nothing outside grant and subscription is
///    sent.
///
/// Bounds: unsent and unstored data frames are limited by credit on both sides (`Limits.creditBytes` and
/// one frame); a publisher keeps no operations per receiver, only positions.
///
/// Parts: this file has the life of a session, credit and chunks; `Subscriber` requests and stores,
/// `Uploader` sends own operations, `Publisher` serves subscriptions, `Admission` takes operations to the
/// log, `Repairing` and `Reconciler` bring peer and server back in line.
public struct Session: Sendable {
    /// The half of the protocol that this end plays. (A mesh peer will play both.)
    public enum Role: Sendable, Equatable {
        /// Subscribes and uploads.
        case peer
        /// Publishes and admits. `origin` identifies its sessions in `FoldedOperation.origin`.
        case server(origin: UInt64)
    }

    /// The identity of this end, and the rights of the other.
    public struct Configuration: Sendable {
        /// The role.
        public let role: Role
        /// The database both ends must name.
        public let databaseID: DatabaseID
        /// The public key text that the hello carries.
        public let peerKey: String
        /// Unix milliseconds when the session begins.
        public let wallMilliseconds: UInt64
        /// Bytes of data frames that this side accepts before it has stored them.
        public let creditBytes: Int
        /// Approximate size of a data frame at which the next one is begun.
        public let batchBytes: Int
        /// The other side's initial read rights (rule 24).
        public let access: ReadAccess
        /// The received part of a message in an earlier session with the same side.
        public let kept: PartialMessage?
        /// Only at a server: state shared with the other sessions of the database; nil for a single
        /// session.
        public var sharing: Sharing?
        /// Only at a server: says of a subscription how its conditions are interrupted in the event at hand,
        /// see `SubscriptionQuery.matches`; nil where nothing interrupts them.
        public var interruption: (@Sendable (_ subscription: UInt64) -> (@Sendable () -> Interruption?)?)?
        /// Only at a peer: the proof sent with the hello.
        public let proof: [UInt8]?
        /// Only at a server: checks the proof in a hello, nil if the hello has none. A nil closure requires
        /// none.
        public let isProven: (@Sendable ([UInt8]?) -> Bool)?
        /// Only at a peer: the documents it may write now, as far as it knows; nil leaves the check to the
        /// server.
        public let writeRules: (@Sendable () -> WriteRules?)?

        /// A configuration of these parts.
        public init(
            role: Role, databaseID: DatabaseID, peerKey: String, wallMilliseconds: UInt64,
            creditBytes: Int = Limits.creditBytes, batchBytes: Int = Limits.batchBytes,
            access: ReadAccess, kept: PartialMessage? = nil, proof: [UInt8]? = nil,
            isProven: (@Sendable ([UInt8]?) -> Bool)? = nil,
            writeRules: (@Sendable () -> WriteRules?)? = nil
        ) {
            self.role = role
            self.databaseID = databaseID
            self.peerKey = peerKey
            self.wallMilliseconds = wallMilliseconds
            self.creditBytes = creditBytes
            self.batchBytes = batchBytes
            self.access = access
            self.kept = kept
            self.proof = proof
            self.isProven = isProven
            self.writeRules = writeRules
        }
    }

    /// Returns whether a document may be written.
    public typealias WriteRules = @Sendable (DocumentKey) -> Bool

    enum Phase: Sendable, Equatable {
        case created
        case greeting
        case open
        case closed
    }

    let configuration: Configuration
    /// What the other side may read now.
    var access: ReadAccess
    var phase = Phase.created
    private var hasSentHello = false
    private var hasReceivedHello = false
    var actions: [Action] = []
    /// Bytes of data frames this side may still send.
    var sendCredit = 0
    /// Frames that wait for credit, in order. Nothing more is read while there is one, so it holds at most
    /// what was under way: one page, one run of operations, one upload.
    private var outbox = Queue<(frame: [UInt8], isData: Bool)>()
    /// Its bytes; bounded by `Limits.waitingBytes`.
    private(set) var outboxBytes = 0
    /// Bytes of data frames the other side may still send.
    var receiveCredit: Int
    var assembly = Assembly()
    /// What the other side has of a message, until that is sent.
    var theirKept: Frame.Kept?
    /// About how large a message becomes now; grows to `Configuration.batchBytes`.
    var burst: Int
    var subscriber = Subscriber()
    var uploader = Uploader()
    var publisher = Publisher()
    var admission = Admission()
    var reconciler = Reconciler()
    var renewal = Renewal()
    /// The version that both sides speak; known with the other's hello.
    private(set) var version = Limits.oldestProtocolVersion

    /// A session that waits for `opened`.
    public init(_ configuration: Configuration) {
        self.configuration = configuration
        access = configuration.access
        receiveCredit = configuration.creditBytes
        burst = min(Limits.firstBurstBytes, configuration.batchBytes)
        if let kept = configuration.kept {
            assembly = Assembly(message: kept, isNamed: true, isKept: true)
        }
    }

    /// True if the session has ended; later events are no-ops.
    public var isClosed: Bool { phase == .closed }
    /// True if the handshake is complete.
    public var isOpen: Bool { phase == .open }

    /// Handles one event and returns the resulting actions, in order.
    public mutating func receive(_ event: Event) -> [Action] {
        guard phase != .closed else { return [] }
        do throws(SyncError) {
            try handle(event)
            repairIfDue()
            guard outboxBytes <= Limits.waitingBytes else {
                throw SyncError(.unavailable, "\(outboxBytes) bytes wait for the other side's credit")
            }
        } catch {
            close(error)
        }
        defer { actions = [] }
        return actions
    }

    private mutating func handle(_ event: Event) throws(SyncError) {
        switch event {
        case .opened: try open()
        case .frame(let bytes): try arrived(bytes)
        case .subscribe(let request): subscribe(request)
        case .unsubscribe(let key): unsubscribe(key)
        case .ownActors(let history): greet(history)
        case .historyCompared(let standings): historyCompared(standings)
        case .repairNeeds(let keys): repairNeeds(keys)
        case .repairStaged: repairStaged()
        case .repaired(let outcome): repaired(outcome)
        case .seenNoted: try seenNoted()
        case .holdings(let candidates, let isLast): listed(candidates, isLast: isLast)
        case .ownOperations(let actor, let operations): upload(actor, operations)
        case .ownOperationAdded(let actor): ownOperationAdded(actor)
        case .stored: stored()
        case .returning(let keys): returning(keys)
        case .held(let key, let candidates, let isLast): listed(key, candidates, isLast: isLast)
        case .compared(let id, let answer): compared(id, answer)
        case .unknownPlace(let id): unknownPlace(id)
        case .tooCostly(let id): tooCostly(id)
        case .grantChanged(let access): grantChanged(access)
        case .renew(let token): renew(token)
        case .renewed: try renewed()
        case .wanting(let keys): try wanting(keys)
        case .outdated(let keys): outdated(keys)
        case .wanted(let keys): want(keys)
        case .vectors(let candidates): ask(candidates)
        case .lacking(let keys, let declined): lacking(keys, declined)
        case .statesAdmitted(let position, let declined): statesAdmitted(position, declined)
        case .frontier(let heads, let head, let isBehind, let hashes):
            answerGreeting(heads, head, isBehind, hashes)
        case .page(let subscription, let page): publish(page, for: subscription)
        case .operations(let operations, let through): try publish(operations, through: through)
        case .lagging(let head): fallBack(to: head)
        case .appended(let acknowledgements, let offset): try appended(acknowledgements, offset)
        case .refused(let acknowledgements, let refusals, let offset):
            try refused(acknowledgements, refusals, offset)
        case .states(let states, let position, let gone): answerStates(states, at: position, gone)
        case .failed(let reason): throw SyncError(.unavailable, reason)
        case .finish(let error): throw error
        case .disconnected: phase = .closed
        }
    }

    private mutating func open() throws(SyncError) {
        guard phase == .created else { throw unexpected("a second opening") }
        phase = .greeting
        if configuration.role == .peer { actions.append(.readOwnActors) }
    }

    private mutating func arrived(_ bytes: [UInt8]) throws(SyncError) {
        guard bytes.count <= Limits.frameBytes else {
            throw SyncError(.frameTooLarge, "a frame of \(bytes.count) bytes exceeds \(Limits.frameBytes)")
        }
        let frame = try Frame(decoding: bytes)
        guard case .chunk(let isLast, let piece, let hash, let place) = frame else {
            return try dispatch(frame, size: bytes.count)
        }
        guard let message = try take(piece, isLast: isLast, of: hash, at: place) else {
            // What comes is large, and may take its time.
            return storeOwed()
        }
        let inner = try Frame(decoding: message)
        if case .chunk = inner { throw unexpected("a chunk of chunks") }
        try dispatch(inner, size: message.count)
    }

    private mutating func dispatch(_ frame: Frame, size: Int) throws(SyncError) {
        if frame.isData {
            // One message may overdraw: its sender cannot know its size before it is put together.
            guard receiveCredit > 0 else { throw SyncError(.creditExceeded, "data arrived without credit") }
            receiveCredit -= size
        }
        switch (frame, configuration.role, phase) {
        case (.hello(let hello), _, .greeting): try greeted(hello)
        case (.close(let error), _, _): end(error)
        case (.credit(let bytes), _, .open): try credited(bytes)
        case (.catchUp(let page), .peer, .open): received(.catchUp(page), size)
        case (.operations(let operations), .peer, .open): received(.operations(operations), size)
        case (.progress(let position, let skipped), .peer, .open):
            if skipped { try receivedSkipped(position, size) } else { received(.progress(position), size) }
        case (.states(let states, let position, let isPart, let gone), .peer, .open):
            try receivedStates(states, at: position, isPart: isPart, gone: gone, size)
        case (.acknowledged(let acknowledgements, let offset), .peer, .open):
            try acknowledged(acknowledgements, offset)
        case (.refused(let refusal), .peer, .open): try writeRefused(refusal)
        case (.subscriptionRefused(let id, let error, let hides), .peer, .open):
            subscriptionRefused(id, error, hides: hides)
        case (.list(let id, let last), .peer, .open): try receivedList(id, last)
        case (.granted, .peer, .open): try granted()
        case (.granted, .peer, .greeting) where hasReceivedHello: reconciler.areRightsNewer = true
        case (.subscribe(let request), .server, .open): try serve(request, size)
        case (.unsubscribe(let id), .server, .open): stopServing(id)
        case (.upload(let operations), .server, .open): try admit(operations, size)
        case (.want(let keys, let held), .server, .open): try serveStates(keys, held)
        case (.want(let keys, _), .peer, .open) where reconciler.isActive: try serveStates(keys, [])
        case (.holdings(let candidates, let isLast), .server, .open):
            try receivedHoldings(candidates, isLast: isLast, size)
        case (.states(let states, _, let isPart, _), .server, .open):
            try receivedHeld(states, isPart: isPart)
        case (.held(let id, let candidates, let isLast), .server, .open):
            try received(HoldingsPage(candidates: candidates, isLast: isLast), for: id, size)
        case (.reconciled(let position, let declined), .peer, .open): try reconciled(position, declined)
        case (.renewal(let token), .server, .open) where version >= 3: try check(token)
        default: throw unexpected(frame.name)
        }
    }

    func unexpected(_ what: String) -> SyncError {
        SyncError(.unexpectedMessage, "\(what) is not allowed from this side while the session is \(phase)")
    }

    /// The session's state that its driver needs after each event.
    public struct Standing: Sendable {
        /// Bytes of frames that wait for the other side's credit.
        public let waitingBytes: Int
        /// The number of the other side's subscriptions that are still catching up.
        public let catchingUp: Int
        /// See `isClosed`.
        public let isClosed: Bool
    }

    /// The present state. Mutating only to be read in place: a non-mutating call would copy the session,
    /// which costs more than a short event.
    public mutating func standing() -> Standing {
        var catchingUp = 0
        for place in publisher.subscriptions.indices where publisher.subscriptions[place].liveFrom == nil {
            catchingUp += 1
        }
        return Standing(waitingBytes: outboxBytes, catchingUp: catchingUp, isClosed: phase == .closed)
    }

    private mutating func greeted(_ hello: Frame.Hello) throws(SyncError) {
        // A peer speaks first; the server answers once.
        let isExpected = configuration.role == .peer ? hasSentHello : !hasReceivedHello
        guard isExpected else { throw unexpected("hello") }
        hasReceivedHello = true
        // Both sides speak the older of the two versions.
        guard hello.version >= Limits.oldestProtocolVersion else {
            throw SyncError(.versionMismatch, "protocol version \(hello.version) is not spoken any more")
        }
        guard hello.databaseID == configuration.databaseID else {
            throw SyncError(.wrongDatabase, "the other side serves another database")
        }
        if let isProven = configuration.isProven, !isProven(hello.proof) {
            throw SyncError(.keyNotProven, "the peer does not prove to hold the key that its token names")
        }
        version = min(hello.version, Limits.protocolVersion)
        theirKept = hello.kept
        sendCredit = Int(min(hello.credit, UInt64(2 * Limits.messageBytes)))
        switch configuration.role {
        case .peer: begin(hello)
        case .server:
            actions.append(
                .readFrontier(
                    OwnHistory(
                        heads: hello.actors, acknowledged: hello.acknowledged, seen: hello.head,
                        declined: hello.declined)))
        }
    }

    /// The server's half of the handshake: its head, and how far it knows the peer's actors.
    private mutating func answerGreeting(
        _ heads: [ActorHead], _ head: LogPosition, _ isBehind: Bool, _ hashes: [OperationHashes]
    ) {
        guard phase == .greeting, hasReceivedHello, configuration.role != .peer else { return }
        phase = .open
        reconciler.isActive = isBehind
        reconciler.position = head
        var hello = hello(heads, head)
        hello.isBehind = isBehind
        hello.hashes = hashes
        send(.hello(hello))
        publisher.head = head
        actions.append(.awaitOperations(after: head.offset))
    }

    private mutating func greet(_ history: OwnHistory) {
        guard phase == .greeting, !hasSentHello, configuration.role == .peer else { return }
        hasSentHello = true
        uploader.actors = history.heads
        var hello = hello(history.heads, history.seen)
        hello.acknowledged = history.acknowledged
        hello.proof = configuration.proof
        hello.declined = history.declined
        reconciler.declined = history.declined
        send(.hello(hello))
    }

    private func hello(_ heads: [ActorHead], _ head: LogPosition?) -> Frame.Hello {
        var hello = Frame.Hello(
            version: Limits.protocolVersion, databaseID: configuration.databaseID,
            peerKey: configuration.peerKey, wallMilliseconds: configuration.wallMilliseconds,
            credit: UInt64(configuration.creditBytes), actors: heads, head: head)
        hello.kept = keptPlace
        return hello
    }
}

// MARK: Sending, credit and the end

extension Session {
    /// Whether a data frame may leave at once: the condition for reading more to send.
    var canSendData: Bool { phase == .open && sendCredit > 0 && outbox.isEmpty }

    /// Sends a frame, or lets it wait behind data that has no credit. What the other side needs in order to
    /// give credit (credit itself, answers to its wants) never waits.
    /// `shared` are the frame's bytes where somebody else has encoded it before.
    mutating func send(_ frame: Frame, shared: [UInt8]? = nil) {
        let bytes = shared ?? frame.encoded()
        if frame.waitsItsTurn && (!outbox.isEmpty || (frame.isData && sendCredit <= 0)) {
            outbox.append((bytes, frame.isData))
            outboxBytes += bytes.count
        } else if case .hello = frame {
            actions.append(.send(bytes))
        } else {
            transmit(bytes, isData: frame.isData)
        }
    }

    private mutating func flushOutbox() {
        while let next = outbox.first, !next.isData || sendCredit > 0 {
            outbox.removeFirst()
            outboxBytes -= next.frame.count
            transmit(next.frame, isData: next.isData)
        }
    }

    /// Takes back what has not left yet: positions and documents that the other side may not see any more.
    mutating func withdrawWaiting() {
        outbox = Queue()
        outboxBytes = 0
    }

    private mutating func transmit(_ bytes: [UInt8], isData: Bool) {
        if isData { sendCredit -= bytes.count }
        divide(bytes)
    }

    /// Gives credit back for data that is stored now.
    mutating func returnCredit(_ size: Int) {
        guard size > 0 else { return }
        receiveCredit += size
        send(.credit(UInt64(size)))
    }

    private mutating func credited(_ bytes: UInt64) throws(SyncError) {
        guard bytes <= UInt64(Limits.messageBytes) else {
            throw SyncError(.malformedFrame, "more credit than a message can have")
        }
        sendCredit = min(sendCredit + Int(bytes), 2 * Limits.messageBytes)
        grow()
        flushOutbox()
        list()
        readHeld()
        resumeUpload()
        resumePublishing()
    }

    /// Ends the session from this side: the other is told why.
    mutating func close(_ error: SyncError) {
        send(.close(error))
        end(error)
    }

    private mutating func end(_ error: SyncError) {
        phase = .closed
        actions.append(.close(error))
    }
}

extension Frame {
    /// Whether the frame carries documents or operations unasked and so consumes credit. States were asked
    /// for one by one, and their receiver may be unable to store anything (and so to give credit) before it
    /// has them.
    var isData: Bool {
        switch self {
        case .catchUp, .operations, .upload, .holdings, .held: true
        default: false
        }
    }

    /// Whether the frame keeps its place behind data that waits: a position must not overtake what it
    /// stands for.
    var waitsItsTurn: Bool {
        switch self {
        case .hello, .credit, .want, .states, .close, .chunk, .acknowledged, .refused, .subscriptionRefused,
            .reconciled, .list, .granted, .renewal:
            false
        default: true
        }
    }

    var name: String {
        switch self {
        case .hello: "hello"
        case .subscribe: "subscribe"
        case .unsubscribe: "unsubscribe"
        case .subscriptionRefused: "subscriptionRefused"
        case .catchUp: "catchUp"
        case .operations: "operations"
        case .progress: "progress"
        case .upload: "upload"
        case .acknowledged: "acknowledged"
        case .want: "want"
        case .states: "states"
        case .credit: "credit"
        case .chunk: "chunk"
        case .refused: "refused"
        case .close: "close"
        case .holdings: "holdings"
        case .reconciled: "reconciled"
        case .list: "list"
        case .held: "held"
        case .granted: "granted"
        case .renewal: "renewal"
        }
    }
}
