import Crypto
import Foundation
import Identity

/// Seals the secrets of the system database: AES-256-GCM under a key that is in no log. Each secret is bound
/// to its place, so that nobody who writes the log can move it to the place of another.
///
/// During a change of the key there are two keys: the newer one seals, both open.
public struct SecretBox: Sendable {
    private let keys: [SymmetricKey]

    /// - Parameters:
    ///   - secret: at least 256 random bits as text; the key is derived from it (HKDF-SHA256).
    ///   - previous: the previous secret, which still opens.
    public init(secret: String, previous: String? = nil) {
        keys = ([secret] + [previous].compactMap { $0 }).map { secret in
            HKDF<SHA256>.deriveKey(
                inputKeyMaterial: SymmetricKey(data: Data(secret.utf8)),
                info: Data("mimeo system database".utf8), outputByteCount: 32)
        }
    }

    /// Seals a text for a place.
    public func seal(_ text: String, at place: String) -> String {
        guard
            let box = try? AES.GCM.seal(
                Data(text.utf8), using: keys[0], authenticating: Data(place.utf8)),
            let combined = box.combined
        else { preconditionFailure("AES-GCM with a 256-bit key seals any text") }
        return Base64URL.encode(combined)
    }

    /// Opens a text that was sealed for this place; nil if it was sealed under another key, or for another
    /// place.
    public func opened(_ sealed: String, at place: String) -> String? {
        keys.lazy.compactMap { Self.open(sealed, at: place, with: $0) }.first
    }

    /// A digest under the newer key (HMAC-SHA256), which nobody foresees.
    public func digest(_ text: String) -> [UInt8] {
        Array(HMAC<SHA256>.authenticationCode(for: Data("digest/\(text)".utf8), using: keys[0]))
    }

    /// The keys in a file and, during a change, in the one beside it (`.previous`); nil without a file.
    public static func read(_ path: String) -> SecretBox? {
        func text(_ path: String) -> String? {
            guard let content = FileManager.default.contents(atPath: path) else { return nil }
            let text = String(decoding: content, as: UTF8.self)
                .trimmingCharacters(in: .whitespacesAndNewlines)
            return text.isEmpty ? nil : text
        }
        return text(path).map { SecretBox(secret: $0, previous: text("\(path).previous")) }
    }

    /// The place that a record's secret is bound to.
    public static func place(_ id: String) -> String { "mimeo:\(id)" }

    /// Returns whether a text was sealed for this place under the newer key.
    public func isCurrent(_ sealed: String, at place: String) -> Bool {
        Self.open(sealed, at: place, with: keys[0]) != nil
    }

    private static func open(_ sealed: String, at place: String, with key: SymmetricKey) -> String? {
        guard let bytes = Base64URL.decode(sealed), let box = try? AES.GCM.SealedBox(combined: Data(bytes)),
            let text = try? AES.GCM.open(box, using: key, authenticating: Data(place.utf8))
        else { return nil }
        return String(decoding: text, as: UTF8.self)
    }
}
