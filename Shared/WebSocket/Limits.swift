/// The module's limits: name with unit, value, reason. Limits of one connection are in
/// `WebSocketConfiguration`.
enum Limits {
    /// Bytes of messages that `send` hands to the event loop before it waits for one to leave.
    static let unwrittenBytes = 524_288
    /// Messages that wait for the reader before the socket is no longer read: enough that the next one is
    /// there when the reader has handled the one before.
    static let unreadMessages = 8
    /// Bytes of these messages.
    static let unreadBytes = 524_288
    /// Bytes of a framed message that an event loop keeps for the next receiver.
    static let keptMessageBytes = 65_536
    /// Bytes of the first read of a server's connection, which most requests' heads fit into. A read that
    /// fills it makes the next ones larger.
    static let firstReadBytes = 1_024
    /// Bytes of its largest reads.
    static let readBytes = 65_536
    /// Frames that come in one turn of an event loop, from which a connection rests: an honest peer's frames
    /// are larger, or fewer.
    static let burstFrames = 64
    /// Rest for each of them: some times what a tiny frame costs, so that all who send such ones together
    /// have a part of the event loop's time.
    static let frameRest: Duration = .microseconds(20)
    /// Bytes that a turn of an event loop reads of a WebSocket at a server: they may be two thousand frames,
    /// some milliseconds.
    static let frameReadBytes = 16_384
    /// How long a peer may take to answer "going away".
    static let goodbyeTimeout: Duration = .seconds(2)
    /// Bytes of one message of a WebSocket that carries a stream of bytes: well below the largest message.
    static let streamMessageBytes = 262_144
    /// Connections that wait to be accepted by the kernel.
    static let backlog: Int32 = 256
    /// Fields and bytes of an upgrade request's head: browsers and our peers send less.
    static let headBytes = 16_384
}
