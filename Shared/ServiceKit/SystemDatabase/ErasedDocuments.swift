import CRDT
import Crypto
import Foundation
import Identity

/// The erased documents of one database.
public struct ErasedDocuments: Sendable, Equatable {
    private let database: DatabaseID
    private var digests: Set<String>

    /// A set of digests.
    public init(_ digests: some Sequence<String>, of database: DatabaseID) {
        self.database = database
        self.digests = Set(digests)
    }

    mutating func insert(_ more: [String]) { digests.formUnion(more) }

    /// Returns whether a document was erased.
    public func contains(_ collection: CollectionName, _ id: DocumentID) -> Bool {
        digests.contains(
            Self.digest(of: DocumentKey(collection: collection, id: id), in: database))
    }

    /// The digest of a document's place.
    public static func digest(of key: DocumentKey, in database: DatabaseID) -> String {
        digest(of: Array("\(database)/\(key.collection)/".utf8) + key.id.bytes)
    }

    static func digest(of bytes: [UInt8]) -> String {
        Base64URL.encode(Array(SHA256.hash(data: bytes)).prefix(16))
    }
}
