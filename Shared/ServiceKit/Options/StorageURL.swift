/// The storage of a log or a projection.
public enum StorageURL: Sendable, Equatable {
    /// The SQLite file or folder at a path.
    case sqlite(path: String)
    /// The PostgreSQL server that libpq reaches by this URL.
    case postgres(url: String)

    /// Reads `sqlite:PATH`, with PATH absolute or relative to the working directory, or
    /// `postgres://USER@HOST/DATABASE`.
    /// - Parameter flag: the flag's name, for the message.
    /// - Throws: `SRV-0102`. The message never holds the URL, which may hold a password.
    public init(_ text: String, flag: String) throws(ServiceError) {
        let scheme = text.prefix { $0 != ":" }.lowercased()
        switch scheme {
        case "postgres", "postgresql":
            self = .postgres(url: text)
        case "sqlite":
            var path = text.dropFirst("sqlite:".count)
            if path.hasPrefix("//") { path = path.dropFirst(2) }
            guard !path.isEmpty else { fallthrough }
            self = .sqlite(path: String(path))
        default:
            throw ServiceError(
                .storageURLInvalid, "--\(flag): '\(scheme):…' is neither sqlite:PATH nor postgres://…")
        }
    }
}

/// The address of another service: `http(s)://HOST[:PORT]`.
public struct Origin: Sendable, Equatable, CustomStringConvertible {
    private let text: String

    /// Reads an origin; a trailing slash is dropped.
    /// - Throws: `SRV-0105`.
    public init(_ text: String) throws(ServiceError) {
        let trimmed = text.hasSuffix("/") ? String(text.dropLast()) : text
        let rest =
            trimmed.hasPrefix("http://")
            ? trimmed.dropFirst(7) : trimmed.hasPrefix("https://") ? trimmed.dropFirst(8) : ""
        guard !rest.isEmpty, !rest.hasPrefix(":"), !rest.contains(where: { "/?#@ ".contains($0) }) else {
            throw ServiceError(.issuerInvalid, "--issuer: '\(text)' is no origin like http://127.0.0.1:4001")
        }
        self.text = trimmed
    }

    /// `http(s)://HOST[:PORT]`.
    public var description: String { text }
}
