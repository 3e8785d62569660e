import CRDT
import Crypto
import Foundation
import Identity

/// The collections of the system database.
public enum SystemCollectionName: String, Sendable, CaseIterable {
    /// `DatabaseRecord`, by the database's id.
    case databases
    /// `ProviderRecord`, by `<database>/<name>`.
    case providers
    /// `SigningKeyRecord`, by the key's id.
    case keys
    /// `APIKeyRecord`, by the key's id.
    case apiKeys
    /// `Revocation`, by its id.
    case revocations
    /// `ErasureRecord`, by its id.
    case erasures
    /// `DocumentErasure`, by its id.
    case documentErasures
    /// `RestoreWord`, by its id.
    case restores
    /// `WebhookRecord`, by its id.
    case webhooks
    /// `WebhookPosition`, by the webhook's id.
    case webhookPositions
    /// `AdminCredentialRecord`, by the credential's id.
    case adminCredentials
    /// `BackupRecord`, by the place.
    case backups
    /// `AttachmentBucketRecord`, by the bucket's URL.
    case attachmentBuckets
    /// `AccountRecord`, by its id.
    case accounts
    /// `PermissionSetRecord`, by `<database>/<name>`.
    case permissionSets
    /// `AccountLinkRecord`, by the link's id.
    case accountLinks
    /// `JoinRecord`, by `<database>/<user code>`.
    case joins
    /// `LoginFailures`, by the place.
    case loginFailures
    /// `DatabaseLimits`, by the database's id.
    case limits

    /// The collection's name.
    public var name: CollectionName { CollectionName(rawValue) }
}

/// A document of the system database, as a value.
public protocol SystemRecord: Sendable, Codable {
    /// The collection of these records.
    static var collection: SystemCollectionName { get }
    /// The document's id.
    var id: String { get }
}

/// A database that exists or existed.
public struct DatabaseRecord: SystemRecord, Equatable {
    /// See `SystemRecord`.
    public static let collection = SystemCollectionName.databases
    /// The database's id, as the document has it.
    public var id: String
    /// The database's id.
    public var databaseID: DatabaseID { DatabaseID(id) }
    /// Seconds since 1970.
    public var createdAtSeconds: Int64
    /// The development provider's secret, sealed; nil if the database has no such provider.
    public var sealedDevelopmentToken: String?
    /// True for the database that the first start makes.
    public var isFirst: Bool
    /// Seconds since 1970. The id is never used again, since peers may still have documents of it.
    public var deletedAtSeconds: Int64?
    /// True if everything of the deleted database is to be erased; nil for a database that exists, and for
    /// one that an earlier version deleted, which kept its data.
    public var erases: Bool?
    /// True if everything of this database is to be erased.
    public var isErased: Bool { deletedAtSeconds != nil && erases == true }

    /// A database of these facts.
    public init(
        id: String, createdAtSeconds: Int64, sealedDevelopmentToken: String? = nil, isFirst: Bool = false,
        deletedAtSeconds: Int64? = nil
    ) {
        self.id = id
        self.createdAtSeconds = createdAtSeconds
        self.sealedDevelopmentToken = sealedDevelopmentToken
        self.isFirst = isFirst
        self.deletedAtSeconds = deletedAtSeconds
    }
}

/// A provider that decides about logins.
public struct ProviderRecord: SystemRecord, Equatable {
    /// See `SystemRecord`.
    public static let collection = SystemCollectionName.providers
    /// `<database>/<name>`.
    public var id: String { "\(database)/\(name)" }
    /// The database.
    public var databaseID: DatabaseID { DatabaseID(database) }
    /// The same as the document has it.
    private let database: String
    /// The provider's name in login requests.
    public var name: String
    /// `webhook` or `anonymous`.
    public var kind: String
    /// The part that may be shown: a webhook's URL.
    public var summary: String
    /// The whole configuration as JSON, sealed.
    public var sealedConfiguration: String

    /// A provider of these facts.
    public init(
        database: DatabaseID, name: String, kind: String, summary: String, sealedConfiguration: String
    ) {
        self.database = database.text
        self.name = name
        self.kind = kind
        self.summary = summary
        self.sealedConfiguration = sealedConfiguration
    }
}

/// A database's key pair.
public struct SigningKeyRecord: SystemRecord, Equatable {
    /// See `SystemRecord`.
    public static let collection = SystemCollectionName.keys
    /// `<database>.<number>`.
    public var id: String
    /// The compressed point in base64url.
    public var publicKey: String
    /// The private key as PEM, sealed.
    public var sealedPEM: String
    /// Seconds since 1970.
    public var createdAtSeconds: Int64
    /// Seconds since 1970; from then on no token that it signed is valid. Nil for the key that signs now.
    public var retiresAtSeconds: Int64?

    /// A key of these facts.
    public init(
        id: String, publicKey: String, sealedPEM: String, createdAtSeconds: Int64,
        retiresAtSeconds: Int64? = nil
    ) {
        self.id = id
        self.publicKey = publicKey
        self.sealedPEM = sealedPEM
        self.createdAtSeconds = createdAtSeconds
        self.retiresAtSeconds = retiresAtSeconds
    }
}

/// An API key, without its secret. A peer logs in with it at the provider `api-key`; the tokens of such a
/// login end with the key.
public struct APIKeyRecord: SystemRecord, Equatable {
    /// See `SystemRecord`.
    public static let collection = SystemCollectionName.apiKeys
    /// The key's public part.
    public var id: String
    /// The one database that it opens.
    public var databaseID: DatabaseID { DatabaseID(database) }
    /// The same as the document has it.
    private let database: String
    /// For a person.
    public var name: String
    /// See `APIKey.secretHash`.
    public var secretHash: String
    /// The key's rights.
    public var permissions: Grant
    /// Seconds since 1970.
    public var createdAtSeconds: Int64
    /// Seconds since 1970.
    public var expiresAtSeconds: Int64
    /// Set for the key of a device that joined with a code.
    public var device: DeviceFacts?
    /// The peers that have logged in with the key, the latest last; nil before the first.
    public var peers: [KeyPeer]?

    /// The user of the key's identities.
    public var user: String { device.map { $0.user ?? "device:\(name)" } ?? "api-key:\(name)" }

    /// A key of these facts.
    public init(
        id: String, database: DatabaseID, name: String, secretHash: String, permissions: Grant,
        createdAtSeconds: Int64, expiresAtSeconds: Int64, device: DeviceFacts? = nil
    ) {
        self.device = device
        self.id = id
        self.database = database.text
        self.name = name
        self.secretHash = secretHash
        self.permissions = permissions
        self.createdAtSeconds = createdAtSeconds
        self.expiresAtSeconds = expiresAtSeconds
    }
}

/// The revocation of a user, a peer or a token.
///
/// While it holds, all tokens and logins of its subject are refused. After it is lifted, it still refuses
/// tokens issued before that, so that a stolen token stays invalid.
public struct Revocation: SystemRecord, Equatable {
    /// See `SystemRecord`.
    public static let collection = SystemCollectionName.revocations

    /// The kind of subject that is revoked.
    public enum Subject: String, Sendable, Codable, CaseIterable {
        /// A provider's user.
        case user
        /// A peer key.
        case peer
        /// A token's id, or an API key's.
        case token
    }

    /// A hash of database, subject and value, so that each subject has at most one revocation.
    public var id: String { Self.id(databaseID, subject, value) }
    /// The database.
    public var databaseID: DatabaseID { DatabaseID(database) }
    /// The same as the document has it.
    private let database: String
    /// The kind of `value`.
    public var subject: Subject
    /// The user, the peer key or the token id.
    public var value: String
    /// Seconds since 1970.
    public var sinceSeconds: Int64
    /// Seconds since 1970; nil while the revocation holds.
    public var liftedAtSeconds: Int64?
    /// Seconds since 1970; from then on the subject is valid nowhere, so the revocation is removed. Nil where
    /// nobody knows.
    public var endsAtSeconds: Int64?

    /// A revocation of these facts.
    public init(
        database: DatabaseID, subject: Subject, value: String, sinceSeconds: Int64,
        liftedAtSeconds: Int64? = nil, endsAtSeconds: Int64? = nil
    ) {
        self.endsAtSeconds = endsAtSeconds
        self.database = database.text
        self.subject = subject
        self.value = value
        self.sinceSeconds = sinceSeconds
        self.liftedAtSeconds = liftedAtSeconds
    }

    /// The id of the revocation of a subject.
    public static func id(_ database: DatabaseID, _ subject: Subject, _ value: String) -> String {
        let digest = SHA256.hash(data: Data("\(database)/\(subject.rawValue)/\(value)".utf8))
        return Base64URL.encode(Array(digest).prefix(16))
    }
}

extension SystemRecord {
    /// The document.
    func document() throws -> ObjectValue {
        let value = try JSONText.parse(Array(try JSONEncoder().encode(self)))
        guard let object = value.objectValue else { preconditionFailure("a record is an object") }
        var entries = object.entries.filter { !utf8Equal($0.key, "id") }
        entries.append((key: "_id", value: .string(id)))
        return ObjectValue(entries)
    }

    /// Reads a document; nil if its shape is unknown, as a later version may write it.
    static func read(_ id: String, _ fields: ObjectValue) -> Self? {
        var entries = fields.entries
        entries.append((key: "id", value: .string(id)))
        let text = JSONText.print(.object(ObjectValue(entries)))
        return try? JSONDecoder().decode(Self.self, from: Data(text.utf8))
    }
}
