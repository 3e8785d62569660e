import CRDT

/// CREATE INDEX and DROP INDEX.
extension Analyzer {
    func plan(_ create: CreateIndexStatement) throws(DQLError) -> IndexPlan {
        try checkIndexed(create.collection)
        try checkName(create.name)
        guard create.keys.count <= DQLLimits.indexKeys else {
            throw source.error(
                .tooManyTerms, "an index has at most \(DQLLimits.indexKeys) keys",
                at: create.keys[DQLLimits.indexKeys].path.span)
        }
        var keys: [IndexDescription.Key] = []
        var openKeys: Set<Int> = []
        for written in create.keys {
            var path = written.path.segments
            if path.count > 1, utf8Equal(path[0], create.collection.name.text) { path.removeFirst() }
            if utf8Equal(path[0], documentIDField) {
                throw source.error(
                    .invalidIndex, "the document id `_id` needs no index: it is found without one",
                    at: written.path.span)
            }
            if keys.contains(where: { Self.areEqual($0.path, path) }) {
                throw source.error(
                    .invalidIndex, "\(path.joined(separator: ".")) is already a key of this index",
                    at: written.path.span)
            }
            if written.includesMissing == nil { openKeys.insert(keys.count) }
            keys.append(
                IndexDescription.Key(
                    path: path, isDescending: written.isDescending,
                    includesMissing: written.includesMissing ?? true))
        }
        let index = IndexDescription(
            name: create.name.text, collection: create.collection.collectionName, keys: keys)
        return IndexPlan(change: .create(index, ifNotExists: create.ifNotExists), openKeys: openKeys)
    }

    func plan(_ drop: DropIndexStatement) throws(DQLError) -> IndexPlan {
        try checkIndexed(drop.collection)
        return IndexPlan(
            change: .drop(
                collection: drop.collection.collectionName, name: drop.name.text, ifExists: drop.ifExists))
    }

    private func checkIndexed(_ collection: CollectionSyntax) throws(DQLError) {
        guard collection.isSystem else { return }
        throw source.error(
            .readOnlyCollection, "\(collection.qualifiedName) cannot have indexes", at: collection.name.span)
    }

    private func checkName(_ name: NameSyntax) throws(DQLError) {
        let length = name.text.utf8.count
        guard length == 0 || length > DQLLimits.indexNameBytes else { return }
        throw source.error(
            .invalidIndex, "an index's name has 1 to \(DQLLimits.indexNameBytes) bytes", at: name.span)
    }

    private static func areEqual(_ left: [String], _ right: [String]) -> Bool {
        left.count == right.count && zip(left, right).allSatisfy(utf8Equal)
    }
}

extension PreparedStatement {
    /// The index change that CREATE INDEX or DROP INDEX asks its store for, with
    /// `dql_index_default_include_missing` applied to keys without INCLUDE or EXCLUDE MISSING; nil for other
    /// statements.
    public func indexChange(_ parameters: SystemParameters) -> IndexChange? {
        guard case .index(let index) = plan else { return nil }
        guard case .create(let description, let ifNotExists) = index.change,
            !parameters.indexesIncludeMissing
        else { return index.change }
        let keys = description.keys.enumerated().map { place, key in
            IndexDescription.Key(
                path: key.path, isDescending: key.isDescending,
                includesMissing: key.includesMissing && !index.openKeys.contains(place))
        }
        return .create(
            IndexDescription(name: description.name, collection: description.collection, keys: keys),
            ifNotExists: ifNotExists)
    }
}

extension PreparedStatement {
    /// The warning about a CREATE INDEX that brings nothing new: an equal index is there under another name,
    /// or one of the name is there that is on other fields, which IF NOT EXISTS keeps.
    /// - Parameter known: the indexes before the change.
    public func warning(of change: IndexChange, among known: [IndexDescription]) -> DQLWarning? {
        guard case .create(let index, _) = change else { return nil }
        let others = known.filter { $0.collection == index.collection }
        if let namesake = others.first(where: { utf8Equal($0.name, index.name) }) {
            guard namesake.keys != index.keys else { return nil }
            return source.warning(
                .indexNotNew, "the index \(index.name) is on other fields, and stays: drop it first",
                at: SourceSpan(start: 0, end: 0))
        }
        guard let equal = others.first(where: { $0.keys == index.keys }) else { return nil }
        return source.warning(
            .indexNotNew,
            "the index \(equal.name) is on the same fields: reads use one of them, and writes pay for both",
            at: SourceSpan(start: 0, end: 0))
    }
}

extension DQLError {
    /// CREATE INDEX without IF NOT EXISTS, of a name that the collection's indexes already have.
    public static func indexExists(_ name: String, _ collection: CollectionName) -> DQLError {
        DQLError(
            .indexExists,
            "an index with the given name already exists on the given collection: \(name) on \(collection)",
            position: SourcePosition(line: 1, column: 1))
    }

    /// DROP INDEX without IF EXISTS, of an index that does not exist.
    public static func unknownIndex(_ name: String, _ collection: CollectionName) -> DQLError {
        DQLError(
            .unknownIndex, "there is no index \(name) on \(collection)",
            position: SourcePosition(line: 1, column: 1))
    }

    /// CREATE INDEX of an index that was dropped before it was complete.
    public static func indexGone(_ name: String, _ collection: CollectionName) -> DQLError {
        DQLError(
            .cancelled, "Query failed: the index \(name) on \(collection) was dropped while it was built")
    }

    /// CREATE INDEX on a collection that has as many indexes as it may.
    public static func tooManyIndexes(_ collection: CollectionName) -> DQLError {
        DQLError(
            .tooManyIndexes,
            "\(collection) has \(DQLLimits.indexesOfCollection) indexes already, and may not have more")
    }
}
