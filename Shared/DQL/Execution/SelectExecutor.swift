import CRDT

/// Runs a SELECT: rows, projection, DISTINCT, order, bounds.
struct SelectExecutor {
    let plan: SelectPlan
    let runner: RowRunner
    let window: Window
    /// True if the rows come in order without sorting.
    private let isOrdered: Bool

    init(_ plan: SelectPlan, _ documents: any DocumentSource, _ context: ExecutionContext) throws {
        let plan = plan.specialized(context.arguments)
        window = try Window(plan.input.bounds, context)
        let planner = RowPlanner(documents: documents, options: context.options)
        try planner.checkJoins(of: plan.input.rows, context.source)
        let planned = try planner.plan(
            plan.input, plan.projection, isDistinct: plan.isDistinct,
            isLimited: plan.input.bounds.limit != nil && !plan.isDistinct)
        self.plan = SelectPlan(
            input: planned.input, projection: planned.projection, isDistinct: plan.isDistinct)
        isOrdered = planned.isOrdered
        runner = context.runner(documents, plan.input.types)
    }

    var projector: Projector {
        Projector(projection: plan.projection, evaluator: runner.evaluator)
    }

    /// Hands each result row to `body`, in order, until it returns false.
    func run(_ body: (Value) throws -> Bool) throws { try results { try body($0.value) } }

    /// The same, with whole documents in place.
    func results(_ body: (ResultRow) throws -> Bool) throws {
        guard window.limit > 0 else { return }
        let before = runner.context.statistics?.enter(.read, counts: false)
        defer { runner.context.statistics?.leave(to: before) }
        let isFound: Bool
        if case .pushedOrder(let pushed) = plan.input.rows {
            isFound = try merge(pushed, body)
        } else {
            isFound = plan.input.order.isEmpty || isOrdered ? try stream(body) : try sort(body)
        }
        let meter = runner.context.meter
        if plan.input.rows.isGrouped {
            meter.groupsFoundNothing = !isFound
        } else {
            meter.foundNothing = !isFound
        }
    }

    /// The source whose documents are the rows, as an undeclared reader sees them.
    var wholeSource: Int? {
        guard case .all(let source) = plan.projection, !plan.isDistinct,
            !runner.context.options.strictReads, plan.input.types[source].root.children.isEmpty
        else { return nil }
        return source
    }

    /// Returns whether there were rows.
    private func stream(_ body: (ResultRow) throws -> Bool) throws -> Bool {
        let projector = projector
        let wholeSource = wholeSource
        var seen = DistinctRows(runner.context.meter)
        var skipped = 0
        var taken = 0
        try runner.run(plan.input.rows, for: plan.isDistinct ? .distinct : .projection) { row in
            if !plan.isDistinct, skipped < window.offset {
                skipped += 1
                return true
            }
            if let wholeSource, let record = row.documents[wholeSource] {
                taken += 1
                if taken == 1 { try runner.context.meter.watch?.look(row, nil, runner.evaluator) }
                try runner.context.meter.work(bytes: record.document.bytes.count)
                return try body(ResultRow(document: record, runner.context)) && taken < window.limit
            }
            let value = try projector.value(row)
            if plan.isDistinct {
                guard try seen.insert(value) else { return true }
                runner.context.statistics?.distinct += 1
                if skipped < window.offset {
                    skipped += 1
                    return true
                }
            }
            // A bare value that is MISSING gives no row, but takes a place, as in any other executor.
            taken += 1
            if taken == 1 { try runner.context.meter.watch?.look(row, value, runner.evaluator) }
            if let value, try !body(ResultRow(value)) { return false }
            return taken < window.limit
        }
        return skipped + taken > 0
    }

    /// Returns whether there were rows.
    private func sort(_ body: (ResultRow) throws -> Bool) throws -> Bool {
        let projector = projector
        let wholeSource = wholeSource
        let ordering = Ordering(terms: plan.input.order)
        var seen = DistinctRows(runner.context.meter)
        var rows = RowSorter(ordering, window, runner.source, runner.context.meter)
        let cutoff =
            plan.isDistinct || runner.context.options.strictReads ? nil : SortCutoff(plan.input.order)
        var isFound = false
        let statistics = runner.context.statistics
        // A row that is kept is projected within the sort.
        func projected(_ row: borrowing Row) throws -> Value? {
            let before = statistics?.enter(.projection)
            defer { statistics?.leave(to: before) }
            return try projector.value(row)
        }
        try runner.run(plan.input.rows, for: plan.isDistinct ? .distinct : .sort) { row in
            if !isFound {
                isFound = true
                try runner.context.meter.watch?.look(row, nil, runner.evaluator)
            }
            if let cutoff, let last = rows.threshold?.first, cutoff.isBehind(last, row) { return true }
            let keys = try ordering.keys(row, runner.evaluator)
            if plan.isDistinct {
                let value = try projected(row)
                if try seen.insert(value) {
                    statistics?.distinct += 1
                    try rows.add(keys) { value.map(KeptRow.init) }
                }
            } else if let wholeSource, let record = row.documents[wholeSource] {
                try rows.add(keys) { KeptRow(record) }
            } else {
                try rows.add(keys) { try projected(row).map(KeptRow.init) }
            }
            return true
        }
        let before = statistics?.enter(.sort, counts: false)
        defer { statistics?.leave(to: before) }
        try rows.finish { row in try row.map { try body(ResultRow($0)) } ?? true }
        return isFound
    }
}

/// The rows of a DISTINCT.
private struct DistinctRows {
    private var seen: Set<ValueKey> = []
    private var bytes = 0
    private let meter: ExecutionMeter

    init(_ meter: ExecutionMeter) { self.meter = meter }

    /// Adds a row. Returns whether it is new.
    mutating func insert(_ value: Value?) throws -> Bool {
        let key = ValueKey(value)
        try meter.work(bytes: key.bytes.count)
        guard seen.insert(key).inserted else { return false }
        bytes += key.bytes.count
        try meter.hold(seen.count)
        try meter.hold(bytes: bytes)
        return true
    }
}

/// LIMIT and OFFSET with their arguments.
struct Window: Equatable {
    /// How many rows are skipped.
    let offset: Int
    /// The greatest number of rows returned.
    let limit: Int

    /// How many rows of the order are needed.
    var capacity: Int {
        let (sum, overflow) = offset.addingReportingOverflow(limit)
        return overflow ? .max : sum
    }

    /// No bounds.
    static let open = Window(offset: 0, limit: .max)

    private init(offset: Int, limit: Int) { (self.offset, self.limit) = (offset, limit) }

    /// Throws `invalidArgument` if an argument is not a whole number or is negative.
    init(_ bounds: Bounds, _ context: ExecutionContext) throws(DQLError) {
        offset = try Self.number(bounds.offset, "OFFSET", context) ?? 0
        limit = try Self.number(bounds.limit, "LIMIT", context) ?? .max
    }

    private static func number(
        _ bound: (value: BoundExpression, span: SourceSpan)?, _ clause: String, _ context: ExecutionContext
    ) throws(DQLError) -> Int? {
        guard let bound else { return nil }
        let value = bound.value.specialized(context.arguments)
        guard case .constant(.int(let number)?) = value, number >= 0 else {
            let given = if case .constant(let given?) = value { ", not \(given.described)" } else { "" }
            throw context.source.error(
                .invalidArgument, "\(clause) takes a whole number that is not negative\(given)",
                at: bound.span)
        }
        return Int(clamping: number)
    }
}

extension Value {
    /// For messages about arguments: the type, never the content.
    var described: String {
        switch self {
        case .null: "null"
        case .int(let number) where number < 0: "a negative number"
        case .int, .array, .object: "an \(typeName)"
        default: "a \(typeName)"
        }
    }
}
