import CRDT

/// The tables of one generation: a collection's name, any text, to the table with its number.
///
/// Tables are made before the batch that first writes them, some at a time, each with its row in the catalog
/// and its view in one transaction: an empty table changes no answer, and ten thousand at once would be more
/// locks than a server has.
struct CollectionTables {
    /// The schema in which the views are at the moment.
    var views: String
    private let generation: Int32
    private let connection: Connection
    private var numbers: [CollectionName: Int64] = [:]

    /// Reads the catalog.
    init(of generation: Int32, views: String, _ connection: Connection) throws {
        self.generation = generation
        self.views = views
        self.connection = connection
        let rows = try connection.query(
            "SELECT name, number FROM mimeo_projection.collections WHERE generation = $1::int4",
            [.int8(Int64(generation))])
        for row in 0..<rows.count {
            numbers[CollectionName(String(decoding: rows.bytes(row, 0), as: UTF8.self))] = rows.int8(row, 1)
        }
    }

    /// The table of a collection that `require` has seen.
    func table(_ name: CollectionName) -> String {
        guard let number = numbers[name] else { preconditionFailure("a collection without a table") }
        return ProjectionNames.table(generation, number)
    }

    /// Makes the tables that are not there yet.
    mutating func require(_ collections: [CollectionName: Offset]) throws {
        let missing = collections.filter { numbers[$0.key] == nil }.sorted { $0.value < $1.value }
        for start in stride(from: 0, to: missing.count, by: PostgresLimits.tablesAtOnce) {
            let some = missing[start..<min(start + PostgresLimits.tablesAtOnce, missing.count)]
            try connection.run("BEGIN")
            do {
                var made: [CollectionName: Int64] = [:]
                var script = "CREATE SCHEMA IF NOT EXISTS \(ProjectionNames.quoted(views));\n"
                for (name, since) in some {
                    let (number, view) = try register(name, since)
                    made[name] = number
                    script += Self.definition(
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

    /// A row of the catalog under a name for the view that is free.
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
                INSERT INTO mimeo_projection.collections (generation, name, title, view_name, since)
                VALUES ($1::int4, $2, $3, $4, $5)
                ON CONFLICT (generation, view_name) DO NOTHING RETURNING number
                """,
                [
                    .int8(Int64(generation)), .bytes(bytes), .text(ProjectionNames.readable(name.text)),
                    .text(view), .int8(Int64(bitPattern: since.rawValue)),
                ])
            if rows.count == 1 { return (rows.int8(0, 0), view) }
        }
        throw ProjectionError(.storageFailed, "no name is free for a collection's view")
    }

    /// An id as the key of its row: its canonical bytes, in the order of our ids; of one that is longer than
    /// the server's indexes take, the beginning and a hash (`whole` then holds it). No id has the length of
    /// such a key, so none can be taken for another.
    static func key(of id: String) -> String {
        let bytes = PostgresLimits.keyBytes
        return """
            CASE WHEN octet_length(\(id)) <= \(bytes) THEN \(id)
            ELSE substring(\(id) FOR \(bytes - 31)) || sha256(\(id)) END
            """
    }

    /// `key` says the id to people. Readers use `state`, people and plain SQL `body`.
    private static func definition(_ table: String, view: String) -> String {
        """
        CREATE TABLE \(table) (
            id bytea PRIMARY KEY,
            whole bytea,
            key text COLLATE "C" NOT NULL,
            live boolean NOT NULL,
            plain boolean NOT NULL,
            "offset" int8 NOT NULL,
            body jsonb,
            state bytea NOT NULL
        );
        CREATE VIEW \(view) AS SELECT key AS _id, body AS document, "offset" FROM \(table) WHERE live;

        """
    }
}
