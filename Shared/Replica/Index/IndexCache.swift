import Synchronization

/// What a store has read of its indexes: so that a statement need not read definitions again while they stay
/// as they are. Holds one version of the catalog, the one asked for last.
final class IndexCache: Sendable {
    private struct Catalog {
        var version: Int64 = 0
        /// By the numbers of the documents tables.
        var indexes: [Int64: [StoredIndex]] = [:]
    }

    private let catalog = Mutex(Catalog())

    /// The indexes of a table, read by `load` if they are not held. A version means one catalog, for ever.
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
