import CRDT
import DQL
import Dispatch
import Logging
import Machine
import Synchronization

/// The work that a generation's indexes need.
struct IndexWork: Sendable {
    /// An index that readers may not use yet.
    struct Build: Sendable {
        let index: KeyIndex
        let table: String
        /// The number of the collection.
        let collection: Int64
    }

    /// A table whose statistics are to be taken.
    struct Survey: Sendable {
        let collection: CollectionName
        let table: String
    }

    let generation: Int32
    let builds: [Build]
    /// Tables whose statistics are old.
    let surveys: [Survey]
    /// True if indexes of PostgreSQL may be there that no index of ours needs.
    let dropsUnused: Bool

    var isEmpty: Bool { builds.isEmpty && surveys.isEmpty && !dropsUnused }
}

/// Builds the indexes of a database's projection on a connection and a thread of its own, beside the worker
/// that folds.
///
/// The worker writes the keys of new versions from the moment on at which an index is in the catalog. The
/// builder gives keys to the older rows, in small transactions that lock the rows they change and pass over
/// those that the worker holds; then it lets PostgreSQL index the column without blocking writers. Progress
/// is in the database, so a process may be killed at any moment: the next one continues. An index that
/// PostgreSQL has left invalid is dropped and made again.
///
/// At most one builder works on a generation, across all processes (an advisory lock of its connection), for
/// the next leader may begin before the last one's connection has ended.
///
/// `queue` guards the connection.
final class IndexBuilder: Sendable {
    private let url: String
    private let logger: Logger
    private let queue = DispatchQueue(label: "mimeo.projection.indexes")
    private let isClosed = Atomic<Bool>(false)

    init(url: String, logger: Logger) { (self.url, self.logger) = (url, logger) }

    /// The result of a piece of work.
    struct Outcome: Sendable {
        /// The indexes that are complete, but for the last step, which is the worker's.
        var built: [Int64] = []
        /// The reason why others are not; nil if they are.
        var failure: String?
        /// The code of what failed; nil where another builder has to end first.
        var code: ProjectionErrorCode?
        /// True if everything was tried, also what stands after the builds.
        var isComplete = false
    }

    /// Does the work, as far as it can be done now.
    func run(_ work: IndexWork) async -> Outcome {
        await PendingAnswer.of(queue) { self.perform(work) }
    }

    /// The same on the caller's thread.
    func perform(_ work: IndexWork) -> Outcome {
        var outcome = Outcome()
        do {
            try build(work, &outcome)
        } catch {
            let translated = ProjectionError.translated(error)
            outcome.failure = "\(translated)"
            outcome.code = (translated as? ProjectionError)?.code ?? .storageFailed
        }
        return outcome
    }

    /// Ends what is being done; the next process continues.
    func close() { isClosed.store(true, ordering: .relaxed) }

    private func build(_ work: IndexWork, _ outcome: inout Outcome) throws {
        // Opened for the work only: indexes are built rarely.
        let connection = try Connection(url: url, patience: PostgresLimits.buildTimeout)
        connection.isUnwanted = { self.isClosed.load(ordering: .relaxed) }
        defer { connection.isUnwanted = nil }
        // A process that was stopped must not hold rows and the lock below from the next builder.
        let patience = "'\(PostgresLimits.stallTimeout.wholeMicroseconds / 1_000)ms'"
        try connection.run(
            """
            SET idle_in_transaction_session_timeout = \(patience); SET idle_session_timeout = \(patience);
            SET synchronous_commit = off; SET lock_timeout = 0; SET client_min_messages = warning;
            SET enable_seqscan = off; SET enable_hashjoin = off; SET enable_mergejoin = off; SET jit = off
            """)
        let isAlone = try connection.query(
            "SELECT pg_try_advisory_lock(\(ProjectionLocks.indexes), $1::int4)",
            [.int8(Int64(work.generation))]
        ).bool(0, 0)
        guard isAlone else {
            outcome.failure = "the last builder has not ended yet"
            return
        }
        // The server ends a connection that was hung up on only when it has finished what it does.
        defer { try? connection.run("SELECT pg_advisory_unlock_all()") }
        try dropUnused(in: work.generation, connection)
        for build in work.builds {
            do {
                guard try fill(build, connection) else { continue }
                try makeIndex(build, connection)
                outcome.built.append(build.index.number)
            } catch let error as ProjectionError where error.code == .damaged {
                // The others do not need what cannot be read.
                outcome.failure = outcome.failure ?? "\(error)"
                outcome.code = .damaged
            }
        }
        // The builds need new statistics, and the visibility map, without which a count reads documents.
        for table in Set(work.builds.map(\.table)).union(work.surveys.map(\.table)).sorted() {
            try alone("VACUUM (ANALYZE) \(table)", connection)
        }
        outcome.isComplete = true
    }

    // MARK: Keys of older rows

    /// Gives keys to the rows that have none.
    /// - Returns: false if the index is no longer wanted.
    private func fill(_ build: IndexWork.Build, _ connection: Connection) throws -> Bool {
        let key: [Parameter] = [.int8(build.index.number)]
        while true {
            if isClosed.load(ordering: .relaxed) {
                throw ProjectionError(.closed, "the projection was closed")
            }
            let rows = try connection.query(
                "SELECT filled, is_filled FROM mimeo_projection.indexes WHERE number = $1", key)
            guard rows.count == 1 else { return false }
            if rows.bool(0, 1) { return true }
            try fill(build, after: rows.bytes(0, 0), connection)
        }
    }

    /// Gives keys to the next rows.
    private func fill(_ build: IndexWork.Build, after last: [UInt8], _ connection: Connection) throws {
        let (ids, written) = try fillPage(build, after: last, connection)
        // A worker that held a row writes its keys, unless its batch fails.
        let known = Set(written)
        for id in ids where !known.contains(id) { try fillOne(build, id, connection) }
        _ = try connection.query(
            "UPDATE mimeo_projection.indexes SET filled = $2, is_filled = $3 = 0 WHERE number = $1",
            [.int8(build.index.number), .bytes(ids.last ?? last), .int8(Int64(ids.count))])
    }

    /// Gives keys to some rows, in one transaction; returns their ids, and those of the written ones.
    private func fillPage(
        _ build: IndexWork.Build, after last: [UInt8], _ connection: Connection
    ) throws -> (ids: [[UInt8]], written: [[UInt8]]) {
        try connection.run("BEGIN")
        do {
            let page = try connection.query(
                """
                SELECT id FROM (
                    SELECT id, sum(octet_length(state)) OVER (ORDER BY id) - octet_length(state) AS before
                    FROM (
                        SELECT id, state FROM \(build.table) WHERE live AND id > $1 ORDER BY id LIMIT $2
                    ) AS rows
                ) AS measured WHERE before < $3 ORDER BY id
                """,
                [
                    .bytes(last), .int8(Int64(PostgresLimits.fillDocuments)),
                    .int8(Int64(PostgresLimits.fillBytes)),
                ])
            let ids = (0..<page.count).map { page.bytes($0, 0) }
            let written = try write(build, ids, isPatient: false, connection)
            try connection.run("COMMIT")
            return (ids, written)
        } catch {
            try connection.undo(after: error)
            throw error
        }
    }

    /// Gives a key to one row, once whoever holds it has let go.
    private func fillOne(_ build: IndexWork.Build, _ id: [UInt8], _ connection: Connection) throws {
        try connection.run("BEGIN")
        do {
            _ = try write(build, [id], isPatient: true, connection)
            try connection.run("COMMIT")
        } catch {
            try connection.undo(after: error)
            throw error
        }
    }

    /// Locks rows and writes their keys.
    /// - Parameter isPatient: true to wait for rows that others hold, false to leave them out.
    /// - Returns: the ids of the written rows.
    private func write(
        _ build: IndexWork.Build, _ ids: [[UInt8]], isPatient: Bool, _ connection: Connection
    ) throws -> [[UInt8]] {
        guard !ids.isEmpty else { return [] }
        let rows = try connection.query(
            """
            SELECT id, live, state FROM \(build.table) WHERE id = ANY($1)
            FOR UPDATE \(isPatient ? "" : "SKIP LOCKED")
            """, [.bytesArray(ids)])
        var written: [[UInt8]] = []
        var keys: [[UInt8]] = []
        var losses: [KeyIndex] = []
        for row in 0..<rows.count {
            let entry = try rows.bool(row, 1) ? entry(of: build.index, rows.raw(row, 2)) : nil
            written.append(rows.bytes(row, 0))
            keys.append(entry?.key ?? [])
            if let loss = entry.flatMap(build.index.loss) { losses.append(loss) }
        }
        let column = "k\(build.index.column)"
        _ = try connection.query(
            """
            UPDATE \(build.table) AS d SET \(column) = nullif(w.key, '')
            FROM unnest($1::bytea[], $2::bytea[]) AS w (id, key)
            WHERE d.id = w.id AND d.\(column) IS DISTINCT FROM nullif(w.key, '')
            """, [.bytesArray(written), .bytesArray(keys)])
        if !losses.isEmpty {
            let step = KeyIndex.noting(losses)
            _ = try connection.query(step.sql, step.parameters)
        }
        return written
    }

    private func entry(of index: KeyIndex, _ state: UnsafeRawBufferPointer) throws -> KeyEntry? {
        do {
            return try index.entry(of: DocumentReader(state))
        } catch let error as CRDTError {
            throw ProjectionError(.damaged, "a stored document cannot be read: \(error)")
        }
    }

    // MARK: PostgreSQL's own index

    private static func name(_ collection: Int64, _ column: Int) -> String { "c\(collection)_k\(column)" }

    private func makeIndex(_ build: IndexWork.Build, _ connection: Connection) throws {
        let name = Self.name(build.collection, build.index.column)
        let schema = ProjectionNames.schema(try generation(of: build, connection))
        let known = try connection.query(
            """
            SELECT i.indisvalid FROM pg_index i JOIN pg_class c ON c.oid = i.indexrelid
            JOIN pg_namespace n ON n.oid = c.relnamespace WHERE n.nspname = $1 AND c.relname = $2
            """, [.text(schema), .text(name)])
        if known.count == 1 {
            // An index is of a column, whoever's keys are in it.
            if known.bool(0, 0) { return }
            try alone("DROP INDEX CONCURRENTLY IF EXISTS \(schema).\(name)", connection)
        }
        try alone(
            "CREATE INDEX CONCURRENTLY \(name) ON \(build.table) (k\(build.index.column)) WHERE live",
            connection)
    }

    private func generation(of build: IndexWork.Build, _ connection: Connection) throws -> Int32 {
        let rows = try connection.query(
            "SELECT generation::int8 FROM mimeo_projection.indexes WHERE number = $1",
            [.int8(build.index.number)])
        guard rows.count == 1 else { throw ProjectionError(.storageFailed, "an index was dropped meanwhile") }
        return Int32(rows.int8(0, 0))
    }

    /// Drops PostgreSQL's indexes of columns that no index of the catalog has.
    private func dropUnused(in generation: Int32, _ connection: Connection) throws {
        let rows = try connection.query(
            """
            SELECT c.oid::regclass::text FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
            WHERE n.nspname = $1 AND c.relkind = 'i' AND c.relname ~ '^c[0-9]+_k[0-9]+$'
                AND NOT EXISTS (SELECT 1 FROM mimeo_projection.indexes i
                    WHERE i.generation = $2::int4
                        AND c.relname = 'c' || i.collection || '_k' || i.column_number)
            """, [.text(ProjectionNames.schema(generation)), .int8(Int64(generation))])
        for row in 0..<rows.count {
            try alone("DROP INDEX CONCURRENTLY IF EXISTS \(rows.text(row, 0))", connection)
        }
    }

    /// Runs a statement that may be in no transaction, and that `close` may cancel.
    private func alone(_ sql: String, _ connection: Connection) throws {
        _ = try connection.pipeline([Connection.Step(sql)])
    }
}
