import CRDT
import GRDB
import WriteAhead

/// The store file's tables, format 12. `PRAGMA user_version` holds the format, `application_id` marks the
/// file as ours.
///
/// A collection has a table of its own (`documents_N`): rowid scans are SQLite's fastest. `position` is the
/// number of the commit, or in a materialization the log's offset, that last changed the document; it is
/// indexed, because catch-up reads everything after a cursor (rule 23).
enum Schema {
    static let format: Int64 = 12
    /// The oldest format that is opened: 0.2.0's. Earlier ones were never released (decision 0170).
    static let oldestFormat: Int64 = 11
    /// "Mime" in ASCII.
    static let applicationID: Int64 = 0x4D69_6D65

    /// Refuses a foreign file, and one of an unsupported format, before anything may write to it. A missing
    /// one is valid.
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

    /// Creates the tables in an empty file. A later format adds its step from the one before here.
    static func migrate(_ database: Database) throws {
        let found = try storedFormat(database)
        guard found != format else { return }
        if found == 0 {
            for tables in [ownTables, foldTables, sessionTables, linkTables] {
                try database.execute(sql: tables)
            }
            try database.execute(sql: "PRAGMA application_id = \(applicationID)")
        } else {
            try SchemaSteps.to12(database)
        }
        try database.execute(sql: "PRAGMA user_version = \(format)")
    }

    /// The file's format, 0 for an empty one. A materialization of an older format is damaged: its owner
    /// builds it again from the log.
    private static func storedFormat(_ database: Database) throws -> Int64 {
        let stored = try Int64.fetchOne(database, sql: "PRAGMA user_version") ?? 0
        let owner = try Int64.fetchOne(database, sql: "PRAGMA application_id") ?? 0
        let tables = try Int.fetchOne(database, sql: "SELECT COUNT(*) FROM sqlite_master") ?? 0
        let found = try known(stored, owner: owner, hasTables: tables > 0)
        guard tables > 0, found < oldestFormat else { return found }
        if (try? Int.fetchOne(database, sql: "SELECT length(log) FROM store")) ?? 0 > 0 {
            throw ReplicaError(.damaged, "a materialization of format \(found) must be rebuilt from its log")
        }
        throw ReplicaError(
            .unsupportedFormat,
            "the store has format \(found), which no release wrote; this version reads \(oldestFormat) and "
                + "later; open it once with a version before 0.2.0 that writes format \(oldestFormat); "
                + "nothing was changed")
    }

    /// A format that is not newer than this build's.
    private static func known(_ found: Int64, owner: Int64, hasTables: Bool) throws -> Int64 {
        guard !hasTables || owner == applicationID else {
            throw ReplicaError(.damaged, "the file is not a store of this program")
        }
        guard found <= format else {
            throw ReplicaError(
                .unsupportedFormat,
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
                CREATE INDEX documents_\(number)_dead ON documents_\(number) (number) WHERE live = 0;
                """)
    }

    /// The store's own: collections, and the operations written here (`StoredOperation`), of which the
    /// acknowledged ones are kept as a timestamp and a checksum, and the refused ones whole.
    ///
    /// A refused commit stays recorded after its content is deleted. `evicted.time` is that of an actor's
    /// last write to the document (`Evicted`). Withheld operations: see `Withheld`. `staged` has the
    /// server's states during a repair (`Repairer`).
    private static let ownTables = """
        CREATE TABLE store (
            one INTEGER PRIMARY KEY CHECK (one = 1), actor INTEGER NOT NULL, sequence INTEGER NOT NULL,
            clock INTEGER NOT NULL, head INTEGER NOT NULL, device INTEGER NOT NULL, inode INTEGER NOT NULL,
            log BLOB NOT NULL, log_hash INTEGER NOT NULL, born INTEGER NOT NULL DEFAULT 0,
            reap_floor INTEGER NOT NULL DEFAULT 0);
        CREATE TABLE collection (number INTEGER PRIMARY KEY, name TEXT NOT NULL UNIQUE);
        CREATE TABLE operation (
            position INTEGER PRIMARY KEY, actor INTEGER NOT NULL, sequence INTEGER NOT NULL,
            bytes BLOB NOT NULL, refers BLOB, UNIQUE (actor, sequence));
        CREATE INDEX operation_refers ON operation (position) WHERE refers IS NOT NULL;
        CREATE TABLE acknowledged (
            actor INTEGER PRIMARY KEY, sequence INTEGER NOT NULL, timestamp INTEGER NOT NULL DEFAULT 0,
            hash INTEGER NOT NULL DEFAULT 0) WITHOUT ROWID;
        CREATE TABLE refused (
            position INTEGER PRIMARY KEY, code TEXT NOT NULL, message TEXT NOT NULL,
            milliseconds INTEGER NOT NULL, bytes BLOB NOT NULL);
        CREATE TABLE refused_commit (position INTEGER PRIMARY KEY, code TEXT NOT NULL);
        CREATE TABLE evicted (
            collection TEXT NOT NULL, id BLOB NOT NULL, actor INTEGER NOT NULL,
            time INTEGER NOT NULL DEFAULT 0, PRIMARY KEY (collection, id, actor)) WITHOUT ROWID;
        CREATE TABLE staged (
            subscription BLOB NOT NULL, number INTEGER NOT NULL, collection TEXT NOT NULL, id BLOB NOT NULL,
            state BLOB NOT NULL, gone INTEGER NOT NULL DEFAULT 0,
            PRIMARY KEY (subscription, number)) WITHOUT ROWID;
        CREATE TABLE withheld_actor (
            collection TEXT PRIMARY KEY, actor INTEGER NOT NULL) WITHOUT ROWID;
        CREATE TABLE withheld_operation (
            position INTEGER NOT NULL, collection TEXT NOT NULL, actor INTEGER NOT NULL,
            sequence INTEGER NOT NULL, bytes BLOB NOT NULL, PRIMARY KEY (actor, sequence));
        CREATE INDEX withheld_of ON withheld_operation (collection, actor);
        CREATE INDEX withheld_at ON withheld_operation (position);
        CREATE TABLE setting (key TEXT PRIMARY KEY, value BLOB NOT NULL) WITHOUT ROWID;
        """

    /// A materialization's frontier; the checksums of every actor's latest operations (`FoldedHistory`), and
    /// the origins of moved operations (decision 0009). The catalog of indexes: `built` is NULL once an
    /// index is complete, `exact` is 0 once one of its keys was cut (`Index/`). Numbers are never reused, so
    /// an old reference never finds a new index.
    private static let foldTables = """
        CREATE TABLE frontier (
            actor INTEGER PRIMARY KEY, sequence INTEGER NOT NULL, timestamp INTEGER NOT NULL);
        CREATE TABLE history (
            actor INTEGER NOT NULL, slot INTEGER NOT NULL, sequence INTEGER NOT NULL, hash INTEGER NOT NULL,
            PRIMARY KEY (actor, slot)) WITHOUT ROWID;
        CREATE TABLE moved (origin INTEGER PRIMARY KEY);
        CREATE TABLE document_index (
            number INTEGER PRIMARY KEY AUTOINCREMENT, collection INTEGER NOT NULL, name TEXT NOT NULL,
            keys BLOB NOT NULL, built INTEGER, exact INTEGER NOT NULL, UNIQUE (collection, name));
        CREATE TABLE index_version (
            one INTEGER PRIMARY KEY CHECK (one = 1), version INTEGER NOT NULL);
        INSERT INTO index_version (one, version) VALUES (1, random());
        """

    /// A peer's data between sessions: cursors with the rights under which they were given, the progress of
    /// a catch-up, own writes without an answer yet (rule 16). Documents are staged in their final table
    /// (`StagedDocuments`), whose number belongs to no collection until they become visible.
    private static let sessionTables = """
        CREATE TABLE subscription (
            key BLOB PRIMARY KEY, log BLOB NOT NULL, offset INTEGER NOT NULL, hash INTEGER NOT NULL,
            rights BLOB NOT NULL DEFAULT x'') WITHOUT ROWID;
        CREATE TABLE wanted (
            collection TEXT NOT NULL, id BLOB NOT NULL, PRIMARY KEY (collection, id)) WITHOUT ROWID;
        CREATE TABLE resumption (subscription BLOB PRIMARY KEY, token BLOB NOT NULL) WITHOUT ROWID;
        CREATE TABLE unanswered (
            collection TEXT NOT NULL, id BLOB NOT NULL, offset INTEGER NOT NULL,
            PRIMARY KEY (collection, id)) WITHOUT ROWID;
        CREATE TABLE staged_page (
            subscription BLOB NOT NULL, number INTEGER NOT NULL, keys BLOB NOT NULL, bytes BLOB NOT NULL,
            PRIMARY KEY (subscription, number));
        CREATE TABLE staged_documents (
            subscription BLOB PRIMARY KEY, number INTEGER NOT NULL UNIQUE,
            collection TEXT NOT NULL) WITHOUT ROWID;
        """

    /// A peer's feed for other small peers (`FeedIdentity`), and what it keeps of theirs (`LinkCursors`,
    /// `MetDocuments`). The void stamps of documents (`Notes`); documents of links whose stamps are ahead of
    /// the clock (`FutureStamps`). All of it is empty in a store that has no links.
    private static let linkTables = """
        CREATE TABLE feed (
            one INTEGER PRIMARY KEY CHECK (one = 1), id BLOB NOT NULL, starts INTEGER NOT NULL);
        CREATE TABLE feed_start (first INTEGER PRIMARY KEY, mark INTEGER NOT NULL);
        CREATE TABLE peer_feed (
            feed BLOB PRIMARY KEY, asked INTEGER NOT NULL, rights INTEGER NOT NULL,
            met INTEGER NOT NULL) WITHOUT ROWID;
        CREATE TABLE link_cursor (
            feed BLOB NOT NULL, key BLOB NOT NULL, collection TEXT NOT NULL, position INTEGER NOT NULL,
            mark INTEGER NOT NULL, rights BLOB NOT NULL, PRIMARY KEY (feed, key)) WITHOUT ROWID;
        CREATE TABLE met (
            collection TEXT NOT NULL, id BLOB NOT NULL, entered INTEGER NOT NULL, source BLOB,
            meshed INTEGER NOT NULL, PRIMARY KEY (collection, id)) WITHOUT ROWID;
        CREATE INDEX met_entered ON met (entered) WHERE entered > 0;
        CREATE INDEX met_meshed ON met (meshed) WHERE meshed > 0;
        CREATE TABLE note (
            collection TEXT NOT NULL, id BLOB NOT NULL, position INTEGER NOT NULL, came INTEGER NOT NULL,
            void BLOB NOT NULL, PRIMARY KEY (collection, id)) WITHOUT ROWID;
        CREATE INDEX note_at ON note (collection, position);
        CREATE INDEX note_came ON note (came);
        CREATE TABLE ahead (
            feed BLOB NOT NULL, collection TEXT NOT NULL, id BLOB NOT NULL, due INTEGER NOT NULL,
            PRIMARY KEY (feed, collection, id)) WITHOUT ROWID;
        CREATE INDEX ahead_due ON ahead (feed, due);
        """

    /// `note` of format 12 from that of format 11 (`SchemaSteps`).
    static let noteStep = """
        ALTER TABLE note RENAME TO note_11;
        DROP INDEX note_at;
        DROP INDEX note_came;
        DROP INDEX note_void;
        CREATE TABLE note (
            collection TEXT NOT NULL, id BLOB NOT NULL, position INTEGER NOT NULL, came INTEGER NOT NULL,
            void BLOB NOT NULL, PRIMARY KEY (collection, id)) WITHOUT ROWID;
        CREATE INDEX note_at ON note (collection, position);
        CREATE INDEX note_came ON note (came);
        INSERT INTO note (collection, id, position, came, void)
            SELECT collection, id, position, came, void FROM note_11 WHERE void IS NOT NULL;
        DROP TABLE note_11;
        """
}
