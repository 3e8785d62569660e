import Foundation

/// Everything `Ditto.open(config:)` needs to know.
public struct DittoConfig: Codable, Sendable {
    /// The database to work with: 1 to 128 letters, digits, `-` and `_`, usually a UUID.
    public var databaseID: String
    /// How this instance finds whom to sync with.
    public var connect: DittoConfigConnect
    /// Where the data is kept: an absolute path (or file URL) as it is, a relative one below
    /// `Ditto.defaultRootDirectory`; nil is `ditto-<databaseID>` there.
    public var persistenceDirectory: URL?
    /// Settings of features that may change.
    public var experimental: DittoConfigExperimental

    /// A configuration of these parts. Nothing is checked before it is opened.
    public init(
        databaseID: String, connect: DittoConfigConnect, persistenceDirectory: URL? = nil,
        experimental: DittoConfigExperimental = .init()
    ) {
        self.databaseID = databaseID
        self.connect = connect
        self.persistenceDirectory = persistenceDirectory
        self.experimental = experimental
    }

    /// A constant database without a server: for trying things out, or as a starting point.
    public static var `default`: DittoConfig {
        DittoConfig(databaseID: "00000000-0000-4000-8000-000000000000", connect: .smallPeersOnly())
    }

    private enum CodingKeys: String, CodingKey {
        case databaseID = "database_id"
        case connect
        case persistenceDirectory = "persistence_directory"
        case experimental
    }

    /// Reads `{"database_id", "connect", "persistence_directory"?, "experimental"?}`.
    public init(from decoder: any Decoder) throws {
        let members = try decoder.container(keyedBy: CodingKeys.self)
        databaseID = try members.decode(String.self, forKey: .databaseID)
        connect = try members.decode(DittoConfigConnect.self, forKey: .connect)
        let directory = try members.decodeIfPresent(String.self, forKey: .persistenceDirectory)
        persistenceDirectory = directory.map { URL(string: $0) ?? URL(fileURLWithPath: $0) }
        experimental =
            try members.decodeIfPresent(DittoConfigExperimental.self, forKey: .experimental) ?? .init()
    }

    /// Writes the same members; the private key is among them.
    public func encode(to encoder: any Encoder) throws {
        var members = encoder.container(keyedBy: CodingKeys.self)
        try members.encode(databaseID, forKey: .databaseID)
        try members.encode(connect, forKey: .connect)
        try members.encodeIfPresent(persistenceDirectory?.relativeString, forKey: .persistenceDirectory)
        try members.encode(experimental, forKey: .experimental)
    }
}

/// How an instance finds whom to sync with.
public enum DittoConfigConnect: Codable, Sendable {
    /// A server at an http or https URL; it needs a login.
    case server(url: URL)
    /// No server. `privateKey` is a P-256 key (PKCS#8 DER in base64) that all peers share; nil means that
    /// nothing is encrypted and nobody is checked.
    case smallPeersOnly(privateKey: String? = nil)

    /// As the case, for a URL that may be missing: opening then fails as with any unusable URL.
    public static func server(url: URL?) -> DittoConfigConnect { .server(url: url ?? missingURL) }

    /// As the case, for a URL as text.
    public static func server(url: String) -> DittoConfigConnect { .server(url: URL(string: url)) }

    /// Stands for a URL that is none; has neither the scheme nor the host that opening asks for.
    private static let missingURL = URL(fileURLWithPath: "/dev/null")

    private enum CodingKeys: String, CodingKey {
        case type, url
        case privateKey = "private_key"
    }

    private enum Kind: String, Codable {
        case server
        case smallPeersOnly = "small_peers_only"
    }

    /// Reads `{"type": "server", "url"}` or `{"type": "small_peers_only", "private_key"?}`.
    public init(from decoder: any Decoder) throws {
        let members = try decoder.container(keyedBy: CodingKeys.self)
        switch try members.decode(Kind.self, forKey: .type) {
        case .server:
            let url: String = try members.decode(String.self, forKey: .url)
            self = .server(url: url)
        case .smallPeersOnly:
            self = .smallPeersOnly(privateKey: try members.decodeIfPresent(String.self, forKey: .privateKey))
        }
    }

    /// Writes the same members.
    public func encode(to encoder: any Encoder) throws {
        var members = encoder.container(keyedBy: CodingKeys.self)
        switch self {
        case .server(let url):
            try members.encode(Kind.server, forKey: .type)
            try members.encode(url.absoluteString, forKey: .url)
        case .smallPeersOnly(let privateKey):
            try members.encode(Kind.smallPeersOnly, forKey: .type)
            try members.encodeIfPresent(privateKey, forKey: .privateKey)
        }
    }
}

/// Settings of features that may change. There are none at the moment.
public struct DittoConfigExperimental: Codable, Sendable {
    /// No settings.
    public init() {}
}
