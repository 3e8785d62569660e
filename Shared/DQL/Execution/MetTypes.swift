import CRDT

/// Warnings about parts of a statement that are never true, or never there, because of the types that fields
/// have, or because no document has the field.
///
/// Nothing is noted while a statement runs, but for one look at its first row. Only when a condition was
/// never fulfilled, or when the first row does not fit, the first documents of the collections are read once
/// more (decision 0069). So the warnings do not depend on the access path.
extension PreparedStatement {
    /// The warnings about the statement itself, after it ran.
    func typeWarnings(
        _ documents: any DocumentSource, _ context: ExecutionContext
    ) throws -> [DQLWarning] {
        try typeWarnings(expectations, sourceRows, documents, context)
    }

    /// The warnings about a statement or a subquery that just ran.
    /// - Parameter plan: its rows; nil where it has none.
    func typeWarnings(
        _ expectations: [FieldExpectation], _ plan: OrderedRows?, _ documents: any DocumentSource,
        _ context: ExecutionContext
    ) throws -> [DQLWarning] {
        let meter = context.meter
        var open: [OpenExpectation] = []
        if meter.foundNothing {
            open = Self.opened(expectations, .condition, context)
        } else {
            if meter.groupsFoundNothing { open = Self.opened(expectations, .having, context) }
            if let watch = meter.watch, watch.hasRow { open += watch.open.filter { !$0.isMet } }
        }
        guard !open.isEmpty else { return [] }
        try look(&open, plan, documents, context)
        var told: [OpenExpectation] = []
        var warnings: [DQLWarning] = []
        for one in open where !told.contains(where: one.repeats) {
            guard let warning = one.warning(source) else { continue }
            told.append(one)
            warnings.append(warning)
            if warnings.count == DQLLimits.warnings { break }
        }
        return warnings
    }

    private static func opened(
        _ expectations: [FieldExpectation], _ clause: FieldExpectation.Clause, _ context: ExecutionContext
    ) -> [OpenExpectation] {
        expectations.filter { $0.clause == clause }.compactMap { OpenExpectation($0, context.arguments) }
    }

    /// Reads the first documents of the collections until everything was met.
    private func look(
        _ open: inout [OpenExpectation], _ plan: OrderedRows?, _ documents: any DocumentSource,
        _ context: ExecutionContext
    ) throws {
        try context.meter.requireNoBudget()
        let evaluator = Evaluator(context.options, types: plan?.types ?? [])
        let filter = plan?.rows.chosen ?? .all
        for collection in Set(open.flatMap(\.collections)) {
            var row = Row(
                documents: Array(repeating: nil, count: max(1, evaluator.sources)), meter: context.meter)
            var left = DQLLimits.typedDocuments
            try documents.scan(collection) { record in
                try context.meter.step()
                var isOpen = false
                var isChosen: Bool?
                for index in open.indices where !open[index].isMet {
                    guard open[index].collections.contains(collection) else { continue }
                    // The documents that a condition left out tell nothing about the types in its rows.
                    if open[index].expected.clause != .condition, !open[index].isPresence {
                        if case .byID = filter { continue }
                        if case .condition(let condition) = filter {
                            if isChosen == nil {
                                row.documents[0] = record
                                isChosen = try evaluator.isTrue(
                                    condition.specialized(context.arguments), row)
                                row.documents[0] = nil
                            }
                            guard isChosen == true else {
                                isOpen = true
                                continue
                            }
                        }
                    }
                    try open[index].meet(record, of: collection, &row, evaluator)
                    isOpen = isOpen || !open[index].isMet
                }
                left -= 1
                return isOpen && left > 0
            }
        }
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

    /// The rows that the statement reads; nil where it reads none.
    private var sourceRows: OrderedRows? {
        let plan = if case .explain(_, let inner) = plan { inner } else { plan }
        switch plan {
        case .select(let select): return select.input
        case .insert(let insert):
            if case .query(let select, _) = insert.source { return select.input }
            return nil
        case .update(let update): return update.targets
        case .delete(let removal), .evict(let removal), .deleteRequests(_, let removal):
            return removal.targets
        case .alterSystem, .show, .index, .explain: return nil
        }
    }
}

/// The look at the first row of an execution: it mostly tells that all fields exist and all types fit, and
/// nothing else has to be read.
final class RowWatch {
    private(set) var open: [OpenExpectation]
    private(set) var hasRow = false
    /// True if fields are only read.
    private let isPresence: Bool
    /// How many columns a row without a missing field has; nil if that tells nothing.
    private let columns: Int?
    private let isGrouped: Bool

    /// Nil if nothing is expected of the rows.
    init?(_ expectations: [FieldExpectation], _ plan: SelectPlan, _ arguments: [Value]) {
        let rows = expectations.filter { $0.clause == .row }
        guard !rows.isEmpty else { return nil }
        isGrouped = plan.input.rows.isGrouped
        // A document asked for by its id may lack fields that others have.
        let isByID = if case .byID = plan.input.rows.chosen { true } else { false }
        open = rows.compactMap { OpenExpectation($0, arguments) }.filter { !isByID || !$0.isPresence }
        guard !open.isEmpty else { return nil }
        isPresence = open.allSatisfy(\.isPresence)
        columns = isGrouped || !plan.input.order.isEmpty ? nil : plan.projection.namedColumns
    }

    /// Looks at the first row.
    func look(_ row: borrowing Row, _ value: Value?, _ evaluator: Evaluator) throws {
        guard !hasRow else { return }
        hasRow = true
        // Groups hold no documents.
        if isGrouped { return }
        if isPresence, let columns, case .object(let object)? = value, object.count == columns {
            open = []
            return
        }
        for index in open.indices { try open[index].meet(row, evaluator) }
    }
}

extension BoundProjection {
    /// The number of columns if each is named; nil for any other shape.
    fileprivate var namedColumns: Int? {
        guard case .elements(let elements) = self else { return nil }
        let areNamed = elements.allSatisfy { if case .named = $0 { true } else { false } }
        return areNamed ? elements.count : nil
    }
}

extension RowPlan {
    /// How the documents of one source are chosen.
    enum Choice {
        /// All, or in a way that documents alone do not tell.
        case all
        case byID
        case condition(BoundExpression)
    }

    /// How the rows before they are grouped are chosen.
    var chosen: Choice {
        switch self {
        case .group(let rows, _): rows.chosen
        case .filter(.scan, let condition): .condition(condition)
        case .filter(let rows, _): rows.chosen
        case .idScan: .byID
        default: .all
        }
    }
}
