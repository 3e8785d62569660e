import CRDT

/// Finds the documents that an UPDATE, DELETE or EVICT is about. They are all found before the first one is
/// changed, so that a statement never meets its own writes.
struct TargetExecutor {
    let targets: OrderedRows
    let runner: RowRunner
    let window: Window

    func documentIDs() throws -> [DocumentID] {
        guard window.limit > 0 else { return [] }
        let ordering = Ordering(terms: targets.order)
        var rows = TopRows<DocumentID>(ordering, capacity: window.capacity)
        var count = 0
        try runner.run(targets.rows) { row in
            guard let record = row.documents[0] else { return true }
            let keys = try ordering.keys(row, runner.evaluator)
            rows.add(keys) { record.id }
            count += 1
            return !targets.order.isEmpty || count < window.capacity
        }
        return Array(rows.finish().dropFirst(window.offset))
    }
}

/// Runs an UPDATE. The right sides see the document as it was before the statement.
struct UpdateExecutor {
    let plan: UpdatePlan
    let source: SourceText
    let runner: RowRunner
    let arguments: [Value]
    let options: ExecutionOptions

    func run(_ ids: [DocumentID], in writer: any DocumentWriter) throws -> StatementResult {
        try checkStrictness()
        let values = plan.assignments.map { $0.value.specialized(arguments) }
        var result = StatementResult()
        var missing: Int?
        for id in ids {
            var evaluated: [Value?] = []
            try writer.lookup(plan.collection, id) { record in
                let row = Row(documents: [record])
                for value in values { evaluated.append(try runner.evaluator.evaluate(value, row)) }
            }
            try writer.edit(plan.collection, id) { editor in
                var writes = FieldWriter(
                    editor: editor, source: source, span: SourceSpan(start: 0, end: 0), options: options)
                for (index, value) in evaluated.enumerated() {
                    guard let value else {
                        missing = missing ?? index
                        continue
                    }
                    writes.span = plan.assignments[index].span
                    try writes.set(plan.assignments[index].path, value, plan.assignments[index].declaration)
                }
                for removal in plan.removals {
                    writes.span = removal.span
                    try writes.unset(removal.path, removal.kind)
                }
                editor = writes.editor
            }
            result.mutatedDocumentIDs.append(id)
        }
        if let missing { result.warnings.append(warning(about: plan.assignments[missing])) }
        return result
    }

    /// In strict mode nothing is written below a field that is not declared as a MAP.
    private func checkStrictness() throws(DQLError) {
        guard options.strictMode else { return }
        let steps =
            plan.assignments.map { ($0.undeclaredStep, $0.span) }
            + plan.removals.map { ($0.undeclaredStep, $0.span) }
        for case (let step?, let span) in steps {
            throw source.error(.notAMap, "Unsupported DML operation on REGISTER field \"\(step)\"", at: span)
        }
    }

    private func warning(about assignment: UpdatePlan.Assignment) -> DQLWarning {
        source.warning(
            .missingAssignment,
            "the value for \(assignment.path.joined(separator: ".")) was MISSING; such documents keep theirs",
            at: assignment.span)
    }
}
