import CRDT
import Exchange
import GRDB

/// Per subscription how far the server's log is stored here.
enum Cursors {
    /// Moves a cursor forward; back, or to another log, only where it `replaces`. `rights` is what the server
    /// gave with it; nil leaves what there is.
    static func advance(
        _ key: [UInt8], to position: LogPosition, replaces: Bool, rights: [UInt8]?, _ database: Database
    ) throws {
        let statement = try RawStatement(
            cached: rights == nil
                ? """
                INSERT INTO subscription (key, log, offset, hash) VALUES (?1, ?2, ?3, ?4)
                ON CONFLICT (key) DO UPDATE SET log = ?2, offset = ?3, hash = ?4
                WHERE ?5 OR (log = ?2 AND offset < ?3)
                """
                : """
                INSERT INTO subscription (key, log, offset, hash, rights) VALUES (?1, ?2, ?3, ?4, ?6)
                ON CONFLICT (key) DO UPDATE SET log = ?2, offset = ?3, hash = ?4, rights = ?6
                WHERE ?5 OR (log = ?2 AND offset < ?3)
                """, database)
        if let rights { statement.bind(6, rights) }
        statement.bind(5, replaces ? 1 : 0)
        statement.bind(1, key)
        statement.bind(2, position.logID.bytes)
        statement.bind(3, bits: position.offset.rawValue)
        statement.bind(4, bits: position.hash)
        try statement.run()
    }
}

extension Cursors {
    /// A cursor does not say what is held any more: no rights are such that it was given under them, so the
    /// server asks.
    static func distrust(_ key: [UInt8], _ database: Database) throws {
        try database.run("UPDATE subscription SET rights = x'' WHERE key = ?", key)
    }

    /// As `distrust`, every cursor but those of the keys given.
    static func distrustAll(but trusted: [[UInt8]], _ database: Database) throws {
        for key in try keys(database) where !trusted.contains(key) { try distrust(key, database) }
    }

    /// Forgets every cursor but those of the keys given.
    static func forgetAll(but kept: [[UInt8]], _ database: Database) throws {
        for key in try keys(database) where !kept.contains(key) { try forget(key, database) }
    }

    private static func keys(_ database: Database) throws -> [[UInt8]] {
        let all = try RawStatement(fresh: "SELECT key FROM subscription", database)
        var keys: [[UInt8]] = []
        while try all.step() { keys.append(all.bytes(0)) }
        return keys
    }

    static func forget(_ key: [UInt8], _ database: Database) throws {
        try database.run("DELETE FROM subscription WHERE key = ?", key)
    }
}

/// Documents whose full state this store has asked for, or must ask for (rule 3, rule 10).
enum Wanted {
    static func note(_ key: DocumentKey, _ database: Database) throws {
        try database.run("INSERT OR IGNORE INTO wanted (collection, id) VALUES (?, ?)", key)
    }

    static func settle(_ key: DocumentKey, _ database: Database) throws {
        try database.run("DELETE FROM wanted WHERE collection = ? AND id = ?", key)
    }

    static func holds(_ key: DocumentKey, _ database: Database) throws -> Bool {
        try database.holds("SELECT 1 FROM wanted WHERE collection = ? AND id = ?", key)
    }
}

extension PeerReplica {
    /// The stored cursor of a subscription, by its canonical key; nil when it never completed a catch-up.
    public func cursor(of key: [UInt8]) throws -> LogPosition? {
        try read { transaction in
            try transaction.withDatabase { database in
                let statement = try RawStatement(
                    cached: "SELECT log, offset, hash FROM subscription WHERE key = ?", database, key)
                guard try statement.step(), let logID = LogID(bytes: statement.bytes(0)) else { return nil }
                return LogPosition(logID: logID, offset: Offset(statement.bits(1)), hash: statement.bits(2))
            }
        }
    }

    /// The server's rights token stored with a subscription's cursor; nil without a cursor.
    public func rights(of key: [UInt8]) throws -> [UInt8]? {
        try read { transaction in
            try transaction.withDatabase { database in
                let statement = try RawStatement(
                    cached: "SELECT rights FROM subscription WHERE key = ?", database, key)
                return try statement.step() ? statement.bytes(0) : nil
            }
        }
    }

    /// Returns whether the store has any document of a collection, tombstones included.
    public func holdsDocuments(in collection: CollectionName) throws -> Bool {
        try read { transaction in
            var holds = false
            try transaction.changes(in: collection, after: 0) { _ in
                holds = true
                return false
            }
            return holds
        }
    }

    /// Drops a subscription's cursor: its next catch-up starts from the beginning. Its documents stay.
    public func forgetCursor(of key: [UInt8]) throws {
        try committing { database, _ in
            try Cursors.forget(key, database)
            return ((), nil)
        }
    }

    /// Notes documents as wanted, durably (an eviction under a live subscription).
    public func want(_ keys: [DocumentKey]) throws {
        try committing { database, _ in
            for key in keys { try Wanted.note(key, database) }
            return ((), nil)
        }
    }

    /// Drops documents from the wanted ones: the server has said that it cannot supply them. If a missing
    /// right may be the reason, the cursors of `subscriptions` no longer describe the holdings.
    public func settle(_ keys: [DocumentKey], distrusting subscriptions: [[UInt8]] = []) throws {
        try committing { database, _ in
            for key in keys { try Wanted.settle(key, database) }
            for key in subscriptions { try Cursors.distrust(key, database) }
            return ((), nil)
        }
    }

    /// At most `limit` wanted documents.
    public func wanted(limit: Int) throws -> [DocumentKey] {
        try read { transaction in
            try transaction.withDatabase { database in
                let statement = try RawStatement(
                    cached: "SELECT collection, id FROM wanted LIMIT ?", database, Int64(limit))
                var keys: [DocumentKey] = []
                while try statement.step() {
                    keys.append(statement.key(0))
                }
                return keys
            }
        }
    }

    /// Selects documents to fetch, out of changed ones that may have left a subscription. They are: visible
    /// documents whose vector does not cover the server's; documents that are only staged for the
    /// subscription, in such a state or named with void stamps; and wanted ones, because the state requested
    /// earlier may be older.
    public func outdated(
        _ candidates: [DocumentVersion], for subscription: [UInt8] = []
    ) throws -> [DocumentKey] {
        let candidates = try candidates.map { candidate in
            (
                key: candidate.key, vector: try VersionVector(decoding: candidate.vector),
                void: try candidate.void.map { try VoidNote(VersionVector(decoding: $0)).told }
            )
        }
        return try read { transaction in
            let staged = try transaction.withDatabase { try StagedPages.Lookup(subscription, $0) }
            return try candidates.filter { candidate in
                if let bytes = try transaction.state(of: candidate.key) {
                    let held = try bytes.withUnsafeBytes { try DocumentReader($0).vector() }
                    guard held.covers(candidate.vector) else { return true }
                    let known = try transaction.withDatabase { try Notes.void(candidate.key, $0) }
                    if held.isQuarantined(by: known ?? VersionVector()) { return true }
                    if let void = candidate.void, !void.isEmpty, known != void {
                        if held.isQuarantined(by: void) || known != nil { return true }
                        let own = try transaction.withDatabase { try StoreState.load($0)?.actor }
                        if let own, void[own] != nil { return true }
                    }
                    return false
                }
                if let vector = try staged.vector(of: candidate.key) {
                    // Void stamps speak against what the staged vector covers too.
                    let isVoid = candidate.void?.isEmpty == false
                    if isVoid || !vector.covers(candidate.vector) { return true }
                }
                return try transaction.withDatabase { try Wanted.holds(candidate.key, $0) }
            }.map(\.key)
        }
    }
}
