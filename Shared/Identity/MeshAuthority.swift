import CRDT

/// The authority whose certificates two small peers accept of each other when they connect without a server.
public enum MeshAuthority: Sendable {
    /// The keys of a database, as its auth-gateway hands them out with each certificate.
    case database(KeySet)
    /// A key that all peers share. Each of them issues its own certificate, with every right: who has the
    /// key is trusted, and nobody can be revoked.
    case shared(PeerKey)
    /// No authority: the peers speak without TLS, prove nothing and grant everything.
    case none

    /// Verifies the certificate that another peer presents.
    /// - Parameter der: untrusted.
    /// - Throws: as `PeerCertificate.verify`; `AUTH-0306` for any certificate without an authority.
    public func verify(
        _ der: [UInt8], databaseID: DatabaseID, nowSeconds: Int64
    ) throws(IdentityError) -> Identity {
        let keys: KeySet =
            switch self {
            case .database(let keys): keys
            case .shared(let key):
                KeySet([try Self.signingKey(key, databaseID).publicKey])
            case .none: KeySet()
            }
        return try PeerCertificate.verify(
            der, authorities: keys, databaseID: databaseID, nowSeconds: nowSeconds)
    }

    /// The certificate that the holder of a shared key issues to its own peer key, valid for
    /// `PeerCertificate.life`; nil with another authority.
    public func ownCertificate(
        of key: PeerKey, databaseID: DatabaseID, nowSeconds: Int64
    ) throws(IdentityError) -> PeerCertificate? {
        guard case .shared(let shared) = self else { return nil }
        let identity = Identity(
            userID: Self.sharedUser, databaseID: databaseID, peerKey: key.publicKeyString, grant: .everything,
            expiresAtSeconds: nowSeconds + PeerCertificate.life.components.seconds,
            issuedAtSeconds: nowSeconds)
        return try PeerCertificate.issue(
            to: identity, request: key.signingRequest(), with: Self.signingKey(shared, databaseID),
            nowSeconds: nowSeconds)
    }

    /// The user of the certificates that holders of a shared key issue.
    private static let sharedUser = "shared-key"

    /// A shared key takes the place of the database's first key.
    private static func signingKey(
        _ key: PeerKey, _ databaseID: DatabaseID
    ) throws(IdentityError) -> DatabaseSigningKey {
        DatabaseSigningKey(
            keyID: try KeyID(databaseID: databaseID, number: 1), privateKey: key.privateKey)
    }
}
