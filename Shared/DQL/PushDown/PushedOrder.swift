import CRDT

/// An ORDER BY that SQL carries out, so that rows need not be held here until the last one has come. The
/// evaluator puts those in their places that SQL cannot order.
struct PushedOrder: Sendable {
    let statement: PushedStatement
    let condition: BoundExpression?
    let source: Int
}

extension SelectExecutor {
    /// Hands out rows that SQL has put in order. Returns whether there were any.
    func merge(_ pushed: PushedOrder, _ body: (ResultRow) throws -> Bool) throws -> Bool {
        guard let pushing = runner.source.pushing else { preconditionFailure("planned on a source with SQL") }
        let meter = runner.context.meter
        let ordering = Ordering(terms: plan.input.order)
        var rows = OrderMerge(ordering, window, meter)
        var row = runner.row()
        let (projector, wholeSource) = (projector, wholeSource)
        var isFound = false
        try pushing.documents(inOrderOf: pushed.statement) { record, place in
            try meter.visit()
            runner.context.statistics?.documents += 1
            row.documents[pushed.source] = record
            if place == .doubt, let condition = pushed.condition,
                try !runner.evaluator.isTrue(condition, row)
            {
                return true
            }
            if !isFound {
                isFound = true
                try meter.watch?.look(row, nil, runner.evaluator)
            }
            let one = OrderMerge.Arrival(
                place: place, keys: { try ordering.keys(row, runner.evaluator) }, id: record.id.bytes)
            return try rows.add(one, body) {
                if wholeSource == nil { return try projector.value(row).map(KeptRow.init) }
                try meter.work(bytes: record.document.bytes.count)
                return KeptRow(record)
            }
        }
        try rows.finish(body)
        return isFound
    }
}

/// Merges rows in order with those that SQL could not order.
///
/// Rows in doubt come first and are held. Among all others, SQL is wrong only where two rows with arrays or
/// objects meet: such rows come one after the other, and are sorted together once the run of them ends. Rows
/// that sort alike come in the order of their ids, as from a scan.
private struct OrderMerge {
    struct Arrival {
        let place: PushedPlace
        let keys: () throws -> [Value?]
        let id: [UInt8]
    }

    private struct Held {
        let keys: [Value?]
        let id: [UInt8]
        let row: KeptRow?
    }

    private let ordering: Ordering
    private let window: Window
    private let meter: ExecutionMeter
    /// Rows in doubt; sorted, and the next one last, once another row has come.
    private var doubtful: [Held] = []
    private var isSorted = false
    /// The run of rows with arrays or objects.
    private var run: [Held] = []
    private var heldBytes = 0
    private var passed = 0

    init(_ ordering: Ordering, _ window: Window, _ meter: ExecutionMeter) {
        (self.ordering, self.window, self.meter) = (ordering, window, meter)
    }

    /// Takes a row. Returns false once no more are wanted.
    mutating func add(
        _ arrival: Arrival, _ body: (ResultRow) throws -> Bool, _ project: () throws -> KeptRow?
    ) throws -> Bool {
        if arrival.place == .known {
            guard try endRun(body) else { return false }
            if !doubtful.isEmpty {
                let held = Held(keys: try arrival.keys(), id: arrival.id, row: nil)
                guard try release(before: held, body) else { return false }
            }
            return try pass(project, body)
        }
        let held = Held(keys: try arrival.keys(), id: arrival.id, row: try project())
        heldBytes += held.keys.reduce(held.row?.heldBytes ?? 0) {
            $0 + ($1?.heldBytes ?? DQLLimits.elementBytes)
        }
        if arrival.place == .doubt { doubtful.append(held) } else { run.append(held) }
        try meter.hold(doubtful.count + run.count)
        try meter.hold(bytes: heldBytes)
        return true
    }

    /// Hands out what is held.
    mutating func finish(_ body: (ResultRow) throws -> Bool) throws {
        guard try endRun(body) else { return }
        sort()
        while let next = doubtful.popLast() { guard try pass({ next.row }, body) else { return } }
    }

    private func isBefore(_ left: Held, _ right: Held) -> Bool {
        let order = ordering.compare(left.keys, right.keys)
        return order != 0 ? order < 0 : compareBytes(left.id, right.id) < 0
    }

    private mutating func sort() {
        guard !isSorted else { return }
        isSorted = true
        doubtful = doubtful.sorted { isBefore($1, $0) }
    }

    private mutating func release(before held: Held, _ body: (ResultRow) throws -> Bool) throws -> Bool {
        sort()
        while let next = doubtful.last, isBefore(next, held) {
            doubtful.removeLast()
            guard try pass({ next.row }, body) else { return false }
        }
        return true
    }

    private mutating func endRun(_ body: (ResultRow) throws -> Bool) throws -> Bool {
        guard !run.isEmpty else { return true }
        let rows = run.sorted(by: isBefore)
        run = []
        for held in rows {
            guard try release(before: held, body), try pass({ held.row }, body) else { return false }
        }
        return true
    }

    /// Hands out a row if it is within OFFSET and LIMIT. A bare value that is MISSING takes a place.
    private mutating func pass(
        _ row: () throws -> KeptRow?, _ body: (ResultRow) throws -> Bool
    ) throws -> Bool {
        passed += 1
        guard passed > window.offset else { return true }
        if let row = try row(), try !body(ResultRow(row)) { return false }
        return passed < window.capacity
    }
}
