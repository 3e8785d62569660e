import CRDT
import DQL
import Identity

/// The `system:` collections of a database over HTTP. Collections without any document that the rules allow
/// do not appear.
struct QuerySystemCollections: SystemCollections {
    private let names: [CollectionName]
    private let indexes: [ObjectValue]
    private let rules: CompiledRules

    /// The collections of a snapshot for these statements. Names and indexes are read only for a statement
    /// that asks for them: in PostgreSQL that is a round trip.
    init(
        of documents: any ProjectedDocuments, for statements: [PreparedStatement], rules: CompiledRules
    ) throws {
        names = statements.contains { $0.reads(.collections) } ? try documents.collectionNames() : []
        let readsIndexes = statements.contains { $0.reads(.indexes) }
        indexes = readsIndexes ? try Self.indexes(of: documents, rules: rules) : []
        self.rules = rules
    }

    func rows(of collection: SystemCollection) -> [ObjectValue]? {
        switch collection {
        case .dual: [ObjectValue()]
        case .collections:
            names.filter { rules.allowsAny(of: $0) }.map { name in
                ObjectValue([
                    (key: "_id", value: .string(name.text)), (key: "name", value: .string(name.text)),
                ])
            }
        case .indexes: indexes
        default: nil
        }
    }
}
