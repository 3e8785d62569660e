import CRDT
import Crypto
import Foundation

/// A challenge that a server asks a peer to sign when a session begins. It makes a token that names a peer
/// key useless to anybody but the holder of that key (decision 0027).
///
/// A challenge is good for one connection and kept no longer. So an answer to another challenge, recorded
/// anywhere, proves nothing.
public struct PeerChallenge: Sendable, Equatable {
    /// The beginning of the signed text, which separates it from anything else that a peer key signs.
    private static let purpose = "mimeo peer proof 1\n"
    /// 32 random bytes.
    private let nonce: [UInt8]

    /// A new challenge.
    public init() {
        var generator = SystemRandomNumberGenerator()
        nonce = (0..<Limits.challengeBytes).map { _ in UInt8.random(in: .min ... .max, using: &generator) }
    }

    /// A received challenge; nil for a malformed text.
    public init?(_ text: String) {
        guard text.utf8.count <= 2 * Limits.challengeBytes, let bytes = Base64URL.decode(text),
            bytes.count == Limits.challengeBytes
        else { return nil }
        nonce = Array(bytes)
    }

    /// The text on the wire: 43 characters of base64url.
    public var text: String { Base64URL.encode(nonce) }

    /// The answer of the key's holder: 64 bytes, the two numbers of an ECDSA signature (P-256, SHA-256).
    /// - Parameter token: the access token of the session. The answer proves nothing for another token.
    public func answer(with key: PeerKey, databaseID: DatabaseID, token: String) -> [UInt8] {
        let signed = signedBytes(databaseID: databaseID, token: token)
        guard let signature = try? key.privateKey.signature(for: signed) else {
            preconditionFailure("a P-256 key always signs")
        }
        return Array(signature.rawRepresentation)
    }

    /// Returns whether the holder of the peer key gave this answer.
    /// - Parameters:
    ///   - answer: untrusted.
    ///   - peerKey: `pk…`, as the token names it.
    public func isAnswered(
        by answer: [UInt8], of peerKey: String, databaseID: DatabaseID, token: String
    ) -> Bool {
        guard answer.count == Limits.challengeAnswerBytes,
            let key = try? PeerKey.publicKey(peerKey),
            let signature = try? P256.Signing.ECDSASignature(rawRepresentation: answer)
        else { return false }
        return key.isValidSignature(signature, for: signedBytes(databaseID: databaseID, token: token))
    }

    /// Purpose, nonce, SHA-256 of the token, database: all but the last of fixed length.
    private func signedBytes(databaseID: DatabaseID, token: String) -> Data {
        Data(Self.purpose.utf8) + Data(nonce) + Data(SHA256.hash(data: Data(token.utf8)))
            + Data(databaseID.text.utf8)
    }
}
