import CRDT
import Exchange

/// The live stream's place in a session, and how far the receiver knows it: a part of the publisher.
///
/// Invariants: operations leave in log order, so positions only grow; while an upload of the receiver is
/// being appended, a position waits for its acknowledgement, because the receiver stores the two together
/// (decision 0041).
struct StreamProgress: Sendable {
    private enum Feed: Sendable {
        /// The driver waits for operations; also before the handshake.
        case awaited
        /// The receiver gives no credit: nobody waits.
        case paused
    }

    private var feed = Feed.awaited
    /// The position up to which the stream was sent; nil before the handshake.
    private(set) var head: LogPosition?
    /// The offset of the last position that the receiver was told.
    private var toldThrough: Offset = 0
    /// The greatest offset of the receiver's own operations in the log, as far as this session brought them.
    private var ownThrough: Offset = 0
    /// The offset through which operations were passed over: the receiver is not answered there.
    private var skippedThrough: Offset = 0
    /// True if the receiver is still to be told how far the stream is.
    private var isDue = false
    private var isAppending = false

    var offset: Offset { head?.offset ?? 0 }

    /// The handshake is complete.
    mutating func begin(at head: LogPosition, _ flow: inout FlowControl) {
        self.head = head
        flow.perform(.awaitOperations(after: head.offset))
    }

    /// Has the driver wait for more, unless it does.
    mutating func awaitMore(_ flow: inout FlowControl) {
        guard case .paused = feed else { return }
        feed = .awaited
        flow.perform(.awaitOperations(after: offset))
    }

    /// The driver has answered.
    mutating func arrived() {
        precondition(isAwaited, "operations were not awaited; the stream is \(name)")
        feed = .paused
    }

    /// A frame has told everything up to here.
    mutating func sent(through position: LogPosition) {
        head = position
        toldThrough = position.offset
        isDue = false
    }

    /// The stream has passed a position without a frame.
    mutating func passed(_ position: LogPosition?) { head = position ?? head }

    /// The same; the receiver is told if a subscription of it is live, or it waits for answers to own writes.
    mutating func passed(_ position: LogPosition, isAnyLive: Bool, _ flow: inout FlowControl) {
        head = position
        guard isAnyLive || ownThrough > toldThrough else { return }
        isDue = true
        if !isAppending { tell(&flow) }
    }

    /// Tells how far the stream is, if no frame has told it.
    mutating func tell(_ flow: inout FlowControl) {
        guard isDue, let head else { return }
        isDue = false
        flow.send(.progress(head))
        toldThrough = head.offset
    }

    // MARK: Uploads of the receiver

    mutating func appendBegan() { isAppending = true }

    /// Operations of the receiver are in the log, none of them after `offset`. The stream may have passed
    /// them before this side knew whose they were, and told nobody.
    mutating func appendEnded(through offset: Offset, _ flow: inout FlowControl) {
        isAppending = false
        ownThrough = max(ownThrough, offset)
        if let head, ownThrough <= head.offset, ownThrough > toldThrough, ownThrough > skippedThrough {
            isDue = true
        }
        tell(&flow)
    }

    // MARK: Falling back

    /// Operations up to `head` are passed over.
    mutating func skip(to head: LogPosition, _ flow: inout FlowControl) -> [Message] {
        self.head = head
        feed = .paused
        isDue = false
        return skipped(head, &flow)
    }

    /// Frames that waited for credit are not sent.
    mutating func withdraw(_ flow: inout FlowControl) -> [Message] {
        guard let head else { return [] }
        toldThrough = 0
        return skipped(head, &flow)
    }

    /// The answers to the receiver's own writes up to here were passed over: it has to ask for them (rule
    /// 16).
    private mutating func skipped(_ position: LogPosition, _ flow: inout FlowControl) -> [Message] {
        skippedThrough = position.offset
        if ownThrough > toldThrough {
            flow.send(.progress(position, skipped: true))
            toldThrough = position.offset
        }
        return [.answersSkipped(through: position.offset)]
    }

    // MARK: Invariants

    var isAwaited: Bool { if case .awaited = feed { true } else { false } }

    var name: String {
        switch (feed, isAppending) {
        case (.awaited, false): "stream awaited"
        case (.awaited, true): "stream awaited during an append"
        case (.paused, false): "stream paused"
        case (.paused, true): "stream paused during an append"
        }
    }

    func checkInvariants() {
        precondition(!isDue || isAppending, "a position is due, and nothing holds it back")
    }
}
