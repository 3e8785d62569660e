import Logging
import NIOCore
import NIOHTTP1
import NIOWebSocket

/// An upgraded connection: raw frames, for `WebSocketConnection.run(over:role:)` or `open`.
public typealias WebSocketChannel = any Channel

/// The request that asks for an upgrade.
public struct WebSocketRequest: Sendable {
    /// Path without query and without a trailing slash.
    public let path: String
    /// The text after `?`, still encoded.
    public let query: String?
    /// The header fields.
    public let headers: HTTPHeaders
    /// Address of the client, or of the proxy if it came through one.
    public let remoteAddress: SocketAddress?

    init(_ head: HTTPRequestHead, remoteAddress: SocketAddress?) {
        let parts = head.uri.split(separator: "?", maxSplits: 1, omittingEmptySubsequences: false)
        path = WebSocketRoute.path(of: parts.first ?? "/")
        query = parts.count > 1 ? String(parts[1]) : nil
        headers = head.headers
        self.remoteAddress = remoteAddress
    }
}

/// A path at which WebSockets are accepted.
public struct WebSocketRoute: Sendable {
    /// Runs an upgraded connection until it ends.
    public typealias Handler = @Sendable (WebSocketChannel, Logger) async -> Void

    /// Path without query.
    public let path: String
    /// Supported subprotocols; the first one that the client offers too is chosen.
    let subprotocols: [String]
    /// Decides before the upgrade: throws to refuse, returns the connection's handler to accept.
    let authorize: @Sendable (WebSocketRequest) async throws -> Accepted

    /// An accepted connection.
    public struct Accepted: Sendable {
        let handler: Handler
        /// Header fields of the 101 answer to this connection only.
        let headers: [(name: String, value: String)]

        /// A connection run by `handler`; `headers` are added to its 101 answer.
        public init(handler: @escaping Handler, headers: [(name: String, value: String)]) {
            self.handler = handler
            self.headers = headers
        }
    }

    /// A route. `authorize` runs before the upgrade: it throws to refuse, and returns the connection's
    /// handler to accept.
    public init(
        path: String, subprotocols: [String],
        authorize: @escaping @Sendable (WebSocketRequest) async throws -> Accepted
    ) {
        self.path = path
        self.subprotocols = subprotocols
        self.authorize = authorize
    }

    /// The path that a route is looked up by: a trailing slash is the same route.
    static func path(of text: Substring) -> String {
        text.count > 1 && text.last == "/" ? String(text.dropLast()) : String(text)
    }

    /// The header fields of the 101 answer.
    func acceptHeaders(_ request: WebSocketRequest, _ accepted: Accepted) -> HTTPHeaders {
        var fields = HTTPHeaders()
        for (name, value) in accepted.headers { fields.add(name: name, value: value) }
        let offered = request.headers[canonicalForm: "sec-websocket-protocol"]
        if let chosen = subprotocols.first(where: { mine in offered.contains { $0 == mine } }) {
            fields.add(name: "Sec-WebSocket-Protocol", value: chosen)
        }
        return fields
    }
}
