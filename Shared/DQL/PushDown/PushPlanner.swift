import CRDT

/// Chooses the parts of a statement that a store runs in SQL. A part moves there only if SQL is sure to give
/// what the evaluator gives, or, for a condition, no document less.
struct PushPlanner {
    let source: any PushingSource
    let collection: CollectionName
    let place: Int
    let condition: BoundExpression?
    /// The confinement by an index, whatever SQL can tell of the condition.
    var confinement: PushedConfinement?

    /// The names that one statement may read, and the test of the condition.
    private func begin() -> (scope: PushScope, test: ConditionTranslator.Test?, steps: PushedSteps) {
        let steps = PushedSteps()
        let scope = PushScope(source: place, steps: steps)
        return (scope, condition.flatMap { ConditionTranslator(scope: scope).test($0) }, steps)
    }

    /// True if SQL may count and bound the rows.
    private func decides(_ test: ConditionTranslator.Test?) -> Bool {
        source.decides(collection) && (condition == nil || test?.isExact ?? false)
    }

    /// The documents of the condition; nil if SQL can tell nothing of it.
    func filter(wantsFirst: Bool) -> RowPlan? {
        let (_, test, steps) = begin()
        guard var statement = composer(test, steps).filter(), statement.sql.isModest else { return nil }
        statement.wantsFirst = wantsFirst
        return .pushed(statement, source: place)
    }

    /// The documents in an order, or those among which its first rows are; nil if SQL cannot tell.
    func ordered(_ order: [SortTerm], _ bounds: Bounds, isSelect: Bool) -> RowPlan? {
        let (scope, test, steps) = begin()
        guard decides(test), !order.isEmpty else { return nil }
        var terms: [PushedTerm] = []
        for term in order {
            guard let value = PushedValue.operand(term.expression, scope) else { return nil }
            terms.append(PushedTerm(value: value, term: term))
        }
        if let rows = Self.rows(bounds) {
            let statement = composer(test, steps).top(terms, rows: rows)
            return statement.sql.isModest ? .pushed(statement, source: place) : nil
        }
        let statement = composer(test, steps).ordered(terms)
        guard isSelect, statement.sql.isModest else { return nil }
        return .pushedOrder(PushedOrder(statement: statement, condition: condition, source: place))
    }

    /// The number of rows that LIMIT and OFFSET leave to be known.
    static func rows(_ bounds: Bounds) -> Int? {
        guard case .constant(.int(let limit)?)? = bounds.limit?.value, limit >= 0 else { return nil }
        var offset: Int64 = 0
        if let skipped = bounds.offset {
            guard case .constant(.int(let number)?) = skipped.value, number >= 0 else { return nil }
            offset = number
        }
        let (rows, overflow) = limit.addingReportingOverflow(offset)
        return overflow || rows > DQLLimits.pushedTopRows ? nil : Int(rows)
    }

    /// The groups, in parts; nil if SQL cannot make them.
    func groups(_ grouping: Grouping, otherwise: RowPlan) -> RowPlan? {
        let (scope, test, steps) = begin()
        guard decides(test), let columns = GroupColumns(grouping, scope) else { return nil }
        let (groups, rough) = composer(test, steps).groups(columns)
        guard groups.sql.isModest else { return nil }
        return .pushedGroups(
            PushedGrouping(
                groups: groups, rough: rough, grouping: grouping, columns: columns, condition: condition,
                source: place, otherwise: otherwise))
    }

    private func composer(_ test: ConditionTranslator.Test?, _ steps: PushedSteps) -> PushedComposer {
        PushedComposer(collection: collection, test: test, confinement: confinement, steps: steps)
    }
}

extension RowPlanner {
    /// The plan of a statement with its parts in SQL; nil if none is there.
    ///
    /// Only a SELECT takes rows in the order that SQL made.
    /// - Parameter confinement: what an index says of the documents.
    func pushed(
        _ input: OrderedRows, _ projection: BoundProjection, isDistinct: Bool, isSelect: Bool,
        along confinement: PushedConfinement? = nil
    ) -> Planned? {
        guard let pushing = documents.pushing, options.usesIndexes, !options.strictReads else { return nil }
        let shape = Shape(input.rows)
        if case .idScan(_, let place, _) = shape.leaf { return lookup(input, projection, shape, place) }
        guard case .scan(let collection, let place) = shape.leaf else { return nil }
        let planner = PushPlanner(
            source: pushing, collection: collection, place: place, condition: shape.condition,
            confinement: confinement)
        if shape.hasJoin {
            return pushedJoin(input, projection, isDistinct: isDistinct, shape, planner)
        }
        var planned = Planned(input: input, projection: projection)
        if let grouping = shape.grouping {
            if let groups = planner.groups(grouping, otherwise: shape.groups(of: input.rows)) {
                let rows = shape.having.map { RowPlan.filter(groups, $0) } ?? groups
                planned.input = input.replacing(rows: rows)
                return planned
            }
        } else if isDistinct {
            if let distinct = distinct(planner, input, projection) { return distinct }
        } else if let ordered = planner.ordered(input.order, input.bounds, isSelect: isSelect) {
            if case .pushedOrder = ordered {
                planned.input = input.replacing(rows: ordered)
                planned.isOrdered = true
            } else {
                planned.input = input.replacing(rows: input.rows.replacingLeaf(ordered))
            }
            return planned
        }
        let wantsFirst =
            input.bounds.limit != nil && input.order.isEmpty && shape.grouping == nil && !isDistinct
        guard let filter = planner.filter(wantsFirst: wantsFirst) else { return nil }
        planned.input = input.replacing(rows: input.rows.replacingLeaf(filter))
        return planned
    }

    /// A search by ids without the condition that gave the ids: whoever has one of them fulfils it. Ids of
    /// USE IDS are others than those of the condition.
    private func lookup(
        _ input: OrderedRows, _ projection: BoundProjection, _ shape: Shape, _ place: Int
    ) -> Planned? {
        guard case .filter(let leaf, let condition) = input.rows, case .idScan(_, _, let ids) = leaf,
            AccessPath.isOnlyIDs(condition, source: place),
            AccessPath.ids(in: condition, source: place) == ids
        else { return nil }
        return Planned(input: input.replacing(rows: leaf), projection: projection)
    }

    /// SELECT DISTINCT of fields, as a GROUP BY of them.
    private func distinct(
        _ planner: PushPlanner, _ input: OrderedRows, _ projection: BoundProjection
    ) -> Planned? {
        guard let distinct = DistinctGroups(input, projection),
            let groups = planner.groups(
                distinct.grouping, otherwise: .group(input.rows, distinct.grouping))
        else { return nil }
        var planned = Planned(input: input, projection: distinct.projection)
        planned.input = input.replacing(rows: groups, order: distinct.order)
        return planned
    }
}
