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
}

extension Session {
    /// The peer's half of the handshake: compares histories, then subscribes and uploads.
    mutating func begin(_ hello: Frame.Hello) throws(SyncError) {
        phase = .open
        let difference =
            Int64(clamping: hello.wallMilliseconds) - Int64(clamping: configuration.wallMilliseconds)
        actions.append(.report(.connected(clockDifferenceMilliseconds: difference)))
        for own in uploader.actors {
            let known = hello.actors.first { $0.actor == own.actor }
            let sequence = known?.sequence ?? 0
            let isForked =
                sequence > own.sequence
                || (sequence == own.sequence && known.map { $0.hash != own.hash } ?? false)
            if isForked {
                // Rule 9: this store lost what it once wrote (it was restored), so it may not go on as that
                // actor.
                actions.append(.renewActor(own.actor))
                actions.append(.report(.historyForked(own.actor)))
                continue
            }
            if sequence > 0 { actions.append(.acknowledge(own.actor, through: sequence)) }
            uploader.sent[own.actor] = sequence
            if own.sequence > sequence { uploader.pending.append(own.actor) }
        }
        announceSubscriptions()
        resumeUpload()
    }

    mutating func ownOperationAdded(_ actor: ActorID) {
        guard configuration.role == .peer else { return }
        if !uploader.pending.contains(actor) { uploader.pending.append(actor) }
        resumeUpload()
    }

    mutating func resumeUpload() {
        guard canSendData, !uploader.isReading, let actor = uploader.pending.first else { return }
        uploader.isReading = true
        actions.append(
            .readOwnOperations(actor: actor, after: uploader.sent[actor] ?? 0, maxBytes: Limits.batchBytes))
    }

    mutating func upload(_ actor: ActorID, _ operations: [(sequence: UInt64, bytes: [UInt8])]) {
        uploader.isReading = false
        guard phase == .open else { return }
        if let last = operations.last {
            uploader.sent[actor] = last.sequence
            send(.upload(operations.map(\.bytes)))
        } else {
            uploader.pending.removeAll { $0 == actor }
        }
        resumeUpload()
    }

    mutating func acknowledged(_ acknowledgements: [Frame.Acknowledgement]) {
        for item in acknowledgements { actions.append(.acknowledge(item.actor, through: item.sequence)) }
    }
}
