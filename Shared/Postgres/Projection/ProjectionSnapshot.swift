import CRDT
import DQL

/// The documents of one database as of one checkpoint: a repeatable-read transaction on the generation that
/// readers use. Used only inside the closure that receives it.
///
/// A scan reads pages in the order of the ids, each bounded in rows and bytes, so a statement's memory does
/// not grow with the collection. Pages are complete results, so a visit may read other documents.
///
/// Parts of statements run in SQL (`PushingSource`, in `PushedReads.swift`), each in a cursor, so that other
/// documents may be read between two of its answers.
public final class ProjectionSnapshot: DocumentSource {
    /// The checkpoint's position in the log.
    public let position: LogPosition
    /// The greatest timestamp folded.
    let clock: Timestamp
    let connection: Connection
    /// See `PushingSource`: none on tables of an older layout, and after SQL of ours has failed.
    public var pushing: (any PushingSource)? { isPushing ? self : nil }
    /// The cursors that are open, and those that nobody reads any more.
    var openCursors = 0
    var leftCursors: [String] = []
    private let isPushing: Bool
    private let wait: (any ServerWait)?
    let generation: Int32
    /// The version of the catalog of indexes.
    let indexVersion: UInt64
    /// The server's number of the generation's schema, which is never used again for another one.
    let schema: Int64
    private var tables: [CollectionName: String?] = [:]
    /// The document that was read with the beginning.
    private let fetched: (key: DocumentKey, rows: Rows)?
    /// The states that were read ahead, see `expect`.
    private var expected: [DocumentKey: EncodedState?] = [:]

    private init(
        _ generation: Generation, schema: Int64, _ connection: Connection, isPushing: Bool,
        fetched: (key: DocumentKey, rows: Rows)?, _ wait: (any ServerWait)?
    ) {
        self.schema = schema
        self.fetched = fetched
        self.isPushing = isPushing && generation.layout == Generation.currentLayout
        self.wait = wait
        indexVersion = generation.indexVersion
        position = generation.position
        clock = generation.clock
        self.generation = generation.number
        self.connection = connection
    }

    /// Runs `body` on a snapshot, in a transaction that is rolled back.
    /// - Parameters:
    ///   - key: a document that `body` will look up, which is read in the same round trip if its table is
    ///     known.
    ///   - wait: told of each wait for a scan.
    ///   - fallsBack: true to run `body` again without SQL of ours after the server has refused some.
    static func run<Result>(
        of database: DatabaseID, on connection: Connection, fetching key: DocumentKey? = nil,
        waiting wait: (any ServerWait)? = nil, fallsBack: Bool = true,
        _ body: (ProjectionSnapshot) throws -> Result
    ) throws -> Result {
        var isPushing = true
        for _ in 0..<PostgresLimits.snapshotAttempts {
            do {
                let result = try take(
                    database, connection, fetching: key, isPushing: isPushing, wait
                ).map(body)
                try connection.leave()
                if let result { return result }
            } catch let failure as PushFailure {
                try connection.undo(after: failure.error)
                guard fallsBack else { throw failure.error }
                isPushing = false
            } catch {
                try connection.undo(after: error)
                throw error
            }
        }
        throw ProjectionError(.notReady, "the projection was rebuilt at every attempt to read it; try again")
    }

    /// Settings of the session. Plans are made for tables of unknown size, so they must always use the key.
    private static let settings = """
        SET lock_timeout = '\(PostgresLimits.workerLockSeconds)s'; SET enable_seqscan = off;
        SET enable_bitmapscan = off; SET jit = off; SET max_parallel_workers_per_gather = 0
        """

    /// The steps that begin a transaction and find the generation.
    private static func beginning(_ database: DatabaseID) -> [Connection.Step] {
        [
            Connection.Step("BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY"),
            Connection.Step(
                """
                SELECT \(Generation.columns(of: "g")),
                    pg_try_advisory_xact_lock_shared(\(ProjectionLocks.generation), g.number)
                FROM mimeo_projection.databases d
                JOIN mimeo_projection.generations g ON g.number = d.generation WHERE d.id = $1
                """, [.text(database.text)]),
            // A statement of its own, after the lock: schemas are looked up as they are now.
            Connection.Step(
                """
                SELECT to_regnamespace('\(ProjectionNames.schemaPrefix)' || d.generation)::oid::int8
                FROM mimeo_projection.databases d WHERE d.id = $1
                """, [.text(database.text)]),
        ]
    }

    /// Begins a transaction and takes its snapshot, in one round trip; nil when its generation was removed
    /// meanwhile.
    private static func take(
        _ database: DatabaseID, _ connection: Connection, fetching key: DocumentKey?, isPushing: Bool,
        _ wait: (any ServerWait)?
    ) throws -> ProjectionSnapshot? {
        if !connection.isForSnapshots {
            connection.workers = try connection.query(
                "SELECT current_setting('max_parallel_workers_per_gather')"
            ).text(0, 0)
            try connection.run(settings)
            connection.isForSnapshots = true
        }
        let steps = beginning(database)
        let known = connection.knownSchemas[database]
        let guess = key.flatMap { key in known.flatMap { connection.lookup(key, inSchema: $0) } }
        let answers: [Rows]
        do throws(PostgresError) {
            answers = try connection.pipeline(steps + (guess.map { [$0] } ?? []))
        } catch {
            // The table may be gone: its generation was removed.
            guard guess != nil, !error.isConnectionLost, !error.isCancelled else { throw error }
            try connection.undo(after: error)
            answers = try connection.pipeline(steps)
        }
        let (rows, schemas) = (answers[1], answers[2])
        guard rows.count == 1, let generation = try Generation(rows, 0) else {
            throw ProjectionError(.notReady, "the projection has not been started; try again")
        }
        // A process that removes a generation holds this lock exclusively.
        guard rows.bool(0, Generation.columnCount), !schemas.isNull(0, 0) else { return nil }
        let schema = schemas.int8(0, 0)
        if known != schema { connection.note(schema, of: database) }
        // The answer of another generation is not this one's.
        let fetched = answers.count > steps.count && known == schema ? answers.last : nil
        return ProjectionSnapshot(
            generation, schema: schema, connection, isPushing: isPushing,
            fetched: key.flatMap { key in fetched.map { (key, $0) } }, wait)
    }

    /// Runs a body that may wait long for the server, until its caller no longer wants it.
    func awaiting<Result>(_ body: () throws -> Result) throws -> Result {
        guard let wait else { return try body() }
        var reason: Interruption?
        do {
            return try wait.waiting { interruption in
                connection.isUnwanted = {
                    reason = interruption()
                    return reason != nil
                }
                defer { connection.isUnwanted = nil }
                return try body()
            }
        } catch let error as PostgresError where error.isCancelled || error.isConnectionLost {
            if let reason { throw DQLError.interrupted(reason) }
            throw error
        }
    }

    /// The names of all collections that were ever written, by bytes.
    public func collectionNames() throws -> [CollectionName] {
        let rows = try connection.query(
            """
            SELECT name FROM mimeo_projection.collections WHERE generation = $1::int4 AND since <= $2
            ORDER BY name
            """, [.int8(Int64(generation)), .int8(Int64(bitPattern: position.offset.rawValue))])
        return (0..<rows.count).map { CollectionName(String(decoding: rows.bytes($0, 0), as: UTF8.self)) }
    }

    /// Visits the live documents of a collection in the order of their ids.
    public func scan(_ collection: CollectionName, _ visit: (DocumentRecord) throws -> Bool) throws {
        guard let table = try table(collection) else { return }
        // The first page is often enough for a statement with a LIMIT.
        var limit = PostgresLimits.firstPageDocuments
        var last: [UInt8] = []
        while true {
            let rows = try awaiting { try page(of: table, after: last, limit) }
            var bytes = 0
            for row in 0..<rows.count {
                let state = rows.raw(row, 2)
                bytes += state.count
                let id = rows.bytes(row, rows.isNull(row, 1) ? 0 : 1)
                let record = DocumentRecord(
                    id: DocumentID(trusted: id),
                    document: try ProjectionError.reading { () throws(CRDTError) in try DocumentReader(state)
                    })
                let goesOn = try withExtendedLifetime(rows) { try visit(record) }
                guard goesOn else { return }
            }
            guard rows.count == limit || bytes >= PostgresLimits.pageBytes, rows.count > 0 else { return }
            last = rows.bytes(rows.count - 1, 0)
            limit = PostgresLimits.pageDocuments
        }
    }

    /// Visits the document with this id if it is live.
    public func lookup(
        _ collection: CollectionName, _ id: DocumentID, _ visit: (DocumentRecord) throws -> Void
    ) throws {
        let key = DocumentKey(collection: collection, id: id)
        if let state = expected[key] {
            return try state?.withUnsafeBytes { raw in
                let document = try ProjectionError.reading { () throws(CRDTError) in try DocumentReader(raw) }
                if document.isLive { try visit(DocumentRecord(id: id, document: document)) }
            } ?? ()
        }
        let rows: Rows
        if let fetched, fetched.key == key {
            rows = fetched.rows
        } else {
            guard let table = try table(collection) else { return }
            rows = try connection.query(Connection.Step.lookup(id, in: table))
        }
        guard rows.count == 1 else { return }
        try withExtendedLifetime(rows) {
            let state = rows.raw(0, 0)
            let document = try ProjectionError.reading { () throws(CRDTError) in try DocumentReader(state) }
            try visit(DocumentRecord(id: id, document: document))
        }
    }

    /// The encoded state of a document, tombstones included; nil when there is none.
    public func state(of key: DocumentKey) throws -> EncodedState? {
        if let state = expected[key] { return state }
        guard let table = try table(key.collection) else { return nil }
        let rows = try connection.query(
            "SELECT state FROM \(table) WHERE id = \(CollectionTables.key(of: "$1"))", [.bytes(key.id.bytes)])
        return rows.count == 1 ? EncodedState(rows.bytes(0, 0)) : nil
    }

    /// Reads the states of documents ahead that drafts will look up and edit, large ones left out.
    func expect(_ keys: [DocumentKey]) throws { if !keys.isEmpty { expected = try states(of: keys) } }

    /// See `DraftBase`: in one round trip per collection.
    public func states(of keys: [DocumentKey]) throws -> [DocumentKey: EncodedState?] {
        var states: [DocumentKey: EncodedState?] = [:]
        for key in keys { states.updateValue(expected[key] ?? nil, forKey: key) }
        let keys = expected.isEmpty ? keys : keys.filter { expected[$0] == nil }
        for (collection, places) in Dictionary(grouping: keys.indices, by: { keys[$0].collection }) {
            guard let table = try table(collection) else { continue }
            let rows = try connection.query(
                """
                SELECT w.place, CASE WHEN octet_length(d.state) <= $3 THEN d.state END
                FROM unnest($1::bytea[], $2::int8[]) AS w (id, place)
                JOIN \(table) d ON d.id = \(CollectionTables.key(of: "w.id"))
                """,
                [
                    .bytesArray(places.map { keys[$0].id.bytes }), .int8Array(places.map { Int64($0) }),
                    .int8(Int64(DQLLimits.pushedStateBytes)),
                ])
            for row in 0..<rows.count {
                let key = keys[Int(rows.int8(row, 0))]
                if rows.isNull(row, 1) {
                    states.removeValue(forKey: key)
                } else {
                    states[key] = .some(EncodedState(rows.bytes(row, 1)))
                }
            }
        }
        return states
    }

    /// The server measures the page, so that no more than its bounds plus one document is transferred.
    private func page(of table: String, after last: [UInt8], _ limit: Int) throws -> Rows {
        try connection.query(
            """
            SELECT id, whole, state FROM (
                SELECT id, whole, state,
                    sum(octet_length(state)) OVER (ORDER BY id) - octet_length(state) AS before
                FROM (
                    SELECT id, whole, state FROM \(table) WHERE live AND id > $1 ORDER BY id LIMIT $2
                ) AS documents
            ) AS measured WHERE before < $3 ORDER BY id
            """, [.bytes(last), .int8(Int64(limit)), .int8(Int64(PostgresLimits.pageBytes))])
    }

    func table(_ collection: CollectionName) throws -> String? {
        if let known = tables[collection] { return known }
        let key = Connection.KnownCollection(schema: schema, name: collection)
        if let known = connection.knownTables[key] { return known }
        let rows = try connection.query(
            "SELECT number FROM mimeo_projection.collections WHERE generation = $1::int4 AND name = $2",
            [.int8(Int64(generation)), .bytes(Array(collection.text.utf8))])
        // Read in the snapshot: a table created later is empty there.
        let table = rows.count == 1 ? ProjectionNames.table(generation, rows.int8(0, 0)) : nil
        tables[collection] = .some(table)
        if let table {
            connection.note(table, of: key)
        }
        return table
    }
}

extension Connection {
    fileprivate func note(_ table: String, of collection: KnownCollection) {
        if knownTables.count >= PostgresLimits.knownTables { knownTables = [:] }
        knownTables[collection] = table
    }

    fileprivate func note(_ schema: Int64, of database: DatabaseID) {
        if knownSchemas.count >= PostgresLimits.knownTables { knownSchemas = [:] }
        knownSchemas[database] = schema
    }

    /// The statement that looks a document up, if the table of its collection is known.
    fileprivate func lookup(_ key: DocumentKey, inSchema schema: Int64) -> Step? {
        knownTables[KnownCollection(schema: schema, name: key.collection)].map { .lookup(key.id, in: $0) }
    }
}

extension Connection.Step {
    fileprivate static func lookup(_ id: DocumentID, in table: String) -> Connection.Step {
        Connection.Step(
            "SELECT state FROM \(table) WHERE id = \(CollectionTables.key(of: "$1")) AND live",
            [.bytes(id.bytes)])
    }
}
