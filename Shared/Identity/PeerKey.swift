import Crypto
import Foundation

/// A peer's key pair, created once and stored with its store. Its public half is the peer's name everywhere.
public struct PeerKey: Sendable {
    let privateKey: P256.Signing.PrivateKey

    /// A new random key.
    public init() { privateKey = P256.Signing.PrivateKey() }

    /// A stored key.
    /// - Throws: `AUTH-0302` when the text is not a P-256 private key in PEM.
    public init(pem: String) throws(IdentityError) {
        do {
            privateKey = try P256.Signing.PrivateKey(pemRepresentation: pem)
        } catch {
            throw IdentityError(.peerKeyInvalid, "the peer key is not a P-256 private key in PEM")
        }
    }

    /// A shared key as an application configures it: PKCS#8 DER in base64.
    /// - Throws: `AUTH-0302` for any other text.
    public init(base64DER text: String) throws(IdentityError) {
        guard let der = Data(base64Encoded: text),
            let key = try? P256.Signing.PrivateKey(derRepresentation: der)
        else {
            throw IdentityError(.peerKeyInvalid, "the private key is not base64 of a P-256 key in PKCS#8 DER")
        }
        privateKey = key
    }

    /// The private key as PKCS#8 PEM. A secret.
    public var pem: String { privateKey.pemRepresentation }

    /// `pk` and the compressed point of the public key in base64url: 46 characters.
    public var publicKeyString: String {
        Self.prefix + Base64URL.encode(privateKey.publicKey.compressedRepresentation)
    }

    static let prefix = "pk"

    /// Checks another peer's public key string.
    /// - Throws: `AUTH-0302` unless it is `pk` and a compressed point on the curve.
    public static func validate(publicKeyString text: String) throws(IdentityError) {
        _ = try publicKey(text)
    }

    static func publicKey(_ text: String) throws(IdentityError) -> P256.Signing.PublicKey {
        guard text.utf8.count <= Limits.peerKeyBytes, text.hasPrefix(prefix),
            let point = Base64URL.decode(text.dropFirst(prefix.count)),
            let key = try? P256.Signing.PublicKey(compressedRepresentation: point)
        else {
            throw IdentityError(
                .peerKeyInvalid, "a peer key must be 'pk' and a compressed P-256 point in base64url")
        }
        return key
    }
}
