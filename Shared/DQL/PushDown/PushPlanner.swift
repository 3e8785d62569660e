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

    private var test: ConditionTranslator.Test? {
        condition.flatMap { ConditionTranslator(source: place).test($0) }
    }

    /// True if SQL may count and bound the rows.
    private func decides(_ test: ConditionTranslator.Test?) -> Bool {
        source.decides(collection) && (condition == nil || test?.isExact ?? false)
    }

    /// The documents of the condition; nil if SQL can tell nothing of it.
    func filter(wantsFirst: Bool) -> RowPlan? {
        guard var statement = composer(test).filter(), statement.sql.isModest else { return nil }
        statement.wantsFirst = wantsFirst
        return .pushed(statement, source: place)
    }

    /// The documents among which the first rows of an order are; nil if SQL cannot tell.
    func top(_ order: [SortTerm], _ bounds: Bounds) -> RowPlan? {
        let test = test
        guard decides(test), !order.isEmpty, let rows = Self.rows(bounds) else { return nil }
        var terms: [(field: PushedField, term: SortTerm)] = []
        for term in order {
            guard let field = PushedField(term.expression, place) else { return nil }
            terms.append((field, term))
        }
        let statement = composer(test).top(terms, rows: rows)
        return statement.sql.isModest ? .pushed(statement, source: place) : nil
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
        let test = test
        guard decides(test) else { return nil }
        var keys: [PushedField] = []
        for key in grouping.keys {
            guard let field = PushedField(key, place) else { return nil }
            keys.append(field)
        }
        var aggregates: [PushedAggregate] = []
        var distinct: [Int?] = []
        for aggregate in grouping.aggregates {
            guard let pushed = PushedAggregate(aggregate, place) else { return nil }
            aggregates.append(pushed)
            guard aggregate.isDistinct, let argument = aggregate.argument,
                let field = PushedField(argument, place)
            else {
                distinct.append(nil)
                continue
            }
            distinct.append(keys.count)
            keys.append(field)
        }
        let (groups, rough) = composer(test).groups(keys, aggregates)
        guard groups.sql.isModest else { return nil }
        return .pushedGroups(
            PushedGrouping(
                groups: groups, rough: rough, grouping: grouping, aggregates: aggregates,
                distinct: distinct, keyColumns: keys.count, condition: condition, source: place,
                otherwise: otherwise))
    }

    private func composer(_ test: ConditionTranslator.Test?) -> PushedComposer {
        PushedComposer(collection: collection, test: test, confinement: confinement)
    }
}

extension RowPlanner {
    /// The plan of a statement with its parts in SQL; nil if none is there.
    /// - Parameter confinement: what an index says of the documents.
    func pushed(
        _ input: OrderedRows, _ projection: BoundProjection, isDistinct: Bool,
        along confinement: PushedConfinement? = nil
    ) -> Planned? {
        guard let pushing = documents.pushing, options.usesIndexes, !options.strictReads else { return nil }
        let shape = Shape(input.rows)
        guard case .scan(let collection, let place) = shape.leaf else { return nil }
        let planner = PushPlanner(
            source: pushing, collection: collection, place: place, condition: shape.condition,
            confinement: confinement)
        var planned = Planned(input: input, projection: projection)
        if !shape.hasJoin, let grouping = shape.grouping {
            if let groups = planner.groups(grouping, otherwise: shape.groups(of: input.rows)) {
                let rows = shape.having.map { RowPlan.filter(groups, $0) } ?? groups
                planned.input = input.replacing(rows: rows)
                return planned
            }
        } else if !shape.hasJoin, isDistinct {
            if let distinct = distinct(planner, input, projection) { return distinct }
        } else if !shape.hasJoin, let top = planner.top(input.order, input.bounds) {
            planned.input = input.replacing(rows: input.rows.replacingLeaf(top))
            return planned
        }
        let wantsFirst =
            input.bounds.limit != nil && input.order.isEmpty && shape.grouping == nil && !isDistinct
        guard let filter = planner.filter(wantsFirst: wantsFirst) else { return nil }
        planned.input = input.replacing(rows: input.rows.replacingLeaf(filter))
        return planned
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
