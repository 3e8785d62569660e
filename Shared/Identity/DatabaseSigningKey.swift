import CRDT
import Crypto
import Foundation

/// A database's private P-256 key: signs the access tokens of that database and of no other.
///
/// Its id is `<database>.<number>`, so the id of a key also says which database's tokens it may sign.
public struct DatabaseSigningKey: Sendable {
    /// `<database>.<number>`; the number counts the database's keys from 1.
    public let keyID: KeyID
    let privateKey: P256.Signing.PrivateKey

    /// A new random key.
    /// - Throws: `AUTH-0304` for an invalid database id.
    public init(databaseID: DatabaseID, number: Int) throws(IdentityError) {
        keyID = try KeyID(databaseID: databaseID, number: number)
        privateKey = P256.Signing.PrivateKey()
    }

    init(keyID: KeyID, privateKey: P256.Signing.PrivateKey) {
        self.keyID = keyID
        self.privateKey = privateKey
    }

    /// A stored key.
    /// - Parameter pem: PKCS#8 or SEC 1, as `pem` gives it.
    /// - Throws: `AUTH-0301` when the text is not a P-256 private key.
    public init(keyID: KeyID, pem: String) throws(IdentityError) {
        self.keyID = keyID
        do {
            privateKey = try P256.Signing.PrivateKey(pemRepresentation: pem)
        } catch {
            throw IdentityError(
                .signingKeyInvalid, "the signing key \(keyID) is not a P-256 private key in PEM")
        }
    }

    /// The private key as PKCS#8 PEM. A secret.
    public var pem: String { privateKey.pemRepresentation }

    /// The public key that verifies this key's signatures.
    public var publicKey: DatabasePublicKey { DatabasePublicKey(keyID: keyID, key: privateKey.publicKey) }
}

/// The public half of a database's signing key.
public struct DatabasePublicKey: Sendable, Hashable {
    /// The id of the signing key.
    public let keyID: KeyID
    let key: P256.Signing.PublicKey

    init(keyID: KeyID, key: P256.Signing.PublicKey) {
        self.keyID = keyID
        self.key = key
    }

    /// - Parameter text: the compressed point in base64url, as `compressedPoint` gives it.
    /// - Throws: `AUTH-0303` for any other text.
    public init(keyID: KeyID, compressedPoint text: String) throws(IdentityError) {
        guard let bytes = Base64URL.decode(text),
            let key = try? P256.Signing.PublicKey(compressedRepresentation: bytes)
        else { throw IdentityError(.keySetInvalid, "the key \(keyID) is not a P-256 point") }
        self.init(keyID: keyID, key: key)
    }

    /// The compressed point in base64url.
    public var compressedPoint: String { Base64URL.encode(key.compressedRepresentation) }

    /// Equal when id and point are equal.
    public static func == (left: DatabasePublicKey, right: DatabasePublicKey) -> Bool {
        left.keyID == right.keyID && left.key.rawRepresentation == right.key.rawRepresentation
    }

    /// Hashes only the id: hardly any two keys in a set share one.
    public func hash(into hasher: inout Hasher) { hasher.combine(keyID) }
}
