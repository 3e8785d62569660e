import CRDT
import GRDB
import WriteAhead

/// The store file's tables, format 11. `PRAGMA user_version` holds the format, `application_id` marks the
/// file as ours.
///
/// A collection has a table of its own (`documents_N`): rowid scans are SQLite's fastest. `position` is the
/// number of the commit, or in a materialization the log's offset, that last changed the document; it is
/// indexed, because catch-up reads everything after a cursor (rule 23).
enum Schema {
    static let format: Int64 = 11
    /// "Mime" in ASCII.
    static let applicationID: Int64 = 0x4D69_6D65

    /// Refuses a foreign or newer file before anything may write to it. A missing one is valid.
    ///
    /// A file whose creation was interrupted has a rollback journal, and means nothing without it. A reader
    /// may not roll it back, so a writer does, as the first process to open it would.
    static func check(path: String) throws {
        guard DirectoryLock.identity(of: path) != nil else { return }
        do {
            try checkOpened(path: path, readonly: true)
        } catch let error as DatabaseError where error.resultCode == .SQLITE_READONLY {
            try checkOpened(path: path, readonly: false)
        }
    }

    /// The format of a file that nobody opens for that; 0 for an empty one. The file, and what SQLite keeps
    /// beside it, stay as they are.
    static func stored(path: String) throws -> Int64 {
        do {
            guard let header = try StoredHeader.read(path) else { return 0 }
            return try known(header.version, owner: header.application, hasTables: header.hasTables)
        } catch let error as StoredHeader.Unreadable {
            throw ReplicaError(error.isClosed ? .directoryUnusable : .damaged, error.description)
        }
    }

    private static func checkOpened(path: String, readonly: Bool) throws {
        var configuration = Configuration()
        configuration.readonly = readonly
        PageSums.add(to: &configuration)
        let connection = try DatabaseQueue(path: path, configuration: configuration)
        _ = try connection.unsafeRead { try storedFormat($0) }
        try connection.close()
    }

    static func migrate(_ database: Database) throws {
        let found = try storedFormat(database)
        guard found < format else { return }
        if found < 1 { try database.execute(sql: tablesOfFormat1) }
        if found < 2 { try database.execute(sql: changesOfFormat2) }
        if found < 3 {
            try database.execute(sql: changesOfFormat3)
            for number in try Int64.fetchAll(database, sql: "SELECT number FROM collection") {
                try indexTombstones(number, database)
            }
        }
        if found < 4 { try database.execute(sql: changesOfFormat4) }
        if found < 5 { try database.execute(sql: changesOfFormat5) }
        if found < 6 { try database.execute(sql: changesOfFormat6) }
        if found < 7 { try database.execute(sql: changesOfFormat7) }
        if found < 8 { try database.execute(sql: changesOfFormat8) }
        if found < 9 { try database.execute(sql: changesOfFormat9) }
        if found < 10 { try database.execute(sql: changesOfFormat10) }
        if found < 11 { try database.execute(sql: changesOfFormat11) }
        if found < 2 { try OwnOperations.truncateAll(database) }
        if found > 0, found < 3, try isMaterialization(database) {
            // The data of the new tables is only in the log, so this is rolled back, and the store
            // discarded and rebuilt.
            throw ReplicaError(.damaged, "a materialization of format \(found) must be rebuilt from its log")
        }
        try database.execute(sql: "PRAGMA application_id = \(applicationID)")
        try database.execute(sql: "PRAGMA user_version = \(format)")
    }

    private static func isMaterialization(_ database: Database) throws -> Bool {
        try Int.fetchOne(database, sql: "SELECT length(log) FROM store") ?? 0 > 0
    }

    /// The file's format, 0 for an empty one.
    private static func storedFormat(_ database: Database) throws -> Int64 {
        let found = try Int64.fetchOne(database, sql: "PRAGMA user_version") ?? 0
        let owner = try Int64.fetchOne(database, sql: "PRAGMA application_id") ?? 0
        let tables = try Int.fetchOne(database, sql: "SELECT COUNT(*) FROM sqlite_master") ?? 0
        return try known(found, owner: owner, hasTables: tables > 0)
    }

    /// A format that this build knows.
    private static func known(_ found: Int64, owner: Int64, hasTables: Bool) throws -> Int64 {
        guard !hasTables || owner == applicationID else {
            throw ReplicaError(.damaged, "the file is not a store of this program")
        }
        guard found <= format else {
            throw ReplicaError(
                .newerFormat,
                "the store has format \(found); this version reads up to \(format); nothing was changed")
        }
        return found
    }

    static func createDocuments(_ number: Int64, _ database: Database) throws {
        try database.execute(
            sql: """
                CREATE TABLE documents_\(number) (
                    number INTEGER PRIMARY KEY, id BLOB NOT NULL UNIQUE, live INTEGER NOT NULL,
                    position INTEGER NOT NULL, state BLOB NOT NULL);
                CREATE INDEX documents_\(number)_position ON documents_\(number) (position);
                """)
        try indexTombstones(number, database)
    }

    /// Lets dead documents be counted without reading them.
    private static func indexTombstones(_ number: Int64, _ database: Database) throws {
        try database.execute(
            sql: """
                CREATE INDEX IF NOT EXISTS documents_\(number)_dead ON documents_\(number) (number)
                WHERE live = 0
                """)
    }

    /// The last acknowledged operation is stored by its timestamp and checksum; acknowledged operations
    /// themselves are no longer kept. Refused writes are.
    private static let changesOfFormat2 = """
        ALTER TABLE acknowledged ADD COLUMN timestamp INTEGER NOT NULL DEFAULT 0;
        ALTER TABLE acknowledged ADD COLUMN hash INTEGER NOT NULL DEFAULT 0;
        ALTER TABLE store ADD COLUMN born INTEGER NOT NULL DEFAULT 0;
        CREATE TABLE refused (
            position INTEGER PRIMARY KEY, code TEXT NOT NULL, message TEXT NOT NULL,
            milliseconds INTEGER NOT NULL, bytes BLOB NOT NULL);
        """

    /// A materialization's frontier and reap floor; the checksums of every actor's latest operations
    /// (`FoldedHistory`), and the origins of moved operations (decision 0009). The catalog of indexes:
    /// `built` is NULL once an index is complete, `exact` is 0 once one of its keys was cut (`Index/`).
    /// Numbers are never reused, so an old reference never finds a new index.
    private static let changesOfFormat3 = """
        ALTER TABLE store ADD COLUMN reap_floor INTEGER NOT NULL DEFAULT 0;
        CREATE TABLE frontier (
            actor INTEGER PRIMARY KEY, sequence INTEGER NOT NULL, timestamp INTEGER NOT NULL);
        CREATE TABLE history (
            actor INTEGER NOT NULL, slot INTEGER NOT NULL, sequence INTEGER NOT NULL, hash INTEGER NOT NULL,
            PRIMARY KEY (actor, slot)) WITHOUT ROWID;
        CREATE TABLE moved (origin INTEGER PRIMARY KEY);
        CREATE TABLE IF NOT EXISTS document_index (
            number INTEGER PRIMARY KEY AUTOINCREMENT, collection INTEGER NOT NULL, name TEXT NOT NULL,
            keys BLOB NOT NULL, built INTEGER, exact INTEGER NOT NULL, UNIQUE (collection, name));
        CREATE TABLE IF NOT EXISTS index_version (
            one INTEGER PRIMARY KEY CHECK (one = 1), version INTEGER NOT NULL);
        INSERT OR IGNORE INTO index_version (one, version) VALUES (1, random());
        """ + sessionsOfFormat3

    /// A peer's data between sessions: the rights under which a cursor was given, the progress of a
    /// catch-up, own writes without an answer yet (rule 16).
    private static let sessionsOfFormat3 = """

        ALTER TABLE subscription ADD COLUMN rights BLOB NOT NULL DEFAULT x'';
        ALTER TABLE staged ADD COLUMN gone INTEGER NOT NULL DEFAULT 0;
        CREATE INDEX staged_document ON staged (subscription, collection, id);
        CREATE TABLE resumption (subscription BLOB PRIMARY KEY, token BLOB NOT NULL) WITHOUT ROWID;
        CREATE TABLE unanswered (
            collection TEXT NOT NULL, id BLOB NOT NULL, offset INTEGER NOT NULL,
            PRIMARY KEY (collection, id)) WITHOUT ROWID;
        """

    /// A catch-up under way starts again: rows that it had staged one by one are deleted.
    private static let changesOfFormat4 = """
        DROP INDEX IF EXISTS staged_document;
        DELETE FROM staged;
        DELETE FROM resumption;
        CREATE TABLE IF NOT EXISTS staged_page (
            subscription BLOB NOT NULL, number INTEGER NOT NULL, keys BLOB NOT NULL, bytes BLOB NOT NULL,
            PRIMARY KEY (subscription, number));
        """

    /// Documents staged in their final table (`StagedDocuments`), whose number belongs to no collection
    /// until they become visible. Refused commits stay recorded after their content is deleted.
    private static let changesOfFormat5 = """
        CREATE TABLE IF NOT EXISTS staged_documents (
            subscription BLOB PRIMARY KEY, number INTEGER NOT NULL UNIQUE,
            collection TEXT NOT NULL) WITHOUT ROWID;
        CREATE TABLE IF NOT EXISTS refused_commit (position INTEGER PRIMARY KEY, code TEXT NOT NULL);
        """

    /// Collections and operations withheld from the server (`Withheld`).
    private static let changesOfFormat6 = """
        CREATE TABLE IF NOT EXISTS withheld_actor (
            collection TEXT PRIMARY KEY, actor INTEGER NOT NULL) WITHOUT ROWID;
        CREATE TABLE IF NOT EXISTS withheld_operation (
            position INTEGER NOT NULL, collection TEXT NOT NULL, actor INTEGER NOT NULL,
            sequence INTEGER NOT NULL, bytes BLOB NOT NULL, PRIMARY KEY (actor, sequence));
        CREATE INDEX IF NOT EXISTS withheld_of ON withheld_operation (collection, actor);
        CREATE INDEX IF NOT EXISTS withheld_at ON withheld_operation (position);
        """

    /// Own operations that refer to the documents they inserted (`StoredOperation`).
    private static let changesOfFormat7 = """
        ALTER TABLE operation ADD COLUMN refers BLOB;
        CREATE INDEX operation_refers ON operation (position) WHERE refers IS NOT NULL;
        """

    /// The time of an actor's last write to an evicted document; 0 if unknown (`Evicted`).
    private static let changesOfFormat8 = """
        ALTER TABLE evicted ADD COLUMN time INTEGER NOT NULL DEFAULT 0;
        """

    /// A peer's feed for other small peers (`FeedIdentity`), and what it keeps of theirs (`LinkCursors`,
    /// `MetDocuments`). All of it is empty in a store that has no links.
    private static let changesOfFormat9 = """
        CREATE TABLE IF NOT EXISTS feed (
            one INTEGER PRIMARY KEY CHECK (one = 1), id BLOB NOT NULL, starts INTEGER NOT NULL);
        CREATE TABLE IF NOT EXISTS feed_start (first INTEGER PRIMARY KEY, mark INTEGER NOT NULL);
        CREATE TABLE IF NOT EXISTS peer_feed (
            feed BLOB PRIMARY KEY, asked INTEGER NOT NULL, rights INTEGER NOT NULL,
            met INTEGER NOT NULL) WITHOUT ROWID;
        CREATE TABLE IF NOT EXISTS link_cursor (
            feed BLOB NOT NULL, key BLOB NOT NULL, collection TEXT NOT NULL, position INTEGER NOT NULL,
            mark INTEGER NOT NULL, rights BLOB NOT NULL, PRIMARY KEY (feed, key)) WITHOUT ROWID;
        CREATE TABLE IF NOT EXISTS met (
            collection TEXT NOT NULL, id BLOB NOT NULL, entered INTEGER NOT NULL, source BLOB,
            meshed INTEGER NOT NULL, PRIMARY KEY (collection, id)) WITHOUT ROWID;
        CREATE INDEX IF NOT EXISTS met_entered ON met (entered) WHERE entered > 0;
        CREATE INDEX IF NOT EXISTS met_meshed ON met (meshed) WHERE meshed > 0;
        """

    /// Notes of documents that are gone and left no entry in their vectors (`Notes`); documents of links
    /// whose stamps are ahead of the clock (`AheadDocuments`). Empty in a store that has no links.
    private static let changesOfFormat10 = """
        CREATE TABLE IF NOT EXISTS note (
            collection TEXT NOT NULL, id BLOB NOT NULL, vector BLOB NOT NULL, position INTEGER NOT NULL,
            came INTEGER NOT NULL, PRIMARY KEY (collection, id)) WITHOUT ROWID;
        CREATE INDEX IF NOT EXISTS note_at ON note (collection, position);
        CREATE INDEX IF NOT EXISTS note_came ON note (came);
        CREATE TABLE IF NOT EXISTS ahead (
            feed BLOB NOT NULL, collection TEXT NOT NULL, id BLOB NOT NULL, due INTEGER NOT NULL,
            PRIMARY KEY (feed, collection, id)) WITHOUT ROWID;
        CREATE INDEX IF NOT EXISTS ahead_due ON ahead (feed, due);
        """

    /// The stamps of a document that are void (`Notes`).
    private static let changesOfFormat11 = """
        ALTER TABLE note ADD COLUMN void BLOB;
        CREATE INDEX IF NOT EXISTS note_void ON note (collection, id) WHERE void IS NOT NULL;
        """

    private static let tablesOfFormat1 = """
        CREATE TABLE store (
            one INTEGER PRIMARY KEY CHECK (one = 1), actor INTEGER NOT NULL, sequence INTEGER NOT NULL,
            clock INTEGER NOT NULL, head INTEGER NOT NULL, device INTEGER NOT NULL, inode INTEGER NOT NULL,
            log BLOB NOT NULL, log_hash INTEGER NOT NULL);
        CREATE TABLE collection (number INTEGER PRIMARY KEY, name TEXT NOT NULL UNIQUE);
        CREATE TABLE operation (
            position INTEGER PRIMARY KEY, actor INTEGER NOT NULL, sequence INTEGER NOT NULL,
            bytes BLOB NOT NULL, UNIQUE (actor, sequence));
        CREATE TABLE acknowledged (
            actor INTEGER PRIMARY KEY, sequence INTEGER NOT NULL) WITHOUT ROWID;
        CREATE TABLE subscription (
            key BLOB PRIMARY KEY, log BLOB NOT NULL, offset INTEGER NOT NULL,
            hash INTEGER NOT NULL) WITHOUT ROWID;
        CREATE TABLE wanted (
            collection TEXT NOT NULL, id BLOB NOT NULL, PRIMARY KEY (collection, id)) WITHOUT ROWID;
        CREATE TABLE staged (
            subscription BLOB NOT NULL, number INTEGER NOT NULL, collection TEXT NOT NULL, id BLOB NOT NULL,
            state BLOB NOT NULL, PRIMARY KEY (subscription, number)) WITHOUT ROWID;
        CREATE TABLE evicted (
            collection TEXT NOT NULL, id BLOB NOT NULL, actor INTEGER NOT NULL,
            PRIMARY KEY (collection, id, actor)) WITHOUT ROWID;
        CREATE TABLE setting (key TEXT PRIMARY KEY, value BLOB NOT NULL) WITHOUT ROWID;
        """
}
