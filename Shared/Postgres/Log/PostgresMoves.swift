import CRDT
import OperationLog

// The databases of a PostgreSQL log that were moved to another log.
//
// A trigger on the partition of their entries refuses new ones, in processes of earlier builds too; it names
// the place. To make it takes a lock that no append of the database has, so each one is before the trigger,
// or is refused. The server undoes the whole group, which is then decided again (`PostgresLogWriter.finish`).

extension PostgresError {
    /// The state that the trigger raises.
    static let moved = "MMOVD"

    /// True if a database of the group was moved.
    var isOfMoved: Bool { state == Self.moved }
}

extension PostgresOperationLog {
    /// One transaction.
    public func close(_ database: DatabaseID, movedTo place: NewPlace, from former: NewPlace?) async throws {
        let text = place.text.replacing("'", with: "''").replacing("\\", with: "\\\\")
        try await changingPlace(of: database, "SHARE ROW EXCLUSIVE") { known, number, connection in
            try NewPlace.require(known, is: former, for: place, of: database)
            try connection.run(
                """
                CREATE OR REPLACE FUNCTION mimeo_log.refuse_moved() RETURNS trigger
                LANGUAGE plpgsql AS $body$
                BEGIN
                    RAISE EXCEPTION '%', TG_ARGV[0] USING ERRCODE = '\(PostgresError.moved)';
                END $body$;
                CREATE OR REPLACE TRIGGER moved BEFORE INSERT ON mimeo_log.operations_\(number)
                FOR EACH ROW EXECUTE FUNCTION mimeo_log.refuse_moved(E'\(text)')
                """)
        }
    }

    /// One transaction.
    public func reopen(_ database: DatabaseID, from former: NewPlace) async throws {
        try await changingPlace(of: database, "ACCESS EXCLUSIVE") { known, number, connection in
            try NewPlace.require(known, is: former, of: database)
            try connection.run("DROP TRIGGER IF EXISTS moved ON mimeo_log.operations_\(number)")
        }
    }

    /// Runs a change with the lock that it needs on the database's entries, which excludes other such ones.
    private func changingPlace(
        of database: DatabaseID, _ lock: String,
        _ body: @escaping @Sendable (NewPlace?, _ number: Int64, Connection) throws -> Void
    ) async throws {
        try await changingDurably { connection in
            let number = try PostgresLogReader.head(connection, database).number
            try connection.run("LOCK TABLE mimeo_log.operations_\(number) IN \(lock) MODE")
            try body(try Self.place(of: number, connection), number, connection)
        }
    }

    /// Runs a change in one transaction that waits for the disk, whatever the role's setting is: the other
    /// log goes on from there, and this one must not be as before after a crash of its server.
    func changingDurably<Result: Sendable>(
        _ body: @escaping @Sendable (Connection) throws -> Result
    ) async throws -> Result {
        try await changing { connection in
            try connection.run("BEGIN; \(PostgresLogWriter.waitingForDisk(isLocal: true))")
            do {
                let result = try body(connection)
                try connection.run("COMMIT")
                return result
            } catch {
                try connection.undo(after: error)
                throw error
            }
        }
    }

    /// Two lookups.
    public func newPlace(of database: DatabaseID) async throws -> NewPlace? {
        try await reading { connection in
            try Self.place(of: PostgresLogReader.head(connection, database).number, connection)
        }
    }

    /// The trigger's argument, which the catalog ends with a zero.
    private static func place(of number: Int64, _ connection: Connection) throws -> NewPlace? {
        let rows = try connection.query(
            """
            SELECT convert_from(substring(t.tgargs FROM 1 FOR octet_length(t.tgargs) - 1), 'UTF8')
            FROM pg_trigger t WHERE t.tgname = 'moved' AND t.tgrelid = to_regclass($1)
            """, [.text("mimeo_log.operations_\(number)")])
        return rows.count == 1 ? NewPlace(rows.text(0, 0)) : nil
    }
}
