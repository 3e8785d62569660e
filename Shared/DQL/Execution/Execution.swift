import CRDT

/// Executing prepared statements. Errors of the language and of documents that cannot be read are `DQLError`;
/// what a source or writer throws passes through unchanged.
extension PreparedStatement {
    /// Hands the rows of a SELECT or SHOW to `body`, in order, until it returns false. Memory stays bounded:
    /// rows are streamed, and what sorting, DISTINCT and GROUP BY hold is limited by
    /// `ExecutionOptions.materializedRows`. Throws `readOnly` for a statement that writes.
    ///
    /// Returns the warnings.
    @discardableResult
    public func forEachRow(
        in documents: any DocumentSource, arguments: ObjectValue = ObjectValue(),
        options: ExecutionOptions = ExecutionOptions(), _ body: (Value) throws -> Bool
    ) throws -> [DQLWarning] {
        let context = ExecutionContext(source, options, try bind(arguments))
        switch plan {
        case .select(let plan):
            try readable { try SelectExecutor(plan, documents, context).run(body) }
        case .show(let shown):
            _ = try body(.object(row(shown, options.parameters, context.arguments)))
        case .alterSystem: throw systemStatement
        case .index: throw indexStatement
        default:
            throw DQLError(
                .readOnly, "A mutating DQL query was attempted using a read-only transaction.",
                position: SourcePosition(line: 1, column: 1))
        }
        return warnings + argumentWarnings(arguments, context.arguments)
    }

    /// The rows of a SELECT or SHOW. Throws `readOnly` for a statement that writes.
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

    /// Executes any statement but ALTER SYSTEM in a write transaction. `idGenerator` is asked for the id of
    /// each inserted document that brings none. When this throws, the writer may hold a part of the
    /// statement's writes: its owner undoes them.
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
        let context = ExecutionContext(source, options, try bind(arguments))
        var result = try readable { try mutate(writer, context, idGenerator) }
        result.warnings = warnings + argumentWarnings(arguments, context.arguments) + result.warnings
        return result
    }

    private func mutate(
        _ writer: any DocumentWriter, _ context: ExecutionContext, _ idGenerator: () throws -> DocumentID
    ) throws -> StatementResult {
        switch plan {
        case .select, .show: preconditionFailure("SELECT and SHOW do not write")
        case .alterSystem: throw systemStatement
        case .index: throw indexStatement
        case .insert(let plan):
            return try InsertExecutor(plan: plan, context: context).run(in: writer, idGenerator)
        case .update(let plan): return try UpdateExecutor(plan: plan, context: context).run(in: writer)
        case .delete(let plan):
            return try RemovalExecutor(plan: plan, isLocal: false, context: context).run(in: writer)
        case .evict(let plan):
            return try RemovalExecutor(plan: plan, isLocal: true, context: context).run(in: writer)
        }
    }

    private var systemStatement: DQLError {
        DQLError(
            .systemStatement, "ALTER SYSTEM cannot be executed in a transaction",
            position: SourcePosition(line: 1, column: 1))
    }

    private var indexStatement: DQLError {
        DQLError(
            .indexStatement, "CREATE INDEX and DROP INDEX cannot be executed here",
            position: SourcePosition(line: 1, column: 1))
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
