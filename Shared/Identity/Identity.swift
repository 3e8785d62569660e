import CRDT

/// The identity of a remote party, for one database, until a given time: the content of a verified access
/// token or of an API key's record.
public struct Identity: Sendable, Hashable {
    /// The provider's name for the user; for an API key, the key's name.
    public let userID: String
    /// The one database this identity is for.
    public let databaseID: DatabaseID
    /// The public key of the peer that logged in (`pk…`), when it sent one.
    public let peerKey: String?
    /// The readable and writable documents, prepared for checking.
    public let rights: CompiledGrant
    /// Seconds since 1970 (UTC); from then on the identity is no longer valid.
    public let expiresAtSeconds: Int64
    /// Seconds since 1970 when the token was issued.
    public let issuedAtSeconds: Int64
    /// The id by which the token can be revoked; for an API key, its public part.
    public let tokenID: String?
    /// The key that signed the token; nil for an identity that comes from no token.
    public let signedBy: KeyID?
    /// The user's metadata that the provider shows to every peer: JSON text of an object.
    public let metadata: String?

    /// The author of the identity's operations: its peer key; without one the user, or the API key. (No peer
    /// key begins like these.)
    public var author: String {
        if let peerKey { return peerKey }
        if signedBy == nil, let tokenID { return "api-key:\(tokenID)" }
        return "user:\(userID)"
    }

    /// The permissions.
    public var grant: Grant { rights.grant }

    /// An identity of the given parts. A grant that cannot be enforced grants nothing.
    public init(
        userID: String, databaseID: DatabaseID, peerKey: String?, grant: Grant, expiresAtSeconds: Int64,
        issuedAtSeconds: Int64 = 0, tokenID: String? = nil, signedBy: KeyID? = nil, metadata: String? = nil
    ) {
        self.init(
            userID: userID, databaseID: databaseID, peerKey: peerKey,
            rights: (try? CompiledGrant(grant)) ?? CompiledGrant(refusing: grant),
            expiresAtSeconds: expiresAtSeconds,
            issuedAtSeconds: issuedAtSeconds, tokenID: tokenID, signedBy: signedBy,
            metadata: metadata)
    }

    /// An identity whose grant is already compiled.
    public init(
        userID: String, databaseID: DatabaseID, peerKey: String?, rights: CompiledGrant,
        expiresAtSeconds: Int64,
        issuedAtSeconds: Int64 = 0, tokenID: String? = nil, signedBy: KeyID? = nil, metadata: String? = nil
    ) {
        self.signedBy = signedBy
        self.metadata = metadata
        self.userID = userID
        self.databaseID = databaseID
        self.peerKey = peerKey
        self.rights = rights
        self.expiresAtSeconds = expiresAtSeconds
        self.issuedAtSeconds = issuedAtSeconds
        self.tokenID = tokenID
    }

    /// The same identity with another grant.
    public func with(_ grant: Grant) -> Identity {
        Identity(
            userID: userID, databaseID: databaseID, peerKey: peerKey, grant: grant,
            expiresAtSeconds: expiresAtSeconds, issuedAtSeconds: issuedAtSeconds, tokenID: tokenID,
            signedBy: signedBy, metadata: metadata)
    }
}

/// The rule for database ids, which are also folder names and parts of key ids.
extension DatabaseID {
    /// - Throws: `AUTH-0304` unless the text is 1 to 128 characters of `[A-Za-z0-9_-]`.
    public func validate() throws(IdentityError) {
        guard isValid else {
            throw IdentityError(
                .databaseIDInvalid,
                "a database id is 1 to \(Limits.databaseIDBytes) letters, digits, '-' or '_'")
        }
    }

    /// Returns whether the text is 1 to 128 characters of `[A-Za-z0-9_-]`.
    public var isValid: Bool {
        !text.isEmpty && text.utf8.count <= Limits.databaseIDBytes
            && text.utf8.allSatisfy { byte in
                switch byte {
                case UInt8(ascii: "A")...UInt8(ascii: "Z"), UInt8(ascii: "a")...UInt8(ascii: "z"),
                    UInt8(ascii: "0")...UInt8(ascii: "9"), UInt8(ascii: "-"), UInt8(ascii: "_"):
                    true
                default: false
                }
            }
    }
}
