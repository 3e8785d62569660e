import CRDT

/// ANY, EVERY, ARRAY and OBJECT: variables over the elements of a collection.
extension Binder {
    @inline(never)
    mutating func bindQuantified(_ written: QuantifiedSyntax) throws(DQLError) -> BoundExpression {
        let binding = try bindBinding(written.binding)
        let known = scope.locals.count
        declare(written.binding, binding)
        let condition = try bind(written.condition)
        leave(known)
        return .quantified(
            BoundQuantified(quantifier: written.quantifier, binding: binding, condition: condition))
    }

    @inline(never)
    mutating func bindComprehension(
        _ written: BindingSyntax, _ key: ExpressionSyntax?, _ result: ExpressionSyntax,
        _ condition: ExpressionSyntax?
    ) throws(DQLError) -> BoundExpression {
        let binding = try bindBinding(written)
        let known = scope.locals.count
        declare(written, binding)
        var boundKey: BoundExpression?
        if let key { boundKey = try bind(key) }
        let boundResult = try bind(result)
        var boundCondition: BoundExpression?
        if let condition { boundCondition = try bind(condition) }
        leave(known)
        return .comprehension(
            BoundComprehension(
                binding: binding, key: boundKey, result: boundResult, condition: boundCondition))
    }

    private mutating func bindBinding(_ written: BindingSyntax) throws(DQLError) -> BoundBinding {
        BoundBinding(
            source: try bind(written.source), hasIndex: written.index != nil, isWithin: written.isWithin)
    }

    private mutating func declare(_ written: BindingSyntax, _ binding: BoundBinding) {
        if let index = written.index { scope.locals.append(index) }
        if !binding.isWithin { scope.lists[scope.locals.count] = binding.source }
        scope.locals.append(written.value)
    }

    /// Ends the variables but for the first ones.
    private mutating func leave(_ known: Int) {
        for index in known..<scope.locals.count { scope.lists[index] = nil }
        scope.locals.removeLast(scope.locals.count - known)
    }
}
