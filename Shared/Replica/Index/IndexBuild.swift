import CRDT
import DQL
import Dispatch
import GRDB

// Building an index on existing documents.
//
// CREATE INDEX adds the index to the catalog and creates its table, in one transaction. From then on every
// write maintains it, as if it were complete. Then, in steps that are transactions of their own, the
// documents are added in the order of their numbers, and the catalog records the progress; the last step
// completes the index, and plans may use it. A document written meanwhile is in it already, with the same
// entry. Readers use their snapshots throughout, writers wait for one step at most, and after a crash
// building continues from the last committed step.

extension DocumentStore {
    /// See `Replica.change`.
    func change(
        _ change: IndexChange, interruption: (@Sendable () -> Interruption?)? = nil
    ) throws {
        switch change {
        case .create(let index, let ifNotExists):
            let begun = try begin(index, ifNotExists: ifNotExists)
            do {
                try build(index.collection, index.name, interruption)
                if begun != nil { checkpointWriteAheadLog() }
            } catch {
                // If even that fails, the next opening continues it.
                if let begun { try? takeBack(begun) }
                throw error
            }
        case .drop(let collection, let name, let ifExists):
            try drop(collection, name, ifExists: ifExists)
        }
    }

    /// The indexes of all collections.
    func indexes() throws -> [IndexDescription] {
        try read { transaction in
            try transaction.collectionNames().flatMap { try transaction.catalog(of: $0).indexes }
        }
    }

    /// Adds the index; returns its number, or nil if there already was one.
    @discardableResult
    func begin(_ index: IndexDescription, ifNotExists: Bool) throws -> Int64? {
        try committing { database, _ in
            var collections = Collections()
            let table = try collections.requireNumber(of: index.collection, database)
            let known = try IndexRows.load(table, database)
            if known.contains(where: { utf8Equal($0.description.name, index.name) }) {
                guard ifNotExists else {
                    throw DQLError.indexExists(index.name, index.collection)
                }
                return nil
            }
            guard known.count < DQLLimits.indexesOfCollection else {
                throw DQLError.tooManyIndexes(index.collection)
            }
            return try IndexRows.insert(index, table, database)
        }
    }

    /// Checkpoints the new index into the file: pages in the write-ahead log must be looked up one by one.
    /// Waits for its turn to write but for no reader, and is skipped if it is not possible now.
    private func checkpointWriteAheadLog() { try? writing { _ = try $0.checkpoint(.passive) } }

    private func drop(_ collection: CollectionName, _ name: String, ifExists: Bool) throws {
        try committing { database, _ in
            guard let index = try Self.index(collection, name, database)?.index else {
                if ifExists { return }
                throw DQLError.unknownIndex(name, collection)
            }
            try IndexRows.delete(index.number, database)
        }
    }

    /// Drops an index that was begun but must not be completed.
    private func takeBack(_ number: Int64) throws {
        try committing { database, _ in
            if try IndexRows.built(number, database) != nil { try IndexRows.delete(number, database) }
        }
    }

    /// Adds documents to an index until it is complete.
    private func build(
        _ collection: CollectionName, _ name: String, _ interruption: (@Sendable () -> Interruption?)? = nil
    ) throws {
        while try buildStep(collection, name) {
            if let reason = interruption?() { throw DQLError.interrupted(reason) }
        }
        let isThere = try read { transaction in
            try transaction.catalog(of: collection).indexes.contains { utf8Equal($0.name, name) }
        }
        guard isThere else { throw DQLError.indexGone(name, collection) }
    }

    /// Runs one step; false when nothing is left to do.
    func buildStep(_ collection: CollectionName, _ name: String) throws -> Bool {
        try committing { database, _ in
            guard let (table, index) = try Self.index(collection, name, database),
                let built = try IndexRows.built(index.number, database)
            else { return false }
            let last = try Self.add(to: index, table, after: built, database)
            try IndexRows.setBuilt(index.number, last, database)
            return last != nil
        }
    }

    /// Adds the next documents; returns the number of the last one, or nil at the end.
    private static func add(
        to index: StoredIndex, _ table: DocumentTable, after built: Int64, _ database: Database
    ) throws -> Int64? {
        let statement = try RawStatement(
            cached: "SELECT number, live, state FROM documents_\(table) WHERE number > ? ORDER BY number",
            database)
        statement.bind(1, built)
        var entries: [(entry: StoredIndex.Entry, document: Int64)] = []
        var last = built
        var documents = 0
        var bytes = 0
        var isAtEnd = false
        while documents < ReplicaLimits.indexBuildDocuments, bytes < ReplicaLimits.indexBuildBytes {
            guard try statement.step() else {
                isAtEnd = true
                break
            }
            last = statement.int(0)
            documents += 1
            bytes += statement.blob(2).count
            guard statement.int(1) != 0 else { continue }
            if let entry = try index.entry(of: DocumentReader(statement.blob(2))) {
                entries.append((entry, last))
            }
        }
        // In the order of the keys: neighbours share pages.
        entries.sort { compareBytes($0.entry.key, $1.entry.key) < 0 }
        for (entry, document) in entries { try index.insert(entry, of: document, database) }
        return isAtEnd ? nil : last
    }

    private static func index(
        _ collection: CollectionName, _ name: String, _ database: Database
    ) throws -> (table: DocumentTable, index: StoredIndex)? {
        var collections = Collections()
        guard let table = try collections.number(of: collection, database),
            let index = try IndexRows.load(table, database).first(where: {
                utf8Equal($0.description.name, name)
            })
        else { return nil }
        return (table, index)
    }

    /// Continues, on a thread of its own, with indexes that a process began and did not complete.
    func resumeBuilding() throws {
        let unfinished = try read { try IndexRows.unfinished($0.database) }
        guard !unfinished.isEmpty else { return }
        let logger = logger
        DispatchQueue(label: "replica.index").async { [weak self] in
            for (collection, name) in unfinished {
                do {
                    while try self?.buildStep(collection, name) ?? false {}
                } catch let error as ReplicaError where error.code == .closed {
                    return
                } catch let error as CRDTError {
                    // Documents that cannot be read now will not be later; CREATE INDEX fails at them, too.
                    try? self?.drop(collection, name, ifExists: true)
                    logger.error(
                        "dropped an index that cannot be completed",
                        metadata: ["collection": "\(collection)", "index": "\(name)", "error": "\(error)"])
                } catch {
                    logger.error(
                        "an index stays incomplete; opening the store again continues it",
                        metadata: ["collection": "\(collection)", "index": "\(name)", "error": "\(error)"])
                }
            }
        }
    }
}
