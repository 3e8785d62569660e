import CRDT

/// The nested loop of a join: for each row on the left, an access path finds documents of the right side by
/// that row's values, and the condition filters them.
extension RowRunner {
    /// Visits a row's pairs. Returns false when a visit ended the run.
    func join(
        _ left: borrowing Row, _ join: JoinPlan, _ visit: (borrowing Row) throws -> Bool
    ) throws -> Bool {
        var row = copy left
        var goesOn = true
        var hasPartner = false
        func pair(_ record: DocumentRecord) throws -> Bool {
            try context.meter.visit()
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
                try context.meter.step()
                if let wanted, !wanted.contains(record.id) { return true }
                return try pair(record)
            }
        case .documents(let collection):
            if let ids = join.ids {
                for id in try documentIDs(ids) where goesOn {
                    try context.meter.step()
                    try source.lookup(collection, id) { _ = try pair($0) }
                }
                break
            }
            let known = try join.condition.substituted(for: join.source) { expression, _ in
                try evaluator.evaluate(expression, left)
            }
            let path = try accessPath(join, collection, known)
            if path == .collection, let statement = pushedPartners(join, collection, known) {
                try source.pushing?.documents(of: statement, pair)
                break
            }
            guard let indexed = source.indexed else {
                try reach(path, collection, pair)
                break
            }
            try AccessRunner(source: indexed, collection: collection, meter: context.meter).run(path, pair)
        }
        guard goesOn, join.isOuter, !hasPartner else { return goesOn }
        row.documents[join.source] = nil
        return try visit(row)
    }

    /// The partners of one row that no index leads to, as far as SQL can find them; nil if it cannot.
    private func pushedPartners(
        _ join: JoinPlan, _ collection: CollectionName, _ condition: BoundExpression
    ) -> PushedStatement? {
        guard let pushing = source.pushing, context.options.usesIndexes, !context.options.strictReads,
            case .pushed(let statement, _)? = PushPlanner(
                source: pushing, collection: collection, place: join.source, condition: condition
            ).filter(wantsFirst: false)
        else { return nil }
        return statement
    }

    /// Reads an access path in a store without indexes.
    private func reach(
        _ path: AccessPath, _ collection: CollectionName, _ visit: (DocumentRecord) throws -> Bool
    ) throws {
        guard case .ids(let ids) = path else {
            if path != .nothing { try source.scan(collection, visit) }
            return
        }
        var goesOn = true
        var seen: Set<DocumentID> = []
        for id in ids where goesOn && seen.insert(id).inserted {
            try context.meter.step()
            try source.lookup(collection, id) { goesOn = try visit($0) }
        }
    }

    /// The access path to the right side for one row.
    private func accessPath(
        _ join: JoinPlan, _ collection: CollectionName, _ condition: BoundExpression
    ) throws -> AccessPath {
        let probe = Self.probe(condition, join.source)
        if let probe, let scan = joinPaths.scan(join.source, probe) { return .index(scan) }
        let usesIndexes = context.options.usesIndexes && !context.options.strictReads
        let catalog = try catalogs.catalog(
            of: collection, in: usesIndexes ? source.indexed : nil)
        let planner = AccessPlanner(
            catalog: catalog, directives: Directives(context.options.parameters.defaultDirectives, nil),
            hint: join.hint)
        let confinement = Confinement(condition, source: join.source)
        let path = planner.choose(
            AccessPlanner.Request(collection: collection, source: join.source, confinement: confinement)
        ).path
        if let probe { joinPaths.note(path, join.source, probe) }
        return path
    }

    /// The value that a field of the right side has to equal, if that is the whole condition.
    private static func probe(_ condition: BoundExpression, _ source: Int) -> Value? {
        switch condition {
        case .comparison(.equal, .field(let field), .constant(let value?)),
            .comparison(.equal, .constant(let value?), .field(let field)):
            Confinement.field(.field(field), source) == nil ? nil : value
        default: nil
        }
    }
}

/// The access paths to the right sides of one execution's joins, by the type of the value: another value of
/// the type uses the same index at another place. So a join is planned once and not for each row on the
/// left.
final class JoinPaths {
    private var known: [(source: Int, type: ValueClass, scan: IndexScan)] = []

    func scan(_ source: Int, _ value: Value) -> IndexScan? {
        let type = ValueClass(of: value)
        return known.first { $0.source == source && $0.type == type }?.scan
            .replacing(ranges: [IndexRange(equal: [value])])
    }

    /// Remembers a path that reads one index at a value.
    func note(_ path: AccessPath, _ source: Int, _ value: Value) {
        guard case .index(let scan) = path, scan.ranges == [IndexRange(equal: [value])] else { return }
        known.append((source, ValueClass(of: value), scan))
    }
}

/// The indexes of the collections that one execution joins: they do not change during it.
final class KnownCatalogs {
    /// A few entries, compared by the bytes of their names: Swift treats different spellings of a character
    /// as equal.
    private var known: [(collection: CollectionName, catalog: IndexCatalog)] = []

    func catalog(of collection: CollectionName, in source: (any IndexedSource)?) throws -> IndexCatalog {
        if let entry = known.first(where: { $0.collection == collection }) { return entry.catalog }
        let catalog = try source?.catalog(of: collection) ?? IndexCatalog(version: 0, indexes: [])
        known.append((collection, catalog))
        return catalog
    }
}

extension RowPlanner {
    /// Throws `joinWithoutIndex` for a join whose right side is reached by a scan of its collection that the
    /// statement does not ask for. Checked before there is a row, with a text in place of unknown values.
    func checkJoins(of rows: RowPlan, _ source: SourceText) throws {
        switch rows {
        case .filter(let inner, _), .group(let inner, _): try checkJoins(of: inner, source)
        case .join(let left, let join):
            try checkJoins(of: left, source)
            guard case .documents(let collection) = join.collection, join.ids == nil, !join.hint.asksForScan
            else { return }
            guard try joinPath(join, collection) == .collection else { return }
            throw source.error(
                .joinWithoutIndex,
                "Joining to \"\(collection)\" disallowed without appropriate index support. "
                    + "Please run ADVISE for recommendations.", at: join.span)
        default: break
        }
    }
}

extension RowPlanner {
    /// The access path to the right side of a join, as far as it is known before there is a row.
    func joinPath(_ join: JoinPlan, _ collection: CollectionName) throws -> AccessPath {
        let catalog =
            options.strictReads ? nil : try documents.indexed?.catalog(of: collection)
        let planner = AccessPlanner(
            catalog: catalog ?? IndexCatalog(version: 0, indexes: []),
            directives: Directives(options.parameters.defaultDirectives, nil), hint: join.hint)
        return planner.choose(
            AccessPlanner.Request(
                collection: collection, source: join.source, confinement: join.probe)
        ).path
    }
}

extension JoinPlan {
    /// The right side's confinement by the condition, with a text in place of unknown values.
    var probe: Confinement {
        Confinement(
            condition.substituted(for: source) { _, isList in isList ? .array(["?"]) : "?" }, source: source)
    }
}

extension BoundExpression {
    /// The condition with each operand that does not depend on a source replaced by `value` of it. `isList`
    /// is true if the operand is the right side of IN.
    func substituted(
        for source: Int, _ value: (BoundExpression, _ isList: Bool) throws -> Value?
    ) rethrows -> BoundExpression {
        func substitute(_ operand: BoundExpression, isList: Bool = false) throws -> BoundExpression {
            if case .constant = operand { return operand }
            return operand.readsSource(source) ? operand : .constant(try value(operand, isList))
        }
        switch self {
        case .and(let operands): return .and(try operands.map { try $0.substituted(for: source, value) })
        case .or(let operands): return .or(try operands.map { try $0.substituted(for: source, value) })
        case .not(let operand): return .not(try operand.substituted(for: source, value))
        case .comparison(let symbol, let first, let second):
            return .comparison(symbol, try substitute(first), try substitute(second))
        case .between(let value, let low, let high):
            return .between(try substitute(value), low: try substitute(low), high: try substitute(high))
        case .inCollection(let value, let list):
            return .inCollection(try substitute(value), try substitute(list, isList: true)).prepared
        case .inList(let value, let elements):
            return .inList(try substitute(value), try elements.map { try substitute($0) }).prepared
        default: return self
        }
    }
}

extension BoundExpression {
    /// Returns whether the expression depends on a document of this source, or on values unknown outside it.
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
