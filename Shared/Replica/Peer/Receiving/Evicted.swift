import CRDT
import GRDB

/// Documents that an actor may not write again: they were evicted while their vectors held it (rule 10). And
/// when it had last written them: nobody sends a store its own writes, so where an older state was on its
/// way, a page of a catch-up say, the document would come back without them and stay so.
enum Evicted {
    static func note(
        _ key: DocumentKey, _ actor: ActorID, at time: Timestamp = 0, _ database: Database
    ) throws {
        try database.run(
            """
            INSERT INTO evicted (collection, id, actor, time) VALUES (?1, ?2, ?3, ?4)
            ON CONFLICT (collection, id, actor) DO UPDATE SET time = max(time, ?4)
            """, key, actor.rawValue, time)
    }

    static func holdsAny(_ database: Database) throws -> Bool {
        try RawStatement(cached: "SELECT 1 FROM evicted LIMIT 1", database).hasRow()
    }

    /// Another actor writes from now on. Documents in flight may still lack writes of our earlier actors:
    /// their entries stay as long as the store remembers those actors.
    static func forgetAll(but actor: ActorID, _ database: Database) throws {
        try database.run(
            """
            DELETE FROM evicted WHERE actor <> ?
                AND NOT EXISTS (SELECT 1 FROM acknowledged AS a WHERE a.actor = evicted.actor)
                AND NOT EXISTS (SELECT 1 FROM operation AS o WHERE o.actor = evicted.actor)
            """, actor.rawValue)
    }

    /// Returns whether a vector lacks something that was written here to a document before its eviction.
    static func isMissing(
        from vector: VersionVector, of key: DocumentKey, _ database: Database
    ) throws -> Bool {
        let statement = try RawStatement(
            cached: "SELECT actor, time FROM evicted WHERE collection = ? AND id = ?", database, key)
        while try statement.step() {
            let stamp = Stamp(time: statement.bits(1), actor: ActorID(statement.bits(0)))
            if stamp.time > 0, !vector.covers(stamp) { return true }
        }
        return false
    }

    /// The evicted documents of a collection.
    static func documents(of collection: CollectionName, _ database: Database) throws -> [DocumentID] {
        let statement = try RawStatement(
            fresh: "SELECT DISTINCT id FROM evicted WHERE collection = ?", database, collection.text)
        var documents: [DocumentID] = []
        while try statement.step() { documents.append(DocumentID(trusted: statement.bytes(0))) }
        return documents
    }
}
