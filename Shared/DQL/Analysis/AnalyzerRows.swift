import CRDT

/// Sources, conditions, order and bounds: the common parts of all statements.
extension Analyzer {
    /// The documents of an UPDATE, DELETE or EVICT.
    mutating func targets(
        _ written: SourceSyntax, _ selection: SelectionSyntax
    ) throws(DQLError) -> OrderedRows {
        let rows = try documents(written, selection.condition)
        binder.scope.aggregatesRefused = "ORDER BY of this statement"
        return OrderedRows(
            rows: rows, order: try terms(selection.order), bounds: try bounds(selection),
            types: binder.scope.sources.map(\.types), hint: IndexHint(written),
            directives: written.directives?.values)
    }

    /// The documents of a source, or the pairs of several, for which a condition is true.
    mutating func documents(
        _ written: SourceSyntax, _ condition: ExpressionSyntax?, _ directives: DirectivesSyntax? = nil
    ) throws(DQLError) -> RowPlan {
        let most = Directives(ObjectValue(), directives?.values).joins
        guard written.joins.count <= most else {
            throw source.error(
                .tooManyTerms, "a statement has at most \(most) joins", at: written.joins[most].span)
        }
        let sources = [written] + written.joins.map(\.source)
        var ids: [IDList?] = []
        for one in sources { ids.append(try self.ids(one)) }
        var bindings: [SourceBinding] = []
        for (index, one) in sources.enumerated() { bindings.append(try binding(one, index, among: bindings)) }
        // A RIGHT JOIN comes first and is a LEFT JOIN with its sides swapped.
        let isSwapped = written.joins.first?.kind == .right
        var conditions: [BoundExpression] = []
        for (index, join) in written.joins.enumerated() {
            binder.scope.sources = Array(bindings[...(index + 1)])
            binder.scope.aggregatesRefused = "ON"
            // The rows of an outer join are there without a partner too.
            conditions.append(
                try binder.bind(condition: join.condition, of: join.kind == .inner ? .condition : .row))
        }
        binder.scope.sources = bindings
        var bound: BoundExpression?
        if let condition {
            binder.scope.aggregatesRefused = "WHERE"
            bound = try binder.bind(condition: condition)
        }
        let first = isSwapped ? 1 : 0
        var rows = try leaf(sources[first], first, ids[first], bound)
        // The fields of documents that are asked for by their ids tell nothing about the others.
        if case .idScan = rows {
            binder.expectations.removeAll { one in
                if case .documentID = one.field.expression { false } else { one.field.source == first }
            }
        }
        for (index, join) in written.joins.enumerated() {
            let joined = index == 0 && isSwapped ? 0 : index + 1
            let one = sources[joined]
            rows = .join(
                rows,
                JoinPlan(
                    collection: one.collection.isSystem
                        ? .system(try systemName(one.collection)) : .documents(one.collection.collectionName),
                    source: joined, isOuter: join.kind != .inner, condition: conditions[index],
                    hint: IndexHint(one), ids: ids[joined], span: one.collection.name.span))
        }
        if let bound { rows = .filter(rows, bound) }
        return rows
    }

    private mutating func ids(_ written: SourceSyntax) throws(DQLError) -> IDList? {
        binder.scope.sources = []
        binder.scope.aggregatesRefused = "USE IDS"
        switch written.ids {
        case nil: return nil
        case .list(let list): return .list(try binder.bind(list))
        case .array(let array): return .array(try binder.bind(array), array.span)
        }
    }

    private mutating func binding(
        _ written: SourceSyntax, _ index: Int, among known: [SourceBinding]
    ) throws(DQLError) -> SourceBinding {
        let collection = written.collection
        let name = written.alias?.text ?? collection.name.text
        if known.contains(where: { utf8Equal($0.name, name) }) {
            throw source.error(
                .duplicateSource, "two sources are called \(name): give one of them an alias",
                at: (written.alias ?? collection.name).span)
        }
        binder.reads(collection.qualifiedName)
        return SourceBinding(
            index: index, name: name, isAlias: written.alias != nil, collection: collection.collectionName,
            types: try TypeResolver.resolve(collection.fields, source), isSystem: collection.isSystem)
    }

    private func leaf(
        _ written: SourceSyntax, _ index: Int, _ ids: IDList?, _ condition: BoundExpression?
    ) throws(DQLError) -> RowPlan {
        let collection = written.collection
        if collection.isSystem {
            let name = try systemName(collection)
            if utf8Equal(name.text.lowercased(), SystemCollection.dual.rawValue) { return .single }
            return .system(collection: name, source: index, ids: ids)
        }
        let name = collection.collectionName
        if let ids = ids ?? condition.flatMap({ AccessPath.ids(in: $0, source: index) }) {
            return .idScan(collection: name, source: index, ids: ids)
        }
        return .scan(collection: name, source: index)
    }

    /// The name of an existing `system:` collection.
    private func systemName(_ collection: CollectionSyntax) throws(DQLError) -> NameSyntax {
        let name = collection.name.text.lowercased()
        guard SystemCollection(rawValue: name) != nil else {
            let known = SystemCollection.allCases.map(\.rawValue)
            throw source.error(
                .unknownCollection, "there is no collection \(collection.qualifiedName)",
                at: collection.name.span,
                suggestion: Suggestion.closest(to: name, among: known).map { "system:\($0)" })
        }
        return collection.name
    }

    mutating func terms(_ order: [OrderSyntax]) throws(DQLError) -> [SortTerm] {
        var terms: [SortTerm] = []
        for term in order {
            let bound = try binder.noting(.row) { binder throws(DQLError) in
                try binder.bind(term.expression)
            }
            binder.warnAboutKey(bound, term.expression, "ORDER BY")
            terms.append(
                SortTerm(
                    expression: bound, isDescending: term.isDescending, nullsFirst: term.nullsFirst))
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
