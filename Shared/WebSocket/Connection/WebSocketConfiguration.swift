/// The bounds of a WebSocket connection, with their reasons.
public struct WebSocketConfiguration: Sendable {
    /// One frame of the sync protocol, at most 1 MiB, and some room for its envelope.
    public static let defaultMessageBytes = 1024 * 1024 + 4096
    /// Largest message in either direction.
    public var maximumMessageBytes = Self.defaultMessageBytes
    /// The time after which a ping is sent; most NATs and proxies forget an idle connection after 60 s or
    /// more.
    public var keepAliveInterval: Duration = .seconds(30)
    /// Intervals without any bytes from the peer before the connection counts as lost.
    public var missedBeforeDead = 2
    /// How long to wait for the other side's close frame.
    public var closeTimeout: Duration = .seconds(2)
    /// The time from dialling to the finished upgrade.
    public var connectTimeout: Duration = .seconds(10)

    /// The defaults.
    public init() {}
}

/// The reason why a side closed: RFC 6455 section 7.4.
public struct WebSocketClose: Sendable, Equatable {
    /// 1000 normal, 1001 going away, 1002 protocol, 1003 text, 1008 policy, 1009 too large, 1011 server
    /// error, 4000 to 4999 the application's; 1005 when the close frame had none.
    public var code: UInt16
    /// At most 123 bytes of UTF-8.
    public var reason: String

    /// A reason with the given code and text.
    public init(code: UInt16, reason: String = "") {
        self.code = code
        self.reason = reason
    }

    /// The connection has served its purpose.
    public static let normal = WebSocketClose(code: 1000)
    /// The peer broke the protocol.
    public static let protocolError = WebSocketClose(code: 1002, reason: "WS-0205: protocol error")
    /// The peer has answered no ping for too long, although it must (RFC 6455 section 5.5.2). Usually the
    /// network has failed; the frame is sent in case it failed in one direction only.
    public static let unanswered = WebSocketClose(code: 1002, reason: "WS-0202: pings were not answered")
    /// Text was sent; only binary messages are accepted.
    public static let unacceptableData = WebSocketClose(code: 1003, reason: "WS-0204: only binary messages")
    /// A message over the limit.
    public static let messageTooLarge = WebSocketClose(code: 1009, reason: "WS-0203: message too large")
    /// The handler failed.
    public static let internalError = WebSocketClose(code: 1011, reason: "internal error")
    /// The close frame carried no code.
    public static let noStatus = WebSocketClose(code: 1005)
}
