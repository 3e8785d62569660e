import CRDT
import DQL

/// The documents of one database as of one checkpoint: a repeatable-read transaction on the generation that
/// readers use. Used only inside the closure that receives it.
///
/// Its transaction begins with the first query, in one round trip, on the generation that the connection has
/// met last (`SnapshotBeginning.swift`).
///
/// A scan reads pages in the order of the ids, each bounded in rows and bytes, so a statement's memory does
/// not grow with the collection. Pages are complete results, so a visit may read other documents.
///
/// Parts of statements run in SQL (`PushingSource`, in `PushedReads.swift`), each in a cursor, so that other
/// documents may be read between two of its answers.
public final class ProjectionSnapshot: DocumentSource {
    let connection: Connection
    let database: DatabaseID
    /// The generation, as it is expected until the transaction has begun.
    let expected: ExpectedGeneration
    let demand: Demand
    /// How far the snapshot is, see `SnapshotBeginning.swift`.
    var stage: Stage
    /// See `PushingSource`: none on tables of an older layout, and after SQL of ours has failed.
    public var pushing: (any PushingSource)? { isPushing ? self : nil }
    /// The cursors that are open, and those that nobody reads any more.
    var openCursors = 0
    var leftCursors: [String] = []
    /// True if another generation is being built; known once the transaction has begun.
    var isBuilding = false
    private let isPushing: Bool
    private let wait: (any ServerWait)?
    var generation: Int32 { expected.number }
    /// The version of the catalog of indexes.
    var indexVersion: UInt64 { expected.indexVersion }
    /// The server's number of the generation's schema, which is never used again for another one.
    var schema: Int64 { expected.schema }
    private var tables: [CollectionName: Int64?] = [:]
    /// The document that was read with the beginning, in this column.
    var fetched: (key: DocumentKey, rows: Rows, column: Int)?
    /// The documents that were read ahead, see `expect`.
    private var ahead: [DocumentKey: StoredDocument?] = [:]

    init(
        of database: DatabaseID, _ expected: ExpectedGeneration, _ stage: Stage, _ connection: Connection,
        isPushing: Bool, _ demand: Demand, _ wait: (any ServerWait)?
    ) {
        self.database = database
        self.expected = expected
        self.stage = stage
        self.connection = connection
        self.isPushing = isPushing && expected.layout == Generation.currentLayout
        self.demand = demand
        self.wait = wait
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
        let rows = try query(
            """
            SELECT c.name FROM mimeo_projection.collections c
            JOIN mimeo_projection.generations g ON g.number = c.generation
            WHERE g.number = $1::int4 AND c.since <= g."offset" ORDER BY c.name
            """, [.int8(Int64(generation))])
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
        if let known = ahead[key] {
            return try known?.state.withUnsafeBytes { raw in
                let document = try ProjectionError.reading { () throws(CRDTError) in try DocumentReader(raw) }
                if document.isLive { try visit(DocumentRecord(id: id, document: document)) }
            } ?? ()
        }
        let (rows, column): (Rows, Int)
        if let fetched, fetched.key == key {
            (rows, column) = (fetched.rows, fetched.column)
        } else {
            guard let table = try table(collection) else { return }
            (rows, column) = (
                try query(
                    "SELECT state FROM \(table) WHERE id = \(CollectionTables.key(of: "$1")) AND live",
                    [.bytes(id.bytes)]), 0
            )
        }
        guard rows.count == 1, !rows.isNull(0, column) else { return }
        try withExtendedLifetime(rows) {
            let state = rows.raw(0, column)
            let document = try ProjectionError.reading { () throws(CRDTError) in try DocumentReader(state) }
            try visit(DocumentRecord(id: id, document: document))
        }
    }

    /// The encoded state of a document, tombstones included; nil when there is none.
    public func state(of key: DocumentKey) throws -> EncodedState? {
        if let known = ahead[key] { return known?.state }
        guard let table = try table(key.collection) else { return nil }
        let rows = try query(
            "SELECT state FROM \(table) WHERE id = \(CollectionTables.key(of: "$1"))", [.bytes(key.id.bytes)])
        return rows.count == 1 ? EncodedState(rows.bytes(0, 0)) : nil
    }

    /// Reads documents ahead that drafts will look up and edit, large ones left out.
    func expect(_ keys: [DocumentKey]) throws { if !keys.isEmpty { ahead = try stored(keys) } }

    /// The documents of these keys as they were read ahead; nil if one was not.
    func readAhead(_ keys: [DocumentKey]) -> [DocumentKey: StoredDocument?]? {
        keys.allSatisfy { ahead[$0] != nil } ? ahead : nil
    }

    /// See `DraftBase`: in one round trip.
    public func states(of keys: [DocumentKey]) throws -> [DocumentKey: EncodedState?] {
        var found: [DocumentKey: EncodedState?] = [:]
        for key in keys { if let known = ahead[key] { found.updateValue(known?.state, forKey: key) } }
        let rest = keys.filter { ahead[$0] == nil }
        for (key, document) in try stored(rest) { found.updateValue(document?.state, forKey: key) }
        return found
    }

    /// The documents of some keys, nil for those that there are not; large ones are left out.
    private func stored(_ keys: [DocumentKey]) throws -> [DocumentKey: StoredDocument?] {
        var found: [DocumentKey: StoredDocument?] = [:]
        for key in keys { found.updateValue(nil, forKey: key) }
        var steps: [Connection.Step] = []
        for (collection, places) in Dictionary(grouping: keys.indices, by: { keys[$0].collection }) {
            guard let table = try table(collection) else { continue }
            let values: [Parameter] = [
                .bytesArray(places.map { keys[$0].id.bytes }), .int8Array(places.map { Int64($0) }),
                .int8(Int64(DQLLimits.pushedStateBytes)),
            ]
            steps.append(
                Connection.Step(
                    """
                    SELECT w.place, CASE WHEN octet_length(d.state) <= $3 THEN d.state END, d."offset", d.live
                    FROM unnest($1::bytea[], $2::int8[]) AS w (id, place)
                    JOIN \(table) d ON d.id = \(CollectionTables.key(of: "w.id"))
                    """, values))
        }
        guard !steps.isEmpty else { return found }
        for rows in try pipeline(steps) {
            for row in 0..<rows.count {
                let key = keys[Int(rows.int8(row, 0))]
                if rows.isNull(row, 1) {
                    found.removeValue(forKey: key)
                } else {
                    found[key] = StoredDocument(
                        state: EncodedState(rows.bytes(row, 1)), offset: Offset(rows.bits(row, 2)),
                        isLive: rows.bool(row, 3))
                }
            }
        }
        return found
    }

    /// The server measures the page, so that no more than its bounds plus one document is transferred.
    private func page(of table: String, after last: [UInt8], _ limit: Int) throws -> Rows {
        try query(
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
        try number(of: collection).map { ProjectionNames.table(generation, $0) }
    }

    /// The number of a collection's table; nil while it has none.
    func number(of collection: CollectionName) throws -> Int64? {
        if let known = tables[collection] { return known }
        let key = Connection.KnownCollection(schema: schema, name: collection)
        if let known = connection.knownTables[key] { return known }
        let rows = try query(
            "SELECT number FROM mimeo_projection.collections WHERE generation = $1::int4 AND name = $2",
            [.int8(Int64(generation)), .bytes(Array(collection.text.utf8))])
        // Read in the snapshot: a table created later is empty there.
        let number = rows.count == 1 ? rows.int8(0, 0) : nil
        tables[collection] = .some(number)
        if let number { connection.note(number, of: key) }
        return number
    }
}

extension Connection {
    fileprivate func note(_ number: Int64, of collection: KnownCollection) {
        if knownTables.count >= PostgresLimits.knownTables { knownTables = [:] }
        knownTables[collection] = number
    }
}
