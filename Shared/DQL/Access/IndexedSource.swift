import CRDT

/// A part of an index: the entries whose first keys equal some values and whose next key lies in a range.
public struct IndexRange: Equatable, Sendable {
    /// The values of the first keys; nil is MISSING.
    public let equal: [Value?]
    /// The range of the key after those; nil is unbounded.
    public let next: KeyRange?

    /// A part of an index.
    public init(equal: [Value?] = [], next: KeyRange? = nil) {
        self.equal = equal
        self.next = next
    }
}

/// Entries of an index, in its order or in reverse.
public struct IndexScan: Equatable, Sendable {
    /// The index.
    public let index: IndexDescription
    /// Disjoint parts of the index in its order: a reversed scan reads them from the last to the first.
    /// Without parts it reads nothing.
    public let ranges: [IndexRange]
    /// True if the index is read in reverse.
    public var isReversed: Bool
    /// True if the caller needs the order of the index. Otherwise the documents come in the order of a scan
    /// of the collection, so that an index does not change even an order that nobody promised.
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

    /// The same scan over other parts of its index.
    func replacing(ranges: [IndexRange]) -> IndexScan {
        IndexScan(index: index, ranges: ranges, isReversed: isReversed, isOrdered: isOrdered)
    }

    /// True if all its entries have one key: then they are in the order of a scan.
    var isOneKey: Bool {
        ranges.count == 1 && ranges[0].next == nil && ranges[0].equal.count == index.keys.count
    }
}

/// One entry of an index.
public struct IndexEntry {
    /// The parts of an entry that the caller needs.
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
    /// The document's id if the caller needs it.
    public let id: DocumentID?
    /// The keys' values if the caller needs them, exactly as a read of the document gives them (`1` is not
    /// `1.0`); a nil element is MISSING.
    public let values: [Value?]

    /// An entry.
    public init(document: Int64, id: DocumentID? = nil, values: [Value?] = []) {
        self.document = document
        self.id = id
        self.values = values
    }
}

/// A snapshot with indexes: the part of a store that the planner may use.
///
/// An index may deliver too much, never too little: the whole condition is evaluated on each document found.
/// The planner relies only on `isExact`. If it is set, a scan delivers exactly the entries in its ranges,
/// and a condition that says no more than the range is not evaluated again (`DirectRead`). A document is
/// delivered once.
public protocol IndexedSource: DocumentSource {
    /// The indexes of a collection as this snapshot sees them.
    func catalog(of collection: CollectionName) throws -> IndexCatalog

    /// The version of that catalog: read for every statement that was planned before.
    func catalogVersion(of collection: CollectionName) throws -> UInt64

    /// Visits the live documents of a scan's entries, in the scan's order, in place; otherwise as `scan`.
    /// Entries of one key come in the order of `scan` even if the index is read in reverse; so they do in
    /// `entries`.
    func documents(of scan: IndexScan, _ visit: (DocumentRecord) throws -> Bool) throws

    /// Visits a scan's entries, in its order, without their documents; otherwise as `scan`.
    func entries(of scan: IndexScan, _ parts: IndexEntry.Parts, _ visit: (IndexEntry) throws -> Bool) throws

    /// Visits the live documents with these numbers, which ascend, in this order; otherwise as `scan`.
    func documents(
        _ collection: CollectionName, numbered numbers: [Int64], _ visit: (DocumentRecord) throws -> Bool)
        throws

    /// The number of a live document; nil if there is none with this id.
    func number(of id: DocumentID, in collection: CollectionName) throws -> Int64?

    /// The numbers of the live documents whose ids are in some runs, in any order; nil if there are more than
    /// `most`.
    func numbers(of ranges: IDRanges, in collection: CollectionName, upTo most: Int) throws -> [Int64]?

    /// Returns whether the first documents of a collection are the first that the reader may read.
    func showsAll(of collection: CollectionName) -> Bool

    /// How many live documents a collection has.
    func count(of collection: CollectionName) throws -> Int

    /// How many entries a scan has.
    func count(of scan: IndexScan) throws -> Int
}

extension IndexedSource {
    /// The source itself.
    public var indexed: (any IndexedSource)? { self }

    /// Always, but for those who wrap a store.
    public func showsAll(of collection: CollectionName) -> Bool { true }
}
