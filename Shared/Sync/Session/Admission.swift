import CRDT
import Exchange

/// Takes a peer's operations to the log, in the order they came.
///
/// Invariants: one append is under way at most, so that the log keeps the order; an acknowledgement is sent
/// only after the append was answered, when the operations are durable.
struct Admission: Sendable {
    /// Uploads that wait for the append under way, or for a newer token to be checked; bounded by the credit
    /// given.
    var waiting = Queue<(operations: [[UInt8]], size: Int)>()
    /// The size of the upload being appended; nil when none is.
    var appending: Int?
    /// Actors of which an operation was refused: what follows in their sequence has nothing to stand on,
    /// and the writer sends it again under another actor.
    var stopped: Set<ActorID> = []
}

extension Session {
    mutating func admit(_ operations: [[UInt8]], _ size: Int) throws(SyncError) {
        guard !operations.isEmpty else { throw SyncError(.malformedFrame, "an upload without operations") }
        admission.waiting.append((operations, size))
        try appendNext()
    }

    /// Appends what waits; but what came behind a newer token is judged under it.
    mutating func appendNext() throws(SyncError) {
        while admission.appending == nil, !renewal.isChecking, !admission.waiting.isEmpty {
            var next = admission.waiting.removeFirst()
            // What waits together is appended together: appending is mostly waiting for the disk.
            while next.size < Limits.appendedBytes, let more = admission.waiting.first {
                next = (next.operations + more.operations, next.size + more.size)
                admission.waiting.removeFirst()
            }
            var operations: [[UInt8]] = []
            for bytes in next.operations where try !admission.stopped.contains(author(of: bytes)) {
                operations.append(bytes)
            }
            guard !operations.isEmpty else {
                returnCredit(next.size)
                continue
            }
            admission.appending = next.size
            // Of what follows a refused operation nothing may be left to append.
            let isMore = !admission.waiting.isEmpty && admission.stopped.isEmpty
            actions.append(.append(operations, isMore: isMore))
        }
    }

    /// The actor of an uploaded operation. One whose header cannot be read cannot be refused by its name.
    private func author(of bytes: [UInt8]) throws(SyncError) -> ActorID {
        do {
            return try OperationHeader.peek(bytes).actor
        } catch {
            throw SyncError(.malformedOperation, "an operation does not decode: \(error)")
        }
    }

    mutating func appended(
        _ acknowledgements: [Acknowledgement], _ offset: Offset
    ) throws(SyncError) {
        guard let size = admission.appending else { return }
        admission.appending = nil
        publisher.ownThrough = max(publisher.ownThrough, offset)
        acknowledge(acknowledgements, offset)
        // The stream may have passed it before this side knew whose it was, and told nobody.
        let own = publisher.ownThrough
        if let head = publisher.head, own <= head.offset, own > publisher.toldThrough,
            own > publisher.skippedThrough
        {
            publisher.isProgressDue = true
        }
        tellProgress()
        returnCredit(size)
        try appendNext()
    }

    /// What was passed over meanwhile was not answered: then the writer asks.
    private mutating func acknowledge(_ acknowledgements: [Acknowledgement], _ offset: Offset) {
        guard !acknowledgements.isEmpty else { return }
        let told = offset <= publisher.skippedThrough ? 0 : offset
        send(.acknowledged(acknowledgements, offset: told))
    }

    mutating func refused(
        _ acknowledgements: [Acknowledgement], _ refusals: [Refusal], _ offset: Offset
    ) throws(SyncError) {
        guard admission.appending != nil else { return }
        publisher.ownThrough = max(publisher.ownThrough, offset)
        for refusal in refusals { admission.stopped.insert(refusal.actor) }
        guard admission.stopped.count <= Limits.stoppedActors else {
            throw SyncError(.creditExceeded, "operations of too many actors were refused")
        }
        acknowledge(acknowledgements, offset)
        for refusal in refusals { send(.refused(refusal)) }
        // These say that the two sides see different histories: only another handshake can tell which.
        if let fatal = refusals.first(where: \.error.isOfHistory) { throw fatal.error }
        try appended([], 0)
    }
}

extension SyncError {
    /// Whether the log's history of the actor is not the one the upload follows.
    fileprivate var isOfHistory: Bool {
        [SyncErrorCode.sequenceGap, .actorConflict].contains { utf8Equal($0.rawValue, code) }
    }
}
