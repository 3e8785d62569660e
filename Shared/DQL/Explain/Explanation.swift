import CRDT

/// EXPLAIN, PROFILE and ADVISE.
extension PreparedStatement {
    /// The result row of EXPLAIN or ADVISE. Nothing is executed; arguments may be missing.
    func explained(
        _ kind: ExplainKind, _ inner: StatementPlan, _ arguments: ObjectValue, _ options: ExecutionOptions,
        _ documents: any DocumentSource
    ) throws -> Value {
        guard case .explain = kind else {
            return try advice(in: documents, arguments: arguments, options: options).row
        }
        let operators = try PlanDescription(documents: documents, options: options).operators(
            inner, explainedStatement, try bindForPlan(arguments))
        return ["plan": PlanDescription.sequence(operators)]
    }

    /// The statement inside EXPLAIN, PROFILE or ADVISE.
    var explainedStatement: Statement {
        guard case .explain(let explain) = statement else { return statement }
        return explain.statement
    }

    /// Runs a SELECT and adds its cost as the last row.
    func profile(
        _ plan: SelectPlan, _ documents: any DocumentSource, _ context: ExecutionContext,
        _ body: (Value) throws -> Bool
    ) throws {
        let statistics = ExecutionStatistics(context.options.nanoseconds, outermost: .read)
        let context = context.counting(statistics)
        timeParsing(statistics, context)
        let start = context.options.nanoseconds?() ?? 0
        var goesOn = true
        let executor = try SelectExecutor(plan, documents, context)
        statistics.planNanoseconds = (context.options.nanoseconds?() ?? 0) - start
        statistics.begin()
        try executor.run { row in
            let before = statistics.enter(.output)
            defer { statistics.leave(to: before) }
            statistics.results += 1
            goesOn = try body(row)
            return goesOn
        }
        statistics.end()
        statistics.nanoseconds = (context.options.nanoseconds?() ?? 0) - start
        guard goesOn else { return }
        let operators = try PlanDescription(documents: documents, options: context.options).operators(
            .select(plan), explainedStatement, context.arguments)
        _ = try body(
            profileRow(
                statistics.measured(operators, capacity: executor.window.capacity), statistics))
    }

    /// Runs a statement that writes and adds its cost to its rows.
    func profiled(
        _ plan: StatementPlan, _ writer: any DocumentWriter, _ context: ExecutionContext,
        _ run: (ExecutionContext) throws -> StatementResult
    ) throws -> StatementResult {
        let statistics = ExecutionStatistics(context.options.nanoseconds, outermost: .change)
        let context = context.counting(statistics)
        timeParsing(statistics, context)
        let start = context.options.nanoseconds?() ?? 0
        // Described first, because the statement's own changes may change its plan.
        let operators = try PlanDescription(documents: writer, options: context.options).operators(
            plan, explainedStatement, context.arguments)
        statistics.planNanoseconds = (context.options.nanoseconds?() ?? 0) - start
        statistics.begin()
        var result = try run(context)
        statistics.end()
        statistics.nanoseconds = (context.options.nanoseconds?() ?? 0) - start
        statistics.results = result.mutatedDocumentIDs.count
        result.rows.append(profileRow(statistics.measured(operators), statistics))
        return result
    }

    /// Measures parsing of the statement's text by repeating it: the statement itself may have been prepared
    /// long ago.
    private func timeParsing(_ statistics: ExecutionStatistics, _ context: ExecutionContext) {
        guard let nanoseconds = context.options.nanoseconds else { return }
        let start = nanoseconds()
        _ = try? StatementCompiler.compile(source.text)
        statistics.parseNanoseconds = nanoseconds() - start
    }

    private func profileRow(_ operators: [Value], _ statistics: ExecutionStatistics) -> Value {
        let elapsed = Value.int(Int64(clamping: statistics.nanoseconds))
        let kind: StatementKind =
            switch explainedStatement {
            case .insert: .insert
            case .update: .update
            case .delete: .delete
            case .evict: .evict
            default: .select
            }
        return [
            "~request_profile": [
                "plan": PlanDescription.sequence(operators), "queryType": .string(kind.rawValue),
                "resultCount": .int(Int64(statistics.results)), "state": "completed",
                "times": [
                    "elapsed": elapsed,
                    "parse": .int(Int64(clamping: statistics.parseNanoseconds)),
                    "plan": .int(Int64(clamping: statistics.planNanoseconds)),
                ],
            ]
        ]
    }
}
