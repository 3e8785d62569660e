import CRDT
import Exchange
import GRDB

/// Per feed of another small peer and subscription, the position up to which that feed is stored here.
enum LinkCursors {
    struct Cursor {
        let position: LogPosition
        let rights: [UInt8]
    }

    static func find(_ key: [UInt8], at feed: LogID, _ database: Database) throws -> Cursor? {
        let statement = try RawStatement(
            cached: "SELECT position, mark, rights FROM link_cursor WHERE feed = ? AND key = ?", database,
            feed.bytes, key)
        guard try statement.step() else { return nil }
        return Cursor(
            position: LogPosition(
                logID: feed, offset: Offset(statement.bits(0)), hash: statement.bits(1)),
            rights: statement.bytes(2))
    }

    /// Moves a cursor that there is, forward.
    static func advance(_ key: [UInt8], to position: LogPosition, _ database: Database) throws {
        try database.run(
            """
            UPDATE link_cursor SET position = ?3, mark = ?4
            WHERE feed = ?1 AND key = ?2 AND position < ?3
            """, position.logID.bytes, key, position.offset.rawValue, position.hash)
    }

    /// Sets a cursor at the end of a catch-up, with what its sender gave with it.
    static func set(
        _ key: [UInt8], of collection: CollectionName, to position: LogPosition, rights: [UInt8],
        _ database: Database
    ) throws {
        try database.run(
            """
            INSERT OR REPLACE INTO link_cursor (feed, key, collection, position, mark, rights)
            VALUES (?, ?, ?, ?, ?, ?)
            """, position.logID.bytes, key, collection.text, position.offset.rawValue, position.hash, rights)
    }

    static func forget(_ key: [UInt8], at feed: LogID, _ database: Database) throws {
        try database.run("DELETE FROM link_cursor WHERE feed = ? AND key = ?", feed.bytes, key)
    }

    /// Documents of a collection are evicted: no feed's cursor speaks for what is held any more.
    static func forget(_ collection: CollectionName, _ database: Database) throws {
        try database.run("DELETE FROM link_cursor WHERE collection = ?", collection.text)
    }

    /// Forgets the cursors at a feed but those of the keys given.
    static func forgetAll(but kept: [[UInt8]], at feed: LogID, _ database: Database) throws {
        let all = try RawStatement(fresh: "SELECT key FROM link_cursor WHERE feed = ?", database)
        all.bind(1, feed.bytes)
        var doomed: [[UInt8]] = []
        while try all.step() {
            let key = all.bytes(0)
            if !kept.contains(key) { doomed.append(key) }
        }
        for key in doomed { try forget(key, at: feed, database) }
    }

    /// Returns whether any subscription has a cursor at a feed.
    static func holdsAny(at feed: LogID, _ database: Database) throws -> Bool {
        try database.holds("SELECT 1 FROM link_cursor WHERE feed = ? LIMIT 1", feed.bytes)
    }
}

/// The key under which pages of a subscription at one feed are staged. A subscription's own key, under which
/// a server's pages are, begins otherwise, as does a repair's.
enum LinkKey {
    private static let tag: UInt8 = 1

    static func of(_ subscription: [UInt8], at feed: LogID) -> [UInt8] { [tag] + feed.bytes + subscription }

    static func isOne(_ key: [UInt8]) -> Bool { key.first == tag && key.count > LogID.byteCount }

    static func isOne(_ key: [UInt8], at feed: LogID) -> Bool {
        isOne(key) && key.dropFirst().starts(with: feed.bytes)
    }
}
