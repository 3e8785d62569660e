import CRDT
import GRDB

/// The databases of a file that were moved to another log.
///
/// The table `moved` names them, and a trigger refuses their operations; the first move makes both. So a
/// file that nothing was moved from has no format of its own, and a process of an earlier build is refused
/// too. The trigger ends the transaction of a whole group, which is then decided again (`LogWriter.commit`).
enum LogMoves {
    private static let objects = """
        CREATE TABLE IF NOT EXISTS moved (database INTEGER PRIMARY KEY, place TEXT NOT NULL) STRICT;
        CREATE TRIGGER IF NOT EXISTS refuseMoved BEFORE INSERT ON operations
        WHEN EXISTS (SELECT 1 FROM moved WHERE database = NEW.position >> \(LogKey.offsetBits))
        BEGIN
            SELECT RAISE(ABORT, '\(reason)');
        END;
        """

    /// The trigger's word, by which a refused group is known from one that another rule of the file refused.
    static let reason = "moved"

    /// The places by the databases' numbers.
    static func places(_ db: Database) throws -> [Int64: NewPlace] {
        let isThere = "SELECT EXISTS (SELECT 1 FROM sqlite_master WHERE type = 'table' AND name = 'moved')"
        guard try Bool.fetchOne(db, sql: isThere) == true else { return [:] }
        var places: [Int64: NewPlace] = [:]
        for row in try Row.fetchAll(db, sql: "SELECT database, place FROM moved") {
            places[Int64.fromDatabaseValue(row[0]) ?? 0] = NewPlace(String.fromDatabaseValue(row[1]) ?? "")
        }
        return places
    }

    /// See `RestorableLog.close(_:movedTo:from:)`.
    static func close(
        _ db: Database, _ database: DatabaseID, _ place: NewPlace, _ former: NewPlace?
    ) throws {
        let number = try LogReader.head(db, database: database).number
        try NewPlace.require(try places(db)[number], is: former, for: place, of: database)
        try db.execute(sql: objects)
        try db.execute(
            sql: "INSERT OR REPLACE INTO moved (database, place) VALUES (?, ?)",
            arguments: [number, place.text])
    }

    /// See `RestorableLog.reopen`.
    static func reopen(_ db: Database, _ database: DatabaseID, _ former: NewPlace) throws {
        let number = try LogReader.head(db, database: database).number
        try NewPlace.require(try places(db)[number], is: former, of: database)
        try db.execute(sql: "DELETE FROM moved WHERE database = ?", arguments: [number])
    }
}

extension SQLiteOperationLog {
    /// One transaction.
    public func close(_ database: DatabaseID, movedTo place: NewPlace, from former: NewPlace?) async throws {
        try await writing { writer throws(LogWriter.Failure) in
            try writer.change { try LogMoves.close($0, database, place, former) }
        }
    }

    /// One transaction.
    public func reopen(_ database: DatabaseID, from former: NewPlace) async throws {
        try await writing { writer throws(LogWriter.Failure) in
            try writer.change { try LogMoves.reopen($0, database, former) }
        }
    }

    /// Two lookups.
    public func newPlace(of database: DatabaseID) async throws -> NewPlace? {
        try await reading { db in
            try LogMoves.places(db)[LogReader.head(db, database: database).number]
        }
    }
}
