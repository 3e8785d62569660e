import CRDT
import Exchange

/// Sends own operations in sequence, from the server's frontier on (rule 18): nothing is remembered of
/// acknowledgements.
///
/// Invariants: at most one read is under way; an actor's operations leave in sequence without gap; no frame
/// is sent without credit.
struct Uploader: Sendable {
    /// The store's actors, oldest first, as the hello named them; new ones are added as they write.
    var actors: [ActorHead] = []
    /// Per actor the sequence up to which everything was sent or was known to the server.
    var sent: [ActorID: SequenceNumber] = [:]
    /// Actors that may have more to send, in order.
    var pending: [ActorID] = []
    var isReading = false
    /// Counts the reads; the answer to one does not know of operations added after it was asked.
    var reads: UInt64 = 0
    /// Whether the actor being read has written since the read was asked for.
    var hasMore = false
    /// About how many bytes the read under way was for.
    var askedBytes: Int?
    /// Per actor the sequence up to which the server has everything durably.
    var acknowledged: [ActorID: SequenceNumber] = [:]
    /// What of that waits to be stored with what the stream brings next: one sync for both.
    var owed: [OwnAcknowledgement] = []
    var serverMilliseconds: UInt64 = 0
    var isComparing = false
    /// Actors of which the server takes nothing more: nothing of them is sent.
    var stopped: Set<ActorID> = []
    /// Those of them that another history goes on with, exactly behind what is acknowledged here.
    var diverged: Set<ActorID> = []
    var repair = Repairing()
    /// The actor whose next operation its own grant forbids, until what it sent before is answered and
    /// everything behind is read.
    var held: ActorID?
    /// What is refused of it, in order, and up to where it is read. All of it is set aside at once: a repair
    /// each would move all that follows each time.
    var forbidden: [Refusal] = []
    var heldThrough: SequenceNumber?
    /// The server's head of the log when it greeted, and whether it asked what the store holds.
    var serverHead: LogPosition?
    var isServerBehind = false
    /// Whether subscriptions and uploads have begun.
    var hasBegun = false

    /// A moment in the store's own history: reached when the server has everything written before it.
    struct Barrier: Sendable {
        /// Reads asked for later than this know of everything written before.
        let reads: UInt64
        /// Actors of which not everything written before has been read yet.
        var unread: Set<ActorID>
        /// Per actor the sequence that must be acknowledged.
        var targets: [ActorID: SequenceNumber]
    }

    /// The present moment.
    var barrier: Barrier {
        let isFresh = isReading && !hasMore
        return Barrier(reads: isFresh ? reads - 1 : reads, unread: Set(pending), targets: sent)
    }

    /// Whether an actor's operations may leave: what a store wrote as another actor before was seen by their
    /// author, so it has to be in the log before them. (It may still be refused, and come later.)
    func mayBegin(_ actor: ActorID) -> Bool {
        sent.allSatisfy { $0.key == actor || $0.value <= acknowledged[$0.key] ?? 0 }
    }

    /// Whether an actor's next operations may be read: not while one waits to be refused here.
    func mayRead(_ actor: ActorID) -> Bool { held != actor || isAnswered(actor) }

    /// Behind which sequence an actor's operations are read next.
    func readThrough(_ actor: ActorID) -> SequenceNumber {
        (held == actor ? heldThrough : nil) ?? sent[actor] ?? 0
    }

    /// Nothing is held back any more.
    mutating func letGo() {
        held = nil
        heldThrough = nil
        forbidden = []
    }

    /// Whether the server has everything durably that was sent of an actor.
    func isAnswered(_ actor: ActorID) -> Bool { sent[actor] ?? 0 <= acknowledged[actor] ?? 0 }

    /// The same of everything that was sent of actors of which the server takes more.
    var isAllAnswered: Bool { sent.keys.allSatisfy { stopped.contains($0) || isAnswered($0) } }

    func isReached(_ barrier: Barrier) -> Bool {
        barrier.unread.isEmpty && barrier.targets.allSatisfy { $0.value <= acknowledged[$0.key] ?? 0 }
    }
}

extension Session {
    /// The peer's half of the handshake: compares histories, gives back what the server lost, repairs, then
    /// subscribes and uploads.
    mutating func begin(_ hello: Frame.Hello) {
        uploader.serverMilliseconds = hello.wallMilliseconds
        uploader.serverHead = hello.head
        uploader.isServerBehind = hello.isBehind
        let heads = uploader.actors.map { own in
            hello.actors.first { $0.actor == own.actor }
                ?? ActorHead(actor: own.actor, sequence: 0, hash: 0)
        }
        guard !heads.isEmpty else { return begin([:]) }
        uploader.isComparing = true
        actions.append(.compareHistory(heads, hashes: hello.hashes))
    }

    mutating func historyCompared(_ standings: [HistoryComparison]) {
        guard uploader.isComparing else { return }
        uploader.isComparing = false
        begin(Dictionary(standings.map { ($0.actor, $0) }) { first, _ in first })
    }

    private mutating func begin(_ standings: [ActorID: HistoryComparison]) {
        phase = .open
        sendRenewal()
        let difference =
            Int64(clamping: uploader.serverMilliseconds) - Int64(clamping: configuration.wallMilliseconds)
        actions.append(.report(.connected(clockDifferenceMilliseconds: difference)))
        // What was written since the heads were read comes last: it may rest on what earlier actors wrote.
        let added = uploader.pending
        uploader.pending = []
        for own in uploader.actors {
            let standing = standings[own.actor]
            let sequence = standing?.admitted ?? 0
            uploader.sent[own.actor] = sequence
            uploader.acknowledged[own.actor] = sequence
            guard standing?.state ?? .open == .open else {
                uploader.stopped.insert(own.actor)
                uploader.repair.isDue = true
                if let standing, standing.state == .forked {
                    if standing.isExact { uploader.diverged.insert(own.actor) }
                    actions.append(.report(.historyForked(own.actor)))
                }
                continue
            }
            if sequence > 0 { actions.append(.acknowledge(own.actor, through: sequence, offset: nil)) }
            if own.sequence > sequence { uploader.pending.append(own.actor) }
        }
        for actor in added where !uploader.pending.contains(actor) && !uploader.stopped.contains(actor) {
            uploader.pending.append(actor)
        }
        reconciler.isActive = uploader.isServerBehind
        list()
        beginExchange()
    }

    /// Subscribes and uploads, once nothing has to be brought in line before.
    mutating func beginExchange() {
        guard !reconciler.isActive, !uploader.repair.isDue else { return }
        guard uploader.hasBegun else {
            // First of all what is compared at the next handshake: everything that comes is later than this.
            guard let head = uploader.serverHead else { return exchange() }
            return actions.append(
                .noteSeen(head, replaces: uploader.isServerBehind, declined: reconciler.declined))
        }
        resumeUpload()
        resumeAsking()
    }

    mutating func seenNoted() throws(SyncError) {
        guard phase == .open, configuration.role == .peer, !reconciler.isActive else { return }
        if reconciler.areRightsNewer { try offerAnew() }
        exchange()
    }

    private mutating func exchange() {
        announceSubscriptions()
        resumeUpload()
        resumeAsking()
    }

    mutating func ownOperationAdded(_ actor: ActorID) {
        subscriber.hasOthers = true
        guard configuration.role == .peer, !uploader.stopped.contains(actor) else { return }
        if uploader.isReading, actor == uploader.pending.first { uploader.hasMore = true }
        if !uploader.pending.contains(actor) { uploader.pending.append(actor) }
        resumeUpload()
    }

    mutating func resumeUpload() {
        guard canSendData, uploader.hasBegun, !uploader.isReading, !uploader.repair.isDue,
            let actor = uploader.pending.first, uploader.mayBegin(actor), uploader.mayRead(actor)
        else { return }
        uploader.isReading = true
        uploader.hasMore = false
        uploader.reads += 1
        actions.append(
            .readOwnOperations(
                actor: actor, after: uploader.readThrough(actor), maxBytes: readBytes))
        uploader.askedBytes = readBytes
    }

    mutating func upload(_ actor: ActorID, _ operations: [(sequence: SequenceNumber, bytes: [UInt8])]) {
        uploader.isReading = false
        guard phase == .open, !uploader.repair.isDue, uploader.pending.first == actor else { return }
        if uploader.held == actor, uploader.heldThrough != nil { return readOn(operations, of: actor) }
        let forbidden = forbidden(in: operations)
        let isHeld = !forbidden.isEmpty
        uploader.held = isHeld ? actor : nil
        let operations = operations.filter { $0.sequence < forbidden.first?.sequence ?? .max }
        if let last = operations.last {
            uploader.sent[actor] = last.sequence
            sendUploads(operations.map(\.bytes))
        } else if isHeld {
            guard uploader.isAnswered(actor) else { return }
            uploader.heldThrough = uploader.sent[actor] ?? 0
            return resumeUpload()
        } else if !uploader.hasMore {
            uploader.pending.removeAll { $0 == actor }
        }
        if !isHeld,
            operations.reduce(0, { $0 + $1.bytes.count }) < uploader.askedBytes ?? configuration.batchBytes
        {
            passBarriers(actor)
        }
        resumeUpload()
        resumeAsking()
    }

    /// The refusals of what the store's own grant forbids: as the server would word them, which is not asked.
    private func forbidden(in operations: [(sequence: SequenceNumber, bytes: [UInt8])]) -> [Refusal] {
        guard let mayWrite = configuration.writeRules?() else { return [] }
        return operations.compactMap { item in
            guard let operation = try? Operation(decoding: item.bytes) else { return nil }
            let documents = operation.changes.map { DocumentKey(collection: $0.collection, id: $0.id) }
            guard let outside = documents.first(where: { !mayWrite($0) }) else { return nil }
            let error = SyncError(.writeNotGranted, "no right to write \(outside.collection)")
            return Refusal(
                actor: operation.actor, sequence: operation.sequence, error: error, documents: documents)
        }
    }

    /// Reads a held actor's operations to the end, and refuses what is forbidden of them.
    private mutating func readOn(
        _ operations: [(sequence: SequenceNumber, bytes: [UInt8])], of actor: ActorID
    ) {
        uploader.forbidden += forbidden(in: operations)
        if let last = operations.last, uploader.forbidden.count < Limits.refusalsAtOnce {
            uploader.heldThrough = last.sequence
            return resumeUpload()
        }
        // A newer token may have come meanwhile.
        let mayWrite = configuration.writeRules?()
        let refused = uploader.forbidden.filter { refusal in
            mayWrite.map { mayWrite in refusal.documents.contains { !mayWrite($0) } } ?? false
        }
        uploader.letGo()
        guard !refused.isEmpty else { return resumeUpload() }
        // As when the server refuses: nothing more of the actor is sent, and a repair sets these aside and
        // lets the others go. Of an actor that has just begun nothing was sent.
        uploader.stopped.insert(actor)
        uploader.sent[actor] = uploader.sent[actor] ?? 0
        uploader.acknowledged[actor] = uploader.acknowledged[actor] ?? 0
        uploader.repair.refused += refused
        uploader.repair.isDue = true
    }

    /// A large operation is a message of its own: a later session may go on behind what came of it.
    private mutating func sendUploads(_ operations: [[UInt8]]) {
        var together: [[UInt8]] = []
        for bytes in operations {
            let isLarge = bytes.count > Limits.firstBurstBytes
            if isLarge, !together.isEmpty {
                send(.upload(together))
                together = []
            }
            together.append(bytes)
            if isLarge {
                send(.upload(together))
                together = []
            }
        }
        if !together.isEmpty { send(.upload(together)) }
    }

    mutating func acknowledged(
        _ acknowledgements: [Acknowledgement], _ offset: Offset
    ) throws(SyncError) {
        // What is acknowledged is forgotten here, so nothing may be that has not left.
        for item in acknowledgements where item.sequence > uploader.sent[item.actor] ?? 0 {
            throw unexpected("an acknowledgement of what was not sent")
        }
        // What the stream has passed is answered.
        let open = offset > subscriber.streamed ? offset : 0
        // Stored with what the stream brings next: it comes to the offset by itself. Should the session end
        // before, the next handshake tells the same. Of two that follow each other closely the first one does
        // not wait.
        storeOwed()
        let mayWait = open > streamExpected && isOnlyStreamAhead
        for item in acknowledgements
        where item.sequence > uploader.acknowledged[item.actor] ?? 0 {
            uploader.acknowledged[item.actor] = item.sequence
            uploader.repair.hasMovedForClock = false
            uploader.repair.roundsForBase = 0
            if mayWait {
                uploader.owed.append(
                    OwnAcknowledgement(actor: item.actor, through: item.sequence, offset: open))
            } else {
                actions.append(
                    .acknowledge(item.actor, through: item.sequence, offset: offset == 0 ? nil : open))
            }
        }
        resumeUpload()
        resumeAsking()
    }

    /// Stores at once the acknowledgements that wait for the stream; answers up to `skipped` will not come.
    mutating func storeOwed(skipped: Offset = 0) {
        for own in takeOwed() {
            let offset = own.offset > skipped ? own.offset : nil
            actions.append(.acknowledge(own.actor, through: own.through, offset: offset))
        }
    }

    /// Takes the acknowledgements that wait for the stream, to be stored with what it brings.
    mutating func takeOwed() -> [OwnAcknowledgement] {
        defer { uploader.owed = [] }
        return uploader.owed
    }

    /// Everything of this actor that was written before the last read has been sent.
    private mutating func passBarriers(_ actor: ActorID) {
        let sent = uploader.sent[actor] ?? 0
        for index in subscriber.held.indices where subscriber.held[index].barrier.reads < uploader.reads {
            guard subscriber.held[index].barrier.unread.remove(actor) != nil else { continue }
            subscriber.held[index].barrier.targets[actor] = sent
        }
    }
}
