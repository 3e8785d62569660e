import Crypto
import Foundation
import SwiftASN1

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

    /// A shared key as an application configures it: the output of `openssl` for a P-256 private key. It may
    /// be PEM (PKCS#8 or SEC 1, also behind the block of curve parameters), or the DER of either in base64,
    /// in one line or several.
    /// - Throws: `AUTH-0302` for any other text.
    public init(sharedKey text: String) throws(IdentityError) {
        guard text.utf8.count <= Limits.sharedKeyBytes, let key = Self.key(in: text) else {
            throw IdentityError(
                .peerKeyInvalid,
                "the private key is not a P-256 key as openssl writes it without a password: PEM, or its DER"
                    + " in base64")
        }
        privateKey = key
    }

    private static func key(in text: String) -> P256.Signing.PrivateKey? {
        if text.contains("-----BEGIN") {
            let blocks = (try? PEMDocument.parseMultiple(pemString: text)) ?? []
            let keys = blocks.filter { $0.discriminator.hasSuffix("PRIVATE KEY") }
            guard keys.count == 1 else { return nil }
            return try? P256.Signing.PrivateKey(derRepresentation: Data(keys[0].derBytes))
        }
        let body = text.filter { !$0.isWhitespace }
        return Data(base64Encoded: body).flatMap { try? P256.Signing.PrivateKey(derRepresentation: $0) }
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
