import CRDT

/// Plans with their parameters replaced by arguments.
extension RowPlan {
    func specialized(_ arguments: [Value]) -> RowPlan {
        switch self {
        case .single, .scan, .access, .covering, .count, .extremes, .pushed, .pushedOrder, .pushedGroups,
            .pushedJoin:
            self
        case .join(let left, let join):
            .join(
                left.specialized(arguments),
                JoinPlan(
                    collection: join.collection, source: join.source, isOuter: join.isOuter,
                    condition: join.condition.specialized(arguments), hint: join.hint,
                    ids: join.ids?.specialized(arguments), span: join.span))
        case .idScan(let collection, let source, let ids):
            .idScan(collection: collection, source: source, ids: ids.specialized(arguments))
        case .system(let collection, let source, let ids):
            .system(collection: collection, source: source, ids: ids?.specialized(arguments))
        case .filter(let rows, let condition):
            .filter(rows.specialized(arguments), condition.specialized(arguments))
        case .group(let rows, let grouping):
            .group(rows.specialized(arguments), grouping.specialized(arguments))
        }
    }
}

extension Grouping {
    func specialized(_ arguments: [Value]) -> Grouping {
        Grouping(
            keys: keys.map { $0.specialized(arguments) },
            aggregates: aggregates.map { aggregate in
                BoundAggregate(
                    kind: aggregate.kind, argument: aggregate.argument?.specialized(arguments),
                    isDistinct: aggregate.isDistinct)
            })
    }
}

extension IDList {
    func specialized(_ arguments: [Value]) -> IDList {
        switch self {
        case .list(let ids): .list(ids.map { $0.specialized(arguments) })
        case .array(let array, let span): .array(array.specialized(arguments), span)
        }
    }
}

extension OrderedRows {
    func specialized(_ arguments: [Value]) -> OrderedRows {
        if arguments.isEmpty { return self }
        return OrderedRows(
            rows: rows.specialized(arguments),
            order: order.map { term in
                SortTerm(
                    expression: term.expression.specialized(arguments), isDescending: term.isDescending,
                    nullsFirst: term.nullsFirst)
            }, bounds: bounds, types: types, hint: hint, directives: directives, names: names)
    }
}

extension SelectPlan {
    func specialized(_ arguments: [Value]) -> SelectPlan {
        if arguments.isEmpty { return self }
        return SelectPlan(
            input: input.specialized(arguments), projection: projection.specialized(arguments),
            isDistinct: isDistinct)
    }
}

extension ReturningPlan {
    func specialized(_ arguments: [Value]) -> ReturningPlan {
        if arguments.isEmpty { return self }
        return ReturningPlan(
            projection: projection.specialized(arguments), grouping: grouping?.specialized(arguments),
            types: types)
    }
}

extension BoundProjection {
    func specialized(_ arguments: [Value]) -> BoundProjection {
        switch self {
        case .all: self
        case .raw(let value): .raw(value.specialized(arguments))
        case .elements(let elements):
            .elements(
                elements.map { element in
                    switch element {
                    case .named(let name, let value): .named(name, value.specialized(arguments))
                    case .allFields, .missing: element
                    }
                })
        }
    }
}
