import CRDT
import Exchange

/// Gets a peer whose writes the server did not take, or does not know, back in line (rules 9, 20 and 21).
///
/// Flow: wait until nothing is being stored and nothing is under way to the server: it would be in no state
/// that the server sends, and be acknowledged before the states stand here. (What an actor had sent before a
/// refusal is answered before that; where documents are gone, its last upload may be on its way.) Ask the
/// server for the states of all documents that are concerned; then one transaction of the store replaces
/// these documents, sets the refused operations aside and moves what the server can not take as it is to a
/// new actor (decision 0009). Everything else is uploaded as it was written.
///
/// Invariants: from the moment a repair is due nothing is uploaded and nothing of the stream is stored, so
/// the states that are fetched hold everything that cursors here stand for; an operation is moved only when
/// the server can no longer admit it as it was.
struct Repairing: Sendable {
    enum Step: Sendable, Equatable {
        case idle
        /// The store looks at what it has, or does it.
        case deciding
        /// States were asked for or are being kept aside.
        case fetching
        /// All states are kept aside; the stream is on its way to where they stand.
        case following
    }

    /// Whether something must be repaired before anything else is uploaded or stored.
    var isDue = false
    var step = Step.idle
    /// What was refused since the last repair.
    var refused: [Refusal] = []
    /// Documents that are gone at the server, with own writes that it does not have: these are moved, onto
    /// nothing (rule 14).
    var gone: Set<DocumentKey> = []
    /// Documents still to be asked for.
    var needed: [DocumentKey] = []
    /// Whether the request under way is for the repair.
    var isAsking = false
    /// The position of the server's log that the latest states stand for.
    var seen: LogPosition?
    /// Pages of states being kept aside.
    var staging = 0
    /// Whether operations were moved because of the clock and none was admitted since: then moving them again
    /// would go on for ever.
    var hasMovedForClock = false
    /// How many repairs in a row were for a base that the server lacks, with no operation admitted since.
    var roundsForBase = 0
    /// What the stream has brought up to where the states stand, while the store puts it beside them.
    var following: [(work: Subscriber.Work, size: Int)] = []
}

extension Session {
    /// The server refused an operation, and takes nothing more of its actor. It may name further operations
    /// of the actor that it would refuse too; one that comes too late for the repair is told once more, when
    /// it comes again under its new name.
    mutating func writeRefused(_ refusal: Refusal) throws(SyncError) {
        guard uploader.sent[refusal.actor] != nil else { return }
        guard uploader.stopped.insert(refusal.actor).inserted else {
            let isFurther = uploader.repair.refused.last.map {
                $0.actor == refusal.actor && $0.sequence < refusal.sequence
            }
            if isFurther ?? false, !refusal.error.isOfClock { uploader.repair.refused.append(refusal) }
            return
        }
        if refusal.error.isOfClock {
            guard !uploader.repair.hasMovedForClock else { throw refusal.error }
            uploader.repair.hasMovedForClock = true
        }
        uploader.repair.refused.append(refusal)
        uploader.repair.isDue = true
    }

    /// Begins a repair that is due as soon as nothing else is under way.
    mutating func repairIfDue() {
        goOnFollowing()
        guard uploader.repair.isDue, uploader.repair.step == .idle, phase == .open, !uploader.isReading,
            !reconciler.isActive, subscriber.step == .idle, uploader.isAllAnswered
        else { return }
        decide()
    }

    private mutating func decide() {
        storeOwed()
        uploader.repair.step = .deciding
        var request = RepairRequest(
            admitted: uploader.acknowledged, closed: uploader.stopped, diverged: uploader.diverged,
            refused: uploader.repair.refused.filter { !$0.error.isOfClock },
            isForClock: uploader.repair.refused.contains { $0.error.isOfClock },
            gone: uploader.repair.gone, seen: seenByRepair)
        request.isFinal = uploader.repair.roundsForBase >= Limits.roundsForBase
        request.following = takeFollowing()
        actions.append(.repair(request))
    }

    /// What a repair notes as seen. A log that was restored comes first: until the store has noted where that
    /// is, it has to name at the next handshake what it has seen of the lost one.
    private var seenByRepair: LogPosition? {
        uploader.isServerBehind && !uploader.hasBegun ? nil : uploader.repair.seen
    }

    /// Takes what the stream has brought off the queue, where that reaches the states: what the server wrote
    /// at once is shown at once then.
    private mutating func takeFollowing() -> Reception? {
        guard let seen = uploader.repair.seen, let reached = streamWaiting, reached.offset >= seen.offset
        else { return nil }
        var updates: [DocumentUpdate] = []
        while let next = subscriber.queue.first, next.work.isOfStream {
            if case .operations(let operations) = next.work { updates += operations.updates }
            uploader.repair.following.append(next)
            subscriber.queue.removeFirst()
        }
        let position = later(reached)
        return .inSession(
            Reception(
                updates: updates, cursors: liveCursors(reached), seen: position, streamed: reached.offset))
    }

    /// The position up to which the stream waits to be stored, or is being stored; nil where something else
    /// waits before.
    var streamWaiting: LogPosition? {
        var reached: LogPosition?
        for item in subscriber.queue.items {
            switch item.work {
            case .operations(let operations): reached = operations.position
            case .progress(let position): reached = position
            default: return reached
            }
        }
        return reached
    }

    /// Whether the stream will come to where the states stand without anything being stored before: there is
    /// one, nothing else waits in it, and its sender has credit.
    private var mayFollow: Bool {
        guard let seen = uploader.repair.seen, receiveCredit > 0,
            subscriber.queue.items.allSatisfy(\.work.isOfStream)
        else { return false }
        let ends = subscriber.subscriptions.filter(\.isLive).map(\.liveFrom)
        guard let first = ends.min() else { return false }
        let reached = max(first, subscriber.streamed, streamWaiting?.offset ?? 0)
        return reached < seen.offset
    }

    /// Something has come, or will not come any more, while a repair waits for the stream.
    private mutating func goOnFollowing() {
        if phase == .open, uploader.repair.step == .following, !mayFollow { decide() }
    }

    mutating func repairNeeds(_ keys: [DocumentKey]) {
        guard uploader.repair.step == .deciding, !keys.isEmpty else { return }
        putBack()
        uploader.repair.step = .fetching
        uploader.repair.needed = keys
        askNext()
    }

    /// States that were asked for a repair; those of one frame are kept aside together.
    mutating func receivedForRepair(
        _ states: [(key: DocumentKey, state: EncodedState?)], at position: LogPosition?
    ) {
        uploader.repair.seen = position ?? uploader.repair.seen
        if !states.isEmpty {
            uploader.repair.staging += 1
            actions.append(.stageRepair(states))
        }
        // Also behind a part without states: what the answer had no room for is asked for again.
        askNext()
    }

    mutating func repairStaged() {
        guard uploader.repair.step == .fetching, uploader.repair.staging > 0 else { return }
        uploader.repair.staging -= 1
        goOnRepairing()
    }

    private mutating func goOnRepairing() {
        let isAsking = uploader.repair.isAsking && !subscriber.asked.isEmpty
        guard uploader.repair.staging == 0, uploader.repair.needed.isEmpty, !isAsking else { return }
        uploader.repair.step = .following
        goOnFollowing()
    }

    mutating func repaired(_ outcome: RepairOutcome.Repaired) {
        guard uploader.repair.step == .deciding else { return }
        for refusal in outcome.refused { actions.append(.report(.writeRefused(refusal))) }
        if outcome.isFollowed { followed() } else { putBack() }
        let done = uploader.repair
        uploader.repair = Repairing()
        if !outcome.returning.isEmpty {
            uploader.repair.gone = Set(outcome.returning)
            uploader.repair.isDue = true
        }
        uploader.repair.hasMovedForClock = done.hasMovedForClock
        let isForBase = done.refused.contains(where: \.error.isOfBase)
        uploader.repair.roundsForBase = done.roundsForBase + (isForBase ? 1 : 0)
        uploader.goOn(after: outcome)
        // What waited for operations of actors that were left waits for those of the new one.
        for index in subscriber.held.indices { subscriber.held[index].barrier = uploader.barrier }
        storeNext()
        beginExchange()
        askNext()
    }
}

extension Session {
    /// What was to follow was not stored: it waits as before.
    private mutating func putBack() {
        for item in uploader.repair.following.reversed() { subscriber.queue.prepend(item) }
        uploader.repair.following = []
    }

    /// What the stream had brought is durable with the repair.
    private mutating func followed() {
        for item in uploader.repair.following {
            switch item.work {
            case .operations(let operations): subscriber.streamed = operations.position.offset
            case .progress(let position): subscriber.streamed = position.offset
            default: break
            }
        }
        returnCredit(uploader.repair.following.reduce(0) { $0 + $1.size })
    }
}

extension Subscriber.Work {
    /// Whether it is a part of the live stream, which moves every live cursor.
    var isOfStream: Bool {
        switch self {
        case .operations, .progress: true
        default: false
        }
    }
}

extension Uploader {
    /// The store has moved, or set aside, everything that the server does not have of the actors it left.
    fileprivate mutating func goOn(after outcome: RepairOutcome.Repaired) {
        letGo()
        stopped.formUnion(outcome.left)
        for actor in outcome.left {
            acknowledged[actor] = nil
            sent[actor] = nil
        }
        for actor in outcome.pending + [outcome.actor] where sent[actor] == nil {
            acknowledged[actor] = 0
            sent[actor] = 0
        }
        let later = pending.filter { !outcome.pending.contains($0) && !stopped.contains($0) }
        pending = outcome.pending + later
    }
}
