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
        let statistics = ExecutionStatistics()
        let context = context.counting(statistics)
        timeParsing(statistics, context)
        let start = context.options.nanoseconds?() ?? 0
        var goesOn = true
        let executor = try SelectExecutor(plan, documents, context)
        statistics.planNanoseconds = (context.options.nanoseconds?() ?? 0) - start
        try executor.run { row in
            statistics.results += 1
            goesOn = try body(row)
            return goesOn
        }
        statistics.nanoseconds = (context.options.nanoseconds?() ?? 0) - start
        guard goesOn else { return }
        _ = try body(try profileRow(.select(plan), documents, context))
    }

    /// Runs a statement that writes and adds its cost to its rows.
    func profiled(
        _ plan: StatementPlan, _ writer: any DocumentWriter, _ context: ExecutionContext,
        _ run: () throws -> StatementResult
    ) throws -> StatementResult {
        let statistics = ExecutionStatistics()
        let context = context.counting(statistics)
        timeParsing(statistics, context)
        let start = context.options.nanoseconds?() ?? 0
        // Described first, because the statement's own changes may change its plan.
        var description = PlanDescription(documents: writer, options: context.options)
        description.statistics = nil
        let operators = try description.operators(plan, explainedStatement, context.arguments)
        statistics.planNanoseconds = (context.options.nanoseconds?() ?? 0) - start
        var result = try run()
        statistics.nanoseconds = (context.options.nanoseconds?() ?? 0) - start
        statistics.results = result.mutatedDocumentIDs.count
        result.rows.append(profileRow(operators, statistics, context))
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

    private func profileRow(
        _ plan: StatementPlan, _ documents: any DocumentSource, _ context: ExecutionContext
    ) throws -> Value {
        var description = PlanDescription(documents: documents, options: context.options)
        description.statistics = context.statistics
        let operators = try description.operators(plan, explainedStatement, context.arguments)
        return profileRow(operators, context.statistics ?? ExecutionStatistics(), context)
    }

    private func profileRow(
        _ operators: [Value], _ statistics: ExecutionStatistics, _ context: ExecutionContext
    ) -> Value {
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
