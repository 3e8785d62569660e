import CRDT

/// Sends own operations in sequence, from the server's frontier on (rule 18): nothing is remembered of
/// acknowledgements.
///
/// Invariants: at most one read is under way; an actor's operations leave in sequence without gap; no frame
/// is sent without credit.
struct Uploader: Sendable {
    /// The store's actors, oldest first, as the hello named them; new ones are added as they write.
    var actors: [Frame.ActorHead] = []
    /// Per actor the sequence up to which everything was sent or was known to the server.
    var sent: [ActorID: UInt64] = [:]
    /// Actors that may have more to send, in order.
    var pending: [ActorID] = []
    var isReading = false
    /// Counts the reads; the answer to one does not know of operations added after it was asked.
    var reads: UInt64 = 0
    /// Whether the actor being read has written since the read was asked for.
    var hasMore = false
    /// Per actor the sequence up to which the server has everything durably.
    var acknowledged: [ActorID: UInt64] = [:]
    /// The server's frontier for the own actors, from its hello.
    var known: [Frame.ActorHead] = []
    var serverMilliseconds: UInt64 = 0
    var isComparing = false
    /// Actors whose history the server knows otherwise: nothing of them is sent any more.
    var forked: Set<ActorID> = []

    /// A moment in the store's own history: reached when the server has everything written before it.
    struct Barrier: Sendable {
        /// Reads asked for later than this know of everything written before.
        let reads: UInt64
        /// Actors of which not everything written before has been read yet.
        var unread: Set<ActorID>
        /// Per actor the sequence that must be acknowledged.
        var targets: [ActorID: UInt64]
    }

    /// The present moment.
    var barrier: Barrier {
        let isFresh = isReading && !hasMore
        return Barrier(reads: isFresh ? reads - 1 : reads, unread: Set(pending), targets: sent)
    }

    func isReached(_ barrier: Barrier) -> Bool {
        barrier.unread.isEmpty && barrier.targets.allSatisfy { $0.value <= acknowledged[$0.key] ?? 0 }
    }
}

extension Session {
    /// The peer's half of the handshake: compares histories, then subscribes and uploads.
    mutating func begin(_ hello: Frame.Hello) {
        let named = Set(uploader.actors.map(\.actor))
        uploader.known = hello.actors.filter { named.contains($0.actor) && $0.sequence > 0 }
        uploader.serverMilliseconds = hello.wallMilliseconds
        guard !uploader.known.isEmpty else { return begin(forked: []) }
        uploader.isComparing = true
        actions.append(.compareHistory(uploader.known))
    }

    mutating func historyCompared(_ forked: [ActorID]) {
        guard uploader.isComparing else { return }
        uploader.isComparing = false
        begin(forked: Set(forked))
    }

    private mutating func begin(forked: Set<ActorID>) {
        phase = .open
        let difference =
            Int64(clamping: uploader.serverMilliseconds) - Int64(clamping: configuration.wallMilliseconds)
        actions.append(.report(.connected(clockDifferenceMilliseconds: difference)))
        // What was written since the heads were read comes last: it may rest on what earlier actors wrote.
        let added = uploader.pending
        uploader.pending = []
        for own in uploader.actors {
            let sequence = uploader.known.first { $0.actor == own.actor }?.sequence ?? 0
            if forked.contains(own.actor) {
                // Rule 9: this store lost what it once wrote (it was restored), so it may not go on as that
                // actor.
                uploader.forked.insert(own.actor)
                actions.append(.renewActor(own.actor))
                actions.append(.report(.historyForked(own.actor)))
                continue
            }
            if sequence > 0 { actions.append(.acknowledge(own.actor, through: sequence)) }
            uploader.sent[own.actor] = sequence
            uploader.acknowledged[own.actor] = sequence
            if own.sequence > sequence { uploader.pending.append(own.actor) }
        }
        for actor in added where !uploader.pending.contains(actor) && !uploader.forked.contains(actor) {
            uploader.pending.append(actor)
        }
        announceSubscriptions()
        resumeUpload()
    }

    mutating func ownOperationAdded(_ actor: ActorID) {
        guard configuration.role == .peer, !uploader.forked.contains(actor) else { return }
        if uploader.isReading, actor == uploader.pending.first { uploader.hasMore = true }
        if !uploader.pending.contains(actor) { uploader.pending.append(actor) }
        resumeUpload()
    }

    mutating func resumeUpload() {
        guard canSendData, !uploader.isReading, let actor = uploader.pending.first else { return }
        uploader.isReading = true
        uploader.hasMore = false
        uploader.reads += 1
        actions.append(
            .readOwnOperations(
                actor: actor, after: uploader.sent[actor] ?? 0, maxBytes: configuration.batchBytes))
    }

    mutating func upload(_ actor: ActorID, _ operations: [(sequence: UInt64, bytes: [UInt8])]) {
        uploader.isReading = false
        guard phase == .open, uploader.pending.first == actor else { return }
        if let last = operations.last {
            uploader.sent[actor] = last.sequence
            send(.upload(operations.map(\.bytes)))
        } else if !uploader.hasMore {
            uploader.pending.removeAll { $0 == actor }
        }
        if operations.reduce(0, { $0 + $1.bytes.count }) < configuration.batchBytes {
            passBarriers(actor)
        }
        resumeUpload()
        resumeAsking()
    }

    mutating func acknowledged(_ acknowledgements: [Frame.Acknowledgement]) {
        for item in acknowledgements
        where uploader.sent[item.actor] != nil && item.sequence > uploader.acknowledged[item.actor] ?? 0 {
            uploader.acknowledged[item.actor] = item.sequence
            actions.append(.acknowledge(item.actor, through: item.sequence))
        }
        resumeAsking()
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
