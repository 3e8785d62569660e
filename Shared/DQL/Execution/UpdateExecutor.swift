import CRDT

/// Runs an UPDATE. New values are computed from the document as it was before the statement.
struct UpdateExecutor {
    let plan: UpdatePlan
    let context: ExecutionContext

    func run(in writer: any DocumentWriter) throws -> StatementResult {
        try checkStrictness()
        let ids = try TargetExecutor(plan.targets, writer, context).documentIDs()
        let evaluator = Evaluator(context.options, types: plan.targets.types)
        let operands = plan.changes.map { $0.operand?.specialized(context.arguments) }
        var result = StatementResult()
        var returning = ReturningExecutor(plan.returning, context)
        var missing: Int?
        var shadowed: Int?
        var covered: FieldWriter.Covered?
        try writer.forEachExpected(ids, of: plan.collection, id: \.self) { id in
            // A change reads and writes the whole document, which takes far longer than to look at a clock.
            try context.meter.check()
            var values: [Value?] = []
            values.reserveCapacity(operands.count)
            try writer.lookup(plan.collection, id) { record in
                let row = Row(documents: [record], meter: context.meter)
                for operand in operands {
                    values.append(try operand.flatMap { try evaluator.evaluate($0, row) })
                }
            }
            var isWritten = false
            try writer.edit(plan.collection, id) { editor in
                var writes = FieldWriter(
                    editor: editor, source: context.source, span: SourceSpan(start: 0, end: 0),
                    options: context.options)
                for (index, change) in plan.changes.enumerated() {
                    if Self.startsCounterOverRegister(change, editor) { shadowed = shadowed ?? index }
                    let outcome = try perform(change, values[index], &writes)
                    if outcome == .missing { missing = missing ?? index }
                    isWritten = isWritten || outcome == .written
                }
                if isWritten { editor = writes.editor }
                covered = covered ?? writes.covered
            }
            guard isWritten else { return }
            result.mutatedDocumentIDs.append(id)
            try returning.add(plan.collection, id, in: writer)
        }
        result.rows = try returning.finish()
        if let missing { result.warnings.append(missingWarning(plan.changes[missing])) }
        if let covered { result.warnings.append(covered.warning(context.source)) }
        if let shadowed { result.warnings.append(shadowWarning(plan.changes[shadowed])) }
        return result
    }

    /// True if a counter begins over a REGISTER: an increment counts from the counter's value, not from a
    /// number that a plain write left in the field.
    private static func startsCounterOverRegister(_ change: FieldChange, _ editor: DocumentEditor) -> Bool {
        guard case .increment = change.action else { return false }
        return editor.newestKind(at: change.path) == .register
    }

    /// The effect of a change on one document.
    private enum Effect {
        case written
        /// UNSET of a field that does not exist.
        case unchanged
        /// The value was MISSING, which leaves the field as it is.
        case missing
    }

    /// Performs a change. A value that the field already has is written all the same: it is a later write.
    private func perform(
        _ change: FieldChange, _ value: Value?, _ writes: inout FieldWriter
    ) throws(DQLError) -> Effect {
        writes.span = change.span
        switch (change.action, value) {
        // In strict mode an undeclared field is a REGISTER; other kinds are neither seen nor removed.
        case (.unset, _):
            let kind = change.declaration?.kind ?? (context.options.strictMode ? .register : nil)
            return try writes.unset(change.path, kind) ? .written : .unchanged
        case (.reset, _): try writes.reset(change.path, change.declaration)
        case (_, nil): return .missing
        case (.set, let value?): try writes.set(change.path, value, change.declaration)
        case (.increment(_, let isFractional), let value?):
            try writes.increment(change.path, value, isFractional: isFractional)
        case (.restart, let value?): try writes.restart(change.path, value)
        }
        return .written
    }

    /// Throws in strict mode for a write below a field that is not declared as a MAP.
    private func checkStrictness() throws(DQLError) {
        guard context.options.strictMode else { return }
        for change in plan.changes {
            guard let step = change.undeclaredStep else { continue }
            throw context.source.error(
                .notAMap, "Unsupported DML operation on REGISTER field \"\(step)\"", at: change.span)
        }
    }

    private func missingWarning(_ change: FieldChange) -> DQLWarning {
        context.source.warning(
            .missingAssignment,
            "the value for \(change.path.joined(separator: ".")) was MISSING; such documents keep theirs",
            at: change.span)
    }

    private func shadowWarning(_ change: FieldChange) -> DQLWarning {
        let name = change.path.joined(separator: ".")
        return context.source.warning(
            .counterBesideRegister,
            "\(name) held a REGISTER; the counter does not count from its value: declare it COUNTER when it "
                + "is inserted",
            at: change.span)
    }
}

/// Runs a DELETE or EVICT.
struct RemovalExecutor {
    let plan: RemovalPlan
    let isLocal: Bool
    let context: ExecutionContext

    func run(in writer: any DocumentWriter) throws -> StatementResult {
        let ids = try TargetExecutor(plan.targets, writer, context).documentIDs()
        var returning = ReturningExecutor(plan.returning, context)
        try writer.forEachExpected(ids, of: plan.collection, id: \.self) { id in
            try context.meter.check()
            try returning.add(plan.collection, id, in: writer)
            if !isLocal { try writer.edit(plan.collection, id) { $0.delete() } }
        }
        if isLocal, !ids.isEmpty { try writer.evict(plan.collection, ids) }
        return StatementResult(rows: try returning.finish(), mutatedDocumentIDs: ids)
    }
}
