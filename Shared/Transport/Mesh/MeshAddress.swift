import Exchange
import Foundation
import WebSocket

/// An address at which a peer may be found.
public struct MeshAddress: Sendable, Hashable, Comparable, CustomStringConvertible {
    enum Kind: Sendable, Hashable {
        case tcp(host: String, port: Int)
        case webSocket(String)
    }

    let kind: Kind
    /// `host:port`, or the URL.
    public let description: String

    /// Reads `host:port`; the host of IPv6 stands in brackets. Nil for any other text.
    public init?(tcp text: String) {
        guard let colon = text.lastIndex(of: ":"), let port = Int(text[text.index(after: colon)...]),
            (1...65_535).contains(port)
        else { return nil }
        let host = Self.host(text[..<colon])
        guard let host else { return nil }
        kind = .tcp(host: host, port: port)
        description = text
    }

    /// Reads a `ws://` or `wss://` URL. The path `/` stands for `/_ditto/mesh`. Nil for any other text.
    public init?(webSocket text: String) {
        guard let url = URL(string: text), let scheme = url.scheme?.lowercased(),
            scheme == "ws" || scheme == "wss", let address = try? WebSocketAddress(url)
        else { return nil }
        let isRoot = address.path == "/"
        var parts = URLComponents(url: url, resolvingAgainstBaseURL: true)
        if isRoot { parts?.percentEncodedPath = Self.path }
        guard let whole = parts?.string else { return nil }
        kind = .webSocket(whole)
        description = text
    }

    /// True for a WebSocket's address.
    public var isWebSocket: Bool { if case .webSocket = kind { true } else { false } }

    /// The path at which peers take WebSockets.
    static let path = "/_ditto/mesh"

    /// A host without its brackets; nil for an empty or malformed one.
    static func host(_ text: Substring) -> String? {
        if text.hasPrefix("["), text.hasSuffix("]") {
            let inner = text.dropFirst().dropLast()
            return inner.isEmpty ? nil : String(inner)
        }
        return text.isEmpty || text.contains(":") ? nil : String(text)
    }

    /// By text.
    public static func < (one: MeshAddress, other: MeshAddress) -> Bool {
        one.description < other.description
    }
}
