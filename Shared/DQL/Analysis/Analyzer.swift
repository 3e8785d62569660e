import CRDT

/// From syntax tree to plan: names, types, shape, warnings.
struct Analyzer {
    private let source: SourceText
    private var binder: Binder

    /// What an analysis gives.
    struct Result: Sendable {
        let plan: StatementPlan
        let parameters: [NameSyntax]
        /// What is declared for each source, by its place.
        let types: [TypeDefinition]
        let warnings: [DQLWarning]
    }

    static func analyze(_ statement: Statement, _ source: SourceText) throws(DQLError) -> Result {
        var analyzer = Analyzer(source: source, binder: Binder(source))
        let plan = try analyzer.plan(statement)
        return Result(
            plan: plan, parameters: analyzer.binder.parameters,
            types: analyzer.binder.scope.sources.map(\.types),
            warnings: analyzer.binder.warnings)
    }

    private mutating func plan(_ statement: Statement) throws(DQLError) -> StatementPlan {
        switch statement {
        case .select(let select): .select(try plan(select))
        case .insert(let insert): .insert(try plan(insert))
        case .update(let update): .update(try plan(update))
        case .delete(let removal): .delete(try plan(removal))
        case .evict(let removal): .evict(try plan(removal))
        case .createIndex(let create): throw unsupported("CREATE INDEX", at: create.name.span)
        case .dropIndex(let drop): throw unsupported("DROP INDEX", at: drop.name.span)
        case .explain, .alterSystem, .show:
            throw unsupported("this statement", at: SourceSpan(start: 0, end: 0))
        }
    }

    private func unsupported(_ what: String, at span: SourceSpan) -> DQLError {
        source.error(.unsupportedStatement, "\(what) is not supported yet", at: span)
    }

    private func refuse(_ returning: ReturningSyntax?) throws(DQLError) {
        guard let returning else { return }
        throw source.error(.unsupportedClause, "RETURNING is not supported yet", at: returning.span)
    }

    // MARK: Statements

    private mutating func plan(_ select: SelectStatement) throws(DQLError) -> SelectPlan {
        var rows = try documents(select.source, select.selection.condition)
        if let grouping = try groupScope(select) {
            binder.scope.grouping = grouping
        }
        binder.scope.aggregatesRefused = nil
        let projection = try projection(select.projection)
        var having: BoundExpression?
        if let condition = select.having {
            binder.scope.grouping?.term = .having
            having = try binder.bind(condition)
        }
        binder.scope.grouping?.term = .order
        binder.scope.projected = Self.names(select.projection)
        let order = try terms(select.selection.order)
        if let grouping = binder.scope.grouping {
            rows = .group(rows, Grouping(keys: grouping.keys, aggregates: grouping.aggregates))
        }
        if let having { rows = .filter(rows, having) }
        return SelectPlan(
            input: OrderedRows(rows: rows, order: order, bounds: try bounds(select.selection)),
            projection: projection, isDistinct: select.isDistinct)
    }

    private mutating func plan(_ insert: InsertStatement) throws(DQLError) -> InsertPlan {
        try checkWritable(insert.collection)
        binder.scope.aggregatesRefused = "DOCUMENTS"
        var documents: [(value: BoundExpression, span: SourceSpan)] = []
        try refuse(insert.returning)
        guard case .documents(let written) = insert.source, !insert.isInitial else {
            throw source.error(
                .unsupportedClause, "INITIAL and INSERT … SELECT are not supported yet",
                at: insert.collection.name.span)
        }
        for document in written {
            documents.append((value: try binder.bind(document), span: document.span))
        }
        return InsertPlan(
            collection: insert.collection.name.text, documents: documents, policy: insert.policy,
            types: try TypeResolver.resolve(insert.collection.fields, source))
    }

    private mutating func plan(_ update: UpdateStatement) throws(DQLError) -> UpdatePlan {
        try checkWritable(update.source.collection)
        try refuse(update.returning)
        if let application = update.applications.first {
            throw source.error(.unsupportedClause, "APPLY is not supported yet", at: application.span)
        }
        let targets = try targets(update.source, update.selection)
        var resolver = TargetResolver(source: source, binding: binder.scope.sources[0])
        binder.scope.aggregatesRefused = "SET"
        var assignments: [UpdatePlan.Assignment] = []
        for assignment in update.assignments {
            guard case .value(let value) = assignment.action else {
                throw source.error(
                    .unsupportedClause, "the operator -> is not supported yet", at: assignment.target.span)
            }
            let target = try resolver.resolve(assignment.target)
            assignments.append(
                UpdatePlan.Assignment(
                    path: target.path, declaration: target.declaration, undeclaredStep: target.undeclaredStep,
                    value: try binder.bind(value), span: assignment.target.span))
        }
        var removals: [UpdatePlan.Removal] = []
        for removal in update.removals {
            let target = try resolver.resolve(removal)
            removals.append(
                UpdatePlan.Removal(
                    path: target.path, kind: target.declaration?.kind, undeclaredStep: target.undeclaredStep,
                    span: removal.span))
        }
        return UpdatePlan(
            collection: update.source.collection.name.text, targets: targets, assignments: assignments,
            removals: removals)
    }

    private mutating func plan(_ removal: RemovalStatement) throws(DQLError) -> RemovalPlan {
        try checkWritable(removal.source.collection)
        try refuse(removal.returning)
        return RemovalPlan(
            collection: removal.source.collection.name.text,
            targets: try targets(removal.source, removal.selection))
    }

    private func checkWritable(_ collection: CollectionSyntax) throws(DQLError) {
        guard collection.isSystem else { return }
        throw source.error(
            .readOnlyCollection, "\(collection.qualifiedName) cannot be written", at: collection.name.span)
    }

    // MARK: Rows

    private mutating func targets(
        _ written: SourceSyntax, _ selection: SelectionSyntax
    ) throws(DQLError) -> OrderedRows {
        let rows = try documents(written, selection.condition)
        binder.scope.aggregatesRefused = "ORDER BY of this statement"
        return OrderedRows(rows: rows, order: try terms(selection.order), bounds: try bounds(selection))
    }

    /// The documents of a source that a condition lets through.
    private mutating func documents(
        _ written: SourceSyntax, _ condition: ExpressionSyntax?
    ) throws(DQLError) -> RowPlan {
        let collection = written.collection
        if let join = written.joins.first {
            throw source.error(.unsupportedClause, "JOIN is not supported yet", at: join.span)
        }
        var rows: RowPlan
        var ids: IDList?
        switch written.ids {
        case nil: break
        case .list(let list): ids = .list(try binder.bind(list))
        case .array(let array): ids = .array(try binder.bind(array))
        }
        let name = collection.name.text
        binder.scope.sources = [
            SourceBinding(
                index: 0, name: written.alias?.text ?? name, isAlias: written.alias != nil, collection: name,
                types: try TypeResolver.resolve(collection.fields, source))
        ]
        if collection.isSystem {
            guard name.lowercased() == "dual" else {
                throw source.error(
                    .unsupportedClause, "\(collection.qualifiedName) is not supported yet",
                    at: collection.name.span,
                    suggestion: Suggestion.closest(to: name, among: ["dual"]).map { "system:\($0)" })
            }
            rows = .single
        } else {
            rows = .scan(collection: name, source: 0)
        }
        var bound: BoundExpression?
        if let condition {
            binder.scope.aggregatesRefused = "WHERE"
            bound = try binder.bind(condition)
        }
        if case .scan = rows, let ids = ids ?? bound.flatMap({ AccessPath.ids(in: $0, source: 0) }) {
            rows = .idScan(collection: name, source: 0, ids: ids)
        }
        return bound.map { .filter(rows, $0) } ?? rows
    }

    private mutating func terms(_ order: [OrderSyntax]) throws(DQLError) -> [SortTerm] {
        var terms: [SortTerm] = []
        for term in order {
            terms.append(
                SortTerm(
                    expression: try binder.bind(term.expression), isDescending: term.isDescending,
                    nullsFirst: term.nullsFirst))
        }
        return terms
    }

    private mutating func bounds(_ selection: SelectionSyntax) throws(DQLError) -> Bounds {
        var bounds = Bounds()
        if let limit = selection.limit { bounds.limit = try bound(limit, "LIMIT") }
        if let offset = selection.offset { bounds.offset = try bound(offset, "OFFSET") }
        return bounds
    }

    private mutating func bound(
        _ written: ExpressionSyntax, _ clause: String
    ) throws(DQLError) -> (value: BoundExpression, span: SourceSpan) {
        let bound = try binder.bind(written)
        if case .constant(let value) = bound, (value?.intValue ?? -1) < 0 {
            throw source.error(
                .invalidArgument, "\(clause) takes a whole number that is not negative", at: written.span)
        }
        return (value: bound, span: written.span)
    }

    // MARK: Groups and projections

    private mutating func groupScope(_ select: SelectStatement) throws(DQLError) -> GroupScope? {
        binder.scope.aggregatesRefused = "GROUP BY"
        let keys = try binder.bind(select.groupKeys)
        let terms =
            Self.elements(select.projection) + (select.having.map { [$0] } ?? [])
            + select.selection.order.map(\.expression)
        let isGrouped =
            !keys.isEmpty || select.having != nil || terms.contains(where: binder.containsAggregate)
        return isGrouped ? GroupScope(keys: keys, term: .projection("*")) : nil
    }

    private mutating func projection(_ written: ProjectionSyntax) throws(DQLError) -> BoundProjection {
        switch written {
        case .all(let span):
            try refuseGroups("*", span)
            return .all(source: 0)
        case .raw(let value):
            binder.scope.grouping?.term = .projection("$1")
            return .raw(try binder.bind(value))
        case .elements(let elements):
            var bound: [BoundProjection.Element] = []
            var names: [String] = []
            for (index, element) in elements.enumerated() {
                bound.append(try projectionElement(element, at: index, seen: &names))
            }
            return .elements(bound)
        }
    }

    private mutating func projectionElement(
        _ element: ProjectionElementSyntax, at index: Int, seen names: inout [String]
    ) throws(DQLError) -> BoundProjection.Element {
        switch element {
        case .star(let span):
            throw source.error(
                .mixedStar, "unqualified * with other projection elements is not supported", at: span,
                suggestion: "\(binder.scope.sources[0].name).*")
        case .allFields(let name):
            let binding = binder.scope.sources[0]
            guard utf8Equal(name.text, binding.name) else {
                throw source.error(
                    .unknownSource, "\(name.text) is not a source of this statement", at: name.span,
                    suggestion: Suggestion.closest(to: name.text, among: [binding.name]))
            }
            try refuseGroups("\(name.text).*", name.span)
            return .allFields(source: 0)
        case .missing(let path):
            throw source.error(
                .unsupportedClause, "MISSING in a projection is not supported yet", at: path[0].span)
        case .expression(let value, let alias):
            let name = Self.name(of: value, alias, at: index)
            if names.contains(where: { utf8Equal($0, name) }) {
                binder.warn(
                    .duplicateName, "two projections are named \(name); the later one shows", at: value.span)
            }
            names.append(name)
            binder.scope.grouping?.term = .projection(name)
            return .named(name, try binder.bind(value))
        }
    }

    private func refuseGroups(_ name: String, _ span: SourceSpan) throws(DQLError) {
        guard binder.scope.grouping != nil else { return }
        throw source.error(
            .ungroupedProjection, "Projection \"\(name)\" must depend only on group keys or aggregates",
            at: span)
    }

    /// The name of a projection: its alias, the last name of a path, else its position.
    private static func name(of value: ExpressionSyntax, _ alias: NameSyntax?, at index: Int) -> String {
        if let alias { return alias.text }
        let (root, steps) = Binder.steps(of: value)
        if case .name(let name) = root.kind {
            if steps.isEmpty { return name.text }
            if case .key(let key)? = steps.last { return key }
        }
        return "($\(index + 1))"
    }

    private static func elements(_ projection: ProjectionSyntax) -> [ExpressionSyntax] {
        switch projection {
        case .all: []
        case .raw(let value): [value]
        case .elements(let elements):
            elements.compactMap { if case .expression(let value, _) = $0 { value } else { nil } }
        }
    }

    /// What ORDER BY may call the projections.
    private static func names(_ projection: ProjectionSyntax) -> [(name: String, value: ExpressionSyntax)] {
        guard case .elements(let elements) = projection else { return [] }
        return elements.enumerated().compactMap { index, element in
            guard case .expression(let value, let alias) = element else { return nil }
            return (name: name(of: value, alias, at: index), value: value)
        }
    }
}
