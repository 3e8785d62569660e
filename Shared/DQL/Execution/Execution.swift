import CRDT

extension SelectPlan {
    /// True if each row has one named column.
    fileprivate var hasOneColumn: Bool {
        guard case .elements(let elements) = projection, elements.count == 1, input.names.isEmpty,
            case .named = elements[0]
        else { return false }
        return true
    }
}

/// Executing prepared statements. Errors of the language and of unreadable documents are `DQLError`; the
/// errors of a source or writer pass through unchanged.
extension PreparedStatement {
    /// Hands the rows of a SELECT or SHOW to `body`, in order, until it returns false. Memory stays bounded:
    /// rows are streamed, and `ExecutionOptions.materializedRows` limits the rows that sorting, DISTINCT and
    /// GROUP BY hold. Throws `readOnly` for a statement that writes.
    ///
    /// Returns the warnings.
    @discardableResult
    public func forEachRow(
        in documents: any DocumentSource, arguments: ObjectValue = ObjectValue(),
        options: ExecutionOptions = ExecutionOptions(), _ body: (Value) throws -> Bool
    ) throws -> [DQLWarning] {
        try forEachResult(in: documents, arguments: arguments, options: options) { try body($0.value) }
    }

    /// The same as `forEachRow`, with whole documents in place: for callers that keep rows without reading
    /// them, or read only a part of them.
    @discardableResult
    public func forEachResult(
        in documents: any DocumentSource, arguments: ObjectValue = ObjectValue(),
        options: ExecutionOptions = ExecutionOptions(), _ body: (ResultRow) throws -> Bool
    ) throws -> [DQLWarning] {
        if let direct {
            let context = ExecutionContext(source, options, try bind(arguments))
            defer { options.documentsVisited?(context.meter.documents) }
            if try readable({ try direct.run(documents, context, body) }) {
                return try allWarnings(arguments, context, documents)
            }
            // The general way reads more than one index range.
            if !looksUpIDs { try context.meter.requireNoBudget() }
        }
        if case .explain(let kind, let inner) = plan, kind != .profile {
            guard !provisions else { throw indexStatement }
            _ = try body(
                ResultRow(try readable { try explained(kind, inner, arguments, options, documents) }))
            return warnings + unusedArguments(arguments)
        }
        let context = try readable { try begun(arguments, options, documents) }
        defer { options.documentsVisited?(context.meter.documents) }
        switch plan {
        case .explain(_, .select(let plan)):
            try readable { try profile(plan, documents, context) { try body(ResultRow($0)) } }
        case .select(let plan):
            try readable { try SelectExecutor(plan, documents, context).results(body) }
        case .show(let shown):
            _ = try body(ResultRow(.object(row(shown, options.parameters, context.arguments))))
        case .deleteRequests(let collection, let plan):
            try readable {
                try deleteRequests(collection, plan, documents, context) { try body(ResultRow($0)) }
            }
        case .alterSystem: throw systemStatement
        case .index: throw indexStatement
        default:
            throw DQLError(
                .readOnly, "A mutating DQL query was attempted using a read-only transaction.",
                position: source.beginning)
        }
        return try allWarnings(arguments, context, documents)
    }

    /// True if it reads few documents, each of which is counted: of one collection, by a few ids or in a
    /// range of one index. It may be executed with a budget.
    public var readsFew: Bool {
        guard kind == .select, subqueries.isEmpty,
            collectionsRead.allSatisfy({ !$0.text.hasPrefix(Self.systemPrefix) })
        else { return false }
        return direct != nil || looksUpIDs
    }

    /// True if it looks up the documents of a few ids.
    private var looksUpIDs: Bool {
        guard case .select(let plan) = plan else { return false }
        switch plan.input.rows {
        case .idScan(_, _, .list(let ids)), .filter(.idScan(_, _, .list(let ids)), _):
            return ids.count <= DQLLimits.fewIDs
        default: return false
        }
    }

    private static let systemPrefix = "system:"

    /// The warnings of the statement, of one execution's arguments and of the types it met.
    private func allWarnings(
        _ arguments: ObjectValue, _ context: ExecutionContext, _ documents: any DocumentSource
    ) throws -> [DQLWarning] {
        let meter = context.meter
        var more = argumentWarnings(arguments, context.arguments)
        if !meter.subqueryWarnings.isEmpty { more += meter.subqueryWarnings }
        // A point read is so short that looking whether there is something to say would be a tenth of it.
        if !expectations.isEmpty, meter.hasTypesToTell {
            more += try readable { try typeWarnings(documents, context) }
        }
        if !meter.leftOut.isEmpty { more += leftOutWarnings(meter.leftOut) }
        return more.isEmpty ? warnings : warnings + more
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

    /// Executes any statement but ALTER SYSTEM in a write transaction. `idGenerator` supplies the id of each
    /// inserted document without one. When this throws, the writer may hold a part of the statement's
    /// writes: its owner undoes them.
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
        let context = try readable { try begun(arguments, options, writer) }
        defer { options.documentsVisited?(context.meter.documents) }
        var result = try readable { try mutate(writer, context, idGenerator) }
        result.warnings = try allWarnings(arguments, context, writer) + result.warnings
        return result
    }

    private func mutate(
        _ writer: any DocumentWriter, _ context: ExecutionContext, _ idGenerator: () throws -> DocumentID
    ) throws -> StatementResult {
        if case .explain(_, let inner) = plan {
            return try profiled(inner, writer, context) { try mutate(inner, writer, $0, idGenerator) }
        }
        return try mutate(plan, writer, context, idGenerator)
    }

    private func mutate(
        _ plan: StatementPlan, _ writer: any DocumentWriter, _ context: ExecutionContext,
        _ idGenerator: () throws -> DocumentID
    ) throws -> StatementResult {
        switch plan {
        case .select, .show, .explain, .deleteRequests:
            preconditionFailure("SELECT, SHOW and EXPLAIN do not write")
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

    /// The plan of a statement whose rows are looked at.
    private var rowPlan: SelectPlan? {
        switch plan {
        case .select(let select), .explain(_, .select(let select)): select
        default: nil
        }
    }

    /// The arguments of an execution, with subqueries evaluated in the statement's own snapshot.
    private func begun(
        _ arguments: ObjectValue, _ options: ExecutionOptions, _ documents: any DocumentSource
    ) throws -> ExecutionContext {
        var context = ExecutionContext(source, options, try bind(arguments))
        let meter = context.meter
        for subquery in subqueries {
            meter.begin(RowWatch(subquery.expectations, subquery.plan, context.arguments))
            var values = context.arguments
            values[subquery.place] = try value(of: subquery, documents, context)
            meter.subqueryWarnings += try typeWarnings(
                subquery.expectations, subquery.plan.input, documents, context)
            context = context.replacing(arguments: values)
        }
        meter.begin(rowPlan.flatMap { RowWatch(expectations, $0, context.arguments) })
        return context
    }

    private func value(
        of subquery: BoundSubquery, _ documents: any DocumentSource, _ context: ExecutionContext
    ) throws -> Value {
        var rows: [Value] = []
        var bytes = 0
        let isNamed = subquery.plan.hasOneColumn
        try SelectExecutor(subquery.plan, documents, context).run { row in
            // A row of one column stands for its value; a row without the column for null.
            if isNamed, case .object(let object) = row {
                rows.append(object.entries.first?.value ?? .null)
            } else {
                rows.append(row)
            }
            bytes += row.heldBytes
            try context.meter.hold(rows.count)
            try context.meter.hold(bytes: bytes)
            return subquery.use == .list || rows.count < (subquery.use == .exists ? 1 : 2)
        }
        switch subquery.use {
        case .exists: return .bool(!rows.isEmpty)
        case .list: return .array(rows)
        case .value:
            guard rows.count < 2 else {
                throw source.error(
                    .severalRows, "a subquery used as a value gave more than one row",
                    at: subquery.span)
            }
            return rows.first ?? .null
        }
    }

    private var systemStatement: DQLError {
        DQLError(
            .systemStatement, "ALTER SYSTEM cannot be executed in a transaction",
            position: source.beginning)
    }

    /// Executes DELETE FROM system:active_requests and system:request_history. It writes no document, so it
    /// needs no write transaction and waits for none.
    private func deleteRequests(
        _ collection: SystemCollection, _ plan: RemovalPlan, _ documents: any DocumentSource,
        _ context: ExecutionContext, _ body: (Value) throws -> Bool
    ) throws {
        let targets = plan.targets.specialized(context.arguments)
        var gone: [DocumentID] = []
        var rows: [Value] = []
        let runner = context.runner(documents, targets.types)
        let window = try Window(targets.bounds, context)
        let projector = plan.returning.map {
            Projector(
                projection: $0.specialized(context.arguments).projection, evaluator: runner.evaluator)
        }
        var skipped = 0
        try runner.run(targets.rows) { row in
            guard let record = row.documents[0], gone.count < window.limit else { return false }
            if skipped < window.offset {
                skipped += 1
                return true
            }
            gone.append(record.id)
            if let projector, let value = try projector.value(row) { rows.append(value) }
            return true
        }
        try context.options.system?.remove(gone, from: collection)
        for row in rows where try !body(row) { return }
    }

    var indexStatement: DQLError {
        DQLError(
            .indexStatement, "CREATE INDEX and DROP INDEX cannot be executed here",
            position: source.beginning)
    }

    /// Turns the error of a document whose bytes cannot be read into an error of this module,
    /// `unreadableDocument`.
    func readable<Result>(_ body: () throws -> Result) throws -> Result {
        do {
            return try body()
        } catch let error as CRDTError {
            throw DQLError.unreadable(error)
        }
    }
}
