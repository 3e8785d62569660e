import CRDT

/// A SELECT of one collection as an observer reruns it: tells whether a change of a document can change its
/// result.
///
/// A change matters if the document fulfils the condition now, or did so when the query last ran. So the
/// observer keeps `matchingIDs` and asks `matches`. Documents outside the condition never affect the result,
/// whatever order, bounds, groups or projection the statement applies to the documents inside it.
public struct ObservedQuery: Sendable {
    /// The collection it reads.
    public let collection: CollectionName
    /// True if each row of the result is one matching document with its `_id`, and no match is left out.
    public let rowsAreDocuments: Bool
    /// A `field = value` that every document fulfilling the condition satisfies, if there is one. A caller
    /// with many queries looks up by it which of them a document can concern.
    public let equality: EqualityPredicate?
    /// True if the query was made for strict reads; a store that changes this setting has to make the query
    /// again.
    public let isStrict: Bool

    private let statement: PreparedStatement
    private let plan: SelectPlan
    private let arguments: [Value]
    private let condition: BoundExpression
    private let evaluator: Evaluator
    private let needsMeter: Bool

    /// Nil where any change in the collections it reads can matter: no condition, several sources, `system:`
    /// collections, ids written out, subqueries, a condition on the time or the request. Nil also if an
    /// argument is missing.
    public init?(_ statement: PreparedStatement, arguments: ObjectValue, options: ExecutionOptions) {
        guard case .select(let plan) = statement.plan, statement.subqueries.isEmpty,
            statement.collectionsRead.count == 1,
            case .filter(.scan(let collection, _), let condition) =
                Self.rows(below: plan.input.rows),
            !condition.dependsOnContext, let values = try? statement.bind(arguments)
        else { return nil }
        self.collection = collection
        self.statement = statement
        self.plan = plan
        self.arguments = values
        self.condition = condition.specialized(values)
        isStrict = options.strictReads
        evaluator = Evaluator(options, types: plan.input.types)
        let isUndeclared = !options.strictReads && plan.input.types.allSatisfy { $0.root.children.isEmpty }
        equality = isUndeclared ? EqualityPredicate.all(in: self.condition).first : nil
        needsMeter = self.condition.needsMeter
        let isBounded = plan.input.bounds.limit != nil || plan.input.bounds.offset != nil
        rowsAreDocuments =
            if case .filter(.scan, _) = plan.input.rows, case .all = plan.projection {
                !isBounded && !plan.isDistinct
            } else {
                false
            }
    }

    /// Returns whether a live document fulfils the condition. A document that cannot be read counts as
    /// fulfilling it: running the query then reports the error.
    public func matches(_ record: DocumentRecord) -> Bool {
        let meter = needsMeter ? ExecutionMeter(steps: DQLLimits.subscriptionSteps) : nil
        return (try? evaluator.isTrue(condition, Row(documents: [record], meter: meter))) ?? true
    }

    /// The documents that fulfil the condition, in any order. Throws as the statement does.
    public func matchingIDs(in documents: any DocumentSource, options: ExecutionOptions) throws
        -> [DocumentID]
    {
        let context = ExecutionContext(statement.source, options, arguments)
        let targets = OrderedRows(
            rows: Self.rows(below: plan.input.rows), order: [], bounds: Bounds(), types: plan.input.types,
            hint: plan.input.hint, directives: plan.input.directives)
        return try TargetExecutor(targets, documents, context).documentIDs()
    }

    /// The rows before grouping; all rows if nothing is grouped.
    private static func rows(below rows: RowPlan) -> RowPlan {
        guard case .filter(let grouped, _) = rows, case .group(let inner, _) = grouped else {
            if case .group(let inner, _) = rows { return inner }
            return rows
        }
        return inner
    }
}

extension BoundExpression {
    /// True if the expression can give another value later although the documents are the same.
    var dependsOnContext: Bool {
        if case .call(let call) = self, ["clock", "request_info", "tz_offset"].contains(call.function.name) {
            return true
        }
        var found = false
        _ = mapChildren { child in
            found = found || child.dependsOnContext
            return child
        }
        return found
    }
}
