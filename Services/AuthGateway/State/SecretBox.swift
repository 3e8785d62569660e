import Crypto
import Foundation
import Identity

/// Seals the secrets of the system database: AES-256-GCM under a key that is in no log. Each secret is bound
/// to its place, so that nobody who writes the log can move it to the place of another.
///
/// During a change of the key there are two keys: the newer one seals, both open.
struct SecretBox: Sendable {
    private let keys: [SymmetricKey]

    /// - Parameters:
    ///   - secret: at least 256 random bits as text; the key is derived from it (HKDF-SHA256).
    ///   - previous: the previous secret, which still opens.
    init(secret: String, previous: String? = nil) {
        keys = ([secret] + [previous].compactMap { $0 }).map { secret in
            HKDF<SHA256>.deriveKey(
                inputKeyMaterial: SymmetricKey(data: Data(secret.utf8)),
                info: Data("mimeo system database".utf8), outputByteCount: 32)
        }
    }

    /// Seals a text for a place.
    func seal(_ text: String, at place: String) -> String {
        guard
            let box = try? AES.GCM.seal(
                Data(text.utf8), using: keys[0], authenticating: Data(place.utf8)),
            let combined = box.combined
        else { preconditionFailure("AES-GCM with a 256-bit key seals any text") }
        return Base64URL.encode(combined)
    }

    /// Opens a text that was sealed for this place.
    /// - Throws: `AUTH-0505` if it was sealed under another key, or for another place.
    func open(_ sealed: String, at place: String) throws(AuthGatewayError) -> String {
        for key in keys {
            if let text = Self.open(sealed, at: place, with: key) { return text }
        }
        throw AuthGatewayError(
            .secretSealed, "\(place) was sealed under a key that this gateway lacks; check secrets.key")
    }

    /// Returns whether a text was sealed for this place under the newer key.
    func isCurrent(_ sealed: String, at place: String) -> Bool {
        Self.open(sealed, at: place, with: keys[0]) != nil
    }

    private static func open(_ sealed: String, at place: String, with key: SymmetricKey) -> String? {
        guard let bytes = Base64URL.decode(sealed), let box = try? AES.GCM.SealedBox(combined: Data(bytes)),
            let text = try? AES.GCM.open(box, using: key, authenticating: Data(place.utf8))
        else { return nil }
        return String(decoding: text, as: UTF8.self)
    }
}
