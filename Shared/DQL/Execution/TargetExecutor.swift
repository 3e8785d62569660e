import CRDT

/// Finds the documents of an UPDATE, DELETE or EVICT. All are found before the first one is changed, so that
/// a statement never meets its own writes.
struct TargetExecutor {
    private let targets: OrderedRows
    private let runner: RowRunner
    private let window: Window
    private let isOrdered: Bool

    init(_ targets: OrderedRows, _ documents: any DocumentSource, _ context: ExecutionContext) throws {
        window = try Window(targets.bounds, context)
        let planned = try RowPlanner(documents: documents, options: context.options).plan(
            targets.specialized(context.arguments), isLimited: targets.bounds.limit != nil)
        self.targets = planned.input
        isOrdered = planned.isOrdered
        runner = context.runner(documents, targets.types)
    }

    func documentIDs() throws -> [DocumentID] {
        guard window.limit > 0 else { return [] }
        let before = runner.context.statistics?.enter(.read, counts: false)
        defer { runner.context.statistics?.leave(to: before) }
        let ordering = Ordering(terms: targets.order)
        var ids: [DocumentID] = []
        guard !ordering.terms.isEmpty, !isOrdered else {
            var bytes = 0
            try runner.run(targets.rows, for: .change) { row in
                if let record = row.documents[0] {
                    ids.append(record.id)
                    // Ids alone: many more of them fit than of rows.
                    bytes += record.id.bytes.count + DQLLimits.elementBytes
                    try runner.context.meter.hold(bytes: bytes)
                }
                return ids.count < window.capacity
            }
            runner.context.meter.foundNothing = ids.isEmpty
            return Array(ids.dropFirst(window.offset))
        }
        var rows = TopRows<DocumentID>(ordering, capacity: window.capacity, runner.context.meter)
        var isFound = false
        try runner.run(targets.rows, for: .sort) { row in
            guard let record = row.documents[0] else { return true }
            isFound = true
            try rows.add(try ordering.keys(row, runner.evaluator)) { record.id }
            return true
        }
        runner.context.meter.foundNothing = !isFound
        return try Array(rows.finish().dropFirst(window.offset))
    }
}
