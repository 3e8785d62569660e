import CRDT

/// One aggregate of one group, fed row by row (spec 2.9).
struct Accumulator {
    private let kind: AggregateKind
    private let isStar: Bool
    private var seen: Set<ValueKey>?
    private var count: Int64 = 0
    private var sum = Sum()
    private var extreme: Value?

    init(_ aggregate: BoundAggregate) {
        kind = aggregate.kind
        isStar = aggregate.argument == nil
        seen = aggregate.isDistinct ? [] : nil
    }

    /// Adds a row's argument; of COUNT(*) the value does not matter.
    mutating func add(_ value: Value?) {
        if isStar {
            count += 1
            return
        }
        guard let value, isCounted(value) else { return }
        if seen != nil, seen?.insert(ValueKey(value)).inserted == false { return }
        count += 1
        switch kind {
        case .count: break
        case .sum, .avg: sum.add(value)
        case .min: if extreme == nil || ValueOrder.collate(value, extreme) < 0 { extreme = value }
        case .max: if extreme == nil || ValueOrder.collate(value, extreme) > 0 { extreme = value }
        }
    }

    /// The aggregate's value; MISSING when no row counted, except for COUNT.
    var result: Value? {
        switch kind {
        case .count: .int(count)
        case _ where count == 0: Value?.none
        case .sum: sum.value
        case .avg: .double(sum.double / Double(count))
        case .min, .max: extreme
        }
    }

    /// COUNT skips null, missing and false; SUM and AVG everything but numbers; MIN and MAX null and missing.
    private func isCounted(_ value: Value) -> Bool {
        switch (kind, value) {
        case (_, .null), (.count, .bool(false)): false
        case (.sum, .int), (.sum, .double), (.avg, .int), (.avg, .double): true
        case (.sum, _), (.avg, _): false
        default: true
        }
    }
}

/// A sum of numbers. Integers are added exactly, in whatever order they come, and become a float at the end
/// if the total does not fit 64 bits; one float among them makes the sum a float.
struct Sum {
    private var low: Int64 = 0
    /// How many times the integers' total passed the end of the 64-bit range upwards, less downwards.
    private var wraps: Int64 = 0
    private var floats = 0.0
    private var hasFloats = false

    mutating func add(_ value: Value) {
        switch value {
        case .int(let number):
            let (total, overflow) = low.addingReportingOverflow(number)
            low = total
            if overflow { wraps += number > 0 ? 1 : -1 }
        case .double(let number):
            floats += number
            hasFloats = true
        default: break
        }
    }

    var value: Value { hasFloats || wraps != 0 ? .double(double) : .int(low) }

    var double: Double { Double(low) + Double(wraps) * 0x1p64 + floats }
}

/// The groups of a GROUP BY, in the order of their first row.
struct GroupTable {
    private let grouping: Grouping
    private var places: [ValueKey: Int] = [:]
    private var groups: [(keys: [Value?], accumulators: [Accumulator])] = []

    init(_ grouping: Grouping) {
        self.grouping = grouping
        // Without keys there is one group, also of no rows.
        if grouping.keys.isEmpty {
            groups.append((keys: [], accumulators: grouping.aggregates.map(Accumulator.init)))
        }
    }

    mutating func add(_ row: borrowing Row, _ evaluator: Evaluator) throws {
        let place = try place(of: row, evaluator)
        for (index, aggregate) in grouping.aggregates.enumerated() {
            let value: Value? =
                if let argument = aggregate.argument { try evaluator.evaluate(argument, row) } else { nil }
            groups[place].accumulators[index].add(value)
        }
    }

    private mutating func place(of row: borrowing Row, _ evaluator: Evaluator) throws -> Int {
        guard !grouping.keys.isEmpty else { return 0 }
        var keys: [Value?] = []
        var bytes = ValueKey()
        for key in grouping.keys {
            let value = try evaluator.evaluate(key, row)
            keys.append(value)
            bytes.append(value)
        }
        if let known = places[bytes] { return known }
        places[bytes] = groups.count
        groups.append((keys: keys, accumulators: grouping.aggregates.map(Accumulator.init)))
        return groups.count - 1
    }

    /// The slots of every group: keys, then aggregates.
    var slots: [[Value?]] { groups.map { $0.keys + $0.accumulators.map(\.result) } }
}
