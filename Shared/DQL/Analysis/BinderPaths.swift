import CRDT

/// Paths: decides which part of a path names a source, is read in place, or is evaluated on a value.
extension Binder {
    @inline(never)
    mutating func bindPath(_ expression: ExpressionSyntax) throws(DQLError) -> BoundExpression {
        let (root, steps) = Self.steps(of: expression)
        guard case .name(let written) = root.kind else { return try apply(steps[...], to: try bind(root)) }
        let name = written.text
        if let local = scope.locals.lastIndex(of: written) { return try apply(steps[...], to: .local(local)) }
        guard !scope.sources.isEmpty else {
            throw source.error(
                .fieldWithoutDocument, "Cannot convert to a literal: no document has the field \(name) here",
                at: root.span)
        }
        if let place = projection(named: name) { return try apply(steps[...], to: bindProjected(place)) }
        if let scopeTerm = scope.grouping?.term {
            throw ungrouped(scopeTerm, at: expression.span)
        }
        let bound = try bindField(name, steps[...], root.span)
        notePresence(of: bound, expression)
        return bound
    }

    private func projection(named name: String) -> Int? {
        scope.projected.place(of: name)
    }

    /// A projection of SELECT, bound once however often ORDER BY refers to it. It does not see the variables
    /// of ORDER BY's expression; their numbers stay taken. Its warnings were reported where SELECT names it.
    private mutating func bindProjected(_ place: Int) throws(DQLError) -> BoundExpression {
        let key = Scope.ProjectedPlace(place: place, locals: scope.locals.count)
        if let known = scope.boundProjections[key] { return known }
        let (projected, locals, known) = (scope.projected, scope.locals, findings)
        scope.projected = ProjectedNames()
        scope.locals = locals.map { _ in nil }
        let bound = try bind(projected.values[place])
        scope.projected = projected
        scope.locals = locals
        forget(since: known)
        scope.boundProjections[key] = bound
        return bound
    }

    /// A field of one of the statement's documents; the first name may be the name of the source.
    private mutating func bindField(
        _ first: String, _ steps: ArraySlice<PathStep>, _ span: SourceSpan
    ) throws(DQLError) -> BoundExpression {
        var names = [first]
        var rest = steps
        while case .key(let key)? = rest.first {
            names.append(key)
            rest = rest.dropFirst()
        }
        guard let binding = try binding(&names, span) else {
            // `_id` of a join: the ids of all sides.
            let ids = scope.sources.map {
                BoundExpression.Entry(key: $0.name, value: .documentID(source: $0.index))
            }
            return try apply((names.dropFirst().map { PathStep.key($0) } + rest)[...], to: .object(ids))
        }
        guard let field = names.first else { return try apply(rest, to: .document(source: binding.index)) }
        if utf8Equal(field, documentIDField) {
            let parts = names.dropFirst().map { PathStep.key($0) }
            return try apply((parts + rest)[...], to: .documentID(source: binding.index))
        }
        return try apply(rest, to: .field(access(names, binding)))
    }

    /// The source of a path, its name removed from the path; nil for the `_id` of several sources.
    private mutating func binding(
        _ names: inout [String], _ span: SourceSpan
    ) throws(DQLError) -> SourceBinding? {
        let first = names[0]
        if scope.sources.count == 1 {
            let binding = scope.sources[0]
            if utf8Equal(first, binding.name) {
                names.removeFirst()
            } else if names.count > 1, scope.outerNames.contains(where: { utf8Equal($0, first) }) {
                throw source.error(
                    .unsupportedClause,
                    "a subquery cannot read \(first), a source of the outer statement", at: span)
            } else if binding.isAlias, utf8Equal(first, binding.collection.text), names.count > 1 {
                warn(
                    .hiddenName,
                    "\(first) is called \(binding.name) here; \(first).\(names[1]) reads a field \(first)",
                    at: span)
            }
            return binding
        }
        if let binding = scope.sources.first(where: { utf8Equal($0.name, first) }) {
            names.removeFirst()
            return binding
        }
        if utf8Equal(first, documentIDField) { return nil }
        throw source.error(
            .ambiguousField, "Ambiguous reference to field: \(first)", at: span,
            suggestion: Suggestion.closest(to: first, among: scope.sources.map(\.name))
                ?? "\(scope.sources[0].name).\(first)")
    }

    private func access(_ names: [String], _ binding: SourceBinding) -> FieldAccess {
        var declaration: TypeDeclaration? = binding.types.root
        var kinds: [FieldKind?] = []
        for name in names {
            declaration = declaration?[name]
            kinds.append(declaration?.kind)
        }
        return FieldAccess(source: binding.index, path: names, kinds: kinds, declaration: declaration)
    }

    private mutating func apply(
        _ steps: ArraySlice<PathStep>, to base: BoundExpression
    ) throws(DQLError) -> BoundExpression {
        var result = base
        for step in steps {
            switch step {
            case .key(let key): result = .element(result, .constant(.string(key)))
            case .index(let index): result = .element(result, try bind(index))
            }
        }
        return result
    }

    /// `a.b["c"][0]` as its root and steps.
    static func steps(of expression: ExpressionSyntax) -> (root: ExpressionSyntax, steps: [PathStep]) {
        var steps: [PathStep] = []
        var current = expression
        while true {
            switch current.kind {
            case .member(let base, let name):
                steps.append(.key(name.text))
                current = base
            case .element(let base, let index):
                if case .literal(.string(let key)) = index.kind {
                    steps.append(.key(key))
                } else {
                    steps.append(.index(index))
                }
                current = base
            default: return (current, steps.reversed())
            }
        }
    }

    // MARK: Groups

    /// The slot of the group key that equals the expression, if groups are in scope.
    @inline(never)
    mutating func groupKey(_ expression: ExpressionSyntax) throws(DQLError) -> Int? {
        guard let grouping = scope.grouping, !grouping.keys.isEmpty, !containsAggregate(expression) else {
            return nil
        }
        if case .name(let name) = Self.steps(of: expression).root.kind, projection(named: name.text) != nil {
            return nil
        }
        // Changed in place: a copy of the binder for each term would copy its parameters each time.
        // Parameters found here stay, since they belong to the term; warnings are dropped, since binding the
        // term itself reports them.
        let outer = scope
        let known = findings
        scope.grouping = nil
        scope.projected = ProjectedNames()
        let bound = try bind(expression)
        scope = outer
        forget(since: known)
        return grouping.slot(of: bound)
    }

    /// The longest beginning of a chain that is a group key: its slot, and the number of its operators.
    mutating func groupKey(
        beginning first: ExpressionSyntax, _ links: [ExpressionSyntax.ChainStep]
    ) -> (slot: Int, count: Int)? {
        guard let grouping = scope.grouping, links.count > 1 else { return nil }
        let chains = grouping.keys.enumerated().compactMap { slot, key in
            key.asChain.map { (slot: slot, first: $0.first, links: $0.links) }
        }
        guard let longest = chains.map(\.links.count).max() else { return nil }
        let (outer, known) = (scope, findings)
        defer {
            scope = outer
            forget(since: known)
        }
        scope.grouping = nil
        scope.projected = ProjectedNames()
        let beginning = links.prefix(longest)
        guard let start = try? bind(first),
            let rest = try? bind(beginning.map(\.operand))
        else { return nil }
        let bound = zip(beginning, rest).map { BoundExpression.ChainStep(symbol: $0.symbol, operand: $1) }
        return chains.filter {
            $0.links.count <= bound.count && $0.first == start
                && $0.links.elementsEqual(bound.prefix($0.links.count))
        }
        .max { $0.links.count < $1.links.count }.map { (slot: $0.slot, count: $0.links.count) }
    }

    private func ungrouped(_ term: GroupScope.Term, at span: SourceSpan) -> DQLError {
        switch term {
        case .projection(let name):
            source.error(
                .ungroupedProjection, "Projection \"\(name)\" must depend only on group keys or aggregates",
                at: span)
        case .having:
            source.error(
                .ungroupedTerm, "HAVING clause terms must depend only on group keys or aggregates", at: span)
        case .order:
            source.error(
                .ungroupedTerm, "ORDER BY clause terms must depend only on group keys or aggregates", at: span
            )
        }
    }

    /// Returns whether an aggregate is called anywhere in the expression.
    func containsAggregate(_ expression: ExpressionSyntax) -> Bool {
        if case .call(let call) = expression.kind, AggregateKind(rawValue: call.name) != nil { return true }
        return expression.kind.children.contains(where: containsAggregate)
    }
}

/// One step of a path below its root.
enum PathStep {
    case key(String)
    case index(ExpressionSyntax)
}

/// The field that shows the id of a document.
public let documentIDField = "_id"
