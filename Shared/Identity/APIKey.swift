import Crypto
import Foundation

/// A key for callers that do not log in: `mimeo_<id>_<secret>`. The id names the key's record. The secret is
/// shown once, when the key is created; only its SHA-256 is stored.
///
/// The secret has 256 random bits, so its hash needs neither a salt nor a slow algorithm.
public struct APIKey: Sendable {
    /// The beginning of every key, by which scanners of repositories find one that was committed.
    public static let prefix = "mimeo_"
    /// Sixteen hexadecimal digits; not secret.
    public let id: String
    private let secret: String

    /// A new random key.
    public init() {
        var generator = SystemRandomNumberGenerator()
        id = (0..<Self.idBytes).map { _ in Self.hex(UInt8.random(in: .min ... .max, using: &generator)) }
            .joined()
        secret = Base64URL.encode(
            (0..<Self.secretBytes).map { _ in UInt8.random(in: .min ... .max, using: &generator) })
    }

    /// Parses a key; nil for any other text.
    public init?(_ text: String) {
        let bytes = Array(text.utf8)
        let idEnd = Self.prefix.utf8.count + 2 * Self.idBytes
        guard Self.isOne(text), bytes.count > idEnd, bytes[idEnd] == UInt8(ascii: "_") else { return nil }
        let id = bytes[Self.prefix.utf8.count..<idEnd]
        let isHex = id.allSatisfy {
            (UInt8(ascii: "0")...UInt8(ascii: "9")).contains($0)
                || (UInt8(ascii: "a")...UInt8(ascii: "f")).contains($0)
        }
        let secret = String(decoding: bytes[(idEnd + 1)...], as: UTF8.self)
        guard isHex, Base64URL.decode(secret)?.count == Self.secretBytes else { return nil }
        self.id = String(decoding: id, as: UTF8.self)
        self.secret = secret
    }

    /// Returns whether a bearer text is meant to be an API key.
    public static func isOne(_ text: String) -> Bool { text.utf8.starts(with: prefix.utf8) }

    /// The key as its holder sends it. A secret.
    public var text: String { "\(Self.prefix)\(id)_\(secret)" }

    /// The stored form of the secret: its SHA-256 in base64url.
    public var secretHash: String { Base64URL.encode(SHA256.hash(data: Data(secret.utf8))) }

    private static let idBytes = 8
    private static let secretBytes = 32

    private static func hex(_ byte: UInt8) -> String {
        String(String(UInt16(byte) + 0x100, radix: 16).dropFirst())
    }
}
