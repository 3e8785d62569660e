import CRDT
import DQL
import GRDB

extension DocumentStore {
    /// See `Replica.indexFaults`.
    func indexFaults() throws -> [String] {
        try read { transaction in
            try transaction.collectionNames().flatMap { try transaction.indexFaults(of: $0) }
        }
    }
}

extension ReadTransaction {
    fileprivate func indexFaults(of collection: CollectionName) throws -> [String] {
        guard let table = try collections.number(of: collection, database) else { return [] }
        return try table.catalog(database).indexes.flatMap { index in
            let wanted = try wantedEntries(of: index, table)
            let stored = try storedEntries(of: index)
            var faults: [String] = []
            for (document, entry) in stored where wanted[document].map({ $0 == entry }) != true {
                faults.append("has an entry of document \(document) that it should not have")
            }
            if index.description.isReady {
                for document in wanted.keys where stored[document] == nil {
                    faults.append("lacks document \(document)")
                }
            }
            if index.description.isExact, wanted.values.contains(where: \.isCut), index.description.isReady {
                faults.append("says that no key was cut")
            }
            return faults.map { "\(collection).\(index.description.name) \($0)" }
        }
    }

    private func wantedEntries(
        of index: StoredIndex, _ table: DocumentTable
    ) throws -> [Int64: StoredIndex.Entry] {
        let statement = try RawStatement(
            fresh: "SELECT number, state FROM documents_\(table) WHERE live", database)
        var entries: [Int64: StoredIndex.Entry] = [:]
        while try statement.step() {
            entries[statement.int(0)] = try index.entry(of: DocumentReader(statement.blob(1)))
        }
        return entries
    }

    /// The entries by document. A document with several entries gets a key here that no document has.
    private func storedEntries(of index: StoredIndex) throws -> [Int64: StoredIndex.Entry] {
        let statement = try RawStatement(
            fresh: "SELECT document, key, held FROM index_\(index.number)", database)
        var entries: [Int64: StoredIndex.Entry] = [:]
        while try statement.step() {
            let entry = StoredIndex.Entry(
                key: statement.bytes(1), values: statement.isNull(2) ? nil : statement.bytes(2))
            if entries.updateValue(entry, forKey: statement.int(0)) != nil {
                entries[statement.int(0)]?.key = [0xFF]
            }
        }
        return entries
    }
}
