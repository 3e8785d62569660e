import CRDT
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

extension DittoConfig {
    /// Reads what `cborData()` writes: the members of the JSON form, as CBOR.
    /// - Throws: `validationError`: `.invalidCBOR`, or `.invalidDittoConfig` for CBOR that is no
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

    /// Reads what `jsonData()` writes.
    /// - Throws: `validationError`: `.invalidJSON`, or `.invalidDittoConfig` for JSON that is no
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
    /// The private key is among it.
    public func jsonData() throws -> Data {
        let encoder = JSONEncoder()
        encoder.outputFormatting = [.sortedKeys, .withoutEscapingSlashes]
        return try encoder.encode(self)
    }

    /// The configuration as CBOR (RFC 8949), with the members of the JSON form.
    public func cborData() throws -> Data {
        Data(CBOR.encode(try JSONText.parse([UInt8](try jsonData()))))
    }

    private static func decoded(_ json: Data) throws(SDKError) -> DittoConfig {
        do {
            return try JSONDecoder().decode(DittoConfig.self, from: json)
        } catch {
            // Which member, and what is wrong with it; not what it holds.
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
        return "no configuration: \(path.isEmpty ? "the whole" : path): \(context?.debugDescription ?? "")"
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
