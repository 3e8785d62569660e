import CRDT

/// Collects the rows of RETURNING, document by document.
struct ReturningExecutor {
    private let plan: ReturningPlan?
    private let projector: Projector?
    private let context: ExecutionContext
    private var groups: GroupTable?
    private var rows: [Value] = []
    private var bytes = 0

    init(_ plan: ReturningPlan?, _ context: ExecutionContext) {
        let plan = plan?.specialized(context.arguments)
        self.plan = plan
        self.context = context
        projector = plan.map {
            Projector(
                projection: $0.projection, evaluator: Evaluator(context.options, types: $0.types))
        }
        groups = plan?.grouping.map { GroupTable($0, context.meter) }
    }

    /// Adds a document as it stands in the store.
    mutating func add(_ collection: CollectionName, _ id: DocumentID, in writer: any DocumentWriter) throws {
        guard let projector else { return }
        try writer.lookup(collection, id) { record in
            let row = Row(documents: [record], meter: context.meter)
            if groups != nil {
                try groups?.add(row, projector.evaluator)
            } else if let value = try projector.value(row) {
                rows.append(value)
                bytes += value.heldBytes
                try context.meter.hold(rows.count)
                try context.meter.hold(bytes: bytes)
            }
        }
    }

    /// The rows; for aggregates one row, even over no documents.
    func finish() throws -> [Value] {
        guard let groups, let projector else { return rows }
        var rows: [Value] = []
        _ = try groups.forEachRow { row in
            if let value = try projector.value(row) { rows.append(value) }
            return true
        }
        return rows
    }
}
