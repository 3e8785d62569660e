import NIOCore

/// The closing of a WebSocket (RFC 6455 section 7.1): each side sends a close frame, and the channel is
/// closed when ours has left and the other side sends nothing any more.
struct ClosingMachine {
    private enum Ours {
        case open
        /// Our close frame is on its way out.
        case leaving(EventLoopFuture<Void>)
        case sent
    }

    private enum Theirs {
        case open
        /// It sends nothing any more, and has not said why.
        case silent
        case closed(WebSocketClose)
    }

    private var ours = Ours.open
    private var theirs = Theirs.open

    /// True if messages may leave: no side has sent its close frame.
    var isOpen: Bool {
        if case .closed = theirs { return false }
        if case .open = ours { return true }
        return false
    }

    /// The other side's reason, once it has closed.
    var received: WebSocketClose? { if case .closed(let reason) = theirs { reason } else { nil } }

    /// The departure of our close frame while it is under way.
    var leaving: EventLoopFuture<Void>? { if case .leaving(let future) = ours { future } else { nil } }

    /// This side closes.
    /// - Returns: false if it has already.
    mutating func close(_ leaving: EventLoopFuture<Void>) -> Bool {
        guard case .open = ours else { return false }
        ours = .leaving(leaving)
        return true
    }

    /// Our close frame has left, or cannot.
    /// - Returns: whether the channel is closed now.
    mutating func left() -> Bool {
        ours = .sent
        if case .open = theirs { return false }
        return true
    }

    /// The other side has closed.
    mutating func heard(_ reason: WebSocketClose) { theirs = .closed(reason) }

    /// The other side sends nothing any more.
    /// - Returns: whether the channel is closed now.
    mutating func fellSilent() -> Bool {
        if case .open = theirs { theirs = .silent }
        if case .sent = ours { return true }
        return false
    }
}
