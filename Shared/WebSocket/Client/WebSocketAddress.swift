import Foundation
import NIOCore

/// The address of a WebSocket server: `ws`, `wss`, `http` or `https` with a host, and a path.
public struct WebSocketAddress: Sendable, Equatable {
    /// Host name or address, without brackets.
    public let host: String
    /// The URL's port, or 80 or 443.
    public let port: Int
    /// Path and query, at least `/`.
    public let path: String
    /// True for TLS.
    public let isSecure: Bool

    /// Reads an address.
    /// - Throws: `WS-0101`.
    public init(_ url: URL) throws(WebSocketError) {
        guard let parts = URLComponents(url: url, resolvingAgainstBaseURL: true),
            let scheme = parts.scheme?.lowercased(),
            ["ws", "wss", "http", "https"].contains(scheme), let host = parts.host, !host.isEmpty
        else {
            throw WebSocketError(.addressInvalid, "a server address is ws, wss, http or https with a host")
        }
        self.host = host.hasPrefix("[") && host.hasSuffix("]") ? String(host.dropFirst().dropLast()) : host
        isSecure = scheme == "wss" || scheme == "https"
        port = parts.port ?? (isSecure ? 443 : 80)
        let path = parts.percentEncodedPath.isEmpty ? "/" : parts.percentEncodedPath
        self.path = parts.percentEncodedQuery.map { "\(path)?\($0)" } ?? path
    }

    /// The `Host` header, with the port only if it is not the scheme's default.
    var authority: String {
        let name = host.contains(":") ? "[\(host)]" : host
        return port == (isSecure ? 443 : 80) ? name : "\(name):\(port)"
    }

    /// The server name that TLS sends; nil for an IP address, which is not one (RFC 6066 section 3).
    var serverName: String? { (try? SocketAddress(ipAddress: host, port: port)) == nil ? host : nil }
}
