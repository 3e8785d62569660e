import CRDT

/// One index as a store offers it to statements.
public struct IndexDescription: Equatable, Sendable {
    /// One key of an index.
    public struct Key: Equatable, Sendable {
        /// The field, read as undeclared: its newest variant, MAPs as objects, nil when MISSING.
        public let path: [String]
        /// True for DESC.
        public let isDescending: Bool
        /// True if documents without the field are in the index.
        public let includesMissing: Bool

        /// A key.
        public init(path: [String], isDescending: Bool = false, includesMissing: Bool = true) {
            precondition(!path.isEmpty, "a key of an index is a field")
            self.path = path
            self.isDescending = isDescending
            self.includesMissing = includesMissing
        }

        /// Compares paths by bytes; the direction counts too.
        public static func == (left: Key, right: Key) -> Bool {
            left.path.count == right.path.count && zip(left.path, right.path).allSatisfy(utf8Equal)
                && left.isDescending == right.isDescending && left.includesMissing == right.includesMissing
        }
    }

    /// The name, unique within its collection.
    public let name: String
    /// The collection.
    public let collection: CollectionName
    /// The indexed keys, at least one.
    public let keys: [Key]
    /// True if every live document is in it. An index that is still being built is listed and not used.
    public let isReady: Bool
    /// True if entries are in the exact order of their values, and scans find no others. A store that cuts
    /// long keys sets false: such an index finds documents, and neither sorts nor covers.
    public let isExact: Bool
    /// True if its entries tell the values of the keys, as a read of the document gives them. A store that
    /// keeps nothing but keys, in which `1.0` is `1`, sets false: such an index finds and sorts, and covers
    /// nothing.
    public let tellsValues: Bool

    /// An index.
    public init(
        name: String, collection: CollectionName, keys: [Key], isReady: Bool = true, isExact: Bool = true,
        tellsValues: Bool = true
    ) {
        precondition(!keys.isEmpty, "an index has a key")
        self.name = name
        self.collection = collection
        self.keys = keys
        self.isReady = isReady
        self.isExact = isExact
        self.tellsValues = tellsValues
    }

    /// The row in `system:indexes`.
    public var row: ObjectValue {
        let fields = keys.map { key -> Value in
            .object(
                ObjectValue([
                    (key: "direction", value: .string(key.isDescending ? "desc" : "asc")),
                    (key: "key", value: .array(key.path.map { .string($0) })),
                ]))
        }
        return ObjectValue([
            (key: "_id", value: .string("\(collection).\(name)")),
            (key: "collection", value: .string(collection.text)),
            (key: "fields", value: .array(fields)), (key: "name", value: .string(name)),
            (key: "state", value: .string(isReady ? "ready" : "building")),
        ])
    }
}

/// The indexes of one collection as one snapshot sees them.
public struct IndexCatalog: Equatable, Sendable {
    /// Changes whenever an index appears, becomes ready or vanishes.
    public let version: UInt64
    /// In the order of their names' bytes: the first of equally good indexes is chosen.
    public let indexes: [IndexDescription]

    /// A catalog.
    public init(version: UInt64, indexes: [IndexDescription]) {
        self.version = version
        self.indexes = indexes
    }
}

/// CREATE INDEX or DROP INDEX with checked names, for the owner of a store to carry out. Building an index
/// is no part of a transaction, so a transaction does not execute it.
public enum IndexChange: Equatable, Sendable {
    /// CREATE INDEX. `isReady` and `isExact` of the description have no meaning here.
    case create(IndexDescription, ifNotExists: Bool)
    /// DROP INDEX.
    case drop(collection: CollectionName, name: String, ifExists: Bool)
}
