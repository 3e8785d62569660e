import CRDT

/// Warnings about a condition that no document fulfilled.
///
/// Nothing is noted while a statement runs. Only when it found no document, the first documents of its
/// collections are read once more: if a field of the condition has values, and none of a type that the
/// condition could be true for, that is why. So the warnings do not depend on the access path.
extension PreparedStatement {
    func typeWarnings(
        _ documents: any DocumentSource, _ context: ExecutionContext
    ) throws -> [DQLWarning] {
        var open = expectations.compactMap { OpenExpectation($0, context.arguments) }
        let evaluator = Evaluator(context.options, types: conditionTypes)
        for collection in Set(open.map(\.expected.collection)) {
            var row = Row(
                documents: Array(repeating: nil, count: max(1, evaluator.sources)), meter: context.meter)
            var left = DQLLimits.typedDocuments
            try documents.scan(collection) { record in
                try context.meter.step()
                var isOpen = false
                for index in open.indices
                where !open[index].isMet && open[index].expected.collection == collection {
                    row.documents[open[index].expected.source] = record
                    open[index].meet(try evaluator.evaluate(open[index].expected.field, row))
                    row.documents[open[index].expected.source] = nil
                    isOpen = isOpen || !open[index].isMet
                }
                left -= 1
                return isOpen && left > 0
            }
        }
        var told: [OpenExpectation] = []
        for one in open where !one.isMet && !one.met.isEmpty && !told.contains(where: one.repeats) {
            told.append(one)
        }
        return told.map { source.warning($0.code, $0.message(source), at: $0.expected.span) }
    }

    /// Warnings about sums and means that left out values.
    /// - Parameter counts: how many values by the aggregate's slot.
    func leftOutWarnings(_ counts: [Int: Int]) -> [DQLWarning] {
        aggregates.compactMap { one in
            guard let count = counts[one.slot] else { return nil }
            let values = count == 1 ? "1 value that is none was" : "\(count) values that are none were"
            return source.warning(
                .leftOut, "\(source.token(of: one.span) ?? "") takes numbers, and \(values) left out",
                at: one.span)
        }
    }

    /// The types that the condition's sources declare.
    private var conditionTypes: [TypeDefinition] {
        let plan = if case .explain(_, let inner) = plan { inner } else { plan }
        switch plan {
        case .select(let select): return select.input.types
        case .insert(let insert):
            if case .query(let select, _) = insert.source { return select.input.types }
            return []
        case .update(let update): return update.targets.types
        case .delete(let removal), .evict(let removal), .deleteRequests(_, let removal):
            return removal.targets.types
        case .alterSystem, .show, .index, .explain: return []
        }
    }
}

/// An expectation of one execution, and the types met so far.
private struct OpenExpectation {
    let expected: FieldExpectation
    /// The values that the field is compared with.
    private let values: [Value]
    /// True once a value of a type was met for which the condition can be true.
    private(set) var isMet = false
    private(set) var met: Set<ValueClass> = []

    /// Nil if the condition asks for nothing that depends on a type.
    init?(_ expected: FieldExpectation, _ arguments: [Value]) {
        self.expected = expected
        let written: [Value?]
        switch expected.wanted {
        case .comparable(let others): written = others.map { Self.value($0, arguments) }
        case .listed(let argument):
            written = [Self.value(argument, arguments)]
            // Another warning says that the list has the array as its only element.
            if case .array?? = written.first { return nil }
        case .element(let array):
            guard case .array(let elements)? = Self.value(array, arguments) else { return nil }
            written = elements
        case .type:
            values = []
            return
        }
        values = written.compactMap(\.self).filter { $0 != .null }
        if values.isEmpty { return nil }
        if case .documentID = expected.field, values.allSatisfy(Self.isUsualID) { return nil }
    }

    /// Returns whether a value is a text as ids mostly are. That no document has such an id is an everyday
    /// answer, which must not cost a scan; a number, or digits in a text, may be of the wrong type.
    private static func isUsualID(_ value: Value) -> Bool {
        guard case .string(let text) = value else { return false }
        return text.isEmpty || !text.utf8.allSatisfy { (0x30...0x39).contains($0) }
    }

    private static func value(_ expression: BoundExpression, _ arguments: [Value]) -> Value? {
        switch expression {
        case .constant(let value): value
        case .parameter(let place): arguments[place]
        default: nil
        }
    }

    mutating func meet(_ value: Value?) {
        guard let value, value != .null else { return }
        let fits =
            if case .type(let need) = expected.wanted {
                need.accepts(value)
            } else {
                values.contains { ValueClass(of: $0) == ValueClass(of: value) }
            }
        if fits { isMet = true } else { met.insert(ValueClass(of: value)) }
    }

    var code: DQLWarningCode {
        if case .type(let need) = expected.wanted { need.code } else { .neverEqual }
    }

    /// The types for which the condition can be true.
    private var wanted: Set<ValueClass> { Set(values.map(ValueClass.init(of:))) }

    /// Returns whether this would say of a field what another one said.
    func repeats(_ other: OpenExpectation) -> Bool {
        guard expected.field == other.expected.field, code == other.code else { return false }
        guard case .type(let need) = expected.wanted, case .type(let known) = other.expected.wanted else {
            return !wanted.isEmpty && wanted == other.wanted
        }
        return need.type == known.type
    }

    func message(_ source: SourceText) -> String {
        let types = met.sorted().map(\.named).joined(separator: " or ")
        if case .type(let need) = expected.wanted {
            return need.message("every \(expected.name) that was met", is: types)
        }
        let wanted = wanted.sorted().map(\.named).joined(separator: " or ")
        let shown = source.token(of: expected.span) ?? ""
        return
            "\(shown) compares \(expected.name) with \(wanted), and every \(expected.name) that was met is "
            + "\(types): that is never true"
    }
}

extension ValueClass {
    /// The class with an article, for messages.
    fileprivate var named: String { (self == .array || self == .object ? "an " : "a ") + "\(self)" }
}
