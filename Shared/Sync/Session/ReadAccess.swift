import CRDT
import Identity

/// The read rights of a session's other side, as a predicate that the session receives and that may be
/// replaced while it runs (`Event.grantChanged`).
///
/// Predicates are compared by their marks only: rights with the same mark on a collection are the same
/// rights.
public struct ReadAccess: Sendable {
    /// Decides whether anything of a collection may be read.
    let collection: @Sendable (CollectionName) -> Bool
    /// Decides whether a document of a readable collection may be read.
    let document: @Sendable (DocumentKey) -> Bool
    private let number: @Sendable (CollectionName) -> UInt64

    /// Rights by collection and document.
    /// - Parameter mark: a number that identifies the rights on a collection: other rights, another number.
    public init(
        collection: @escaping @Sendable (CollectionName) -> Bool,
        document: @escaping @Sendable (DocumentKey) -> Bool = { _ in true },
        mark: @escaping @Sendable (CollectionName) -> UInt64 = { _ in 1 }
    ) {
        self.collection = collection
        self.document = document
        number = mark
    }

    /// Rights to read everything.
    public static let everything = ReadAccess(collection: { _ in true })

    /// The read rights of a grant.
    public init(_ grant: CompiledGrant) {
        let rules = grant.read
        self.init(
            collection: { rules.allowsAny(of: $0) }, document: { rules.allows($0) },
            mark: { rules.mark(of: $0) })
    }

    /// Returns whether a document may be read.
    public func allows(_ key: DocumentKey) -> Bool { collection(key.collection) && document(key) }

    /// The same rights, but for collections that are not told of at all.
    public func narrowed(to isTold: @escaping @Sendable (CollectionName) -> Bool) -> ReadAccess {
        let (collection, document, number) = (collection, document, number)
        return ReadAccess(
            collection: { isTold($0) && collection($0) }, document: document, mark: number)
    }

    /// Returns whether anything of a collection may be read.
    public func allows(collection name: CollectionName) -> Bool { collection(name) }

    /// The fingerprint of the rights on a collection, eight bytes.
    func mark(of name: CollectionName) -> [UInt8] {
        let number = collection(name) ? number(name) : 0
        return (0..<8).map { UInt8(truncatingIfNeeded: number >> UInt64(56 - 8 * $0)) }
    }
}
