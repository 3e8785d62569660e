import CRDT
import Crypto
import Foundation
import HTTPTypes
import Hummingbird

/// `Idempotency-Key`: names a write, so that a client which did not get the answer may send it again and it
/// is done once (decision 0060).
///
/// A key belongs to its user in one database, and to the whole request that first carried it. A key
/// `undo/OFFSET/PART` names the operation that the write takes back, which is done once a document, by
/// whichever user (decision 0195).
public struct IdempotencyKey: Sendable, Equatable {
    /// The name of the field.
    public static let field = "Idempotency-Key"
    /// The field of an answer that was given before.
    public static let repeatedField = "Idempotency-Replayed"

    /// The beginning of keys that name what is undone.
    public static let undoPrefix = "undo/"

    /// A digest of the user: all keys of a user begin alike.
    public let user: String
    /// The operation that the write takes back; nil for every other key.
    public let undone: Offset?
    /// A digest of the user and the key.
    public let name: String
    /// A digest of the request: another one under this key is an error.
    public let request: String

    /// The key of a request; nil without the field.
    /// - Parameter parts: what makes the request what it is: its path and body.
    /// - Throws: `SRV-0400` for a key that is empty, too long, not visible ASCII, or there twice, and for one
    ///   that begins with `undo/` and names no operation.
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
        undone = try Self.undone(by: text)
        self.user = Self.digest([Array(user.utf8)], characters: 16)
        name = self.user + "-" + Self.digest([Array(text.utf8)], characters: 32)
        self.request = Self.digest(parts, characters: 32)
    }

    private static func undone(by text: String) throws(ServiceError) -> Offset? {
        guard text.hasPrefix(undoPrefix) else { return nil }
        let numbers = text.utf8.dropFirst(undoPrefix.utf8.count).split(
            separator: UInt8(ascii: "/"), omittingEmptySubsequences: false
        ).map { UInt64(Substring($0)) }
        guard numbers.count == 2, numbers[1] != nil, let offset = numbers[0], offset > 0 else {
            throw ServiceError(
                .badRequest, "a key that begins with \(undoPrefix) is undo/OFFSET/PART, with two numbers")
        }
        return Offset(offset)
    }

    /// The name of the mark that a document's part of an operation was taken back. No key's name begins so.
    public static func mark(of document: DocumentKey, in operation: Offset) -> String {
        let parts = [
            Array("\(operation)".utf8), Array(document.collection.text.utf8), Array(document.id.bytes),
        ]
        return "undo-" + digest(parts, characters: 32)
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
