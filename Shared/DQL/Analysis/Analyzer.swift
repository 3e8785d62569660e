import CRDT

/// Turns a syntax tree into a plan: names, types, shape, warnings.
struct Analyzer {
    let source: SourceText
    var binder: Binder

    /// The result of an analysis.
    struct Result: Sendable {
        let plan: StatementPlan
        let parameters: [NameSyntax]
        /// `x IN (:p)`: gets a warning if the argument turns out to be an array.
        let listedParameters: [ListedParameter]
        let warnings: [DQLWarning]
        let collectionsRead: [CollectionName]
        let subqueries: [BoundSubquery]
        let collectionParameters: Set<Int>
        let expectations: [FieldExpectation]
        let parameterExpectations: [ParameterExpectation]
        let comparedParameters: [ComparedParameter]
        let aggregates: [WrittenAggregate]
    }

    static func analyze(_ statement: Statement, _ source: SourceText) throws(DQLError) -> Result {
        var analyzer = Analyzer(source: source, binder: Binder(source))
        let plan = try analyzer.plan(statement)
        return Result(
            plan: plan, parameters: analyzer.binder.parameters,
            listedParameters: analyzer.binder.listedParameters, warnings: analyzer.binder.warnings,
            collectionsRead: analyzer.binder.collectionsRead, subqueries: analyzer.binder.subqueries,
            collectionParameters: analyzer.binder.collectionParameters,
            expectations: analyzer.binder.expectations,
            parameterExpectations: analyzer.binder.parameterExpectations,
            comparedParameters: analyzer.binder.comparedParameters.filter {
                !analyzer.binder.testedParameters.contains($0.place)
            },
            aggregates: analyzer.binder.aggregates)
    }

    private mutating func plan(_ statement: Statement) throws(DQLError) -> StatementPlan {
        switch statement {
        case .select(let select): .select(try plan(select))
        case .insert(let insert): .insert(try plan(insert))
        case .update(let update): .update(try plan(update))
        case .delete(let removal): try plan(delete: removal)
        case .evict(let removal): .evict(try plan(removal))
        case .alterSystem(let alter): .alterSystem(try plan(alter.action))
        case .show(let show): .show(try plan(show))
        case .createIndex(let create): .index(try plan(create))
        case .dropIndex(let drop): .index(try plan(drop))
        case .explain(let explain): .explain(explain.kind, try plan(explain.statement))
        }
    }

    // MARK: System statements

    private mutating func plan(_ action: AlterSystemAction) throws(DQLError) -> AlterSystemPlan {
        switch action {
        case .set(let name, let value, let persists):
            try checkParameter(name)
            guard let value else { return .set(name, .standard, persists: persists) }
            binder.scope.aggregatesRefused = "ALTER SYSTEM"
            binder.scope.subqueriesRefused = "ALTER SYSTEM"
            return .set(name, .value(try binder.bind(value), value.span), persists: persists)
        case .reset(let name):
            try checkParameter(name)
            return .reset(name)
        case .resetAll: return .resetAll
        }
    }

    private mutating func plan(_ show: ShowStatement) throws(DQLError) -> ShowPlan {
        switch show {
        case .parameter(let name):
            try checkParameter(name)
            return .parameter(name)
        case .all(let pattern, let ignoresCase):
            binder.scope.aggregatesRefused = "SHOW"
            binder.scope.subqueriesRefused = "SHOW"
            var bound: BoundExpression?
            if let pattern { bound = try binder.bind(pattern) }
            return .all(
                bound, ignoresCase: ignoresCase, pattern?.span ?? SourceSpan(start: 0, end: 0))
        }
    }

    private func checkParameter(_ name: NameSyntax) throws(DQLError) {
        do {
            _ = try SystemParameters.parameter(name.text)
        } catch {
            throw source.error(error.code, error.message, at: name.span, suggestion: error.suggestion)
        }
    }
}
