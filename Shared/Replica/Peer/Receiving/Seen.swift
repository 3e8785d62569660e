import CRDT
import Exchange
import GRDB

/// The last position of the server's log that this store knows of. At the next handshake it shows whether the
/// log was restored to an earlier state (rule 18).
enum Seen {
    private static let key = "seen"

    static func position(_ database: Database) throws -> LogPosition? {
        let statement = try RawStatement(cached: "SELECT value FROM setting WHERE key = ?", database, key)
        guard try statement.step() else { return nil }
        let bytes = statement.bytes(0)
        guard bytes.count == LogID.byteCount + 16, let logID = LogID(bytes: Array(bytes.prefix(16))) else {
            return nil
        }
        func number(at place: Int) -> UInt64 {
            bytes[place..<place + 8].reduce(0) { $0 << 8 | UInt64($1) }
        }
        return LogPosition(logID: logID, offset: Offset(number(at: 16)), hash: number(at: 24))
    }

    private static let declined = "declined"

    /// The rights by which a server has not taken all that is held here; nil where one has.
    static func declinedRights(_ database: Database) throws -> [UInt8]? {
        let statement = try RawStatement(
            cached: "SELECT value FROM setting WHERE key = ?", database, declined)
        return try statement.step() ? statement.bytes(0) : nil
    }

    static func noteDeclined(_ rights: [UInt8]?, _ database: Database) throws {
        let statement = try RawStatement(
            cached: rights == nil
                ? "DELETE FROM setting WHERE key = ?1"
                : "INSERT OR REPLACE INTO setting (key, value) VALUES (?1, ?2)", database)
        statement.bind(1, declined)
        if let rights { statement.bind(2, rights) }
        try statement.run()
    }

    private static let owed = "owed"

    /// Remembers the position that a restored log lacks, until everything here can be given back to it.
    static func owe(_ database: Database) throws {
        try database.run(
            "INSERT OR IGNORE INTO setting (key, value) SELECT ?, value FROM setting WHERE key = ?",
            owed, key)
    }

    /// Lets the next handshake name that position again: then the server asks once more what is held here. It
    /// does also where that position belongs to the log as it is now, for no server has taken things under no
    /// rights at all.
    static func payBack(_ database: Database) throws {
        try database.run(
            "INSERT OR REPLACE INTO setting (key, value) SELECT ?, value FROM setting WHERE key = ?",
            key, owed)
        guard database.changesCount > 0 else { return }
        try noteDeclined([], database)
        let removal = try RawStatement(cached: "DELETE FROM setting WHERE key = ?", database)
        removal.bind(1, owed)
        try removal.run()
    }

    /// Moves forward; to anywhere where it `replaces`. A position of another log than the one seen is ignored
    /// until that log replaces it.
    static func note(_ position: LogPosition, replaces: Bool, _ database: Database) throws {
        if !replaces, let known = try Self.position(database) {
            guard known.logID == position.logID, known.offset < position.offset else { return }
        }
        var bytes = position.logID.bytes
        for number in [position.offset.rawValue, position.hash] {
            withUnsafeBytes(of: number.bigEndian) { bytes.append(contentsOf: $0) }
        }
        try database.run("INSERT OR REPLACE INTO setting (key, value) VALUES (?, ?)", key, bytes)
    }
}

extension PeerReplica {
    /// The last position of the server's log that this store knows of; nil before its first session.
    public func seenPosition() throws -> LogPosition? {
        try read { try $0.withDatabase { try Seen.position($0) } }
    }

    /// The server's fingerprint of the rights under which it did not accept all holdings of this store
    /// after losing its log's end; nil if it accepted everything.
    public func declinedRights() throws -> [UInt8]? {
        try read { try $0.withDatabase { try Seen.declinedRights($0) } }
    }

    /// Records a position of the server's log. `replaces` when the log was restored and has been
    /// reconciled: earlier seen positions and acknowledgements are not in it, and staged pages may not be.
    /// `declined` is the fingerprint of the rights under which it did not accept everything.
    public func noteSeen(_ position: LogPosition, replaces: Bool, declined: [UInt8]? = nil) throws {
        try committing { database, state in
            // Documents with withheld writes were not given back: they are still owed.
            if replaces, try !Withheld.collections(database).isEmpty { try Seen.owe(database) }
            try Seen.note(position, replaces: replaces, database)
            // Links are judged by the clock that a server has corrected last.
            if recording.identity != nil {
                try FutureStamps.noteCorrection(
                    clockCorrection, at: store.environment.wallMilliseconds(), database)
            }
            if replaces {
                try OwnOperations.forgetRetired(but: state.actor, keeping: 0, database)
                try Staged.discardAll(database)
                try Seen.noteDeclined(declined, database)
            }
            return ((), nil)
        }
    }
}
