import CRDT
import DQL
import Identity

extension PreparedStatement {
    /// True if it creates or drops indexes.
    var changesIndexes: Bool { kind == .createIndex || kind == .dropIndex || provisions }

    /// The collections whose indexes it changes.
    private var collectionsIndexed: [CollectionName] {
        switch indexChange(SystemParameters()) {
        case .create(let index, _)?: [index.collection]
        case .drop(let collection, _, _)?: [collection]
        case nil: provisions ? collections.filter { !$0.text.hasPrefix("system:") } : []
        }
    }

    /// Refuses changes of indexes to those who may not read and write a collection as a whole: every write to
    /// the collection pays for its indexes.
    /// - Throws: `QUERY-0203`.
    func authorizeIndexes(_ rights: CompiledGrant) throws(QueryError) {
        guard changesIndexes else { return }
        for collection in collectionsIndexed
        where !rights.read.allowsAll(of: collection) || !rights.write.allowsAll(of: collection) {
            throw QueryError(.writeNotGranted, "the whole of \(collection), which its indexes take")
        }
    }

    /// Carries out CREATE INDEX, DROP INDEX or ADVISE AND PROVISION: changes the definitions.
    func changeIndexes(
        in writer: any DocumentWriter, _ arguments: ObjectValue, _ options: ExecutionOptions
    ) throws -> StatementResult {
        var result = StatementResult()
        result.warnings = warnings
        if let change = indexChange(options.parameters) {
            if let warning = warning(of: change, among: try IndexDefinitions.all(in: writer)) {
                result.warnings.append(warning)
            }
            try IndexDefinitions.carryOut(change, in: writer)
            return result
        }
        let advice = try advice(in: writer, arguments: arguments, options: options)
        var created: [String] = []
        var failed: [(name: String, message: String)] = []
        for suggestion in advice.suggestions {
            do {
                try IndexDefinitions.carryOut(.create(suggestion.index, ifNotExists: false), in: writer)
                created.append(suggestion.index.name)
            } catch let error as DQLError {
                failed.append((suggestion.index.name, error.message))
            }
        }
        result.rows = [advice.row(created: created, failed: failed)]
        return result
    }
}

extension QuerySystemCollections {
    /// The rows of `system:indexes`: of each definition whether its index is complete here.
    static func indexes(of documents: any ProjectedDocuments, rules: CompiledRules) throws -> [ObjectValue] {
        guard let indexed = documents.indexed else { return [] }
        var rows: [ObjectValue] = []
        for definition in try IndexDefinitions.all(in: documents)
        where rules.allowsAny(of: definition.collection) {
            let known = try indexed.catalog(of: definition.collection).indexes
            rows.append((known.first { $0.isDefined(like: definition) } ?? definition).row)
        }
        return rows
    }
}
