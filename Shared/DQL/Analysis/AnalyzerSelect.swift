import CRDT

/// SELECT, and other projections like it.
extension Analyzer {
    mutating func plan(_ select: SelectStatement) throws(DQLError) -> SelectPlan {
        var rows = try documents(select.source, select.selection.condition, select.directives)
        if let grouping = try groupScope(select) {
            binder.scope.grouping = grouping
        }
        binder.scope.aggregatesRefused = nil
        binder.scope.notes = .row
        let projection = try projection(select.projection)
        binder.scope.notes = nil
        var having: BoundExpression?
        if let condition = select.having {
            binder.scope.grouping?.term = .having
            having = try binder.bind(condition: condition, of: .having)
        }
        binder.scope.grouping?.term = .order
        binder.scope.projected = Self.names(select.projection)
        let order = try terms(select.selection.order)
        if let grouping = binder.scope.grouping {
            rows = .group(rows, Grouping(keys: grouping.keys, aggregates: grouping.aggregates))
        }
        if let having { rows = .filter(rows, having) }
        return SelectPlan(
            input: OrderedRows(
                rows: rows, order: order, bounds: try bounds(select.selection),
                types: binder.scope.sources.map(\.types), hint: IndexHint(select.source),
                directives: Self.directives(of: select),
                names: binder.scope.sources.count > 1 ? binder.scope.sources.map(\.name) : []),
            projection: projection, isDistinct: select.isDistinct)
    }

    /// RETURNING over the documents of `binding`: nothing from earlier in the statement is in scope.
    mutating func plan(
        _ returning: ReturningSyntax?, over binding: SourceBinding
    ) throws(DQLError) -> ReturningPlan? {
        guard let returning else { return nil }
        binder.scope = Scope(sources: [binding], aggregatesRefused: nil)
        let isGrouped = Self.elements(returning.projection).contains(where: binder.containsAggregate)
        if isGrouped { binder.scope.grouping = GroupScope(keys: [], term: .projection("*")) }
        let projection = try projection(returning.projection)
        return ReturningPlan(
            projection: projection,
            grouping: binder.scope.grouping.map { Grouping(keys: [], aggregates: $0.aggregates) },
            types: [binding.types])
    }

    /// The statement's directives: hints at SELECT, then those at its first source.
    private static func directives(of select: SelectStatement) -> ObjectValue? {
        guard var all = select.directives?.values else { return select.source.directives?.values }
        for entry in select.source.directives?.values.entries ?? [] { all[entry.key] = entry.value }
        return all
    }

    // MARK: Groups

    private mutating func groupScope(_ select: SelectStatement) throws(DQLError) -> GroupScope? {
        binder.scope.aggregatesRefused = "GROUP BY"
        let keys = try binder.noting(.row) { binder throws(DQLError) in
            try binder.bind(select.groupKeys)
        }
        for (key, written) in zip(keys, select.groupKeys) { binder.warnAboutKey(key, written, "GROUP BY") }
        let terms =
            Self.elements(select.projection) + (select.having.map { [$0] } ?? [])
            + select.selection.order.map(\.expression)
        let isGrouped =
            !keys.isEmpty || select.having != nil || terms.contains(where: binder.containsAggregate)
        return isGrouped ? GroupScope(keys: keys, term: .projection("*")) : nil
    }

    private func refuseGroups(_ name: String, _ span: SourceSpan) throws(DQLError) {
        guard binder.scope.grouping != nil else { return }
        throw source.error(
            .ungroupedProjection, "Projection \"\(name)\" must depend only on group keys or aggregates",
            at: span)
    }

    // MARK: Projections

    private mutating func projection(_ written: ProjectionSyntax) throws(DQLError) -> BoundProjection {
        switch written {
        case .all(let span):
            try refuseGroups("*", span)
            if binder.scope.sources.count > 1 {
                return .elements(
                    binder.scope.sources.map { .named($0.name, .document(source: $0.index)) })
            }
            return .all(source: 0)
        case .raw(let value):
            binder.scope.grouping?.term = .projection("$1")
            return .raw(try binder.bind(value))
        case .elements(let elements):
            var bound: [BoundProjection.Element] = []
            var names = ProjectedNames()
            for (index, element) in elements.enumerated() {
                bound.append(try projectionElement(element, at: index, seen: &names))
            }
            return .elements(bound)
        }
    }

    private mutating func projectionElement(
        _ element: ProjectionElementSyntax, at index: Int, seen names: inout ProjectedNames
    ) throws(DQLError) -> BoundProjection.Element {
        switch element {
        case .star(let span):
            throw source.error(
                .mixedStar, "unqualified * with other projection elements is not supported", at: span,
                suggestion: "\(binder.scope.sources[0].name).*")
        case .allFields(let name):
            let bindings = binder.scope.sources
            guard let binding = bindings.first(where: { utf8Equal($0.name, name.text) }) else {
                throw source.error(
                    .unknownSource, "\(name.text) is not a source of this statement", at: name.span,
                    suggestion: Suggestion.closest(to: name.text, among: bindings.map(\.name)))
            }
            try refuseGroups("\(name.text).*", name.span)
            return .allFields(source: binding.index)
        case .missing(let path):
            var names = path.map(\.text)
            let isQualified = binder.scope.sources.contains { utf8Equal($0.name, names[0]) }
            if names.count > 1, isQualified { names.removeFirst() }
            return .missing(names)
        case .expression(let value, let alias):
            let name = Self.name(of: value, alias, at: index)
            if !names.add(name, value) {
                binder.warn(
                    .duplicateName, "two projections are named \(name); the later one shows", at: value.span)
            }
            binder.scope.grouping?.term = .projection(name)
            return .named(name, try binder.bind(value))
        }
    }

    /// The name of a projection: its alias, the last name of a path, or otherwise its position.
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

    /// The names by which ORDER BY may refer to the projections.
    private static func names(_ projection: ProjectionSyntax) -> ProjectedNames {
        var names = ProjectedNames()
        guard case .elements(let elements) = projection else { return names }
        for (index, element) in elements.enumerated() {
            guard case .expression(let value, let alias) = element else { continue }
            names.add(name(of: value, alias, at: index), value)
        }
        return names
    }
}
