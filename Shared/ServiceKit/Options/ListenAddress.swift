/// An address to listen on: `HOST:PORT`, with IPv6 hosts in brackets. Port 0 lets the system choose.
public struct ListenAddress: Sendable, Equatable, CustomStringConvertible {
    /// Name or address, without brackets.
    public let host: String
    /// 0 to 65535.
    public let port: Int
    /// True if the listener speaks TLS.
    public var isSecure = false

    /// An address of the given parts.
    public init(host: String, port: Int) {
        self.host = host
        self.port = port
    }

    /// Loopback, on a port that the system chooses; for tests.
    public static let anyLoopbackPort = ListenAddress(host: "127.0.0.1", port: 0)

    /// Reads `HOST:PORT`. The host `*` is every interface; a resolver would make loopback of it.
    /// - Throws: `SRV-0101`.
    public init(_ text: String) throws(ServiceError) {
        guard let colon = text.lastIndex(of: ":"), let port = Int(text[text.index(after: colon)...]),
            (0...65535).contains(port)
        else { throw Self.invalid(text) }
        var host = String(text[..<colon])
        if host.hasPrefix("["), host.hasSuffix("]") {
            host = String(host.dropFirst().dropLast())
        } else if host.contains(":") {
            throw Self.invalid(text)
        }
        guard !host.isEmpty, host == "*" || host.allSatisfy(Self.isOfHost) else { throw Self.invalid(text) }
        self.init(host: host == "*" ? "0.0.0.0" : host, port: port)
    }

    /// True for a character of a name or an address, with the `%` before an interface's name.
    private static func isOfHost(_ character: Character) -> Bool {
        character.isLetter || character.isNumber || ".-_:%".contains(character)
    }

    private static func invalid(_ text: String) -> ServiceError {
        ServiceError(
            .listenInvalid,
            "--listen: '\(text)' is not a HOST:PORT, like 127.0.0.1:4000, [::1]:4000 or *:4000")
    }

    /// True if only programs of this machine can reach it.
    public var isLoopback: Bool {
        let bytes = host.split(separator: ".", omittingEmptySubsequences: false).map { UInt8($0) }
        return ["localhost", "::1"].contains(host.lowercased())
            || bytes.count == 4 && bytes[0] == 127 && bytes.allSatisfy { $0 != nil }
    }

    /// `HOST:PORT`.
    public var description: String { host.contains(":") ? "[\(host)]:\(port)" : "\(host):\(port)" }

    /// `http://HOST:PORT`, or `https`, with the loopback address if the host means every interface.
    public var origin: String {
        let scheme = isSecure ? "https" : "http"
        return switch host {
        case "0.0.0.0": "\(scheme)://127.0.0.1:\(port)"
        case "::": "\(scheme)://[::1]:\(port)"
        default: "\(scheme)://\(description)"
        }
    }
}
