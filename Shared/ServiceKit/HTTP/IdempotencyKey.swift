import Crypto
import Foundation
import HTTPTypes
import Hummingbird

/// `Idempotency-Key`: names a write, so that a client which did not get the answer may send it again and it
/// is done once (decision 0060).
///
/// A key belongs to its user in one database, and to the whole request that first carried it. A key that
/// begins with `undo/` names what the write takes back. It belongs to the database: whoever comes second is
/// refused, whatever the request.
public struct IdempotencyKey: Sendable, Equatable {
    /// The name of the field.
    public static let field = "Idempotency-Key"
    /// The field of an answer that was given before.
    public static let repeatedField = "Idempotency-Replayed"

    /// The beginning of keys that name what is undone.
    public static let undoPrefix = "undo/"

    /// A digest of the user, or of none: all keys of a user begin alike.
    public let user: String
    /// True if the key names what the write undoes: it is done once for all, and not answered again.
    public let isUndo: Bool
    /// A digest of the user and the key.
    public let name: String
    /// A digest of the request: another one under this key is an error.
    public let request: String

    /// The key of a request; nil without the field.
    /// - Parameter parts: what makes the request what it is: its path and body.
    /// - Throws: `SRV-0400` for a key that is empty, too long, not visible ASCII, or there twice.
    public init?(
        _ request: Request, user: String, parts: [[UInt8]]
    ) throws(ServiceError) {
        guard let field = HTTPField.Name(Self.field) else { preconditionFailure("a valid field name") }
        let values = request.headers[values: field]
        guard let text = values.first else { return nil }
        guard values.count == 1, 1...Limits.idempotencyKeyCharacters ~= text.utf8.count,
            text.utf8.allSatisfy({ 0x21...0x7E ~= $0 })
        else {
            throw ServiceError(
                .badRequest,
                "\(Self.field) has 1 to \(Limits.idempotencyKeyCharacters) visible ASCII characters, once"
            )
        }
        isUndo = text.hasPrefix(Self.undoPrefix)
        self.user = Self.digest(isUndo ? [] : [Array(user.utf8)], characters: 16)
        name = self.user + "-" + Self.digest([Array(text.utf8)], characters: 32)
        self.request = Self.digest(parts, characters: 32)
    }

    /// The beginning of a SHA-256 over the parts, each after its length.
    private static func digest(_ parts: [[UInt8]], characters: Int) -> String {
        var hash = SHA256()
        for part in parts {
            withUnsafeBytes(of: UInt64(part.count).bigEndian) { hash.update(bufferPointer: $0) }
            hash.update(data: part)
        }
        let digits = hash.finalize().map { String(0x100 | UInt16($0), radix: 16).dropFirst() }
        return String(digits.joined().prefix(characters))
    }
}
