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
    /// Accounts by their ids.
    public private(set) var accounts: [String: AccountRecord] = [:]
    /// By `<database>/<name>`.
    public private(set) var permissionSets: [String: PermissionSetRecord] = [:]
    /// By the link's id.
    public private(set) var accountLinks: [String: AccountLinkRecord] = [:]
    /// Devices that ask to join, by `<database>/<user code>`.
    public private(set) var joins: [String: JoinRecord] = [:]
    /// By the place.
    public private(set) var loginFailures: [String: LoginFailures] = [:]
    /// By the database's id.
    public private(set) var limits: [String: DatabaseLimits] = [:]
    /// The compiled rights of the API keys.
    private var rights: [String: CompiledGrant] = [:]
    /// Documents with a shape that this version does not know: `<collection>/<id>`.
    private var strange: Set<String> = []
    /// The position up to which the fold was read.
    private(set) var head: UInt64 = 0

    init() {}

    /// Reads records from a snapshot. Unreadable ones are left out: half a key opens nothing.
    /// - Parameter previous: a directory of an earlier snapshot of the same fold: only what has changed since
    ///   is read. Nil to read everything.
    init(_ transaction: ReadTransaction, since previous: SystemDirectory? = nil) throws {
        let now = try transaction.head()
        let after: UInt64? = if let previous, previous.head <= now { previous.head } else { nil }
        if let previous, after != nil { self = previous }
        head = now
        var read: [String: DatabaseRecord] = [:]
        for id in try Self.update(&read, &strange, transaction, after) {
            databases[DatabaseID(id)] = read[id]
        }
        _ = try Self.update(&providers, &strange, transaction, after)
        if try !Self.update(&signingKeys, &strange, transaction, after).isEmpty { collectKeys() }
        for id in try Self.update(&apiKeys, &strange, transaction, after) {
            rights[id] = apiKeys[id].flatMap { try? CompiledGrant($0.permissions) }
        }
        _ = try Self.update(&revocations, &strange, transaction, after)
        _ = try Self.update(&erasures, &strange, transaction, after)
        if try !Self.update(&documentErasures, &strange, transaction, after).isEmpty { collectErasures() }
        _ = try Self.update(&restores, &strange, transaction, after)
        _ = try Self.update(&webhooks, &strange, transaction, after)
        _ = try Self.update(&webhookPositions, &strange, transaction, after)
        _ = try Self.update(&adminCredentials, &strange, transaction, after)
        _ = try Self.update(&accounts, &strange, transaction, after)
        _ = try Self.update(&permissionSets, &strange, transaction, after)
        _ = try Self.update(&accountLinks, &strange, transaction, after)
        _ = try Self.update(&joins, &strange, transaction, after)
        _ = try Self.update(&loginFailures, &strange, transaction, after)
        _ = try Self.update(&limits, &strange, transaction, after)
        _ = try Self.update(&backups, &strange, transaction, after)
        _ = try Self.update(&attachmentBuckets, &strange, transaction, after)
    }

    /// Number of records with a shape that this version does not know.
    var unreadable: Int {
        // These open nothing, so one of a later version is no reason to trust nobody.
        let harmless = [SystemCollectionName.backups, .attachmentBuckets, .loginFailures, .limits]
            .map { "\($0.rawValue)/" }
        return strange.count { id in !harmless.contains { id.hasPrefix($0) } }
    }

    private mutating func collectKeys() {
        keys = KeySet()
        for key in signingKeys.values {
            guard let id = KeyID(key.id),
                let publicKey = try? DatabasePublicKey(keyID: id, compressedPoint: key.publicKey)
            else { continue }
            keys.insert(publicKey)
        }
    }

    private mutating func collectErasures() {
        erasedDocuments = [:]
        for erasure in documentErasures.values {
            erasedDocuments[erasure.databaseID, default: ErasedDocuments([], of: erasure.databaseID)]
                .insert(erasure.digests)
        }
    }

    /// Brings the records of one kind up to date.
    /// - Returns: the ids of records that have changed, or are gone.
    private static func update<Record: SystemRecord>(
        _ records: inout [String: Record], _ strange: inout Set<String>, _ transaction: ReadTransaction,
        _ after: UInt64?
    ) throws -> [String] {
        let collection = Record.collection
        var changed: [String] = []
        var unknown: [String] = []
        if let after {
            var ids: [DocumentID] = []
            try transaction.changes(in: collection.name, after: after) {
                ids.append($0.id)
                return true
            }
            for id in ids {
                let text = id.value.stringValue ?? "\(id)"
                strange.remove("\(collection.rawValue)/\(text)")
                changed.append(text)
                records[text] = nil
                try transaction.lookup(collection.name, id) { record in
                    records[text] = Record.read(text, try record.document.root.value())
                    if records[text] == nil { unknown.append(text) }
                }
            }
        } else {
            try transaction.scan(collection.name) { record in
                let text = record.id.value.stringValue ?? "\(record.id)"
                changed.append(text)
                records[text] = Record.read(text, try record.document.root.value())
                if records[text] == nil { unknown.append(text) }
                return true
            }
        }
        strange.formUnion(unknown.map { "\(collection.rawValue)/\($0)" })
        return changed
    }

    /// A database that exists; nil for an unknown or deleted one.
    public func database(_ id: DatabaseID) -> DatabaseRecord? {
        databases[id].flatMap { $0.deletedAtSeconds == nil ? $0 : nil }
    }

    /// The limits of a database; nil if it has none.
    public func limits(of database: DatabaseID) -> DatabaseLimits? {
        limits.isEmpty ? nil : limits[database.text]
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
    /// neither user nor peer nor token is revoked. A token of a login with an API key ends with the key.
    /// - Throws: `AUTH-0103`, `AUTH-0107`, `AUTH-0111`, `AUTH-0112`.
    public func check(_ identity: Identity, nowSeconds: Int64) throws(IdentityError) {
        guard database(identity.databaseID) != nil else { throw .databaseGone }
        if let signer = identity.signedBy, let end = signingKeys[signer.description]?.retiresAtSeconds,
            nowSeconds >= end
        {
            throw .keyRetired
        }
        let key = identity.tokenID.flatMap { AccessToken.apiKey(ofID: $0) }
        if let key {
            // A login with an API key lasts no longer than the key.
            guard let record = apiKeys[key], nowSeconds < record.expiresAtSeconds else {
                throw .apiKeyRefused
            }
        }
        guard !revocations.isEmpty else { return }
        let names: [(Revocation.Subject, String?)] = [
            (.user, identity.userID), (.peer, identity.peerKey), (.token, identity.tokenID), (.token, key),
        ]
        for case (let subject, let name?) in names {
            guard let found = revocation(of: subject, name, in: identity.databaseID) else { continue }
            guard let lifted = found.liftedAtSeconds, identity.issuedAtSeconds > lifted else {
                throw .revoked
            }
        }
    }

    /// The record of an API key; nil if there is none, or its secret is another.
    public func record(of key: APIKey) -> APIKeyRecord? {
        apiKeys[key.id].flatMap { ConstantTime.equal(key.secretHash, $0.secretHash) ? $0 : nil }
    }

    /// The identity of an API key; nil if there is no such key. A device's key that belongs to one peer has
    /// none: the peer logs in with it.
    /// - Throws: `AUTH-0111` for a wrong secret, `AUTH-0105` for an expired key, and as `check`.
    func identity(of key: APIKey, nowSeconds: Int64) throws(IdentityError) -> Identity? {
        guard let record = apiKeys[key.id] else { return nil }
        guard ConstantTime.equal(key.secretHash, record.secretHash), let rights = rights[key.id],
            record.device?.peerKey == nil
        else { throw .apiKeyRefused }
        guard nowSeconds < record.expiresAtSeconds else { throw .apiKeyExpired }
        let identity = Identity(
            userID: record.user, databaseID: record.databaseID, peerKey: nil, rights: rights,
            expiresAtSeconds: record.expiresAtSeconds, issuedAtSeconds: record.createdAtSeconds,
            tokenID: key.id)
        try check(identity, nowSeconds: nowSeconds)
        return identity
    }
}
