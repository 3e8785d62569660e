/// One store's news of one document for another store: a delta to apply where its base is covered, a full
/// state to merge, or the word to forget the document.
public struct DocumentUpdate: Sendable, Equatable {
    /// The forms of content.
    public enum Content: Sendable, Equatable {
        /// An encoded delta and the stamp of its operation.
        case delta(Stamp, EncodedDelta)
        /// An encoded full state.
        case state(EncodedState)
        /// To be forgotten. Live: the server has reaped the tombstone with this encoded vector. With a list
        /// or an answer: the copy that was shown, whole (rules 14 and 15).
        case gone([UInt8])
        /// Stamps of the document are void: of each actor that this encoded vector names, all that are later
        /// than the time there. A server has refused them.
        case void([UInt8])
    }

    /// The document.
    public let key: DocumentKey
    /// The content to apply.
    public let content: Content

    /// An update of this document.
    public init(key: DocumentKey, content: Content) {
        self.key = key
        self.content = content
    }

    /// Checks that the content decodes; throws the error of its decoder.
    public func verify() throws(CRDTError) {
        switch content {
        case .delta(let stamp, let bytes): _ = try Delta(decoding: bytes, stamp: stamp)
        case .state(let bytes): _ = try Document(decoding: bytes)
        case .gone(let vector), .void(let vector): _ = try VersionVector(decoding: vector)
        }
    }
}

/// A document's place in a database: collection and id.
public struct DocumentKey: Sendable, Hashable {
    /// The collection.
    public let collection: CollectionName
    /// The id.
    public let id: DocumentID

    /// The document `id` of `collection`.
    public init(collection: CollectionName, id: DocumentID) {
        self.collection = collection
        self.id = id
    }

    /// The ids first: they differ more often than the names.
    public static func == (left: DocumentKey, right: DocumentKey) -> Bool {
        left.id == right.id && left.collection == right.collection
    }
}
