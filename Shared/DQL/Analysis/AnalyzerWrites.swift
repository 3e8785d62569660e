import CRDT

/// INSERT, UPDATE, DELETE and EVICT.
extension Analyzer {
    mutating func plan(_ insert: InsertStatement) throws(DQLError) -> InsertPlan {
        try checkWritable(insert.collection)
        let types = try TypeResolver.resolve(insert.collection.fields, source)
        let documents: InsertPlan.Source
        binder.scope.sources = []
        switch insert.source {
        case .documents(let written):
            binder.scope.aggregatesRefused = "DOCUMENTS"
            var bound: [(value: BoundExpression, span: SourceSpan)] = []
            for document in written {
                bound.append((value: try binder.bind(document), span: document.span))
            }
            documents = .documents(bound)
        case .query(let select): documents = .query(try plan(select), insert.collection.name.span)
        }
        let name = insert.collection.name.text
        let binding = SourceBinding(
            index: 0, name: name, isAlias: false, collection: insert.collection.collectionName,
            types: types)
        return InsertPlan(
            collection: binding.collection, source: documents, isInitial: insert.isInitial,
            policy: insert.policy,
            types: types, returning: try plan(insert.returning, over: binding))
    }

    mutating func plan(_ update: UpdateStatement) throws(DQLError) -> UpdatePlan {
        let isReport = utf8Equal(update.source.collection.name.text, reportCollectionName)
        if update.source.collection.isSystem || !isReport { try checkWritable(update.source.collection) }
        let targets = try targets(update.source, update.selection)
        let binding = binder.scope.sources[0]
        var resolver = TargetResolver(source: source, binding: binding)
        var changes: [FieldChange] = []
        binder.scope.aggregatesRefused = "APPLY"
        for application in update.applications {
            changes.append(try change(application, &resolver))
        }
        binder.scope.aggregatesRefused = "SET"
        for assignment in update.assignments {
            try add(assignment, below: [], &changes, &resolver)
        }
        for removal in update.removals {
            changes.append(try resolver.resolve(removal).change(.unset))
        }
        return UpdatePlan(
            collection: update.source.collection.collectionName, targets: targets, changes: changes,
            returning: try plan(update.returning, over: binding))
    }

    /// DELETE and TOMBSTONE.
    mutating func plan(delete removal: RemovalStatement) throws(DQLError) -> StatementPlan {
        let collection = removal.source.collection
        guard collection.isSystem, let known = SystemCollection(rawValue: collection.name.text.lowercased()),
            known.takesDelete
        else { return .delete(try plan(removal)) }
        let targets = try targets(removal.source, removal.selection)
        return .deleteRequests(
            known,
            RemovalPlan(
                collection: CollectionName(known.rawValue), targets: targets,
                returning: try plan(removal.returning, over: binder.scope.sources[0])))
    }

    mutating func plan(_ removal: RemovalStatement) throws(DQLError) -> RemovalPlan {
        try checkWritable(removal.source.collection)
        let targets = try targets(removal.source, removal.selection)
        return RemovalPlan(
            collection: removal.source.collection.collectionName, targets: targets,
            returning: try plan(removal.returning, over: binder.scope.sources[0]))
    }

    private func checkWritable(_ collection: CollectionSyntax) throws(DQLError) {
        if collection.isSystem {
            throw source.error(
                .readOnlyCollection, "\(collection.qualifiedName) cannot be written", at: collection.name.span
            )
        }
        if collection.name.text.hasPrefix(reservedCollectionPrefix) {
            throw source.error(
                .reservedCollection,
                "\(collection.name.text) cannot be written: names that begin with "
                    + "\(reservedCollectionPrefix) belong to the system",
                at: collection.name.span)
        }
    }

    // MARK: Changes

    private mutating func change(
        _ application: ApplySyntax, _ resolver: inout TargetResolver
    ) throws(DQLError) -> FieldChange {
        let target = try resolver.resolve(application.target)
        if let kind = target.declaration?.kind, kind != .counter {
            throw resolver.refusal(kind, target.path[target.path.count - 1], application.target.span)
        }
        switch application.action {
        case .increment(let amount):
            return target.change(.increment(try binder.bind(amount), isFractional: false))
        case .pnIncrement(let amount):
            return target.change(.increment(try binder.bind(amount), isFractional: true))
        case .restart(nil): return target.change(.restart(.constant(0)))
        case .restart(let value?): return target.change(.restart(try binder.bind(value)))
        }
    }

    private mutating func add(
        _ assignment: AssignmentSyntax, below path: [String], _ changes: inout [FieldChange],
        _ resolver: inout TargetResolver
    ) throws(DQLError) {
        let written = TargetSyntax(
            segments: path + assignment.target.segments, span: assignment.target.span)
        switch assignment.action {
        case .value(let value):
            let target = try resolver.resolve(written)
            changes.append(target.change(.set(try binder.bind(value))))
        case .tombstone: changes.append(try resolver.resolve(written).change(.unset))
        case .reset:
            let target = try resolver.resolve(written)
            if let kind = target.declaration?.kind, kind == .counter || kind == .attachment {
                throw resolver.refusal(kind, target.path[target.path.count - 1], written.span)
            }
            changes.append(target.change(.reset))
        case .children(let children):
            for child in children { try add(child, below: written.segments, &changes, &resolver) }
        }
    }
}

extension TargetResolver.Target {
    func change(_ action: FieldChange.Action) -> FieldChange {
        FieldChange(
            path: path, declaration: declaration, undeclaredStep: undeclaredStep, action: action, span: span)
    }
}
