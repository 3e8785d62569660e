import CRDT

extension PreparedStatement {
    /// The documents that an execution writes, where the statement and its arguments name them: a store far
    /// away can read them ahead, those of several statements at once. Empty for a statement that finds its
    /// documents by looking, and for one that names many: it tells its writer what it needs next
    /// (`DocumentWriter.expect`).
    public func namedDocuments(_ arguments: ObjectValue) -> [DocumentKey] {
        switch plan {
        case .insert(let insert):
            guard case .documents(let written) = insert.source, written.count <= DQLLimits.namedDocuments,
                let values = try? bind(arguments)
            else { return [] }
            return keys(insert.collection, written.flatMap { Self.ids(ofNew: $0.value, values) })
        case .update(let update): return targets(update.collection, update.targets.rows, arguments)
        case .delete(let removal): return targets(removal.collection, removal.targets.rows, arguments)
        default: return []
        }
    }

    private func targets(
        _ collection: CollectionName, _ rows: RowPlan, _ arguments: ObjectValue
    ) -> [DocumentKey] {
        switch rows {
        case .filter(let leaf, _): return targets(collection, leaf, arguments)
        case .idScan(_, _, .list(let ids)):
            guard ids.count <= DQLLimits.namedDocuments, let values = try? bind(arguments) else { return [] }
            return keys(collection, ids.compactMap { Self.known($0, values) })
        case .idScan(_, _, .array(let ids, _)):
            guard let values = try? bind(arguments), let ids = Self.known(ids, values)?.arrayValue,
                ids.count <= DQLLimits.namedDocuments
            else { return [] }
            return keys(collection, ids)
        default: return []
        }
    }

    /// The ids of the documents that an operand of INSERT stands for.
    private static func ids(ofNew operand: BoundExpression, _ values: [Value]) -> [Value] {
        if case .object(let entries) = operand {
            let id = entries.last { utf8Equal($0.key, documentIDField) }
            return id.flatMap { known($0.value, values) }.map { [$0] } ?? []
        }
        switch known(operand, values) {
        case .object(let object): return object[documentIDField].map { [$0] } ?? []
        case .array(let elements) where elements.count <= DQLLimits.namedDocuments:
            return elements.compactMap { $0[documentIDField] }
        default: return []
        }
    }

    private static func known(_ operand: BoundExpression, _ values: [Value]) -> Value? {
        DirectRead.Operand(operand)?.value(values)
    }

    private func keys(_ collection: CollectionName, _ ids: [Value]) -> [DocumentKey] {
        ids.compactMap { id in
            (try? DocumentID(id)).map { DocumentKey(collection: collection, id: $0) }
        }
    }
}
