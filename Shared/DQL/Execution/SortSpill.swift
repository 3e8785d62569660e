import CRDT

/// How the values of one ORDER BY term are ordered.
public struct SortDirection: Equatable, Sendable {
    /// DESC.
    public let isDescending: Bool
    /// NULLS FIRST or NULLS LAST, for null and MISSING alike; nil leaves them where they collate.
    public let nullsFirst: Bool?

    /// A direction.
    public init(isDescending: Bool, nullsFirst: Bool? = nil) {
        self.isDescending = isDescending
        self.nullsFirst = nullsFirst
    }
}

/// Storage outside memory for rows to be sorted. Belongs to one execution on one thread; its space is freed
/// when it is released.
public protocol SortSpill: AnyObject {
    /// Adds a row with the values of its terms; nil is MISSING.
    func add(_ keys: [Value?], _ row: Value?) throws

    /// Visits the rows in order until a visit returns false; rows that sort alike come in the order they
    /// were added. Called once, after the last row.
    func forEach(_ visit: (Value?) throws -> Bool) throws
}

/// A source of documents that can sort on disk.
public protocol SpillingSource: DocumentSource {
    /// An empty spill for rows in this order.
    func makeSpill(_ order: [SortDirection]) throws -> any SortSpill
}

/// Sorts rows in memory while they are few and small, and beyond that on disk if the source has one.
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

    /// The keys of the last row that is still in, once there are as many rows as the window needs.
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
