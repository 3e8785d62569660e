import CRDT

/// SELECT DISTINCT of some expressions as a GROUP BY of them.
struct DistinctGroups {
    let grouping: Grouping
    /// The projection and the order, which read the groups' keys.
    let projection: BoundProjection
    let order: [SortTerm]

    /// nil if whole documents are selected, or the order is by something else.
    init?(_ input: OrderedRows, _ projection: BoundProjection) {
        var keys: [BoundExpression] = []
        func slot(_ value: BoundExpression) -> BoundExpression {
            if let known = keys.firstIndex(of: value) { return .slot(known) }
            keys.append(value)
            return .slot(keys.count - 1)
        }
        switch projection {
        case .all: return nil
        case .raw(let value): self.projection = .raw(slot(value))
        case .elements(let elements):
            var named: [BoundProjection.Element] = []
            for element in elements {
                guard case .named(let name, let value) = element else { return nil }
                named.append(.named(name, slot(value)))
            }
            self.projection = .elements(named)
        }
        var order: [SortTerm] = []
        for term in input.order {
            guard let place = keys.firstIndex(of: term.expression) else { return nil }
            order.append(
                SortTerm(
                    expression: .slot(place), isDescending: term.isDescending, nullsFirst: term.nullsFirst))
        }
        guard !keys.isEmpty else { return nil }
        self.order = order
        grouping = Grouping(keys: keys, aggregates: [])
    }
}
