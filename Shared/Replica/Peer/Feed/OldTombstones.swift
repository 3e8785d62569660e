import CRDT
import GRDB

/// The end of tombstones in a store with links and a server (rule 15).
///
/// A tombstone is forgotten when it is old, and the server has seen it. A neighbour may still hold an older
/// copy, and no cursor would say so. So the cursors of the collection at all feeds go with it, as after an
/// eviction: what neighbours hold is listed again, shown to the server, and deleted anew.
enum OldTombstones {
    /// Forgets tombstones whose last write is from before a moment, at most
    /// `ReplicaLimits.forgottenTombstones` at a time.
    /// - Returns: their number.
    static func forget(before milliseconds: UInt64, actor: ActorID, _ database: Database) throws -> Int {
        // Without a server nobody tells "deleted" from "never had" (decision 0103).
        guard try Seen.position(database) != nil else { return 0 }
        var forgotten = 0
        var pending: Set<DocumentKey>?
        var collections = Collections()
        for name in try Collections.names(database) {
            guard let table = try collections.number(of: name, database) else { continue }
            let withheld = try Withheld.actors(of: name, database)
            var old: [(key: DocumentKey, vector: VersionVector)] = []
            let statement = try RawStatement(
                fresh: "SELECT id, state FROM documents_\(table) WHERE live = 0 ORDER BY number", database)
            while try statement.step(), forgotten + old.count < ReplicaLimits.forgottenTombstones {
                let key = DocumentKey(collection: name, id: DocumentID(trusted: statement.bytes(0)))
                let document = try Document(decoding: EncodedState(statement.bytes(1)))
                guard document.isForgettable, let time = document.deletedAt,
                    HybridClock.milliseconds(of: time) < milliseconds,
                    document.vector.without(withheld) == document.vector,
                    try !MetDocuments.isUnsettled(key, database), try Notes.row(key, database) == nil
                else { continue }
                let unsent = try pending ?? OwnOperations.documents(database)
                pending = unsent
                if !unsent.contains(key) { old.append((key, document.vector)) }
            }
            guard !old.isEmpty else { continue }
            for item in old {
                if item.vector[actor] != nil { try Evicted.note(item.key, actor, database) }
                try MetDocuments.left(item.key, database)
                try DocumentRows.remove(table, item.key.id, database)
            }
            try Withheld.leaveActor(of: name, database)
            try LinkCursors.forget(name, database)
            forgotten += old.count
        }
        return forgotten
    }
}
