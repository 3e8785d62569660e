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
            cached: "SELECT position, mark, rights FROM link_cursor WHERE feed = ? AND key = ?", database)
        statement.bind(1, feed.bytes)
        statement.bind(2, key)
        guard try statement.step() else { return nil }
        return Cursor(
            position: LogPosition(
                logID: feed, offset: Offset(statement.bits(0)), hash: statement.bits(1)),
            rights: statement.bytes(2))
    }

    /// Moves a cursor that there is, forward.
    static func advance(_ key: [UInt8], to position: LogPosition, _ database: Database) throws {
        let statement = try RawStatement(
            cached: """
                UPDATE link_cursor SET position = ?3, mark = ?4
                WHERE feed = ?1 AND key = ?2 AND position < ?3
                """, database)
        statement.bind(1, position.logID.bytes)
        statement.bind(2, key)
        statement.bind(3, bits: position.offset.rawValue)
        statement.bind(4, bits: position.hash)
        try statement.run()
    }

    /// Sets a cursor at the end of a catch-up, with what its sender gave with it.
    static func set(
        _ key: [UInt8], of collection: CollectionName, to position: LogPosition, rights: [UInt8],
        _ database: Database
    ) throws {
        let statement = try RawStatement(
            cached: """
                INSERT OR REPLACE INTO link_cursor (feed, key, collection, position, mark, rights)
                VALUES (?, ?, ?, ?, ?, ?)
                """, database)
        statement.bind(1, position.logID.bytes)
        statement.bind(2, key)
        statement.bind(3, collection.text)
        statement.bind(4, bits: position.offset.rawValue)
        statement.bind(5, bits: position.hash)
        statement.bind(6, rights)
        try statement.run()
    }

    static func forget(_ key: [UInt8], at feed: LogID, _ database: Database) throws {
        let statement = try RawStatement(
            cached: "DELETE FROM link_cursor WHERE feed = ? AND key = ?", database)
        statement.bind(1, feed.bytes)
        statement.bind(2, key)
        try statement.run()
    }

    /// Documents of a collection are evicted: no feed's cursor speaks for what is held any more.
    static func forget(_ collection: CollectionName, _ database: Database) throws {
        let statement = try RawStatement(
            cached: "DELETE FROM link_cursor WHERE collection = ?", database)
        statement.bind(1, collection.text)
        try statement.run()
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
        let statement = try RawStatement(
            cached: "SELECT 1 FROM link_cursor WHERE feed = ? LIMIT 1", database)
        statement.bind(1, feed.bytes)
        return try statement.hasRow()
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
