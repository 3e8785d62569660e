/// Every code of the WebSocket connection.
public enum WebSocketErrorCode: String, Sendable, CaseIterable {
    /// The address is not a ws, wss, http or https URL with a host.
    case addressInvalid = "WS-0101"
    /// No connection could be made: refused, no route, name unknown, TLS failed.
    case connectFailed = "WS-0102"
    /// The server did not finish the upgrade in time.
    case connectTimeout = "WS-0103"
    /// The server answered the upgrade with an HTTP status; `WebSocketError.status` has it.
    case upgradeRefused = "WS-0104"
    /// The address is wss or https, but the server answers without TLS: it speaks plain http.
    case plainServer = "WS-0105"
    /// The connection is closed, by either side; nothing more can be sent.
    case closed = "WS-0201"
    /// The connection ended without a close frame, or the peer stopped answering (closed with 1002, in case
    /// it still listens).
    case connectionLost = "WS-0202"
    /// A message exceeds the limit: one to send (nothing was sent) or a received one (closed with 1009).
    case messageTooLarge = "WS-0203"
    /// The peer sent text, but only binary messages are accepted (closed with 1003).
    case textMessage = "WS-0204"
    /// The peer broke RFC 6455 (closed with 1002).
    case protocolViolation = "WS-0205"
}

/// An error of the WebSocket connection. Has no header and no token.
public struct WebSocketError: Error, Sendable, Equatable, CustomStringConvertible {
    /// The stable code.
    public let code: WebSocketErrorCode
    /// A text for a person.
    public let message: String
    /// The HTTP status of a refused upgrade.
    public let status: Int?
    /// The server's own stable code (`AUTH-0105`) when its refusal carried one.
    public let serverCode: String?

    /// An error with the given parts.
    public init(_ code: WebSocketErrorCode, _ message: String, status: Int? = nil, serverCode: String? = nil)
    {
        self.code = code
        self.message = message
        self.status = status
        self.serverCode = serverCode
    }

    /// Code and message.
    public var description: String { "\(code.rawValue): \(message)" }
}
