import CRDT

/// The groups of a GROUP BY, in the order of their first row.
struct GroupTable {
    private let grouping: Grouping
    private let meter: ExecutionMeter
    private var places: [ValueKey: Int] = [:]
    private var groups: [(keys: [Value?], accumulators: [Accumulator])] = []
    /// Groups and the values that aggregates hold.
    private var held = 0

    init(_ grouping: Grouping, _ meter: ExecutionMeter) {
        self.grouping = grouping
        self.meter = meter
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
            let before = groups[place].accumulators[index].held
            groups[place].accumulators[index].add(value)
            held += groups[place].accumulators[index].held - before
        }
        try meter.hold(held + (grouping.keys.isEmpty ? 0 : groups.count))
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

    /// Visits one row a group, keys and then aggregates in its slots. Returns false when a visit ended it.
    func forEachRow(_ visit: (borrowing Row) throws -> Bool) throws -> Bool {
        for group in groups {
            try meter.step()
            let slots = group.keys + group.accumulators.map(\.result)
            guard try visit(Row(documents: [nil], slots: slots, meter: meter)) else { return false }
        }
        return true
    }
}
