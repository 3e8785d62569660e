import CRDT

/// Turns a statement's plan into the plan of one execution: access paths for the given arguments and the
/// indexes of the snapshot. Nothing is kept, so an index may appear or vanish between two executions of one
/// prepared statement.
struct RowPlanner {
    let documents: any DocumentSource
    let options: ExecutionOptions

    private var indexed: (any IndexedSource)? { documents.indexed }

    /// The planned rows of a statement.
    struct Planned {
        var input: OrderedRows
        var projection: BoundProjection
        /// True if the rows come in the order of ORDER BY.
        var isOrdered = false
    }

    /// The plan of a SELECT. `isLimited` is true if it has a LIMIT. DISTINCT orders equal rows by the first
    /// of them, so its rows have to come in the order of a scan.
    func plan(
        _ input: OrderedRows, _ projection: BoundProjection, isDistinct: Bool = false, isLimited: Bool,
        isSelect: Bool = true
    ) throws -> Planned {
        var planned = Planned(input: input, projection: projection)
        // Strict reads see other variants than the ones in an index.
        guard let indexed, options.usesIndexes, !options.strictReads else {
            return pushed(input, projection, isDistinct: isDistinct, isSelect: isSelect) ?? planned
        }
        if let counted = try counting(input.rows, indexed) {
            planned.input = input.replacing(rows: counted)
            return planned
        }
        let shape = Shape(input.rows)
        guard case .scan(let collection, let source) = shape.leaf else {
            return pushed(input, projection, isDistinct: isDistinct, isSelect: isSelect) ?? planned
        }
        let catalog = try indexed.catalog(of: collection)
        guard !catalog.indexes.isEmpty || shape.condition != nil || !input.order.isEmpty else {
            return pushed(input, projection, isDistinct: isDistinct, isSelect: isSelect) ?? planned
        }
        let planner = AccessPlanner(
            catalog: catalog, directives: Directives(options.parameters.defaultDirectives, input.directives),
            hint: input.hint)
        if let extremes = extremes(input.rows, planner) {
            planned.input = input.replacing(rows: extremes)
            return planned
        }
        if isDistinct, let groups = try distinct(shape, input, projection) { return groups }
        var request = AccessPlanner.Request(
            collection: collection, source: source,
            confinement: shape.condition.map { Confinement($0, source: source) } ?? .any)
        request.order = shape.grouping == nil && !isDistinct ? input.order : []
        request.isLimited = isLimited
        request.isConfinedWholly = shape.condition.map(Self.isConfinement) ?? true
        request.readsOrder = !(shape.grouping.map(Self.onlyCounts) ?? false)
        request.firstIDs = firstIDs(shape, input, request.order, indexed)
        let reads = fieldsRead(shape, input, projection, source)
        request.fields = shape.hasJoin ? nil : reads.fields
        request.groups = shape.grouping?.fields(source)
        let choice = planner.choose(request)
        planned.isOrdered = choice.isOrdered && !request.order.isEmpty
        if let counted = entries(shape, choice.path, source) {
            planned.input = input.replacing(rows: input.rows.replacingGroups(counted))
            return planned
        }
        let isOnServer = documents.pushing != nil
        if choice.isCovered, case .index(let scan) = choice.path,
            !isOnServer || planned.isOrdered || isCountable(shape, collection, readsID: reads.readsID)
        {
            let needsFirst = isOnServer && shape.grouping.map { !input.isOrderedByKeys(of: $0) } ?? false
            cover(&planned, shape, scan, source, needsID: reads.readsID || needsFirst)
            return planned
        }
        if isOnServer, !planned.isOrdered,
            let pushed = try pushed(
                input, projection, isDistinct: isDistinct, isSelect: isSelect, along: choice.path)
        {
            return pushed
        }
        guard choice.path != .collection else { return planned }
        planned.input = input.replacing(
            rows: input.rows.replacingLeaf(.access(collection: collection, source: source, path: choice.path))
        )
        return planned
    }

    /// The documents of an UPDATE, DELETE or EVICT.
    func plan(_ targets: OrderedRows, isLimited: Bool) throws -> Planned {
        try plan(targets, .all(source: 0), isLimited: isLimited, isSelect: false)
    }

    /// COUNT(*) over a whole collection.
    private func counting(_ rows: RowPlan, _ indexed: any IndexedSource) throws -> RowPlan? {
        switch rows {
        case .filter(let inner, let condition):
            return try counting(inner, indexed).map { .filter($0, condition) }
        case .group(.scan(let collection, _), let grouping)
        where grouping.keys.isEmpty
            && grouping.aggregates.allSatisfy({ $0.kind == .count && $0.argument == nil }):
            return .count(collection: collection, slots: grouping.aggregates.count)
        default: return nil
        }
    }

    /// MIN and MAX of fields over a whole collection, each from one end of an index, beside COUNT(*).
    private func extremes(_ rows: RowPlan, _ planner: AccessPlanner) -> RowPlan? {
        if case .filter(let inner, let condition) = rows {
            return extremes(inner, planner).map { .filter($0, condition) }
        }
        guard case .group(.scan(let collection, let source), let grouping) = rows, grouping.keys.isEmpty,
            grouping.aggregates.contains(where: { $0.kind != .count })
        else { return nil }
        let results = grouping.aggregates.compactMap { aggregate -> IndexExtreme? in
            guard let argument = aggregate.argument else { return .count }
            guard aggregate.kind == .min || aggregate.kind == .max,
                let path = Confinement.field(argument, source), let index = planner.index(of: path)
            else { return nil }
            // They skip null and MISSING, which come last.
            let values = IndexRange(next: KeyRange(from: .start, to: .afterClass(.object)))
            return .first(
                IndexScan(
                    index: index, ranges: [values],
                    isReversed: (aggregate.kind == .max) != index.keys[0].isDescending, isOrdered: true))
        }
        guard results.count == grouping.aggregates.count else { return nil }
        return .extremes(collection: collection, results)
    }

    /// The number of rows that a statement needs of all documents in the order of their ids, if it asks for
    /// nothing else; nil otherwise.
    private func firstIDs(
        _ shape: Shape, _ input: OrderedRows, _ order: [SortTerm], _ indexed: any IndexedSource
    ) -> Int? {
        guard case .scan(let collection, let source) = shape.leaf, shape.condition == nil, !shape.hasJoin,
            order.count == 1, case .documentID(source) = order[0].expression,
            indexed.showsAll(of: collection), let rows = PushPlanner.rows(input.bounds),
            rows <= DQLLimits.firstIDs
        else { return nil }
        return rows
    }

    /// COUNT(*) of a range of one field, if a path finds exactly the documents of that range.
    private func entries(_ shape: Shape, _ path: AccessPath, _ source: Int) -> RowPlan? {
        guard let grouping = shape.grouping, !shape.hasJoin, let condition = shape.condition,
            case .scan(let collection, _) = shape.leaf, case .index(let scan) = path,
            grouping.keys.isEmpty,
            grouping.aggregates.allSatisfy({ $0.kind == .count && $0.argument == nil }),
            scan.index.isExact, scan.index.keys.allSatisfy(\.includesMissing),
            let (field, comparisons) = DirectRead.comparisons(condition, of: source),
            Confinement.samePath(scan.index.keys[0].path, field),
            DirectRead.areShort(comparisons, [])
        else { return nil }
        let isPlain = comparisons.allSatisfy { comparison in
            guard case .known(let value) = comparison.operand else { return false }
            return [.number, .string].contains(ValueClass(of: value))
        }
        guard isPlain else { return nil }
        return .extremes(
            collection: collection, Array(repeating: .entries(scan), count: grouping.aggregates.count))
    }

    /// Returns whether a store's SQL can make the groups of an index: where it may count the collection, and
    /// the aggregates depend on the keys and on numbers of documents alone.
    private func isCountable(_ shape: Shape, _ collection: CollectionName, readsID: Bool) -> Bool {
        guard let grouping = shape.grouping, !grouping.keys.isEmpty, !readsID,
            documents.pushing?.decides(collection) ?? false
        else { return false }
        return grouping.aggregates.allSatisfy { [.count, .min, .max, .mid].contains($0.kind) }
    }

    /// The plan of a statement with its parts in SQL, among the documents of a path; nil if nothing is there.
    private func pushed(
        _ input: OrderedRows, _ projection: BoundProjection, isDistinct: Bool, isSelect: Bool,
        along path: AccessPath
    ) throws -> Planned? {
        guard let pushing = documents.pushing else { return nil }
        if case .idRanges(let ranges) = path, ranges.first != nil,
            case .scan(let collection, let source) = Shape(input.rows).leaf,
            let first = try PushedStatement.documents(of: path, in: collection, pushing)
        {
            return Planned(
                input: input.replacing(rows: input.rows.replacingLeaf(.pushed(first, source: source))),
                projection: projection)
        }
        var confinement: PushedConfinement?
        // Ids are a matter of the condition, and of `idScan`.
        if case .ids = path {
        } else {
            confinement = try PushedConfinement(path, pushing, isForced: input.hint.names != nil)
        }
        return pushed(
            input, projection, isDistinct: isDistinct, isSelect: isSelect, along: confinement)
    }

    /// SELECT DISTINCT of the fields of an index as a GROUP BY of them; nil if no index has all.
    private func distinct(
        _ shape: Shape, _ input: OrderedRows, _ projection: BoundProjection
    ) throws -> Planned? {
        guard shape.grouping == nil, !shape.hasJoin, let groups = DistinctGroups(input, projection)
        else { return nil }
        let rows = RowPlan.group(input.rows, groups.grouping)
        let planned = try plan(
            input.replacing(rows: rows, order: groups.order), groups.projection, isLimited: false)
        guard case .group(let below, _) = planned.input.rows, below.covered != nil else { return nil }
        return planned
    }

    /// Returns whether a grouping's result is independent of the order of its rows.
    private static func onlyCounts(_ grouping: Grouping) -> Bool {
        grouping.keys.isEmpty && grouping.aggregates.allSatisfy { $0.kind == .count }
    }

    // MARK: Covering

    /// The fields of a source that a statement reads.
    private func fieldsRead(
        _ shape: Shape, _ input: OrderedRows, _ projection: BoundProjection, _ source: Int
    ) -> FieldsRead {
        var reads = FieldsRead(source: source)
        if let condition = shape.condition { reads.add(condition) }
        if let grouping = shape.grouping {
            grouping.keys.forEach { reads.add($0) }
            grouping.aggregates.compactMap(\.argument).forEach { reads.add($0) }
        } else {
            input.order.forEach { reads.add($0.expression) }
            reads.add(projection)
        }
        return reads
    }

    private func cover(
        _ planned: inout Planned, _ shape: Shape, _ scan: IndexScan, _ source: Int, needsID: Bool
    ) {
        let slots = CoveredSlots(index: scan.index, source: source)
        var rows = RowPlan.covering(scan, needsID: needsID)
        if let condition = shape.condition { rows = .filter(rows, slots.rewritten(condition)) }
        guard let grouping = shape.grouping else {
            planned.projection = slots.rewritten(planned.projection)
            planned.input = planned.input.replacing(
                rows: rows,
                order: planned.input.order.map { term in
                    SortTerm(
                        expression: slots.rewritten(term.expression), isDescending: term.isDescending,
                        nullsFirst: term.nullsFirst)
                })
            return
        }
        rows = .group(
            rows,
            Grouping(
                keys: grouping.keys.map(slots.rewritten),
                aggregates: grouping.aggregates.map { aggregate in
                    BoundAggregate(
                        kind: aggregate.kind, argument: aggregate.argument.map(slots.rewritten),
                        isDistinct: aggregate.isDistinct)
                }))
        if let having = shape.having { rows = .filter(rows, having) }
        planned.input = planned.input.replacing(rows: rows)
    }

    /// Returns whether a confinement can express the condition exactly.
    private static func isConfinement(_ condition: BoundExpression) -> Bool {
        switch condition {
        case .and(let operands): operands.allSatisfy(isConfinement)
        case .comparison(_, .field, .constant), .comparison(_, .constant, .field), .between(.field, _, _),
            .inSet(.field, _), .inList(.field, _), .isNull(.field), .isMissing(.field):
            true
        default: false
        }
    }
}

/// The parts of a row plan: its leaf and the steps above it.
struct Shape {
    var leaf: RowPlan
    var condition: BoundExpression?
    var grouping: Grouping?
    var having: BoundExpression?
    var hasJoin = false

    init(_ rows: RowPlan) {
        switch rows {
        case .filter(let inner, let condition):
            self.init(inner)
            if grouping != nil {
                having = condition
            } else if let known = self.condition {
                self.condition = .and([known, condition])
            } else {
                self.condition = condition
            }
        case .group(let inner, let grouping):
            self.init(inner)
            self.grouping = grouping
        case .join(let left, _):
            self.init(left)
            hasJoin = true
        default: self.init(leaf: rows)
        }
    }

    private init(leaf: RowPlan) { self.leaf = leaf }

    /// The groups of a plan, without the filter above them.
    func groups(of rows: RowPlan) -> RowPlan {
        if having != nil, case .filter(let groups, _) = rows { return self.groups(of: groups) }
        return rows
    }
}

extension RowPlan {
    func replacingLeaf(_ leaf: RowPlan) -> RowPlan {
        switch self {
        case .filter(let inner, let condition): .filter(inner.replacingLeaf(leaf), condition)
        case .group(let inner, let grouping): .group(inner.replacingLeaf(leaf), grouping)
        case .join(let left, let join): .join(left.replacingLeaf(leaf), join)
        default: leaf
        }
    }
}

extension RowPlan {
    /// The plan with other rows in place of its groups.
    fileprivate func replacingGroups(_ groups: RowPlan) -> RowPlan {
        if case .filter(let inner, let condition) = self, inner.isGrouped {
            return .filter(inner.replacingGroups(groups), condition)
        }
        return groups
    }
}

extension IndexExtreme {
    /// True if it counts the entries of a range.
    var isOfEntries: Bool { if case .entries = self { true } else { false } }
}

extension OrderedRows {
    /// Returns whether ORDER BY tells all groups apart, so that it does not matter in which order they come.
    fileprivate func isOrderedByKeys(of grouping: Grouping) -> Bool {
        grouping.keys.indices.allSatisfy { key in
            order.contains { if case .slot(key) = $0.expression { true } else { false } }
        }
    }
}

extension Grouping {
    /// The fields of the keys; nil if a key is something else.
    fileprivate func fields(_ source: Int) -> [[String]]? {
        let fields = keys.compactMap { Confinement.field($0, source) }
        return fields.count == keys.count && !keys.isEmpty ? fields : nil
    }
}

extension OrderedRows {
    func replacing(rows: RowPlan, order: [SortTerm]? = nil) -> OrderedRows {
        OrderedRows(
            rows: rows, order: order ?? self.order, bounds: bounds, types: types, hint: hint,
            directives: directives, names: names)
    }
}

/// Collects the fields of a source that expressions read.
private struct FieldsRead {
    let source: Int
    /// nil once anything else of a document was read.
    private(set) var fields: [[String]]? = []
    /// True if the id is read.
    private(set) var readsID = false

    init(source: Int) { self.source = source }

    mutating func add(_ projection: BoundProjection) {
        switch projection {
        case .all: fields = nil
        case .raw(let value): add(value)
        case .elements(let elements):
            for element in elements {
                switch element {
                case .named(_, let value): add(value)
                case .allFields: fields = nil
                case .missing: break
                }
            }
        }
    }

    mutating func add(_ expression: BoundExpression) {
        guard fields != nil else { return }
        switch expression {
        case .field:
            guard let path = Confinement.field(expression, source) else {
                fields = nil
                return
            }
            fields?.append(path)
        case .document, .conflicts: fields = nil
        case .documentID: readsID = true
        default:
            // Moved out and back: a copy of the fields for each child would take a statement of many
            // conditions minutes.
            var reads = FieldsRead(source: source)
            swap(&reads, &self)
            _ = expression.mapChildren { child in
                reads.add(child)
                return child
            }
            self = reads
        }
    }
}

/// The places in a row of the values of an index entry, and expressions that read them there.
private struct CoveredSlots {
    let index: IndexDescription
    let source: Int

    func rewritten(_ expression: BoundExpression) -> BoundExpression {
        switch expression {
        case .documentID: return .slot(index.keys.count)
        case .field:
            guard let path = Confinement.field(expression, source),
                let place = index.keys.firstIndex(where: { Confinement.samePath($0.path, path) })
            else { preconditionFailure("a covering index has every field that is read") }
            return .slot(place)
        default: return expression.mapChildren(rewritten)
        }
    }

    func rewritten(_ projection: BoundProjection) -> BoundProjection {
        switch projection {
        case .all: preconditionFailure("a whole document is not covered")
        case .raw(let value): .raw(rewritten(value))
        case .elements(let elements):
            .elements(
                elements.map { element in
                    if case .named(let name, let value) = element {
                        .named(name, rewritten(value))
                    } else {
                        element
                    }
                })
        }
    }
}
