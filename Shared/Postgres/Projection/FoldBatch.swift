import CRDT
import Logging
import OperationLog

/// A document as it is stored.
struct StoredDocument {
    let state: EncodedState
    let offset: Offset
    let isLive: Bool
}

/// The effect of some log entries on the documents they name: read the states, fold in memory, write the
/// results.
struct FoldBatch {
    /// A document that the batch changes.
    private struct Place {
        let collection: CollectionName
        let id: DocumentID
        var state: EncodedState?
        /// The offset of its last change or confirmation.
        var offset: Offset = 0
        var isChanged = false
        var wasThere = false
        var wasLive = false

        /// True if its state was left out by the bound in bytes, so that no result may depend on it.
        var isLeftOut = false

        mutating func become(_ new: EncodedState?, at place: Offset) {
            (state, offset, isChanged) = (new, place, true)
        }
    }

    /// The generation's state after the batch.
    var result: Generation
    /// The collections, and the offset at which each was first named.
    private(set) var collections: [CollectionName: Offset] = [:]
    private let start: Generation
    private let bytesAtMost: Int
    /// Bytes of the operations and documents that were added.
    private var bytes = 0
    /// The end of each entry: its number of steps so far, and the generation's state after it.
    private var ends: [(steps: Int, result: Generation)] = []
    private var steps: [(place: Int, change: LoggedChange, offset: Offset)] = []
    private var places: [Place] = []
    private var numbers: [DocumentKey: Int] = [:]
    /// The places of each collection, in the order in which the states are read.
    private var order: [(collection: CollectionName, places: [Int])] = []
    private var loaded: [Int: (state: EncodedState, offset: Offset)] = [:]

    init(after generation: Generation, bytesAtMost: Int = PostgresLimits.batchBytes) {
        self.bytesAtMost = bytesAtMost
        start = generation
        result = generation
    }

    /// True if it changes nothing, not even the checkpoint.
    var isEmpty: Bool { result == start && places.isEmpty }

    /// True if further entries belong into the next batch.
    var isFull: Bool {
        places.count >= PostgresLimits.batchDocuments || bytes >= bytesAtMost
            || collections.count >= PostgresLimits.batchCollections
    }

    /// Adds the next entry.
    mutating func add(_ entry: LogEntry) throws(ProjectionError) {
        try follow(entry)
        let operation: LoggedOperation
        do {
            operation = try LoggedOperation(decoding: entry.bytes)
        } catch {
            throw ProjectionError(.brokenLog, "offset \(entry.offset) cannot be read: \(error)")
        }
        guard HybridClock.milliseconds(of: operation.latestTime) <= PostgresLimits.stampMilliseconds else {
            throw ProjectionError(.brokenLog, "offset \(entry.offset) has a timestamp too far in the future")
        }
        result.position = LogPosition(
            logID: start.position.logID, offset: entry.offset, hash: entry.hash)
        result.clock = max(result.clock, operation.latestTime)
        for change in operation.changes {
            steps.append((place(of: change.key, at: entry.offset), change.content, entry.offset))
        }
        bytes += entry.bytes.count
        ends.append((steps.count, result))
    }

    /// Adds a whole document with its offset.
    mutating func put(_ key: DocumentKey, _ state: EncodedState, at offset: Offset) {
        loaded[place(of: key, at: offset)] = (state, offset)
        bytes += state.count
    }

    /// Checks that the entry follows the folded history. (The log verifies only its own chain.)
    private func follow(_ entry: LogEntry) throws(ProjectionError) {
        let digest = ChainHash.digest(
            actor: entry.actor, sequence: entry.sequence, timestamp: entry.timestamp,
            contentHash: ChainHash.content(entry.bytes))
        guard entry.offset == result.position.offset.next,
            entry.hash == ChainHash.next(after: result.position.hash, digest: digest)
        else {
            throw ProjectionError(
                .brokenLog,
                "offset \(entry.offset) does not follow the checkpoint \(result.position.offset)")
        }
    }

    private mutating func place(of key: DocumentKey, at offset: Offset) -> Int {
        if let known = numbers[key] { return known }
        if collections[key.collection] == nil { collections[key.collection] = offset }
        places.append(Place(collection: key.collection, id: key.id))
        numbers[key] = places.count - 1
        return places.count - 1
    }

    /// Reads the states of its documents, a statement per collection. Each collection has its share of the
    /// bytes; the server leaves out the states beyond it, unless the first entry needs them.
    mutating func reads(_ tables: CollectionTables) -> [Connection.Step] {
        order = Dictionary(grouping: places.indices) { places[$0].collection }
            .map { (collection: $0.key, places: $0.value) }
        let share = bytesAtMost / max(1, order.count)
        let needed = steps.prefix(ends.first?.steps ?? 0).reduce(0) { max($0, $1.place + 1) }
        return order.map { collection, places in
            Connection.Step(
                """
                SELECT place, CASE WHEN place < $3 OR before < $4 THEN state END, "offset", live FROM (
                    SELECT w.place, d.state, d."offset", d.live,
                        sum(octet_length(d.state)) OVER (ORDER BY w.place) - octet_length(d.state) AS before
                    FROM unnest($1::bytea[], $2::int8[]) AS w (id, place)
                    JOIN \(tables.table(collection)) d ON d.id = \(CollectionTables.key(of: "w.id"))
                ) AS measured
                """,
                [
                    .bytesArray(places.map { self.places[$0].id.bytes }),
                    .int8Array(places.map { Int64($0) }), .int8(Int64(needed)), .int8(Int64(share)),
                ])
        }
    }

    /// Its documents.
    var keys: [DocumentKey] { Array(numbers.keys) }

    /// Takes documents that are known; nil for those that there are not.
    mutating func take(_ known: [DocumentKey: StoredDocument?]) {
        for (key, place) in numbers {
            guard let document = known[key] ?? nil else { continue }
            places[place].state = document.state
            places[place].offset = document.offset
            places[place].wasThere = true
            places[place].wasLive = document.isLive
        }
    }

    /// Takes the states that were read.
    mutating func take(_ answers: ArraySlice<Rows>) {
        for rows in answers {
            for row in 0..<rows.count {
                let place = Int(rows.int8(row, 0))
                if rows.isNull(row, 1) {
                    places[place].isLeftOut = true
                } else {
                    places[place].state = EncodedState(rows.bytes(row, 1))
                }
                places[place].offset = Offset(rows.bits(row, 2))
                places[place].wasThere = true
                places[place].wasLive = rows.bool(row, 3)
            }
        }
    }

    /// Folds the entries on what was taken.
    mutating func fold(_ logger: Logger) throws {
        shorten()
        for (place, document) in loaded { places[place].become(document.state, at: document.offset) }
        for step in steps {
            let before = places[step.place]
            switch try outcome(step.change, on: before.state) {
            case .changed(let state, _): places[step.place].become(state, at: step.offset)
            case .duplicate: places[step.place].become(before.state, at: step.offset)
            case .reaped(let rest):
                // No reader must be told of a reaping, so the offset of the rest does not move.
                places[step.place].become(rest, at: before.offset)
                result.reapFloor = max(result.reapFloor, before.offset)
            case .void(.noSuchTombstone): break
            case .void(.baseMissing):
                logger.error(
                    "a change in the log has no effect: its base is missing",
                    metadata: ["offset": "\(step.offset)"])
            }
        }
    }

    /// Drops the first entry that needs a left-out state, and all after it.
    private mutating func shorten() {
        guard let first = steps.firstIndex(where: { places[$0.place].isLeftOut }) else { return }
        let kept = ends.prefix { $0.steps <= first }
        guard let last = kept.last else { preconditionFailure("the first entry has all its states") }
        steps.removeSubrange(last.steps...)
        result = last.result
    }

    private func outcome(_ change: LoggedChange, on state: EncodedState?) throws(ProjectionError)
        -> Fold.Outcome
    {
        do {
            return try Fold.step(change, on: state)
        } catch {
            throw ProjectionError(.damaged, "a stored document cannot be read: \(error)")
        }
    }

    /// The statements that `write` sends, without their rows.
    func kinds(_ tables: CollectionTables) -> [Connection.Step] {
        order.flatMap { collection, numbers in
            let table = tables.table(collection)
            return [
                DocumentRows(tables.keys(of: collection)).upsert(into: table, isPlain: tables.isPlain),
                tables.counting(0, in: collection),
            ] + (numbers.contains { isGone(places[$0]) } ? [Self.removal(of: [], from: table)] : [])
        }
    }

    /// Writes the changes: upserts, in pieces of a bounded size, removals, and the numbers of documents.
    /// - Returns: the indexes of which the written keys say less than before, and how many live documents
    ///   each collection has more.
    func write(
        _ tables: CollectionTables, _ send: (Connection.Step) throws -> Void
    ) throws -> (losses: [KeyIndex], grown: [CollectionName: Int]) {
        var losses: [KeyIndex] = []
        var grown: [CollectionName: Int] = [:]
        for (collection, numbers) in order {
            let table = tables.table(collection)
            let keys = tables.keys(of: collection)
            var rows = DocumentRows(keys)
            var gone: [[UInt8]] = []
            var more: Int64 = 0
            for place in numbers.lazy.map({ places[$0] }) where place.isChanged {
                if place.wasLive { more -= 1 }
                if let state = place.state {
                    if try rows.add(place.id, state, place.offset) { more += 1 }
                    if rows.isFull {
                        try send(rows.upsert(into: table, isPlain: tables.isPlain))
                        losses += rows.losses
                        rows = DocumentRows(keys)
                    }
                } else if isGone(place) {
                    gone.append(place.id.bytes)
                }
            }
            if rows.count > 0 { try send(rows.upsert(into: table, isPlain: tables.isPlain)) }
            losses += rows.losses
            if !gone.isEmpty { try send(Self.removal(of: gone, from: table)) }
            if more != 0 { try send(tables.counting(more, in: collection)) }
            grown[collection] = Int(more)
        }
        return (losses, grown)
    }

    /// How many rows of each collection are written.
    var written: [CollectionName: Int] {
        var written: [CollectionName: Int] = [:]
        for (collection, numbers) in order {
            written[collection] = numbers.count { places[$0].isChanged }
        }
        return written
    }

    private func isGone(_ place: Place) -> Bool { place.isChanged && place.state == nil && place.wasThere }

    private static func removal(of ids: [[UInt8]], from table: String) -> Connection.Step {
        Connection.Step(
            """
            DELETE FROM \(table) WHERE id IN (
                SELECT \(CollectionTables.key(of: "g.id")) FROM unnest($1::bytea[]) AS g (id))
            """, [.bytesArray(ids)])
    }
}

/// Rows of one collection's table, as columns.
struct DocumentRows {
    private var ids: [[UInt8]] = []
    private var keys: [[UInt8]] = []
    private var roughs: [[UInt8]] = []
    private var offsets: [Int64] = []
    private var bodies: [[UInt8]] = []
    private var states: [EncodedState] = []
    /// The keys of each index; empty for a document that is not in it.
    private var indexKeys: [[[UInt8]]]
    private let columns: KeyColumns
    /// The indexes of which these keys say less than before, as they are now.
    private(set) var losses: [KeyIndex] = []
    /// Their size in bytes.
    private var bytes = 0

    init(_ columns: KeyColumns) {
        self.columns = columns
        indexKeys = Array(repeating: [], count: columns.indexes.count)
    }

    var count: Int { ids.count }
    /// True if the next document belongs into another statement.
    var isFull: Bool { count >= PostgresLimits.writeDocuments || bytes >= PostgresLimits.writeBytes }

    /// Adds a document; returns whether it is live. A tombstone has no body and no keys.
    mutating func add(_ id: DocumentID, _ state: EncodedState, _ offset: Offset) throws -> Bool {
        let value = id.value
        let body: (text: [UInt8], rough: [UInt8])
        var entries: [KeyEntry?] = []
        do {
            body = try state.withUnsafeBytes { raw in
                let document = try DocumentReader(raw)
                guard document.isLive else { return ([], []) }
                entries = try columns.indexes.map { try $0.entry(of: document) }
                let body = try ReadableBody(document, id: value)
                return (body.text, body.rough.text)
            }
        } catch let error as CRDTError {
            throw ProjectionError(.damaged, "a folded document cannot be read: \(error)")
        }
        ids.append(id.bytes)
        keys.append(ReadableBody.key(of: value))
        roughs.append(body.rough)
        offsets.append(Int64(bitPattern: offset.rawValue))
        bodies.append(body.text)
        states.append(state)
        bytes += state.count + body.text.count
        for (place, index) in columns.indexes.enumerated() {
            let entry = entries.isEmpty ? nil : entries[place]
            indexKeys[place].append(entry?.key ?? [])
            bytes += entry?.key.count ?? 0
            guard let entry, let loss = index.loss(by: entry) else { continue }
            losses.append(loss)
        }
        return !body.text.isEmpty
    }

    /// The statement that writes the rows. A document without a body is a tombstone. Columns of indexes that
    /// were dropped become NULL: they would keep what a document no longer says.
    /// - Parameter isPlain: true for a table of the first layout.
    func upsert(into table: String, isPlain: Bool) -> Connection.Step {
        let name = isPlain ? "plain" : "rough"
        let value = isPlain ? "r.body <> '' AND r.rough = ''" : "nullif(r.rough, '')::text[]"
        let names = columns.indexes.map { "k\($0.column)" }
        let parameters = names.indices.map { ", $\($0 + 7)::bytea[]" }.joined()
        let updates =
            names.map { ", \($0) = excluded.\($0)" } + columns.free.map { ", k\($0) = NULL" }
        return Connection.Step(
            """
            INSERT INTO \(table) AS d
                (id, whole, key, live, \(name), "offset", body, state\(names.map { ", \($0)" }.joined()))
            SELECT \(CollectionTables.key(of: "r.id")),
                CASE WHEN octet_length(r.id) > \(PostgresLimits.keyBytes) THEN r.id END,
                r.key, r.body <> '', \(value), r.place, nullif(r.body, '')::jsonb, r.state
                \(names.map { ", nullif(r.\($0), '')" }.joined())
            FROM unnest($1::bytea[], $2::text[], $3::text[], $4::int8[], $5::text[], $6::bytea[]\(parameters))
                AS r (id, key, rough, place, body, state\(names.map { ", \($0)" }.joined()))
            ON CONFLICT (id) DO UPDATE SET live = excluded.live, \(name) = excluded.\(name),
                "offset" = excluded."offset", body = excluded.body, state = excluded.state\(updates.joined())
            """,
            [
                .bytesArray(ids), .utf8Array(keys), .utf8Array(roughs), .int8Array(offsets),
                .utf8Array(bodies), .bytesArray(states.map(\.bytes)),
            ] + indexKeys.map { .bytesArray($0) })
    }
}
