import CRDT
import Exchange
import GRDB

// Documents as a whole: one is forgotten, vector and all, or hidden; a staged one is shown.

extension StateMerge {
    /// The server has a copy forgotten that shows what was deleted and reaped, where this store may not write
    /// the document. (A server of before says it of every such copy.) Own writes that the server does not
    /// have wait for the repair that moves them; writes that are withheld from it keep the copy.
    /// - Parameter isListed: true if it answers a list of earlier holdings, not the present ones.
    mutating func forget(_ key: DocumentKey, _ told: [UInt8], isListed: Bool = false) throws {
        guard authority == .server, try !isTainted(key), let (table, stored) = try documents.stored(key)
        else { return }
        let held = try stored.withUnsafeBytes { try DocumentReader($0).vector() }
        let withheld = try Withheld.actors(of: key.collection, documents.database)
        guard held.without(withheld) == held else { return }
        guard try !refetch.hasPendingWrites(key) else { return try refetch.awaitRepair(key) }
        let isWhole = try VersionVector(decoding: told).covers(held)
        // Where the document has moved on since it was listed, only the answer to a question tells.
        if isWhole || !isListed { try documents.drop(key, table, held) }
        // Another subscription may match what the server has of it, and not bring that again.
        if isListed || !isWhole { try refetch.askAgain(key) }
    }

    /// The server has reaped a tombstone: a store without links forgets it too. One with links keeps it for
    /// its neighbours (`OldTombstones`).
    mutating func forget(_ key: DocumentKey, reapedAt vector: [UInt8]) throws {
        guard authority == .server, !notes.isKept, let (table, stored) = try documents.stored(key) else {
            return
        }
        let document = try Document(decoding: stored)
        guard document.isForgettable, try VersionVector(decoding: vector).covers(document.vector) else {
            return
        }
        try documents.drop(key, table, document.vector)
    }

    // MARK: Hiding and showing

    /// Drops documents that may not be read here any more. Own writes to them are still uploaded; but the
    /// actor does not write them again (rule 10).
    mutating func hide(_ keys: [DocumentKey]) throws {
        for key in keys {
            guard let (table, bytes) = try documents.stored(key) else { continue }
            let vector = try bytes.withUnsafeBytes { try DocumentReader($0).vector() }
            try documents.drop(key, table, vector)
        }
    }

    /// Shows staged documents where they will stay. Only where the collection has got documents, or an index,
    /// in the meantime are they merged with those, one by one.
    mutating func showStaged(of subscription: [UInt8]) throws {
        guard let staged = try StagedDocuments.find(subscription, documents.database) else { return }
        // Something of them may be void.
        if try !notes.areAny(), try documents.show(staged) {
            try askForEvicted(of: staged.collection)
        } else {
            try staged.visit(documents.database) { id, state in
                try mergeStaged(state, of: DocumentKey(collection: staged.collection, id: id))
            }
        }
        try StagedDocuments.discard(subscription, documents.database)
    }

    /// As `Refetch.askIfEvicted`, for a collection of which nothing was here.
    private mutating func askForEvicted(of collection: CollectionName) throws {
        guard let table = try documents.table(of: collection) else { return }
        for id in try Evicted.documents(of: collection, documents.database) {
            guard let state = try DocumentRows.state(table, id, documents.database) else { continue }
            try refetch.askIfEvicted(DocumentKey(collection: collection, id: id), state)
        }
    }
}
