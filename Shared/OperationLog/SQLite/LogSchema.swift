import CRDT
import Foundation
import GRDB
import WriteAhead

/// The file format of the SQLite log: its mark, its version, and the steps from version to version.
///
/// A file is ours if its `application_id` is; `user_version` is the format version. Both are read before
/// anything is written, so a newer or foreign file stays unchanged. Steps run in one transaction under the
/// write lock.
enum LogSchema {
    /// "MmLg".
    static let applicationID: Int64 = 0x4D6D_4C67
    /// The oldest version that is opened: 0.2.0's. Earlier ones were never released (decision 0170).
    static let oldestVersion: Int64 = 5
    /// The version this build writes.
    static var currentVersion: Int64 { oldestVersion + Int64(steps.count) - 1 }

    /// The first step makes the oldest version in an empty file; each later one leads from a version to the
    /// next. Released steps never change.
    static let steps = [version5]

    /// `operations` is keyed by `LogKey`; `databases.hash` is the chain hash at `head`; 64-bit unsigned
    /// numbers are stored by their bits.
    ///
    /// `actors` is complete for operations up to `databases.settled`, where the chain hash is `settledHash`,
    /// and has a row of every actor: see `FrontierIndex`. Touches are only in memory (`TouchIndex`).
    ///
    /// Entries up to `databases.truncated` were removed; `truncatedHash` is the chain hash there. A row of
    /// `hashes` holds those of consecutive removed entries, 8 big-endian bytes each, keyed by the first
    /// one's `LogKey`. A snapshot's `sum` is the checksum so far; it counts once `isFinished` is set.
    /// `leases.expires` is Unix time in milliseconds; a slot without actor draws one at its next lease.
    /// `home` is where the file was last: see `LogLeases.arrive`.
    private static let version5 = """
        CREATE TABLE databases (
            number INTEGER PRIMARY KEY,
            id TEXT NOT NULL UNIQUE,
            logID BLOB NOT NULL,
            head INTEGER NOT NULL,
            hash INTEGER NOT NULL,
            settled INTEGER NOT NULL DEFAULT 0,
            truncated INTEGER NOT NULL DEFAULT 0,
            truncatedHash INTEGER NOT NULL DEFAULT 0,
            settledHash INTEGER NOT NULL DEFAULT 0
        ) STRICT;
        CREATE TABLE operations (
            position INTEGER PRIMARY KEY,
            actor INTEGER NOT NULL,
            sequence INTEGER NOT NULL,
            timestamp INTEGER NOT NULL,
            hash INTEGER NOT NULL,
            bytes BLOB NOT NULL
        ) STRICT;
        CREATE TABLE actors (
            database INTEGER NOT NULL,
            actor INTEGER NOT NULL,
            key TEXT NOT NULL,
            sequence INTEGER NOT NULL,
            timestamp INTEGER NOT NULL,
            hash INTEGER NOT NULL,
            PRIMARY KEY (database, actor)
        ) STRICT, WITHOUT ROWID;
        CREATE TABLE hashes (position INTEGER PRIMARY KEY, hashes BLOB NOT NULL) STRICT;
        CREATE TABLE snapshots (
            number INTEGER PRIMARY KEY AUTOINCREMENT,
            database INTEGER NOT NULL,
            offset INTEGER NOT NULL,
            hash INTEGER NOT NULL,
            chunks INTEGER NOT NULL,
            bytes INTEGER NOT NULL,
            sum INTEGER NOT NULL,
            isFinished INTEGER NOT NULL
        ) STRICT;
        CREATE TABLE chunks (
            snapshot INTEGER NOT NULL,
            number INTEGER NOT NULL,
            hash INTEGER NOT NULL,
            bytes BLOB NOT NULL,
            UNIQUE (snapshot, number)
        ) STRICT;
        CREATE TABLE leases (
            number INTEGER PRIMARY KEY,
            database INTEGER NOT NULL,
            purpose TEXT NOT NULL,
            slot INTEGER NOT NULL,
            actor INTEGER,
            epoch INTEGER NOT NULL,
            expires INTEGER NOT NULL,
            UNIQUE (database, purpose, slot)
        ) STRICT;
        CREATE TABLE home (device INTEGER NOT NULL, inode INTEGER NOT NULL) STRICT;
        """

    /// Refuses a file that is foreign or of an unsupported version, without changing it. A missing file is
    /// valid. The configuration bounds the wait for a process that is just closing the file.
    ///
    /// A file whose creation was interrupted has a rollback journal, without which it means nothing. A
    /// reader may not roll it back, so a writer does, as the first process to open it would.
    /// - Returns: the stored version; 0 for a missing or empty file.
    @discardableResult
    static func check(path: String, _ configuration: Configuration) throws -> Int64 {
        guard FileManager.default.fileExists(atPath: path) else { return 0 }
        var configuration = configuration
        configuration.readonly = true
        do {
            return try checkOpened(path: path, configuration)
        } catch let error as DatabaseError where error.resultCode == .SQLITE_READONLY {
            configuration.readonly = false
            return try checkOpened(path: path, configuration)
        }
    }

    private static func checkOpened(path: String, _ configuration: Configuration) throws -> Int64 {
        let connection = try DatabaseQueue(path: path, configuration: configuration)
        let version = try connection.unsafeRead { db in try storedVersion(db, path: path) }
        try connection.close()
        return version
    }

    /// Brings the file to the current version. Safe while other processes do the same.
    static func migrate(_ db: Database, path: String) throws {
        guard try storedVersion(db, path: path) < currentVersion else { return }
        try db.inTransaction(.immediate) {
            let stored = try storedVersion(db, path: path)
            let done = stored == 0 ? 0 : Int(stored - oldestVersion) + 1
            for step in steps.dropFirst(done) { try db.execute(sql: step) }
            try db.execute(sql: "PRAGMA application_id = \(applicationID)")
            try db.execute(sql: "PRAGMA user_version = \(currentVersion)")
            return .commit
        }
    }

    /// The version of an open file; 0 for an empty one.
    private static func storedVersion(_ db: Database, path: String) throws -> Int64 {
        let stored = try version(
            of: path, mark: try Int64.fetchOne(db, sql: "PRAGMA application_id") ?? 0,
            version: try Int64.fetchOne(db, sql: "PRAGMA user_version") ?? 0,
            hasTables: try Bool.fetchOne(db, sql: "SELECT EXISTS (SELECT 1 FROM sqlite_master)") ?? false)
        guard stored == 0 || stored >= oldestVersion else {
            throw OperationLogError(
                .unsupportedFormat,
                "\(path) has format \(stored), which no release wrote; open it once with a version before "
                    + "0.2.0 that writes format \(oldestVersion)")
        }
        return stored
    }

    /// The version of a file that nobody opens for that; 0 for a missing or empty one. The file, and what
    /// SQLite keeps beside it, stay as they are.
    static func storedVersion(path: String) throws -> Int64 {
        do {
            guard let header = try StoredHeader.read(path) else { return 0 }
            return try version(
                of: path, mark: header.application, version: header.version, hasTables: header.hasTables)
        } catch let error as StoredHeader.Unreadable {
            if error.isClosed { throw OperationLogError(.cannotOpen, error.description) }
            throw OperationLogError(error.isDamaged ? .corrupt : .notAnOperationLog, error.description)
        }
    }

    private static func version(
        of path: String, mark: Int64, version: Int64, hasTables: Bool
    ) throws(OperationLogError) -> Int64 {
        if mark == applicationID, version > 0 {
            guard version <= currentVersion else {
                let message =
                    "\(path) has format \(version); this build reads formats up to \(currentVersion)"
                throw OperationLogError(.unsupportedFormat, message)
            }
            return version
        }
        guard mark == 0, version == 0, !hasTables else {
            throw OperationLogError(.notAnOperationLog, "\(path) is a database of another application")
        }
        return 0
    }
}

/// The key of an operation's row: the database's number above the offset. So every log is one run of one
/// rowid table, the fastest structure that SQLite can append to and scan.
enum LogKey {
    /// Offsets of a database end here; a million operations a second reach it after twelve days, a thousand
    /// after thirty-four years.
    static let offsetBits: Int64 = 40

    /// Database numbers end before this.
    static let databaseEnd: Int64 = 1 << (63 - offsetBits)

    /// The key of an offset; both must be in range, which the head's row guarantees.
    static func of(database number: Int64, offset: Offset) -> Int64 {
        precondition(offset.rawValue < 1 << offsetBits, "offset \(offset) does not fit a log key")
        precondition(number < databaseEnd, "database number \(number) does not fit a log key")
        return number << offsetBits | Int64(offset.rawValue)
    }

    /// The offset of a key.
    static func offset(of key: Int64) -> Offset { Offset(UInt64(key & (1 << offsetBits - 1))) }
}
