import CRDT

/// A part of an index: the entries whose first keys equal some values and whose next key lies in a range.
public struct IndexRange: Equatable, Sendable {
    /// What the first keys equal; nil is MISSING.
    public let equal: [Value?]
    /// Where the key after those lies; nil is anywhere.
    public let next: KeyRange?

    /// A part of an index.
    public init(equal: [Value?] = [], next: KeyRange? = nil) {
        self.equal = equal
        self.next = next
    }
}

/// Entries of an index, in its order or against it.
public struct IndexScan: Equatable, Sendable {
    /// The index.
    public let index: IndexDescription
    /// Disjoint parts of it in the order of the index: a scan against the order reads them from the last to
    /// the first. None is nothing.
    public let ranges: [IndexRange]
    /// Whether it is read against its order.
    public var isReversed: Bool
    /// Whether its order is what is asked for. Otherwise its documents come in the order of a scan of the
    /// collection, so that an index changes not even an order that nobody promised.
    public var isOrdered: Bool

    /// Entries of an index.
    public init(
        index: IndexDescription, ranges: [IndexRange], isReversed: Bool = false, isOrdered: Bool = false
    ) {
        self.index = index
        self.ranges = ranges
        self.isReversed = isReversed
        self.isOrdered = isOrdered
    }

    /// The same scan of other parts of its index.
    func replacing(ranges: [IndexRange]) -> IndexScan {
        IndexScan(index: index, ranges: ranges, isReversed: isReversed, isOrdered: isOrdered)
    }

    /// Whether all its entries have one key: then they are in the order of a scan.
    var isOneKey: Bool {
        ranges.count == 1 && ranges[0].next == nil && ranges[0].equal.count == index.keys.count
    }
}

/// One entry of an index.
public struct IndexEntry {
    /// What of an entry is worth being worked out.
    public struct Parts: OptionSet, Sendable {
        /// The bits.
        public let rawValue: Int
        /// A set of parts.
        public init(rawValue: Int) { self.rawValue = rawValue }
        /// The document's id.
        public static let id = Parts(rawValue: 1)
        /// The keys' values.
        public static let values = Parts(rawValue: 2)
    }

    /// A number that stands for the document within its collection and snapshot.
    public let document: Int64
    /// The document's id if it was asked for.
    public let id: DocumentID?
    /// The keys' values if they were asked for, exactly as a read of the document gives them (`1` is not
    /// `1.0`); nil within is MISSING.
    public let values: [Value?]

    /// An entry.
    public init(document: Int64, id: DocumentID? = nil, values: [Value?] = []) {
        self.document = document
        self.id = id
        self.values = values
    }
}

/// A snapshot with indexes: what the planner may use of a store.
///
/// An index may deliver too much, never too little: whatever is found, the whole condition is evaluated on
/// the document. Only what `isExact` promises is relied upon: then a scan delivers what its ranges hold and
/// nothing else, and a condition that says no more than the range is not asked again (`DirectRead`). A
/// document is delivered once.
public protocol IndexedSource: DocumentSource {
    /// The indexes of a collection as this snapshot sees them.
    func catalog(of collection: CollectionName) throws -> IndexCatalog

    /// The version of that catalog: asked for with every statement that was planned before.
    func catalogVersion(of collection: CollectionName) throws -> UInt64

    /// Visits the live documents of a scan's entries, in the scan's order, in place; as `scan`. Entries of
    /// one key come in the order of `scan` also where the index is read against its order; so in `entries`.
    func documents(of scan: IndexScan, _ visit: (DocumentRecord) throws -> Bool) throws

    /// Visits a scan's entries, in its order, without their documents; as `scan`.
    func entries(of scan: IndexScan, _ parts: IndexEntry.Parts, _ visit: (IndexEntry) throws -> Bool) throws

    /// Visits the live documents of some numbers, which ascend, in this order; as `scan`.
    func documents(
        _ collection: CollectionName, numbered numbers: [Int64], _ visit: (DocumentRecord) throws -> Bool)
        throws

    /// The number of a live document; nil when there is none with this id.
    func number(of id: DocumentID, in collection: CollectionName) throws -> Int64?

    /// How many live documents a collection has.
    func count(of collection: CollectionName) throws -> Int
}

extension IndexedSource {
    /// Itself.
    public var indexed: (any IndexedSource)? { self }
}
