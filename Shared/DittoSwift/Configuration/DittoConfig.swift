import CRDT
import Foundation

/// The settings for `Ditto.open(config:)`.
public struct DittoConfig: Codable, Sendable {
    /// The id of the database: 1 to 128 letters, digits, `-` and `_`, usually a UUID.
    public var databaseID: String
    /// The server or peers to sync with.
    public var connect: DittoConfigConnect
    /// The directory of the data: an absolute path (or file URL), or one relative to
    /// `Ditto.defaultRootDirectory`. Nil means `ditto-<databaseID>` there.
    public var persistenceDirectory: URL?
    /// Settings of features that may change.
    public var experimental: DittoConfigExperimental

    /// A configuration of these parts. It is checked when it is opened.
    public init(
        databaseID: String, connect: DittoConfigConnect, persistenceDirectory: URL? = nil,
        experimental: DittoConfigExperimental = .init()
    ) {
        self.databaseID = databaseID
        self.connect = connect
        self.persistenceDirectory = persistenceDirectory
        self.experimental = experimental
    }

    /// A fixed database without a server, for trying things out or as a starting point.
    public static var `default`: DittoConfig {
        DittoConfig(databaseID: "00000000-0000-4000-8000-000000000000", connect: .smallPeersOnly())
    }

    private enum CodingKeys: String, CodingKey {
        case databaseID = "database_id"
        case connect
        case persistenceDirectory = "persistence_directory"
        case experimental
    }

    /// Decodes `{"database_id", "connect", "persistence_directory"?, "experimental"?}`.
    public init(from decoder: any Decoder) throws {
        let members = try decoder.container(keyedBy: CodingKeys.self)
        databaseID = try members.decode(String.self, forKey: .databaseID)
        connect = try members.decode(DittoConfigConnect.self, forKey: .connect)
        let directory = try members.decodeIfPresent(String.self, forKey: .persistenceDirectory)
        persistenceDirectory = directory.map { URL(string: $0) ?? URL(fileURLWithPath: $0) }
        experimental =
            try members.decodeIfPresent(DittoConfigExperimental.self, forKey: .experimental) ?? .init()
    }

    /// Encodes the same members, the private key included.
    public func encode(to encoder: any Encoder) throws {
        var members = encoder.container(keyedBy: CodingKeys.self)
        try members.encode(databaseID, forKey: .databaseID)
        try members.encode(connect, forKey: .connect)
        try members.encodeIfPresent(persistenceDirectory?.relativeString, forKey: .persistenceDirectory)
        try members.encode(experimental, forKey: .experimental)
    }
}

extension DittoConfig {
    /// Decodes the bytes of `cborData()`: the members of the JSON form, as CBOR.
    /// - Throws: `validationError`: `.invalidCBOR`, or `.invalidDittoConfig` for CBOR that is not a
    ///   configuration.
    public init(cborData: Data) throws {
        do {
            let value: Value
            do {
                value = try CBOR.decode([UInt8](cborData))
            } catch {
                throw SDKError(.configurationNoCBOR, error.message)
            }
            self = try Self.decoded(Data(JSONText.print(value).utf8))
        } catch {
            throw DittoSwiftError.translated(error)
        }
    }

    /// Decodes the text of `jsonData()`.
    /// - Throws: `validationError`: `.invalidJSON`, or `.invalidDittoConfig` for JSON that is not a
    ///   configuration.
    public init(jsonData: Data) throws {
        do {
            do {
                _ = try JSONText.parse([UInt8](jsonData))
            } catch {
                throw SDKError(.configurationNoJSON, error.message)
            }
            self = try Self.decoded(jsonData)
        } catch {
            throw DittoSwiftError.translated(error)
        }
    }

    /// The configuration as JSON (UTF-8): `database_id`, `connect`, `persistence_directory`, `experimental`.
    /// Includes the private key.
    public func jsonData() throws -> Data {
        let encoder = JSONEncoder()
        encoder.outputFormatting = [.sortedKeys, .withoutEscapingSlashes]
        return try encoder.encode(self)
    }

    /// The configuration as CBOR (RFC 8949), with the members of the JSON form. Includes the private key.
    public func cborData() throws -> Data {
        Data(CBOR.encode(try JSONText.parse([UInt8](try jsonData()))))
    }

    private static func decoded(_ json: Data) throws(SDKError) -> DittoConfig {
        do {
            return try JSONDecoder().decode(DittoConfig.self, from: json)
        } catch {
            // Names the member and its problem, never its content.
            throw SDKError(.configurationUndecodable, describe(error))
        }
    }

    private static func describe(_ error: any Error) -> String {
        let context: DecodingError.Context? =
            switch error as? DecodingError {
            case .typeMismatch(_, let context)?, .valueNotFound(_, let context)?,
                .dataCorrupted(let context)?:
                context
            case .keyNotFound(let key, let context)?:
                DecodingError.Context(
                    codingPath: context.codingPath + [key], debugDescription: "it is missing")
            default: nil
            }
        let path = (context?.codingPath ?? []).map(\.stringValue).joined(separator: ".")
        return "invalid config: \(path.isEmpty ? "the whole" : path): \(context?.debugDescription ?? "")"
    }
}

/// The server or peers that an instance syncs with.
public enum DittoConfigConnect: Codable, Sendable {
    /// A server at an http or https URL. It needs a login.
    case server(url: URL)
    /// No server. `privateKey` is a P-256 key that all peers share: what `openssl` writes, PEM or the base64
    /// of its DER. Nil means no encryption and no authentication.
    case smallPeersOnly(privateKey: String? = nil)

    /// As the case, for an optional URL. Opening nil fails as with any unusable URL.
    public static func server(url: URL?) -> DittoConfigConnect { .server(url: url ?? missingURL) }

    /// As the case, for a URL as text.
    public static func server(url: String) -> DittoConfigConnect { .server(url: URL(string: url)) }

    /// The replacement for a missing URL. It lacks the scheme and the host that opening requires.
    private static let missingURL = URL(fileURLWithPath: "/dev/null")

    private enum CodingKeys: String, CodingKey {
        case type, url
        case privateKey = "private_key"
    }

    private enum Kind: String, Codable {
        case server
        case smallPeersOnly = "small_peers_only"
    }

    /// Decodes `{"type": "server", "url"}` or `{"type": "small_peers_only", "private_key"?}`.
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

    /// Encodes the same members.
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

/// Settings of features that may change. Empty in this version.
public struct DittoConfigExperimental: Codable, Sendable {
    /// No settings.
    public init() {}
}
