import CRDT

/// ANY, EVERY, ARRAY and OBJECT (spec 2.4). A MISSING source gives MISSING; a source that is not a
/// collection gives NULL.
extension Evaluator {
    func quantified(_ quantified: BoundQuantified, _ row: borrowing Row) throws -> Value? {
        var count = 0
        var hasSatisfied = false
        var hasFailed = false
        let isCollection = try forEach(quantified.binding, row) { inner in
            count += 1
            if try isTrue(quantified.condition, inner) { hasSatisfied = true } else { hasFailed = true }
            return quantified.quantifier == .any ? !hasSatisfied : !hasFailed
        }
        guard let isCollection else { return nil }
        guard isCollection else { return .null }
        return switch quantified.quantifier {
        case .any: .bool(hasSatisfied)
        case .every: .bool(!hasFailed)
        case .anyAndEvery: .bool(!hasFailed && count > 0)
        }
    }

    /// Elements that are MISSING are left out, and so are elements whose key is not a string; a later
    /// duplicate of a key wins.
    func comprehension(_ comprehension: BoundComprehension, _ row: borrowing Row) throws -> Value? {
        var values: [Value] = []
        var entries: [ObjectValue.Entry] = []
        let meter = row.meter
        var held = 0
        defer { meter?.release(held) }
        let isCollection = try forEach(comprehension.binding, row) { inner in
            if let condition = comprehension.condition, try !isTrue(condition, inner) { return true }
            guard let value = try evaluate(comprehension.result, inner) else { return true }
            guard let key = comprehension.key else {
                try meter?.retain(value, &held)
                values.append(value)
                try meter?.hold(values.count)
                return true
            }
            if case .string(let name)? = try evaluate(key, inner) {
                try meter?.retain(value, &held)
                entries.append((key: name, value: value))
                try meter?.hold(entries.count)
            }
            return true
        }
        guard let isCollection else { return nil }
        guard isCollection else { return .null }
        return comprehension.key == nil ? .array(values) : .object(ObjectValue(entries))
    }

    /// Visits the elements with their variables bound, until a visit returns false. Returns nil if the
    /// source is MISSING, false if it is not a collection.
    private func forEach(
        _ binding: BoundBinding, _ row: borrowing Row, _ visit: (borrowing Row) throws -> Bool
    ) throws -> Bool? {
        guard let source = try evaluate(binding.source, row) else { return nil }
        // Its keys are sorted before the first visit.
        if case .object = source { try row.meter?.work(source) }
        var inner = copy row
        let place = inner.locals.count
        inner.locals += binding.hasIndex ? [nil, nil] : [nil]
        switch source {
        case .array, .object: _ = try walk(source, binding, place, &inner, visit)
        default: return false
        }
        return true
    }

    /// Visits arrays by position and objects by key, in the order of the keys' bytes. WITHIN visits each
    /// element's own elements after it. Returns false when a visit ended it.
    private func walk(
        _ collection: Value, _ binding: BoundBinding, _ place: Int, _ row: inout Row,
        _ visit: (borrowing Row) throws -> Bool
    ) throws -> Bool {
        switch collection {
        case .array(let elements):
            for (index, element) in elements.enumerated() {
                let goesOn = try step(
                    .int(Int64(index)), element, binding, place, &row, visit)
                if !goesOn { return false }
            }
        case .object(let object):
            for entry in object.sorted {
                let goesOn = try step(.string(entry.key), entry.value, binding, place, &row, visit)
                if !goesOn { return false }
            }
        default: break
        }
        return true
    }

    private func step(
        _ index: Value, _ element: Value, _ binding: BoundBinding, _ place: Int, _ row: inout Row,
        _ visit: (borrowing Row) throws -> Bool
    ) throws -> Bool {
        try row.meter?.step()
        if binding.hasIndex { row.locals[place] = index }
        row.locals[row.locals.count - 1] = element
        guard try visit(row) else { return false }
        return binding.isWithin ? try walk(element, binding, place, &row, visit) : true
    }
}
