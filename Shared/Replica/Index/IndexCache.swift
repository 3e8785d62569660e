import Synchronization

/// The store's cache of indexes: statements need not read unchanged definitions again. Holds one version of
/// the catalog, the one requested last.
final class IndexCache: Sendable {
    private struct Catalog {
        var version: Int64 = 0
        /// By the numbers of the documents tables.
        var indexes: [Int64: [StoredIndex]] = [:]
    }

    private let catalog = Mutex(Catalog())

    /// The indexes of a table, read by `load` if they are not cached. A version names one catalog for ever.
    func indexes(
        of table: Int64, _ version: Int64, _ load: () throws -> [StoredIndex]
    ) rethrows -> [StoredIndex] {
        let known = catalog.withLock { $0.version == version ? $0.indexes[table] : nil }
        if let known { return known }
        let loaded = try load()
        catalog.withLock { catalog in
            if catalog.version != version { catalog = Catalog(version: version) }
            catalog.indexes[table] = loaded
        }
        return loaded
    }
}
