import CRDT

/// Sources, conditions, order and bounds: what all statements have in common.
extension Analyzer {
    /// The documents that an UPDATE, DELETE or EVICT is about.
    mutating func targets(
        _ written: SourceSyntax, _ selection: SelectionSyntax
    ) throws(DQLError) -> OrderedRows {
        let rows = try documents(written, selection.condition)
        binder.scope.aggregatesRefused = "ORDER BY of this statement"
        return OrderedRows(
            rows: rows, order: try terms(selection.order), bounds: try bounds(selection),
            types: binder.scope.sources.map(\.types))
    }

    /// The documents of a source that a condition lets through.
    mutating func documents(
        _ written: SourceSyntax, _ condition: ExpressionSyntax?
    ) throws(DQLError) -> RowPlan {
        if let join = written.joins.first {
            throw source.error(.unsupportedClause, "JOIN is not supported yet", at: join.span)
        }
        let collection = written.collection
        binder.scope.aggregatesRefused = "USE IDS"
        var ids: IDList?
        switch written.ids {
        case nil: break
        case .list(let list): ids = .list(try binder.bind(list))
        case .array(let array): ids = .array(try binder.bind(array), array.span)
        }
        let name = collection.name.text
        binder.scope.sources = [
            SourceBinding(
                index: 0, name: written.alias?.text ?? name, isAlias: written.alias != nil, collection: name,
                types: try TypeResolver.resolve(collection.fields, source))
        ]
        var bound: BoundExpression?
        if let condition {
            binder.scope.aggregatesRefused = "WHERE"
            bound = try binder.bind(condition)
        }
        var rows: RowPlan
        if collection.isSystem {
            rows = try systemRows(collection, ids)
        } else if let ids = ids ?? bound.flatMap({ AccessPath.ids(in: $0, source: 0) }) {
            rows = .idScan(collection: name, source: 0, ids: ids)
        } else {
            rows = .scan(collection: name, source: 0)
        }
        if let bound { rows = .filter(rows, bound) }
        return rows
    }

    private func systemRows(_ collection: CollectionSyntax, _ ids: IDList?) throws(DQLError) -> RowPlan {
        let name = collection.name.text.lowercased()
        if name == SystemCollection.dual.rawValue { return .single }
        guard SystemCollection(rawValue: name) != nil else {
            let known = SystemCollection.allCases.map(\.rawValue)
            throw source.error(
                .unknownCollection, "there is no collection \(collection.qualifiedName)",
                at: collection.name.span,
                suggestion: Suggestion.closest(to: name, among: known).map { "system:\($0)" })
        }
        return .system(collection: collection.name, source: 0, ids: ids)
    }

    mutating func terms(_ order: [OrderSyntax]) throws(DQLError) -> [SortTerm] {
        var terms: [SortTerm] = []
        for term in order {
            terms.append(
                SortTerm(
                    expression: try binder.bind(term.expression), isDescending: term.isDescending,
                    nullsFirst: term.nullsFirst))
        }
        return terms
    }

    mutating func bounds(_ selection: SelectionSyntax) throws(DQLError) -> Bounds {
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
}
