import CRDT

/// A document and the version vector of one side's state of it.
public struct DocumentVersion: Sendable, Equatable {
    /// The document.
    public var key: DocumentKey
    /// Its encoded version vector.
    public var vector: [UInt8]
    /// In a subscriber's holdings: true if the document does not match the subscription there. Then the
    /// subscriber gets the document only if it matches at the server, or was deleted there.
    public var isUnmatched = false
    /// In a candidate, and in what is told to be gone: an encoded vector of the stamps of the document that
    /// are void, each actor's from behind its time on; nil for none.
    public var void: [UInt8]?

    /// A version of this document.
    public init(key: DocumentKey, vector: [UInt8], isUnmatched: Bool = false) {
        self.key = key
        self.vector = vector
        self.isUnmatched = isUnmatched
    }

    /// In what is told to be gone: false if only something of the document is void.
    public var tellsGone: Bool { vector != VersionVector().encoded() }
}
