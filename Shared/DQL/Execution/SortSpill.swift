import CRDT

/// How the values of one ORDER BY term are ordered.
public struct SortDirection: Equatable, Sendable {
    /// DESC.
    public let isDescending: Bool
    /// NULLS FIRST or NULLS LAST, null and MISSING being meant alike; nil leaves them where they collate.
    public let nullsFirst: Bool?

    /// A direction.
    public init(isDescending: Bool, nullsFirst: Bool? = nil) {
        self.isDescending = isDescending
        self.nullsFirst = nullsFirst
    }
}

/// A place outside of memory for rows that are to be sorted. Belongs to one execution on one thread; what it
/// takes up is free again when it is let go.
public protocol SortSpill: AnyObject {
    /// Adds a row with the values of its terms; nil is MISSING.
    func add(_ keys: [Value?], _ row: Value?) throws

    /// Visits the rows in order, those that sort alike as they were added, until a visit returns false.
    /// Called once, after the last row.
    func forEach(_ visit: (Value?) throws -> Bool) throws
}

/// A source of documents with a disk beside it.
public protocol SpillingSource: DocumentSource {
    /// An empty spill for rows in this order.
    func makeSpill(_ order: [SortDirection]) throws -> any SortSpill
}

/// Sorts rows in memory as long as they are few and small, on disk if the source has one beyond that.
struct RowSorter {
    private let ordering: Ordering
    private let window: Window
    private let meter: ExecutionMeter
    private let source: (any SpillingSource)?
    private var top: TopRows<KeptRow?>
    private var spill: (any SortSpill)?

    init(_ ordering: Ordering, _ window: Window, _ source: any DocumentSource, _ meter: ExecutionMeter) {
        self.ordering = ordering
        self.window = window
        self.meter = meter
        self.source = source as? any SpillingSource
        top = TopRows(ordering, capacity: window.capacity, meter)
    }

    /// The keys of the last row that is still in, once there are as many as the window asks for.
    var threshold: [Value?]? { top.threshold }

    mutating func add(_ keys: [Value?], _ row: () throws -> KeptRow?) throws {
        if let spill { return try spill.add(keys, row()?.value) }
        var bytes = 0
        try top.add(keys, holds: source == nil) {
            let row = try row()
            bytes = keys.reduce(row?.heldBytes ?? 0) { $0 + ($1?.heldBytes ?? DQLLimits.elementBytes) }
            return row
        }
        top.bytes += bytes
        guard let source else { return try meter.hold(bytes: top.bytes) }
        guard top.bytes > DQLLimits.sortBytes || top.count >= meter.heldLimit else { return }
        let order = ordering.terms.map {
            SortDirection(isDescending: $0.isDescending, nullsFirst: $0.nullsFirst)
        }
        let spill = try source.makeSpill(order)
        for row in top.drain() {
            try meter.step()
            try spill.add(row.keys, row.payload?.value)
        }
        self.spill = spill
    }

    /// Visits the rows within the window, in order, until a visit returns false.
    mutating func finish(_ visit: (KeptRow?) throws -> Bool) throws {
        guard let spill else {
            for row in try top.finish().dropFirst(window.offset) { guard try visit(row) else { return } }
            return
        }
        var place = 0
        try spill.forEach { row in
            try meter.step()
            place += 1
            guard place > window.offset else { return true }
            return try visit(row.map(KeptRow.init)) && place < window.capacity
        }
    }
}
