import CRDT
import Exchange
import GRDB

// Documents as a whole: a purge is applied, one is hidden, a staged one is shown.

extension StateMerge {
    /// The server's state of a document of which something was told that it will never have, a refused write
    /// or a part that a restored log has lost. Where the document has not moved on since it was told of, the
    /// state takes its place. Where it has, by what the server sent in the meantime, the state is older: it
    /// is merged if the rest is not here any more; else only the whole document undoes that, so it is
    /// wanted.
    mutating func replace(
        _ key: DocumentKey, by state: UnsafeRawBufferPointer, under purged: [UInt8]
    ) throws {
        let purged = try VersionVector(decoding: purged)
        if try isTainted(key) {
            try mergeStaged(state, of: key)
            if isOfLink { _ = try notes.join(key, purged, at: documents.position) }
            return
        }
        if notes.isKept {
            if !isOfLink, try documents.stored(key) == nil {
                return try mergeStaged(state, of: key)
            }
            if !isOfLink, try refetch.hasPendingWrites(key) {
                try refetch.awaitRepair(key)
                return try mergeStaged(state, of: key)
            }
            return try drop(
                purged, of: key, keeping: try Document(decoding: EncodedState([UInt8](state))),
                isAuthority: !isOfLink)
        }
        guard let (table, stored) = try documents.stored(key) else {
            return try mergeStaged(state, of: key)
        }
        let held = try stored.withUnsafeBytes { try DocumentReader($0).vector() }
        let known = try DocumentReader(state).vector()
        let isHere = held.entries.contains { item in
            item.time > known[item.actor] ?? 0 && item.time <= purged[item.actor] ?? 0
        }
        let withheld = try Withheld.actors(of: key.collection, documents.database)
        let isCovered = purged.covers(held.without(withheld))
        if try refetch.hasPendingWrites(key) {
            try refetch.awaitRepair(key)
        } else if isHere || isCovered {
            try documents.drop(key, table, held)
            if !isCovered { try refetch.askAgain(key) }
            try keepWithheld(withheld, of: try Document(decoding: stored), key, table)
        }
        try mergeStaged(state, of: key)
    }

    /// As above, for a state that was asked for: it may be later than all that has come.
    mutating func replace(_ key: DocumentKey, byAnswer bytes: EncodedState, under purged: [UInt8]) throws {
        if let latest = try Document(decoding: bytes).vector.greatestTime { try documents.observe(latest) }
        try bytes.withUnsafeBytes { try replace(key, by: $0, under: purged) }
    }

    /// Shows again the parts of a dropped document that nobody else knows.
    private mutating func keepWithheld(
        _ actors: Set<ActorID>, of document: Document, _ key: DocumentKey, _ table: DocumentTable
    ) throws {
        guard document.vector.entries.contains(where: { actors.contains($0.actor) }) else { return }
        let own = try Withheld.operations(of: key.collection, documents.database).flatMap { item in
            let operation = try Operation(decoding: item.bytes)
            return try operation.changes.filter { $0.id == key.id }.map {
                try Delta(decoding: $0.delta, stamp: operation.stamp)
            }
        }
        try documents.putBack(document.only(of: actors, replaying: own), key, in: table)
    }

    /// Everything that the vector covers is gone at the server, the tombstone too. A document with own writes
    /// that the server does not have waits for the repair that moves them.
    /// - Parameters:
    ///   - isListed: true if it answers a list of earlier holdings, not the present ones.
    ///   - subscription: the one whose catch-up is shown, if any.
    mutating func purge(
        _ key: DocumentKey, _ vector: [UInt8], isListed: Bool = false, publishes subscription: [UInt8]?
    ) throws {
        // A state without the void stamps comes first.
        if try isTainted(key) { return }
        if isOfLink {
            let gone = try VersionVector(decoding: vector)
            return try drop(gone, of: key, keeping: Document(), isAuthority: false)
        }
        guard let (table, stored) = try documents.stored(key) else { return }
        let document = try Document(decoding: stored)
        // A write told of that is not here was withdrawn since (it was refused): nobody has it, so no vector
        // may say that it was seen. Seeds are remembered.
        let frontier = VersionVector(
            try VersionVector(decoding: vector).entries.compactMap { entry in
                guard entry.time > 0 else { return entry }
                return document.vector[entry.actor].map {
                    VersionVector.Entry(actor: entry.actor, time: min($0, entry.time))
                }
            })
        guard try !refetch.hasPendingWrites(key) else { return try refetch.awaitRepair(key) }
        if notes.isKept {
            // A list does not bring a state that does not match, but names its vector too.
            if isListed { return try refetch.askAgain(key) }
            return try drop(frontier, of: key, keeping: Document(), isAuthority: true)
        }
        let isCovered = frontier.covers(document.vector)
        let rest =
            isCovered ? Document(restOf: frontier) : document.gone(frontier: frontier, replaying: [])
        guard rest != document else { return }
        // The vector names the server's own state too, on which later content rests, and a list does not
        // bring that state where it does not match: ask again for the document as it is now.
        if isListed, !isCovered { return try refetch.askAgain(key) }
        // The purge may also remove newer content that another subscription delivered and will not repeat:
        // fetch the document again.
        if let subscription, document.isLive, try isOfAnother(than: subscription, key, stored) {
            try refetch.askAgain(key)
        }
        guard let rest else { return try documents.drop(key, table, document.vector) }
        try documents.leave(key, document.vector)
        try documents.put(rest.encoded(), key, in: table, isLive: rest.isLive)
    }

    private func isOfAnother(
        than subscription: [UInt8], _ key: DocumentKey, _ stored: EncodedState
    ) throws -> Bool {
        try stored.withUnsafeBytes {
            try refetch.isOfAnother(than: subscription, key, try DocumentReader($0))
        }
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
        // A note may cover some of them.
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
