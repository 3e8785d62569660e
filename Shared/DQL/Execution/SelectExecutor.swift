import CRDT

/// Runs a SELECT: rows, projection, DISTINCT, order, bounds.
struct SelectExecutor {
    let plan: SelectPlan
    let runner: RowRunner
    let window: Window

    /// Hands each result row to `body`, in order, until it returns false.
    func run(_ body: (Value) throws -> Bool) throws {
        guard window.limit > 0 else { return }
        var seen: Set<ValueKey> = []
        if plan.input.order.isEmpty {
            var skipped = 0
            var taken = 0
            try runner.run(plan.input.rows) { row in
                if !plan.isDistinct, skipped < window.offset {
                    skipped += 1
                    return true
                }
                let value = try project(row)
                if plan.isDistinct {
                    guard seen.insert(ValueKey(value)).inserted else { return true }
                    if skipped < window.offset {
                        skipped += 1
                        return true
                    }
                }
                // A bare value that is MISSING makes no row, but takes a place, as in any other executor.
                taken += 1
                if let value, try !body(value) { return false }
                return taken < window.limit
            }
            return
        }
        let ordering = Ordering(terms: plan.input.order)
        var rows = TopRows<Value?>(ordering, capacity: window.capacity)
        try runner.run(plan.input.rows) { row in
            let keys = try ordering.keys(row, runner.evaluator)
            if plan.isDistinct {
                let value = try project(row)
                if seen.insert(ValueKey(value)).inserted { rows.add(keys) { value } }
            } else {
                try rows.add(keys) { try project(row) }
            }
            return true
        }
        for case let value? in rows.finish().dropFirst(window.offset) where try !body(value) { return }
    }

    private func project(_ row: borrowing Row) throws -> Value? {
        switch plan.projection {
        case .raw(let value): return try runner.evaluator.evaluate(value, row)
        case .all(let source): return .object(try document(source, row))
        case .elements(let elements):
            var entries: [ObjectValue.Entry] = []
            entries.reserveCapacity(elements.count)
            for element in elements {
                switch element {
                case .named(let name, let value):
                    if let value = try runner.evaluator.evaluate(value, row) {
                        entries.append((key: name, value: value))
                    }
                case .allFields(let source): entries += try document(source, row).entries
                }
            }
            return .object(ObjectValue(entries))
        }
    }

    private func document(_ source: Int, _ row: borrowing Row) throws -> ObjectValue {
        guard let record = row.documents[source] else { return ObjectValue() }
        return try runner.evaluator.fields.document(record, source: source)
    }
}

/// LIMIT and OFFSET with their arguments.
struct Window: Equatable {
    /// How many rows are skipped.
    let offset: Int
    /// How many rows are given at most.
    let limit: Int

    /// How many rows of an order matter.
    var capacity: Int {
        let (sum, overflow) = offset.addingReportingOverflow(limit)
        return overflow ? .max : sum
    }

    /// Throws `invalidArgument` when an argument is no whole number or negative.
    init(_ bounds: Bounds, _ arguments: [Value], _ source: SourceText) throws(DQLError) {
        offset = try Self.number(bounds.offset, arguments, source) ?? 0
        limit = try Self.number(bounds.limit, arguments, source) ?? .max
    }

    private static func number(
        _ bound: (value: BoundExpression, span: SourceSpan)?, _ arguments: [Value], _ source: SourceText
    ) throws(DQLError) -> Int? {
        guard let bound else { return nil }
        guard case .constant(.int(let number)?) = bound.value.specialized(arguments), number >= 0 else {
            throw source.error(
                .invalidArgument, "LIMIT and OFFSET take a whole number that is not negative", at: bound.span)
        }
        return Int(clamping: number)
    }
}
