import CRDT

/// The tables of one generation: maps a collection's name, any text, to its numbered table.
///
/// Tables are created before the batch that first writes them, some at a time, each with its catalog row
/// and view in one transaction. An empty table changes no answer, and ten thousand at once would need more
/// locks than a server has.
struct CollectionTables {
    /// The present schema of the views.
    var views: String
    private let generation: Int32
    private let layout: Int64
    private let connection: Connection
    private var numbers: [CollectionName: Int64] = [:]
    private var columns: [CollectionName: KeyColumns] = [:]

    /// Reads the catalog.
    init(of whole: Generation, views: String, _ connection: Connection) throws {
        generation = whole.number
        layout = whole.layout
        self.views = views
        self.connection = connection
        let rows = try connection.query(
            "SELECT name, number FROM mimeo_projection.collections WHERE generation = $1::int4",
            [.int8(Int64(generation))])
        for row in 0..<rows.count {
            numbers[CollectionName(String(decoding: rows.bytes(row, 0), as: UTF8.self))] = rows.int8(row, 1)
        }
        try reloadIndexes()
    }

    /// The tables that a snapshot knows, for one batch: none can be made.
    init(
        of whole: Generation, _ numbers: [CollectionName: Int64], _ columns: [CollectionName: KeyColumns],
        _ connection: Connection
    ) {
        (generation, layout, views) = (whole.number, whole.layout, "")
        (self.numbers, self.columns, self.connection) = (numbers, columns, connection)
    }

    /// Reads the catalog of indexes again.
    mutating func reloadIndexes() throws { columns = try KeyColumns.all(of: generation, connection) }

    /// The columns of a collection that the worker has to write.
    func keys(of collection: CollectionName) -> KeyColumns { columns[collection] ?? KeyColumns() }

    /// All collections with indexes, or columns that indexes have left.
    var indexed: [CollectionName: KeyColumns] { columns }

    /// The number of a table, if there is one.
    func number(of collection: CollectionName) -> Int64? { numbers[collection] }

    /// Adds to the number of a collection's documents, if it is known.
    func counting(_ more: Int64, in collection: CollectionName) -> Connection.Step {
        Connection.Step(
            "UPDATE mimeo_projection.collections SET documents = documents + $2 WHERE number = $1",
            [.int8(numbers[collection] ?? 0), .int8(more)])
    }

    /// The table of a collection that `require` has seen.
    func table(_ name: CollectionName) -> String {
        guard let number = numbers[name] else { preconditionFailure("a collection without a table") }
        return ProjectionNames.table(generation, number)
    }

    /// True if the tables are those of the first layout.
    var isPlain: Bool { layout <= Generation.plainLayout }

    /// Creates the missing tables.
    mutating func require(_ collections: [CollectionName: Offset]) throws {
        let missing = collections.filter { numbers[$0.key] == nil }.sorted { $0.value < $1.value }
        for start in stride(from: 0, to: missing.count, by: PostgresLimits.tablesAtOnce) {
            let some = missing[start..<min(start + PostgresLimits.tablesAtOnce, missing.count)]
            try connection.run("BEGIN")
            do {
                var made: [CollectionName: Int64] = [:]
                // To ask for a schema that is there takes the right to make one.
                let isThere = try connection.query(
                    "SELECT EXISTS (SELECT 1 FROM pg_namespace WHERE nspname = $1)", [.text(views)]
                ).bool(0, 0)
                var script = isThere ? "" : "CREATE SCHEMA \(ProjectionNames.quoted(views));\n"
                for (name, since) in some {
                    let (number, view) = try register(name, since)
                    made[name] = number
                    script += definition(
                        ProjectionNames.table(generation, number),
                        view: ProjectionNames.quoted(views) + "." + ProjectionNames.quoted(view))
                }
                try connection.run(script)
                try connection.run("COMMIT")
                numbers.merge(made) { $1 }
            } catch {
                try connection.undo(after: error)
                throw error
            }
        }
    }

    /// Adds a catalog row under a free name for the view.
    private func register(
        _ name: CollectionName, _ since: Offset
    ) throws -> (number: Int64, view: String) {
        let bytes = Array(name.text.utf8)
        let wanted = ProjectionNames.view(name)
        for attempt in 0..<PostgresLimits.nameAttempts {
            let view =
                attempt == 0 ? wanted : ProjectionNames.distinct(wanted, bytes, attempt: attempt - 1)
            let rows = try connection.query(
                """
                INSERT INTO mimeo_projection.collections
                    (generation, name, title, view_name, since, key_columns, documents)
                VALUES ($1::int4, $2, $3, $4, $5, $6::int4, 0)
                ON CONFLICT (generation, view_name) DO NOTHING RETURNING number
                """,
                [
                    .int8(Int64(generation)), .bytes(bytes), .text(ProjectionNames.readable(name.text)),
                    .text(view), .int8(Int64(bitPattern: since.rawValue)),
                    .int8(isPlain ? 0 : Int64(PostgresLimits.keyColumns)),
                ])
            if rows.count == 1 { return (rows.int8(0, 0), view) }
        }
        throw ProjectionError(.storageFailed, "cannot find a free name for a collection's view")
    }

    /// An id as the key of its row: its canonical bytes, in the order of our ids. For an id longer than the
    /// server's indexes take, the key is its beginning and a hash (`whole` then has the id). No id has the
    /// length of such a key, so the two cannot be confused.
    static func key(of id: String) -> String {
        let bytes = PostgresLimits.keyBytes
        return """
            CASE WHEN octet_length(\(id)) <= \(bytes) THEN \(id)
            ELSE substring(\(id) FOR \(bytes - 31)) || sha256(\(id)) END
            """
    }

    /// `key` shows the id to people. Readers use `state`; people and pushed SQL use `body`. The columns of a
    /// scan stand before long ones, and `state` last: a scan walks over what stands before a column.
    ///
    /// `rough` has the keys under which `body` says something in other words; NULL for none, empty for all.
    private func definition(_ table: String, view: String) -> String {
        let columns = isPlain ? Self.plainColumns(table) : Self.columns(table)
        return """
            \(columns)
            CREATE VIEW \(view) AS SELECT key AS _id, body AS document, "offset" FROM \(table) WHERE live;

            """
    }

    private static func columns(_ table: String) -> String {
        """
        CREATE TABLE \(table) (
            "offset" int8 NOT NULL,
            live boolean NOT NULL,
            rough text[],
            body jsonb,
            id bytea PRIMARY KEY,
            whole bytea,
            key text COLLATE "C" NOT NULL,
            \((0..<PostgresLimits.keyColumns).map { "k\($0) bytea, " }.joined())
            state bytea NOT NULL
        );
        CREATE INDEX ON \(table) (id) WHERE live AND rough IS NOT NULL;
        """
    }

    /// The table of the first layout, for a new collection while the tables are not rebuilt yet.
    private static func plainColumns(_ table: String) -> String {
        """
        CREATE TABLE \(table) (
            id bytea PRIMARY KEY, whole bytea, key text COLLATE "C" NOT NULL, live boolean NOT NULL,
            plain boolean NOT NULL, "offset" int8 NOT NULL, body jsonb, state bytea NOT NULL
        );
        """
    }
}
