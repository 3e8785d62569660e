import CRDT

/// Executing prepared statements. Errors of the language and of documents that cannot be read are `DQLError`;
/// what a source or writer throws passes through unchanged.
extension PreparedStatement {
    /// Hands the rows of a SELECT to `body`, in order, until it returns false. Memory stays bounded but for
    /// DISTINCT, GROUP BY and ORDER BY without LIMIT. Throws `readOnly` for any other statement.
    ///
    /// Returns the warnings.
    @discardableResult
    public func forEachRow(
        in documents: any DocumentSource, arguments: ObjectValue = ObjectValue(),
        options: ExecutionOptions = ExecutionOptions(), _ body: (Value) throws -> Bool
    ) throws -> [DQLWarning] {
        guard case .select(let plan) = plan else {
            throw DQLError(
                .readOnly, "A mutating DQL query was attempted using a read-only transaction.",
                position: SourcePosition(line: 1, column: 1))
        }
        let values = try bind(arguments)
        let executor = SelectExecutor(
            plan: plan.specialized(values), runner: runner(documents, options),
            window: try Window(plan.input.bounds, values, source))
        try readable { try executor.run(body) }
        return warnings + unusedArguments(arguments)
    }

    /// The rows of a SELECT. Throws `readOnly` for any other statement.
    public func rows(
        in documents: any DocumentSource, arguments: ObjectValue = ObjectValue(),
        options: ExecutionOptions = ExecutionOptions()
    ) throws -> [Value] {
        var rows: [Value] = []
        try forEachRow(in: documents, arguments: arguments, options: options) { row in
            rows.append(row)
            return true
        }
        return rows
    }

    /// Executes any statement in a write transaction. `idGenerator` is asked for the id of each inserted
    /// document that brings none. When this throws, the writer may hold a part of the statement's writes: its
    /// owner undoes them.
    public func execute(
        in writer: any DocumentWriter, arguments: ObjectValue = ObjectValue(),
        options: ExecutionOptions = ExecutionOptions(), idGenerator: () throws -> DocumentID
    ) throws -> StatementResult {
        if isReadOnly {
            var result = StatementResult()
            result.warnings = try forEachRow(in: writer, arguments: arguments, options: options) { row in
                result.rows.append(row)
                return true
            }
            return result
        }
        let values = try bind(arguments)
        var result = try readable { try mutate(writer, values, options, idGenerator) }
        result.warnings = warnings + unusedArguments(arguments) + result.warnings
        return result
    }

    private func mutate(
        _ writer: any DocumentWriter, _ arguments: [Value], _ options: ExecutionOptions,
        _ idGenerator: () throws -> DocumentID
    ) throws -> StatementResult {
        switch plan {
        case .select: preconditionFailure("a SELECT does not write")
        case .insert(let plan):
            return try InsertExecutor(
                plan: plan, source: source, evaluator: Evaluator(options, types: types), arguments: arguments,
                options: options
            ).run(in: writer, idGenerator)
        case .update(let plan):
            let ids = try targets(plan.targets, writer, arguments, options)
            return try UpdateExecutor(
                plan: plan, source: source, runner: runner(writer, options), arguments: arguments,
                options: options
            ).run(ids, in: writer)
        case .delete(let plan):
            let ids = try targets(plan.targets, writer, arguments, options)
            for id in ids { try writer.edit(plan.collection, id) { $0.delete() } }
            return StatementResult(mutatedDocumentIDs: ids)
        case .evict(let plan):
            let ids = try targets(plan.targets, writer, arguments, options)
            if !ids.isEmpty { try writer.evict(plan.collection, ids) }
            return StatementResult(mutatedDocumentIDs: ids)
        }
    }

    private func targets(
        _ targets: OrderedRows, _ writer: any DocumentWriter, _ arguments: [Value],
        _ options: ExecutionOptions
    ) throws -> [DocumentID] {
        try TargetExecutor(
            targets: targets.specialized(arguments), runner: runner(writer, options),
            window: Window(targets.bounds, arguments, source)
        ).documentIDs()
    }

    private func runner(_ documents: any DocumentSource, _ options: ExecutionOptions) -> RowRunner {
        RowRunner(source: documents, evaluator: Evaluator(options, types: types))
    }

    /// A document whose bytes cannot be read is an error of this module; see `unreadableDocument`.
    private func readable<Result>(_ body: () throws -> Result) throws -> Result {
        do {
            return try body()
        } catch let error as CRDTError {
            throw DQLError(.unreadableDocument, "a stored document cannot be read: \(error)")
        }
    }
}
