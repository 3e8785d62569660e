import CRDT

/// ORDER BY: compares rows by the values of its terms.
struct Ordering: Sendable {
    let terms: [SortTerm]

    func keys(_ row: borrowing Row, _ evaluator: Evaluator) throws -> [Value?] {
        var keys: [Value?] = []
        keys.reserveCapacity(terms.count)
        for term in terms {
            let key = try evaluator.evaluate(term.expression, row)
            if let bytes = key?.largeBytes, bytes > 0 { try row.meter?.work(bytes: bytes) }
            keys.append(key)
        }
        return keys
    }

    func compare(_ left: [Value?], _ right: [Value?]) -> Int {
        for (index, term) in terms.enumerated() {
            let order = compare(left[index], right[index], term)
            if order != 0 { return order }
        }
        return 0
    }

    private func compare(_ left: Value?, _ right: Value?, _ term: SortTerm) -> Int {
        if let nullsFirst = term.nullsFirst {
            let isLeftNull = ValueOrder.rank(left) >= ValueOrder.rank(.null)
            let isRightNull = ValueOrder.rank(right) >= ValueOrder.rank(.null)
            if isLeftNull != isRightNull { return isLeftNull == nullsFirst ? -1 : 1 }
        }
        let order = ValueOrder.collate(left, right)
        return term.isDescending ? -order : order
    }
}

/// Collects rows in order and keeps only those that can still be among the first `capacity`: the limit
/// bounds the memory of ORDER BY with LIMIT. Rows that sort alike keep the order in which they came.
struct TopRows<Payload> {
    private let ordering: Ordering
    private let capacity: Int
    private let meter: ExecutionMeter
    private var rows: [(keys: [Value?], payload: Payload)] = []
    /// The memory of the largest keys so far: a comparison may read so much.
    private var comparedBytes = 0
    /// The keys of the last row that is still in, once there are `capacity` rows.
    private(set) var threshold: [Value?]?

    init(_ ordering: Ordering, capacity: Int, _ meter: ExecutionMeter) {
        self.ordering = ordering
        self.capacity = capacity
        self.meter = meter
    }

    /// How many rows are held.
    var count: Int { rows.count }
    /// The rows' memory in bytes, approximately, as counted by the caller that adds them; dropped rows take
    /// a proportional share with them.
    var bytes = 0

    /// Takes all rows out; rows that sort alike stay in the order in which they came.
    mutating func drain() -> [(keys: [Value?], payload: Payload)] {
        defer { rows = [] }
        return rows
    }

    /// Adds a row; `payload` is called only if the row is in. `holds`: true if the number of held rows is
    /// limited here.
    mutating func add(_ keys: [Value?], holds: Bool = true, _ payload: () throws -> Payload) throws {
        guard capacity > 0 else { return }
        // A later row that equals the threshold loses against it.
        if let threshold, ordering.compare(keys, threshold) >= 0 { return }
        rows.append((keys: keys, payload: try payload()))
        comparedBytes = max(comparedBytes, keys.reduce(0) { $0 + ($1?.largeBytes ?? 0) })
        if capacity <= Int.max / DQLLimits.topRowsSlack, rows.count >= capacity * DQLLimits.topRowsSlack {
            try prune()
        }
        if holds { try meter.hold(rows.count) }
    }

    private mutating func prune() throws {
        try sort()
        bytes = bytes / rows.count * capacity
        rows.removeLast(rows.count - capacity)
        threshold = rows[capacity - 1].keys
    }

    /// Swift's sort is stable in practice but does not promise it; the place of arrival settles ties.
    private mutating func sort() throws {
        guard !ordering.terms.isEmpty else { return }
        let (meter, comparedBytes) = (meter, comparedBytes)
        let order = try rows.indices.sorted { first, second in
            try meter.step()
            if comparedBytes > 0 { try meter.work(bytes: comparedBytes) }
            let order = ordering.compare(rows[first].keys, rows[second].keys)
            return order != 0 ? order < 0 : first < second
        }
        rows = order.map { rows[$0] }
    }

    /// The rows in order.
    mutating func finish() throws -> [Payload] {
        try sort()
        return rows.prefix(capacity).map(\.payload)
    }
}

/// Tells in place, by the first term alone, that a row sorts after the last one that is still in: most rows
/// of a long scan do. Belongs to one execution on one thread.
final class SortCutoff {
    private let cursor: FieldCursor
    private let source: Int
    private let isDescending: Bool

    /// nil unless the first term is a field.
    init?(_ terms: [SortTerm]) {
        guard let first = terms.first, first.nullsFirst == nil, case .field(let access) = first.expression,
            let cursor = DocumentTest.cursor(first.expression, access.source)
        else { return nil }
        self.cursor = cursor
        source = access.source
        isDescending = first.isDescending
    }

    /// Returns whether a row surely sorts after keys that begin with a value.
    func isBehind(_ last: Value?, _ row: borrowing Row) -> Bool {
        guard let record = row.documents[source], case .value(let value) = cursor.find(in: record.document)
        else { return false }
        let order: Int
        switch (value.content, last) {
        case (.int(let number), .int?), (.int(let number), .double?):
            order = ValueOrder.collate(.int(number), last)
        case (.double(let number), .int?), (.double(let number), .double?):
            order = ValueOrder.collate(.double(number), last)
        case (.text(let text), .string(let other)?):
            order =
                other.utf8.withContiguousStorageIfAvailable {
                    compareBytes(text, UnsafeRawBufferPointer($0))
                } ?? 0
        default: return false
        }
        return isDescending ? order < 0 : order > 0
    }
}
