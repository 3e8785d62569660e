import CRDT
import GRDB

/// Documents that came here another way than a feed told of them (rows of `met`): each feed with a cursor is
/// asked about those once, because its cursor speaks only for what was held when it passed.
///
/// A row stays until every known feed was asked, and the server was told. A document is *open* if the server
/// was told and has not seen all of it: it may lack the right to write it, or refuse the rest later. Open
/// documents are named again in their turn, a few with each list.
enum MetDocuments {
    /// Later than every commit: the change of an open document, with the commit at which that was found.
    private static let open: UInt64 = 1 << 62

    /// A document was not here before. `source` is the feed that brought it, nil for this store itself and
    /// for its server.
    static func entered(
        _ key: DocumentKey, at commit: UInt64, from source: LogID?, _ database: Database
    ) throws {
        let statement = try RawStatement(
            cached: """
                INSERT INTO met (collection, id, entered, source, meshed) VALUES (?1, ?2, ?3, ?4, 0)
                ON CONFLICT (collection, id) DO UPDATE SET entered = ?3, source = ?4
                """, database, key, commit)
        if let source { statement.bind(4, source.bytes) }
        try statement.run()
    }

    /// A link changed a document, which the server may not have.
    static func meshed(_ key: DocumentKey, at commit: UInt64, _ database: Database) throws {
        try database.run(
            """
            INSERT INTO met (collection, id, entered, meshed) VALUES (?1, ?2, 0, ?3)
            ON CONFLICT (collection, id) DO UPDATE SET meshed = ?3
            """, key, commit)
    }

    /// The server was told of a document, and has not seen all of it.
    static func leaveOpen(
        _ key: DocumentKey, at commit: UInt64, settled: UInt64, _ database: Database
    ) throws {
        try database.run(
            """
            INSERT INTO met (collection, id, entered, meshed) VALUES (?1, ?2, 0, ?3)
            ON CONFLICT (collection, id) DO UPDATE SET meshed = ?3 WHERE meshed <= ?4
            """, key, open + commit, settled)
    }

    /// Returns whether the server may not have seen everything that links have brought of a document.
    static func isUnsettled(_ key: DocumentKey, _ database: Database) throws -> Bool {
        try database.holds(
            "SELECT 1 FROM met WHERE collection = ? AND id = ? AND meshed > ?",
            key, try Settled.commit(database))
    }

    static func holdsOpen(_ database: Database) throws -> Bool {
        try database.holds("SELECT 1 FROM met WHERE meshed > 0 AND meshed >= ? LIMIT 1", open)
    }

    /// Counts the longest open documents as changed by a commit: at most `limit`, whose states have no more
    /// than `bytes` unless it is one.
    static func nameOpen(limit: Int, bytes: Int, at commit: UInt64, _ database: Database) throws {
        let statement = try RawStatement(
            cached: """
                SELECT collection, id, meshed FROM met WHERE meshed > 0 AND meshed >= ?1
                ORDER BY meshed LIMIT ?2
                """, database, open, Int64(limit))
        var collections = Collections()
        var total = 0
        for (place, item) in try read(statement).enumerated() {
            let state = try collections.number(of: item.key.collection, database).flatMap {
                try DocumentRows.state($0, item.key.id, database)
            }
            total += state?.count ?? 0
            guard place == 0 || total <= bytes else { return }
            try meshed(item.key, at: commit, database)
        }
    }

    /// A document is not here any more.
    static func left(_ key: DocumentKey, _ database: Database) throws {
        try database.run("DELETE FROM met WHERE collection = ? AND id = ?", key)
    }

    /// Documents that entered after a commit, from elsewhere than a feed, each with its commit, in order.
    static func entered(
        after commit: UInt64, elsewhereThan feed: LogID, limit: Int, _ database: Database
    ) throws -> [(key: DocumentKey, commit: UInt64)] {
        let statement = try RawStatement(
            cached: """
                SELECT collection, id, entered FROM met
                WHERE entered > ?1 AND entered > 0 AND (source IS NULL OR source <> ?2)
                ORDER BY entered LIMIT ?3
                """, database, commit, feed.bytes, Int64(limit))
        return try read(statement)
    }

    /// Documents that links changed after one commit and up to another, behind a document in the order of
    /// names and ids.
    static func meshed(
        after commit: UInt64, through last: UInt64, behind key: DocumentKey?, limit: Int,
        _ database: Database
    ) throws -> [DocumentKey] {
        let statement = try RawStatement(
            cached: """
                SELECT collection, id, meshed FROM met
                WHERE meshed > ?1 AND meshed <= ?2 AND (collection, id) > (?3, ?4)
                ORDER BY collection, id LIMIT ?5
                """, database, commit, last, key?.collection.text ?? "", key?.id.bytes ?? [], Int64(limit))
        return try read(statement).map(\.key)
    }

    /// Notes documents that links changed after one commit and up to another as wanted from the server.
    static func want(after commit: UInt64, through last: UInt64, _ database: Database) throws {
        try database.run(
            """
            INSERT OR IGNORE INTO wanted (collection, id)
            SELECT collection, id FROM met WHERE meshed > ?1 AND meshed <= ?2
            """, commit, last)
    }

    private static func read(_ statement: borrowing RawStatement) throws -> [(
        key: DocumentKey, commit: UInt64
    )] {
        var found: [(key: DocumentKey, commit: UInt64)] = []
        while try statement.step() {
            let key = statement.key(0)
            found.append((key, statement.bits(2)))
        }
        return found
    }

    /// Removes rows that nobody is to be asked about any more.
    static func prune(settled: UInt64, _ database: Database) throws {
        try database.run(
            """
            DELETE FROM met WHERE meshed <= ?
            AND entered <= (SELECT coalesce(min(asked), 9223372036854775807) FROM peer_feed)
            """, settled)
    }
}
