import CRDT

/// The source of ANY, EVERY, ARRAY or OBJECT and the variables they bind: the position (or key) if it is
/// named, then the element. Both follow the variables already in scope.
struct BoundBinding: Equatable, Sendable {
    let source: BoundExpression
    let hasIndex: Bool
    let isWithin: Bool
}

/// `ANY v IN list SATISFIES condition END` and its relatives.
struct BoundQuantified: Equatable, Sendable {
    let quantifier: Quantifier
    let binding: BoundBinding
    let condition: BoundExpression

    func mapChildren(_ transform: (BoundExpression) -> BoundExpression) -> BoundQuantified {
        BoundQuantified(
            quantifier: quantifier, binding: binding.mapChildren(transform), condition: transform(condition))
    }
}

/// `ARRAY result FOR v IN list WHEN condition END`; with a key it is an OBJECT.
struct BoundComprehension: Equatable, Sendable {
    let binding: BoundBinding
    let key: BoundExpression?
    let result: BoundExpression
    let condition: BoundExpression?

    func mapChildren(_ transform: (BoundExpression) -> BoundExpression) -> BoundComprehension {
        BoundComprehension(
            binding: binding.mapChildren(transform), key: key.map(transform), result: transform(result),
            condition: condition.map(transform))
    }
}

extension BoundBinding {
    func mapChildren(_ transform: (BoundExpression) -> BoundExpression) -> BoundBinding {
        BoundBinding(source: transform(source), hasIndex: hasIndex, isWithin: isWithin)
    }
}
