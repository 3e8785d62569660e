import CRDT
import Crypto
import Foundation

/// Signatures by which a peer's presence record is known to be its own, whoever passed it on.
public enum PresenceSignature {
    /// The beginning of the signed text, which separates it from anything else that a peer key signs.
    private static let purpose = "mimeo presence 1\n"

    /// Signs a record's content: 64 bytes, the two numbers of an ECDSA signature (P-256, SHA-256).
    public static func sign(_ content: [UInt8], with key: PeerKey) -> [UInt8] {
        guard let signature = try? key.privateKey.signature(for: signed(content)) else {
            preconditionFailure("a P-256 key always signs")
        }
        return Array(signature.rawRepresentation)
    }

    /// Returns whether the holder of a peer key has signed this content. Everything may be untrusted.
    public static func isValid(_ signature: [UInt8], of content: [UInt8], by peerKey: String) -> Bool {
        guard let key = try? PeerKey.publicKey(peerKey),
            let signature = try? P256.Signing.ECDSASignature(rawRepresentation: signature)
        else { return false }
        return key.isValidSignature(signature, for: signed(content))
    }

    /// A short name of a peer: the first 8 bytes of the SHA-256 of its key text, big-endian.
    public static func name(of peerKey: String) -> UInt64 {
        SHA256.hash(data: Data(peerKey.utf8)).prefix(8).reduce(0) { $0 << 8 | UInt64($1) }
    }

    /// SHA-256 of a certificate's DER: by it a record names the certificate.
    public static func hash(ofCertificate der: [UInt8]) -> [UInt8] { Array(SHA256.hash(data: Data(der))) }

    private static func signed(_ content: [UInt8]) -> Data { Data(purpose.utf8) + Data(content) }
}
