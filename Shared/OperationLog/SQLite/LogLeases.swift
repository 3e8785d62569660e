import CRDT
import GRDB
import Glibc

/// Leases in the SQLite log. All times are Unix milliseconds of the machine's clock.
enum LogLeases {
    /// Checks that the log is the same file as when it was last opened. A different one is a copy, possibly
    /// restored from before writes of its leased actors: the actors are retired and all leases are lost. A
    /// file that has never recorded its place has nothing to compare with.
    static func arrive(_ db: Database, path: String) throws {
        var found = stat()
        guard stat(path, &found) == 0 else { return }
        let here = [Int64(bitPattern: UInt64(found.st_dev)), Int64(bitPattern: UInt64(found.st_ino))]
        guard try place(db) != here else { return }
        try db.inTransaction(.immediate) {
            // Another process may have noticed meanwhile.
            let known = try place(db)
            guard known != here else { return .rollback }
            try db.execute(sql: "DELETE FROM home")
            try db.execute(sql: "INSERT INTO home VALUES (?, ?)", arguments: StatementArguments(here))
            if !known.isEmpty {
                try db.execute(sql: "UPDATE leases SET actor = NULL, expires = 0, epoch = epoch + 1")
            }
            return .commit
        }
    }

    /// Device and inode as recorded; empty if they never were.
    private static func place(_ db: Database) throws -> [Int64] {
        guard let row = try Row.fetchOne(db, sql: "SELECT device, inode FROM home") else { return [] }
        return [row[0], row[1]]
    }

    static func take(
        _ db: Database, _ database: DatabaseID, _ purpose: String, slots: Int, now: Int64, until: Int64,
        drawing random: () -> Int64
    ) throws -> ActorLease? {
        let head = try LogReader.head(db, database: database)
        var free = try Row.fetchOne(
            db,
            sql: """
                SELECT number, actor, epoch FROM leases
                WHERE database = ? AND purpose = ? AND slot < ? AND expires <= ? ORDER BY slot LIMIT 1
                """, arguments: [head.number, purpose, slots, now])
        if free == nil {
            let sql = "SELECT count(*) FROM leases WHERE database = ? AND purpose = ?"
            let count = try Int.fetchOne(db, sql: sql, arguments: [head.number, purpose]) ?? 0
            guard count < slots else { return nil }
            try db.execute(
                sql: """
                    INSERT INTO leases (database, purpose, slot, epoch, expires) VALUES (?, ?, ?, 0, 0)
                    """, arguments: [head.number, purpose, count])
            free = try Row.fetchOne(
                db, sql: "SELECT number, actor, epoch FROM leases WHERE number = ?",
                arguments: [db.lastInsertedRowID])
        }
        guard let free else { preconditionFailure("a slot that was made is there") }
        let actor = Int64.fromDatabaseValue(free[1]) ?? random()
        let lease = ActorLease(
            purpose: purpose, number: LogReader.unsigned(free, 0), actor: ActorID(UInt64(bitPattern: actor)),
            epoch: LogReader.unsigned(free, 2) + 1)
        try db.execute(
            sql: "UPDATE leases SET actor = ?, epoch = ?, expires = ? WHERE number = ?",
            arguments: [actor, Int64(lease.epoch), until, Int64(lease.number)])
        return lease
    }

    /// Extends a lease; returns whether it was still held.
    static func renew(_ db: Database, _ lease: ActorLease, now: Int64, until: Int64) throws -> Bool {
        try db.execute(
            sql: "UPDATE leases SET expires = ? WHERE number = ? AND epoch = ? AND expires > ?",
            arguments: [until, Int64(lease.number), Int64(lease.epoch), now])
        return db.changesCount == 1
    }

    static func release(_ db: Database, _ lease: ActorLease, retiring: Bool) throws {
        try db.execute(
            sql: """
                UPDATE leases SET expires = 0, actor = iif(?, NULL, actor) WHERE number = ? AND epoch = ?
                """, arguments: [retiring, Int64(lease.number), Int64(lease.epoch)])
    }

    static func retire(_ db: Database, _ database: DatabaseID, _ actors: [ActorID]) throws {
        let head = try LogReader.head(db, database: database)
        let update = try db.cachedStatement(
            sql: """
                UPDATE leases SET actor = NULL, expires = 0, epoch = epoch + 1
                WHERE database = ? AND actor = ?
                """)
        for actor in actors {
            try update.execute(arguments: [head.number, Int64(bitPattern: actor.rawValue)])
        }
    }

    /// Returns whether an actor may still append under a lease.
    static func isHeld(
        _ lease: ActorLease, by actor: ActorID, _ db: Database, _ head: LogHead, now: Int64
    ) throws -> Bool {
        let statement = try db.cachedStatement(
            sql: """
                SELECT EXISTS (SELECT 1 FROM leases WHERE number = ? AND database = ? AND epoch = ?
                    AND actor = ? AND expires > ?)
                """)
        return try Bool.fetchOne(
            statement,
            arguments: [
                Int64(lease.number), head.number, Int64(lease.epoch), Int64(bitPattern: actor.rawValue), now,
            ]) ?? false
    }
}
