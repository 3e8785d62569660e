import CRDT

/// Takes a peer's operations to the log, in the order they came.
///
/// Invariants: one append is under way at most, so that the log keeps the order; an acknowledgement is sent
/// only after the append was answered, when the operations are durable.
struct Admission: Sendable {
    /// Uploads that wait for the append under way; bounded by the credit given.
    var waiting: [(operations: [[UInt8]], size: Int)] = []
    /// The size of the upload being appended; nil when none is.
    var appending: Int?
}

extension Session {
    mutating func admit(_ operations: [[UInt8]], _ size: Int) throws(SyncError) {
        guard !operations.isEmpty else { throw SyncError(.malformedFrame, "an upload without operations") }
        admission.waiting.append((operations, size))
        appendNext()
    }

    private mutating func appendNext() {
        guard admission.appending == nil, !admission.waiting.isEmpty else { return }
        let next = admission.waiting.removeFirst()
        admission.appending = next.size
        actions.append(.append(next.operations))
    }

    mutating func appended(_ acknowledgements: [Frame.Acknowledgement]) {
        guard let size = admission.appending else { return }
        admission.appending = nil
        if !acknowledgements.isEmpty { send(.acknowledged(acknowledgements)) }
        returnCredit(size)
        appendNext()
    }

    mutating func refused(_ acknowledgements: [Frame.Acknowledgement], _ refusal: Frame.Refusal) {
        if !acknowledgements.isEmpty { send(.acknowledged(acknowledgements)) }
        send(.refused(refusal))
        // What follows a refused operation in its actor's sequence has nothing to stand on; the writer must
        // act first.
        close(refusal.error)
    }
}
