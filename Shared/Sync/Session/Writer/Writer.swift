import CRDT
import Exchange

/// Sends own operations in sequence, from the server's frontier on (rule 18): nothing is remembered of
/// acknowledgements. Before the first one it brings peer and server in line: it compares histories, gives a
/// restored log back what it lacks (`HoldingsGiver`), and has the store repair (`RepairCase`).
///
/// Invariants: one read of operations is under way at most; an actor's operations leave in sequence without
/// gap; no frame is sent without credit; nothing is uploaded while a repair is due.
struct Writer: Sendable {
    private let wallMilliseconds: UInt64
    private let writeRules: (@Sendable () -> Session.WriteRules?)?
    private var phase = Phase.greeting
    private var read = Read.idle
    private var repair = RepairCase()
    private var grantCheck = OwnGrantCheck.idle
    private var own = OwnActors()
    /// Counts the reads; the answer to one does not know of operations added after it was asked.
    private var reads: UInt64 = 0
    private var barriers = Barriers()
    private var links = LinkGiving()
    private var deferred = DeferredOperations()
    private var serverMilliseconds: UInt64 = 0
    /// The server's head of the log when it greeted, or after a reconcile.
    private var serverHead: LogPosition?
    /// True if the server's log has lost its end.
    private var isServerBehind = false
    /// Answers a restored server's wants.
    private var answers = StateAnswers()
    /// The fingerprint of the rights under which a server did not take something of the holdings.
    private var declined: [UInt8]?
    /// True if the rights have changed since the holdings were judged.
    private var areRightsNewer = false
    /// A newer access token, until the session is open.
    private var token: String?

    init(wallMilliseconds: UInt64, writeRules: (@Sendable () -> Session.WriteRules?)?) {
        self.wallMilliseconds = wallMilliseconds
        self.writeRules = writeRules
    }

    mutating func handle(_ event: Event, _ flow: inout FlowControl) throws(SyncError) -> [Message] {
        let before = flow.traced(name)
        defer { flow.trace(.writer, from: before, to: name) }
        switch event {
        case .greet(let history, let hello): greet(history, hello, &flow)
        case .hello(let hello): return greeted(hello, &flow)
        case .acknowledged(let acknowledgements, let offset): return try taken(acknowledgements, offset)
        case .refused(let refusal): return try refused(refusal, &flow)
        case .deferred(let deferral): return try wait(deferral, &flow)
        case .basesGiven(let areHeld): return given(areHeld, &flow)
        case .granted: return try granted()
        case .want(let keys): try want(keys, &flow)
        case .reconciled(let position, let declined): return try reconciled(position, declined, &flow)
        case .credited:
            give(&flow)
            links.list(&flow)
            resumeUpload(&flow)
        case .ownOperationAdded(let actor): added(actor, &flow)
        case .linksBrought:
            links.brought()
            for actor in deferred.retry() where !own.stopped.contains(actor) { own.wrote(actor) }
            resumeUpload(&flow)
        case .renew(let token): renew(token, &flow)
        case .historyCompared(let comparisons):
            guard case .comparing = phase else {
                preconditionFailure("no history was compared; the writer is \(name)")
            }
            return begin(comparisons, &flow)
        case .seenNoted: return try seenNoted()
        case .ownOperations(let actor, let operations): return upload(actor, operations, &flow)
        case .holdings(let versions, let isLast): listed(versions, isLast: isLast, &flow)
        case .states(let states, let position):
            // A peer answers with what it offered itself.
            answers.answer(states, at: position, gone: [], mayRead: { _ in true }, head: nil, &flow)
        default: return handleMessage(event, &flow)
        }
        return []
    }

    private mutating func handleMessage(_ event: Event, _ flow: inout FlowControl) -> [Message] {
        switch event {
        case .askWhenReached(let ask):
            barriers.add(ask, at: moment)
            return passed(flow)
        case .resume:
            resumeUpload(&flow)
            return passed(flow)
        case .beginExchange: return beginExchange(&flow)
        case .eventHandled: return eventHandled(flow)
        case .readerIsIdle, .streamWillNotFollow: return borrowStream()
        case .purged(let keys): repair.note(purged: keys)
        case .repairNeeds(let keys):
            precondition(!keys.isEmpty, "a repair that needs nothing")
            repair.fetch()
            return [.fetchForRepair(keys)]
        case .repairStates(let states, let position, let isComplete):
            if repair.fetched(isAny: !states.isEmpty, at: position, isComplete: isComplete) {
                flow.perform(.stageRepair(states))
            }
        case .repairStaged: repair.staged()
        case .streamLent(let following): requestRepair(following, &flow)
        case .repaired(let outcome): return repaired(outcome, &flow)
        default: preconditionFailure("\(event) is no message")
        }
        return []
    }

    // MARK: The handshake

    /// The hello of this side; the other machine of a peer has nothing to say in it.
    private mutating func greet(
        _ history: OwnHistory, _ hello: Frame.Hello, _ flow: inout FlowControl
    ) {
        own.greet(history.heads)
        declined = history.declined
        var hello = hello
        hello.acknowledged = history.acknowledged
        hello.declined = history.declined
        hello.hasLinks = history.hasLinks
        hello.takesVoid = history.hasLinks
        if history.hasLinks { hello.version = Limits.meshVersion }
        flow.send(.hello(hello))
    }

    /// The server has greeted: compares histories.
    private mutating func greeted(_ hello: Frame.Hello, _ flow: inout FlowControl) -> [Message] {
        serverMilliseconds = hello.wallMilliseconds
        serverHead = hello.head
        isServerBehind = hello.isBehind
        if hello.hasLinks { links.agree() }
        phase = .comparing
        let heads = own.known(to: hello.actors)
        guard !heads.isEmpty else { return begin([], &flow) }
        flow.perform(.compareHistory(heads, hashes: hello.hashes))
        return []
    }

    /// Histories are compared: the session is open. Gives back what the server lost, repairs, then
    /// subscribes and uploads.
    private mutating func begin(
        _ comparisons: [HistoryComparison], _ flow: inout FlowControl
    ) -> [Message] {
        flow.open()
        if let token {
            self.token = nil
            renew(token, &flow)
        }
        let difference = Int64(clamping: serverMilliseconds) - Int64(clamping: wallMilliseconds)
        flow.perform(.report(.connected(clockDifferenceMilliseconds: difference)))
        if own.begin(comparisons, &flow) { repair.becomeDue() }
        phase = isServerBehind ? .giving(HoldingsGiver()) : .linedUp
        give(&flow)
        return (repair.isDue ? [.repairIsDue] : []) + beginExchange(&flow)
    }

    /// Subscribes and uploads, once nothing has to be brought in line before.
    private mutating func beginExchange(_ flow: inout FlowControl) -> [Message] {
        guard !repair.isDue else { return [] }
        switch phase {
        case .greeting, .comparing, .giving, .noting: return []
        case .linedUp:
            // First the store notes what is compared at the next handshake: everything that comes is later.
            guard let serverHead else { return exchange() }
            phase = .noting
            flow.perform(.noteSeen(serverHead, replaces: isServerBehind, declined: declined))
            return []
        case .exchanging:
            resumeUpload(&flow)
            return passed(flow)
        }
    }

    private mutating func seenNoted() throws(SyncError) -> [Message] {
        guard case .noting = phase else { preconditionFailure("nothing was noted; the writer is \(name)") }
        if areRightsNewer { try offerAgain() }
        return exchange()
    }

    private mutating func exchange() -> [Message] {
        phase = .exchanging
        // Pages staged of a log that has lost its end may not be in it any more.
        return [.exchangeBegins(resumesStaged: !isServerBehind), .resume]
    }

    // MARK: Rights and tokens

    /// Sends a newer token as soon as the session is open.
    private mutating func renew(_ newer: String, _ flow: inout FlowControl) {
        guard flow.isOpen else { return token = newer }
        flow.send(.renewal(token: newer))
    }

    /// This peer's rights have changed.
    private mutating func granted() throws(SyncError) -> [Message] {
        guard case .exchanging = phase else {
            areRightsNewer = true
            return []
        }
        try offerAgain()
        return [.rightsChanged]
    }

    /// Holdings that a restored log did not take for want of rights are judged again at a handshake (decision
    /// 0039).
    private func offerAgain() throws(SyncError) {
        guard declined != nil else { return }
        throw SyncError(.goingAway, "rights have changed, and a restored log lacks what this peer holds")
    }

    // MARK: Giving holdings back

    private mutating func give(_ flow: inout FlowControl) {
        guard case .giving(var giver) = phase else { return }
        giver.list(&flow)
        phase = .giving(giver)
    }

    private mutating func listed(
        _ versions: [DocumentVersion], isLast: Bool, _ flow: inout FlowControl
    ) {
        if links.isReading { return links.listed(versions, isLast: isLast, &flow) }
        guard case .giving(var giver) = phase else {
            preconditionFailure("no holdings were read; the writer is \(name)")
        }
        giver.listed(versions, isLast: isLast, &flow)
        phase = .giving(giver)
    }

    private mutating func want(_ keys: [DocumentKey], _ flow: inout FlowControl) throws(SyncError) {
        let isGiving = if case .giving = phase { true } else { links.isGiving }
        guard isGiving else { throw .unexpected("want") }
        try answers.want(keys, [], head: nil, &flow)
    }

    private mutating func reconciled(
        _ position: LogPosition, _ declined: [UInt8]?, _ flow: inout FlowControl
    ) throws(SyncError) -> [Message] {
        if links.isGiving {
            try links.reconciled(&flow)
            return [.resume]
        }
        guard case .giving(let giver) = phase, giver.isListed else { throw .unexpected("reconciled") }
        self.declined = declined
        serverHead = position
        phase = .linedUp
        return beginExchange(&flow)
    }

    // MARK: Uploading

    private mutating func added(_ actor: ActorID, _ flow: inout FlowControl) {
        guard !own.stopped.contains(actor), !deferred.waiting.contains(actor) else { return }
        if case .reading(let bytes, _) = read, actor == own.pending.first {
            read = .reading(bytes: bytes, hasMore: true)
        }
        own.wrote(actor)
        resumeUpload(&flow)
    }

    /// Reads the next operations if they may be sent: not while one waits to be refused here.
    private mutating func resumeUpload(_ flow: inout FlowControl) {
        guard case .exchanging = phase, case .idle = read, !repair.isDue else { return }
        let next = own.next.flatMap { grantCheck.actor != $0 || own.isSettled($0) ? $0 : nil }
        // Documents that own operations rest on go first.
        links.begin(&flow, uploadsWait: next != nil && !deferred.isBusy)
        guard flow.canSendData, !links.isAhead, !deferred.isBusy, let actor = next else { return }
        links.letUpload()
        var after = own.sent[actor] ?? 0
        if case .collecting(actor, let through, _) = grantCheck { after = through }
        read = .reading(bytes: flow.readBytes, hasMore: false)
        reads += 1
        flow.perform(.readOwnOperations(actor: actor, after: after, maxBytes: flow.readBytes))
    }

    private mutating func upload(
        _ actor: ActorID, _ operations: [(sequence: SequenceNumber, bytes: [UInt8])],
        _ flow: inout FlowControl
    ) -> [Message] {
        guard case .reading(let bytes, let hasMore) = read else {
            preconditionFailure("no operations were being read; the writer is \(name)")
        }
        read = .idle
        // Meanwhile the server may have asked for earlier ones again.
        let isSpoiled = deferred.takeSpoiled()
        if isSpoiled { resumeUpload(&flow) }
        guard !isSpoiled, !repair.isDue, own.pending.first == actor else { return [] }
        if case .collecting(actor, _, let forbidden) = grantCheck {
            return collect(operations, of: actor, forbidden, &flow)
        }
        let forbidden = OwnGrantCheck.refusals(in: operations, writeRules?())
        grantCheck = forbidden.isEmpty ? .idle : .waiting(actor)
        let allowed = OwnGrantCheck.sent(of: operations, forbidden, hasLinks: links.areTaken)
        if let last = allowed.last {
            own.sent(actor, through: last.sequence)
            flow.sendUpload(allowed.map(\.bytes))
        } else if !forbidden.isEmpty {
            guard own.isAnswered(actor) else { return [] }
            grantCheck = .collecting(actor, through: own.sent[actor] ?? 0, forbidden: [])
            resumeUpload(&flow)
            return []
        } else if !hasMore {
            own.finished(actor)
        }
        if forbidden.isEmpty, allowed.reduce(0, { $0 + $1.bytes.count }) < bytes {
            barriers.sent(actor, through: own.sent[actor] ?? 0, reads: reads)
        }
        resumeUpload(&flow)
        return passed(flow)
    }

    /// Reads an actor's operations to the end, and refuses those that the grant forbids.
    private mutating func collect(
        _ operations: [(sequence: SequenceNumber, bytes: [UInt8])], of actor: ActorID,
        _ earlier: [Refusal], _ flow: inout FlowControl
    ) -> [Message] {
        let forbidden = earlier + OwnGrantCheck.refusals(in: operations, writeRules?())
        if let last = operations.last, forbidden.count < Limits.refusalsAtOnce {
            grantCheck = .collecting(actor, through: last.sequence, forbidden: forbidden)
            resumeUpload(&flow)
            return []
        }
        let refused = OwnGrantCheck.holding(forbidden, isClosed: own.stopped.contains(actor), writeRules?())
        grantCheck = .idle
        guard !refused.isEmpty else {
            resumeUpload(&flow)
            return []
        }
        // The actor sends nothing more; a repair sets these aside and lets the others go.
        own.stop(actor)
        repair.note(refused: refused)
        return [.repairIsDue]
    }

    /// The server lacks what an operation rests on: it is given, and the operation is sent again.
    private mutating func wait(_ deferral: Deferral, _ flow: inout FlowControl) throws(SyncError) -> [Message]
    {
        guard links.areTaken, own.rewind(deferral.actor, before: deferral.sequence) else {
            throw .unexpected("deferred")
        }
        if case .reading = read { deferred.spoilRead() }
        guard !own.stopped.contains(deferral.actor) else { return [] }
        guard deferred.note(deferral) else {
            own.finished(deferral.actor)
            barriers.pass(deferral.actor)
            resumeUpload(&flow)
            return passed(flow)
        }
        deferred.ask(&flow)
        return []
    }

    /// The store has named the documents of a deferred operation. If the store no longer holds one as the
    /// operation found it, it cannot give it: the operation is moved (decision 0009).
    private mutating func given(_ areHeld: Bool, _ flow: inout FlowControl) -> [Message] {
        let deferral = deferred.given()
        deferred.ask(&flow)
        guard !areHeld, !own.stopped.contains(deferral.actor) else {
            links.brought(.beforeUploads)
            resumeUpload(&flow)
            return []
        }
        own.stop(deferral.actor)
        repair.note(refused: [deferral.refusal])
        return [.repairIsDue]
    }

    /// Operations are durable in the server's log.
    private mutating func taken(
        _ acknowledgements: [Acknowledgement], _ offset: Offset
    ) throws(SyncError) -> [Message] {
        let newer = try own.take(acknowledgements)
        if !newer.isEmpty { repair.admitted() }
        return [.acknowledged(newer, offset: offset), .resume]
    }

    // MARK: Barriers

    /// The present moment in the store's own history.
    private var moment: Barriers.Moment {
        // A read that knows of everything so far counts.
        let isFresh = if case .reading(_, hasMore: false) = read { true } else { false }
        return Barriers.Moment(
            reads: isFresh ? reads - 1 : reads, unread: Set(own.pending), targets: own.sent)
    }

    /// Tells the reader of barriers that are reached.
    private mutating func passed(_ flow: FlowControl) -> [Message] {
        guard case .exchanging = phase, flow.isOpen else { return [.askNext] }
        return barriers.takeReached(own.acknowledged).map { .barrierReached($0) } + [.askNext]
    }

    // MARK: Repairing

    /// The server refused an operation, and takes nothing more of its actor.
    private mutating func refused(
        _ refusal: Refusal, _ flow: inout FlowControl
    ) throws(SyncError) -> [Message] {
        guard let isFirst = own.refused(refusal.actor) else { return [] }
        if isFirst, links.areTaken, grantCheck.collects(after: refusal) {
            resumeUpload(&flow)
            return []
        }
        try repair.note(refusal, isFirst: isFirst)
        return repair.isDue ? [.repairIsDue] : []
    }

    /// A repair goes on as soon as nothing else is under way.
    private func eventHandled(_ flow: FlowControl) -> [Message] {
        guard flow.isOpen else { return [] }
        switch repair.step {
        case .none, .borrowing, .deciding, .fetching: return []
        case .following: return [.mayFollow(to: repair.seen)]
        case .due:
            if case .giving = phase { return [] }
            if links.isGiving || deferred.isAsking { return [] }
            guard case .idle = read, own.areAllAnswered else { return [] }
            return [.mayRepair]
        }
    }

    /// True if `eventHandled` has something to do.
    var hasRepair: Bool { repair.isDue }

    private mutating func borrowStream() -> [Message] {
        repair.borrow()
        return [.lendStream(to: repair.seen)]
    }

    private mutating func requestRepair(_ following: Reception?, _ flow: inout FlowControl) {
        // A restored log comes first: until the store has noted its position, it has to name its position in
        // the lost log at the next handshake.
        let isNoted = if case .exchanging = phase { true } else { !isServerBehind }
        flow.perform(
            .repair(
                repair.request(
                    admitted: own.acknowledged, closed: own.stopped, diverged: own.diverged,
                    seen: isNoted ? repair.seen : nil, following: following)))
    }

    private mutating func repaired(
        _ outcome: RepairOutcome.Repaired, _ flow: inout FlowControl
    ) -> [Message] {
        deferred.forget(outcome.left)
        for refusal in outcome.refused { flow.perform(.report(.writeRefused(refusal))) }
        repair.ended(outcome)
        grantCheck = .idle
        own.repaired(outcome)
        // Requests that wait for operations of actors that were left wait for the new one's.
        barriers.move(to: moment)
        return [
            .repairEnded(isFollowed: outcome.isFollowed, isAnotherDue: repair.isDue), .beginExchange,
            .askNext,
        ]
    }
}

// MARK: Invariants

extension Writer {
    /// The name of its state, for logs and traps.
    var name: String {
        let read = if case .reading = read { ", reading" } else { "" }
        return "\(phase.name)\(read)\(repair.isDue ? ", repair \(repair.step.name)" : "")"
    }

    /// Returns whether the driver may answer now.
    func expects(_ answer: Answer) -> Bool {
        switch (answer, phase) {
        case (.historyComparison, .comparing), (.seen, .noting): return true
        case (.holdings, _) where links.isReading: return true
        case (.holdings, .giving(let giver)): return giver.isReading
        case (.bases, _): return deferred.isAsking
        case (.states, _): return answers.isReading
        case (.ownOperations, _): if case .reading = read { return true }
        case (.repair, _): if case .deciding = repair.step { return true }
        case (.repairStaging, _): if case .fetching(let staging, _) = repair.step { return staging > 0 }
        default: break
        }
        return false
    }

    /// Traps on a state that contradicts itself.
    func checkInvariants() {
        own.checkInvariants()
        if case .collecting(let actor, _, _) = grantCheck {
            precondition(
                own.isSettled(actor), "the grant forbids what rests on operations that are not answered")
        }
        answers.checkInvariants()
    }
}
