import CRDT

/// The nested loop of a join: for each row on the left the documents of the right side that an access path
/// finds for that row's values, and of those the ones for which the condition holds.
extension RowRunner {
    /// Visits a row's pairs. Returns false when a visit ended the run.
    func join(
        _ left: borrowing Row, _ join: JoinPlan, _ visit: (borrowing Row) throws -> Bool
    ) throws -> Bool {
        var row = copy left
        var goesOn = true
        var hasPartner = false
        func pair(_ record: DocumentRecord) throws -> Bool {
            try context.meter.step()
            row.documents[join.source] = record
            guard try evaluator.isTrue(join.condition, row) else { return true }
            hasPartner = true
            goesOn = try visit(row)
            return goesOn
        }
        switch join.collection {
        case .system(let name):
            let wanted = try join.ids.map { Set(try documentIDs($0)) }
            try SystemRows(collection: name, source: context.source, options: context.options).forEach {
                record in
                if let wanted, !wanted.contains(record.id) { return true }
                return try pair(record)
            }
        case .documents(let collection):
            if let ids = join.ids {
                for id in try documentIDs(ids) where goesOn {
                    try source.lookup(collection, id) { _ = try pair($0) }
                }
                break
            }
            let known = try known(join.condition, left, join.source)
            let path = try accessPath(join, collection, known)
            guard let indexed = source as? any IndexedSource else {
                try reach(path, collection, pair)
                break
            }
            try AccessRunner(source: indexed, collection: collection, meter: context.meter).run(path, pair)
        }
        guard goesOn, join.isOuter, !hasPartner else { return goesOn }
        row.documents[join.source] = nil
        return try visit(row)
    }

    /// A path of a store without indexes.
    private func reach(
        _ path: AccessPath, _ collection: String, _ visit: (DocumentRecord) throws -> Bool
    ) throws {
        guard case .ids(let ids) = path else {
            if path != .nothing { try source.scan(collection, visit) }
            return
        }
        var goesOn = true
        var seen: Set<DocumentID> = []
        for id in ids where goesOn && seen.insert(id).inserted {
            try source.lookup(collection, id) { goesOn = try visit($0) }
        }
    }

    /// How the right side is reached for one row. Throws `joinWithoutIndex` when that would be a scan of the
    /// collection that nobody asked for.
    private func accessPath(
        _ join: JoinPlan, _ collection: String, _ condition: BoundExpression
    ) throws -> AccessPath {
        let usesIndexes = context.options.usesIndexes && !context.options.strictReads
        let catalog =
            try (source as? any IndexedSource).flatMap { usesIndexes ? try $0.catalog(of: collection) : nil }
            ?? IndexCatalog(version: 0, indexes: [])
        let planner = AccessPlanner(
            catalog: catalog, directives: Directives(context.options.parameters.defaultDirectives, nil),
            hint: join.hint)
        let confinement = Confinement(condition, source: join.source)
        return planner.choose(
            AccessPlanner.Request(collection: collection, source: join.source, confinement: confinement)
        ).path
    }

    /// A condition with everything worked out that does not depend on a source.
    private func known(
        _ condition: BoundExpression, _ row: borrowing Row, _ source: Int
    ) throws -> BoundExpression {
        switch condition {
        case .and(let operands): return .and(try operands.map { try known($0, row, source) })
        case .or(let operands): return .or(try operands.map { try known($0, row, source) })
        case .not(let operand): return .not(try known(operand, row, source))
        case .comparison(let symbol, let first, let second):
            return .comparison(
                symbol, try settled(first, row, source), try settled(second, row, source))
        case .between(let value, let low, let high):
            return .between(
                try settled(value, row, source), low: try settled(low, row, source),
                high: try settled(high, row, source))
        case .inCollection(let value, let list):
            return BoundExpression.inCollection(
                try settled(value, row, source), try settled(list, row, source)
            ).prepared
        case .inList(let value, let elements):
            return BoundExpression.inList(
                try settled(value, row, source), try elements.map { try settled($0, row, source) }
            ).prepared
        default: return condition
        }
    }

    private func settled(
        _ expression: BoundExpression, _ row: borrowing Row, _ source: Int
    ) throws -> BoundExpression {
        if case .constant = expression { return expression }
        guard !expression.readsSource(source) else { return expression }
        return .constant(try evaluator.evaluate(expression, row))
    }
}

extension BoundExpression {
    /// Whether it depends on a document of this source, or on what is not known outside of it.
    func readsSource(_ source: Int) -> Bool {
        switch self {
        case .field(let access), .conflicts(let access): return access.source == source
        case .documentID(source), .document(source), .local: return true
        default:
            var found = false
            _ = mapChildren { child in
                found = found || child.readsSource(source)
                return child
            }
            return found
        }
    }
}
