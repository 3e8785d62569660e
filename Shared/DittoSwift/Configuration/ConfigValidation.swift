import CRDT
import Foundation
import Identity

/// A validated configuration.
struct OpenedConfig: Sendable {
    /// The configuration, with secrets replaced by `[REDACTED]`.
    let redacted: DittoConfig
    /// The store's directory, absolute.
    let directory: String
    /// The server's addresses, for a server connection.
    let server: ServerAddresses?
    /// The key that small peers share; nil for none.
    let sharedKey: PeerKey?

    /// Checks a configuration.
    /// - Parameter root: the base of relative directories.
    /// - Throws: `SDK-0101` to `SDK-0104`.
    init(_ config: DittoConfig, root: URL) throws(SDKError) {
        guard DatabaseID(config.databaseID).isValid else {
            throw SDKError(
                .databaseIDInvalid,
                "'\(config.databaseID.prefix(200))' is not a database id: 1 to 128 letters, digits, '-', '_'")
        }
        var redacted = config
        switch config.connect {
        case .server(let url):
            server = try ServerAddresses(url)
            sharedKey = nil
        case .smallPeersOnly(let privateKey):
            server = nil
            guard let privateKey else {
                sharedKey = nil
                break
            }
            do {
                sharedKey = try PeerKey(sharedKey: privateKey)
            } catch {
                throw SDKError(.privateKeyInvalid, error.message)
            }
            redacted.connect = .smallPeersOnly(privateKey: "[REDACTED]")
        }
        directory = try Self.directory(of: config, root: root)
        self.redacted = redacted
    }

    private static func directory(of config: DittoConfig, root: URL) throws(SDKError) -> String {
        guard let given = config.persistenceDirectory else {
            return root.appendingPathComponent("ditto-\(config.databaseID)", isDirectory: true).standardized
                .path
        }
        let isPath = given.scheme == nil || given.isFileURL
        // A relative URL keeps its text; `path` of a file URL is absolute already.
        let path = given.isFileURL ? given.path : given.relativePath
        guard isPath, !path.isEmpty, given.host ?? "" == "", !path.contains("\0") else {
            throw SDKError(
                .persistenceDirectoryInvalid, "the persistence directory '\(given.relativeString)' is no path"
            )
        }
        let url =
            path.hasPrefix("/")
            ? URL(fileURLWithPath: path, isDirectory: true)
            : root.appendingPathComponent(path, isDirectory: true)
        return url.standardized.path
    }
}

/// The endpoints of a server.
struct ServerAddresses: Sendable, Equatable {
    /// `POST` of a login, http or https.
    let login: URL
    /// The sync endpoint, ws or wss.
    let sync: URL
    /// The folder of attachments, http or https.
    let attachments: URL

    /// The endpoints below a server's URL.
    /// - Throws: `SDK-0102` unless it is http or https with a host.
    init(_ url: URL) throws(SDKError) {
        guard var parts = URLComponents(url: url, resolvingAgainstBaseURL: true),
            let scheme = parts.scheme?.lowercased(), scheme == "http" || scheme == "https",
            let host = parts.host, !host.isEmpty
        else { throw Self.unusable }
        parts.query = nil
        parts.fragment = nil
        let base =
            parts.percentEncodedPath.hasSuffix("/")
            ? String(parts.percentEncodedPath.dropLast()) : parts.percentEncodedPath
        parts.percentEncodedPath = base + "/_ditto/auth/login"
        guard let login = parts.url else { throw Self.unusable }
        parts.percentEncodedPath = base + "/api/v5/attachments"
        guard let attachments = parts.url else { throw Self.unusable }
        parts.scheme = scheme == "https" ? "wss" : "ws"
        parts.percentEncodedPath = base + "/_ditto/sync"
        guard let sync = parts.url else { throw Self.unusable }
        self.login = login
        self.attachments = attachments
        self.sync = sync
    }

    // The message leaves out the URL: it may hold a password.
    private static var unusable: SDKError {
        SDKError(.serverURLInvalid, "the server URL is missing, or not http:// or https:// with a host")
    }
}
