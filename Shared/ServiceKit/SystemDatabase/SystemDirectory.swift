import CRDT
import DQL
import Identity
import Replica

/// State of the system database at one moment: databases, providers, public keys, API keys, revocations.
public struct SystemDirectory: Sendable {
    /// By id, deleted ones included.
    public private(set) var databases: [DatabaseID: DatabaseRecord] = [:]
    /// By `<database>/<name>`.
    public private(set) var providers: [String: ProviderRecord] = [:]
    /// By the key's id.
    public private(set) var signingKeys: [String: SigningKeyRecord] = [:]
    /// By the key's id.
    public private(set) var apiKeys: [String: APIKeyRecord] = [:]
    /// By the revocation's id.
    public private(set) var revocations: [String: Revocation] = [:]
    /// By the receipt's id.
    public private(set) var erasures: [String: ErasureRecord] = [:]
    /// By the erasure's id.
    public private(set) var documentErasures: [String: DocumentErasure] = [:]
    /// By the webhook's id.
    public private(set) var webhooks: [String: WebhookRecord] = [:]
    /// By the webhook's id.
    public private(set) var webhookPositions: [String: WebhookPosition] = [:]
    /// By the credential's id.
    public private(set) var adminCredentials: [String: AdminCredentialRecord] = [:]
    /// By the place.
    public private(set) var backups: [String: BackupRecord] = [:]
    /// By the bucket's URL: one, or none where attachments are in folders.
    public private(set) var attachmentBuckets: [String: AttachmentBucketRecord] = [:]
    /// The documents whose ids take no writes; a database without any is missing.
    public private(set) var erasedDocuments: [DatabaseID: ErasedDocuments] = [:]
    /// By the word's id.
    public private(set) var restores: [String: RestoreWord] = [:]
    /// The public keys of all databases, retired ones too: `check` knows when they retire.
    public private(set) var keys = KeySet()
    /// Number of records with a shape that this version does not know.
    private(set) var unreadable = 0
    /// The compiled rights of the API keys.
    private var rights: [String: CompiledGrant] = [:]

    init() {}

    /// Reads all records from a snapshot. Unreadable ones are left out: half a key opens nothing.
    init(_ transaction: ReadTransaction) throws {
        let databases: [String: DatabaseRecord] = try Self.all(transaction, &unreadable)
        self.databases = Dictionary(
            uniqueKeysWithValues: databases.values.map { ($0.databaseID, $0) })
        providers = try Self.all(transaction, &unreadable)
        signingKeys = try Self.all(transaction, &unreadable)
        apiKeys = try Self.all(transaction, &unreadable)
        revocations = try Self.all(transaction, &unreadable)
        erasures = try Self.all(transaction, &unreadable)
        documentErasures = try Self.all(transaction, &unreadable)
        restores = try Self.all(transaction, &unreadable)
        webhooks = try Self.all(transaction, &unreadable)
        webhookPositions = try Self.all(transaction, &unreadable)
        adminCredentials = try Self.all(transaction, &unreadable)
        // They open nothing, so one of a later version is no reason to trust nobody.
        var strange = 0
        backups = try Self.all(transaction, &strange)
        attachmentBuckets = try Self.all(transaction, &strange)
        for erasure in documentErasures.values {
            erasedDocuments[erasure.databaseID, default: ErasedDocuments([], of: erasure.databaseID)]
                .insert(erasure.digests)
        }
        for key in signingKeys.values {
            guard let id = KeyID(key.id),
                let publicKey = try? DatabasePublicKey(keyID: id, compressedPoint: key.publicKey)
            else { continue }
            keys.insert(publicKey)
        }
        for key in apiKeys.values { rights[key.id] = try? CompiledGrant(key.permissions) }
    }

    private static func all<Record: SystemRecord>(
        _ transaction: ReadTransaction, _ unreadable: inout Int
    ) throws -> [String: Record] {
        var found: [String: Record] = [:]
        try transaction.scan(Record.collection.name) { record in
            guard let id = record.id.value.stringValue,
                let read = Record.read(id, try record.document.root.value())
            else {
                unreadable += 1
                return true
            }
            found[id] = read
            return true
        }
        return found
    }

    /// A database that exists; nil for an unknown or deleted one.
    public func database(_ id: DatabaseID) -> DatabaseRecord? {
        databases[id].flatMap { $0.deletedAtSeconds == nil ? $0 : nil }
    }

    /// The revocation of a user, peer or token; nil if there is none.
    public func revocation(
        of subject: Revocation.Subject, _ value: String, in database: DatabaseID
    ) -> Revocation? {
        revocations.isEmpty ? nil : revocations[Revocation.id(database, subject, value)]
    }

    /// The holder of a named admin credential; nil for any other text, and after the credential's end.
    func administrator(_ text: String, nowSeconds: Int64) -> Administrator? {
        guard let key = APIKey(text), let record = adminCredentials[key.id],
            ConstantTime.equal(key.secretHash, record.secretHash), nowSeconds < record.expiresAtSeconds
        else { return nil }
        return Administrator(
            name: record.name, role: record.role, expiresAtSeconds: record.expiresAtSeconds)
    }

    /// Returns whether a holder has removed what it had of erased documents.
    func hasErased(_ erasure: DocumentErasure, _ holder: String, _ place: String) -> Bool {
        erasures[ErasureRecord.id(erasure.databaseID, erasure.id, holder, place)] != nil
    }

    /// Checks that an identity is still valid: its database exists, its signing key has not retired, and
    /// neither user nor peer nor token is revoked.
    /// - Throws: `AUTH-0103`, `AUTH-0107`, `AUTH-0112`.
    public func check(_ identity: Identity, nowSeconds: Int64) throws(IdentityError) {
        guard database(identity.databaseID) != nil else { throw .databaseGone }
        if let signer = identity.signedBy, let end = signingKeys[signer.description]?.retiresAtSeconds,
            nowSeconds >= end
        {
            throw .keyRetired
        }
        guard !revocations.isEmpty else { return }
        let names: [(Revocation.Subject, String?)] = [
            (.user, identity.userID), (.peer, identity.peerKey), (.token, identity.tokenID),
        ]
        for case (let subject, let name?) in names {
            guard let found = revocation(of: subject, name, in: identity.databaseID) else { continue }
            guard let lifted = found.liftedAtSeconds, identity.issuedAtSeconds > lifted else {
                throw .revoked
            }
        }
    }

    /// The identity of an API key; nil if there is no such key.
    /// - Throws: `AUTH-0111` for a wrong secret, `AUTH-0105` for an expired key, and as `check`.
    func identity(of key: APIKey, nowSeconds: Int64) throws(IdentityError) -> Identity? {
        guard let record = apiKeys[key.id] else { return nil }
        guard ConstantTime.equal(key.secretHash, record.secretHash), let rights = rights[key.id] else {
            throw .apiKeyRefused
        }
        guard nowSeconds < record.expiresAtSeconds else { throw .apiKeyExpired }
        let identity = Identity(
            userID: "api-key:\(record.name)", databaseID: record.databaseID, peerKey: nil, rights: rights,
            expiresAtSeconds: record.expiresAtSeconds, issuedAtSeconds: record.createdAtSeconds,
            tokenID: key.id)
        try check(identity, nowSeconds: nowSeconds)
        return identity
    }
}
