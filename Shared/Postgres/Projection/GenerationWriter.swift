import CRDT
import Logging
import OperationLog

/// Folds log entries into one generation, batch by batch.
///
/// A batch is one transaction: its changes to the documents and the checkpoint are committed together, and
/// the checkpoint's row, locked first, must be as this writer left it. So every entry is applied exactly
/// once in spite of crashes, and a writer that lost its lead unnoticed changes nothing.
///
/// Used by the session's thread only.
final class GenerationWriter {
    private(set) var generation: Generation
    private let connection: Connection
    private let logger: Logger
    private let batchBytes: Int
    private var tables: CollectionTables
    private let definitions: ProjectionIndexes?
    /// True if a definition of an index may have changed since the last comparison.
    private var isDirty = true
    /// The error of the last comparison if the role lacked a right for a part of it; nil if it did not.
    private(set) var indexRefusal: PostgresError?
    /// The time before which a comparison that lacked a right is not repeated, with however many batches.
    private var nextComparison: ContinuousClock.Instant?
    /// True if an index was dropped whose index in PostgreSQL may still be there.
    private var hasUnused = false
    /// The rows of each table whose change its statistics do not show.
    private var statistics: TableStatistics
    /// True if rides have written what these do not count yet; and the time before which nobody looks.
    private var hasRides = false
    private var nextCount: ContinuousClock.Instant?

    /// A writer that continues at the generation's position.
    /// - Parameters:
    ///   - batchBytes: bytes of the operations and documents of one transaction.
    ///   - surveyedDocuments: see `PostgresLimits`.
    init(
        _ generation: Generation, views: String, _ connection: Connection, _ logger: Logger,
        batchBytes: Int = PostgresLimits.batchBytes, definitions: ProjectionIndexes? = nil,
        surveyedDocuments: Int = PostgresLimits.surveyedDocuments
    ) throws {
        self.definitions = definitions
        self.batchBytes = batchBytes
        self.generation = generation
        self.connection = connection
        try connection.run(ProjectionSchema.writing)
        self.logger = logger
        tables = try CollectionTables(of: generation, views: views, connection)
        statistics = try TableStatistics(
            of: generation.number, surveyedDocuments: surveyedDocuments, connection)
    }

    /// Records that the schema of the views was renamed.
    func viewsAreNow(in schema: String) { tables.views = schema }

    /// Folds entries that lead up to the checkpoint and follow it, in as many transactions as they need.
    /// - Throws: `PROJ-0302` for an entry that does not follow, or cannot be read.
    func fold(_ entries: [LogEntry]) throws {
        // A ride may have folded some of them.
        var rest = entries.drop { $0.offset <= generation.position.offset }
        while !rest.isEmpty {
            var batch = FoldBatch(after: generation, bytesAtMost: batchBytes)
            for entry in rest {
                if batch.isFull { break }
                try batch.add(entry)
            }
            do {
                try commit(&batch)
            } catch let ahead as Ahead {
                (generation, hasRides) = (ahead.generation, true)
            }
            // The batch may have ended before the entry added last, if the states are large.
            rest = rest.drop { $0.offset <= generation.position.offset }
        }
    }

    /// The generation has moved on by a ride (`FoldRide`), which folds as this writer does.
    private struct Ahead: Error {
        let generation: Generation
    }

    /// Goes on at the position that a ride has left. Any other difference is another worker's.
    func follow(_ stored: Generation) {
        if hasMoved(to: stored) { (generation, hasRides) = (stored, true) }
    }

    /// Reads now and then how much rides have written, for the statistics.
    func countRides() throws {
        guard hasRides, nextCount.map({ $0 <= ContinuousClock.now }) ?? true else { return }
        try statistics.read(of: generation.number, connection)
        (hasRides, nextCount) = (false, ContinuousClock.now + PostgresLimits.rideCounts)
    }

    private func hasMoved(to stored: Generation) -> Bool {
        stored.number == generation.number && stored.layout == generation.layout
            && stored.position.logID == generation.position.logID
            && stored.position.offset > generation.position.offset
            && stored.indexVersion == generation.indexVersion
    }

    /// Puts documents of a snapshot into a generation that is being built and has folded no entry yet.
    func load(_ documents: [SnapshotDocument]) throws {
        var batch = FoldBatch(after: generation, bytesAtMost: batchBytes)
        for document in documents {
            if batch.isFull {
                try commit(&batch)
                batch = FoldBatch(after: generation, bytesAtMost: batchBytes)
            }
            batch.put(document.key, document.state, at: document.offset)
        }
        try commit(&batch)
    }

    /// Sets the position of a generation whose documents came from a snapshot.
    func stand(at start: SnapshotStart) throws {
        var batch = FoldBatch(after: generation, bytesAtMost: batchBytes)
        batch.result.position = start.position
        batch.result.clock = start.clock
        batch.result.reapFloor = start.reapFloor
        try commit(&batch)
    }

    // MARK: Indexes

    /// True if there is something to do for the indexes.
    var hasIndexWork: Bool {
        isComparisonDue || !unfinished.isEmpty || !statistics.old.isEmpty || hasUnused
    }

    private var isComparisonDue: Bool {
        isDirty && definitions != nil && nextComparison.map { $0 <= ContinuousClock.now } ?? true
    }

    /// True if an index is missing that is defined.
    var isAwaitingIndexes: Bool { isDirty && definitions != nil || !unfinished.isEmpty }

    private var unfinished: [KeyIndex] {
        tables.indexed.values.flatMap { $0.indexes.filter { !$0.isReady } }
    }

    /// Makes the catalog of indexes that of the definitions, if one may have changed. A right that the role
    /// lacks holds up only what needs it (`indexRefusal`).
    func alignIndexes() throws {
        guard isComparisonDue, let definitions else { return }
        let before = Set(tables.indexed.values.flatMap { $0.indexes.map(\.number) })
        let alignment = IndexAlignment(connection: connection, logger: logger)
        do {
            isDirty = try !alignment.run(definitions, &tables, &generation)
            (indexRefusal, nextComparison) = (nil, nil)
        } catch let error as PostgresError where error.lacksRight {
            indexRefusal = error
            nextComparison = ContinuousClock.now + PostgresLimits.refusedComparisons
        }
        let after = tables.indexed.values.flatMap { $0.indexes.map(\.number) }
        hasUnused = hasUnused || !before.isSubset(of: after)
    }

    /// The work on indexes and statistics that is to be done, as far as it is known.
    func indexWork() -> IndexWork {
        let builds = tables.indexed.flatMap { name, columns in
            columns.indexes.filter { !$0.isReady }.map {
                IndexWork.Build(
                    index: $0, table: tables.table(name), collection: tables.number(of: name) ?? 0)
            }
        }
        let surveys = statistics.old.map { IndexWork.Survey(collection: $0, table: tables.table($0)) }
        return IndexWork(
            generation: generation.number, builds: builds, surveys: surveys, dropsUnused: hasUnused)
    }

    /// Notes that work is done now.
    func take(_ work: IndexWork) {
        for survey in work.surveys { statistics.take(survey.collection) }
        hasUnused = false
    }

    /// Takes back work that could not be done, or only in part.
    func takeBack(_ work: IndexWork) {
        for survey in work.surveys { statistics.takeBack(survey.collection) }
        hasUnused = hasUnused || work.dropsUnused
    }

    /// Lets readers use indexes that were built.
    func finish(_ numbers: [Int64]) throws {
        let known = numbers.filter { number in unfinished.contains { $0.number == number } }
        guard !known.isEmpty else { return }
        let answers = try connection.transaction([
            Connection.Step(
                """
                UPDATE mimeo_projection.indexes SET is_ready = true WHERE number = ANY($1::int8[])
                """, [.int8Array(known)]),
            IndexAlignment.newVersion(of: generation.number),
        ])
        generation.indexVersion = answers[1].bits(0, 0)
        try tables.reloadIndexes()
    }

    private func commit(_ batch: inout FoldBatch) throws {
        guard !batch.isEmpty else { return }
        try tables.require(batch.collections)
        do {
            let answers = try connection.pipeline(begin() + batch.reads(tables))
            try check(answers[1])
            batch.take(answers.dropFirst(2))
            try batch.fold(logger)
            let hasIndexes = batch.collections.keys.contains { !tables.keys(of: $0).indexes.isEmpty }
            let kinds = batch.kinds(tables) + (hasIndexes ? [KeyIndex.noting([])] : [])
            var hasLosses = false
            var grown: [CollectionName: Int] = [:]
            _ = try connection.pipeline(of: kinds + [checkpoint(batch.result), .commit]) { send in
                let (losses, more) = try batch.write(tables, send)
                grown = more
                if !losses.isEmpty {
                    hasLosses = true
                    batch.result.indexVersion += 1
                    try send(KeyIndex.noting(losses))
                }
                try send(checkpoint(batch.result))
                try send(.commit)
            }
            generation = batch.result
            if let definitions, batch.collections[definitions.collection] != nil {
                (isDirty, nextComparison) = (true, nil)
            }
            statistics.note(batch.written, grown: grown)
            if hasLosses { try tables.reloadIndexes() }
        } catch {
            try connection.undo(after: error)
            throw error
        }
    }

    private func begin() -> [Connection.Step] {
        [Connection.Step("BEGIN"), Generation.lock(generation.number)]
    }

    private func check(_ rows: Rows) throws {
        let stored = rows.count == 1 ? try Generation(rows, 0) : nil
        if let stored, stored.position == generation.position,
            stored.indexVersion == generation.indexVersion
        {
            return
        }
        if let stored, hasMoved(to: stored) { throw Ahead(generation: stored) }
        throw ProjectionError(.storageFailed, "another worker has taken over this projection")
    }

    private func checkpoint(_ result: Generation) -> Connection.Step {
        Connection.Step(
            """
            UPDATE mimeo_projection.generations
            SET "offset" = $2, hash = $3, clock = $4, reap_floor = $5, index_version = $6
            WHERE number = $1::int4
            """,
            [
                .int8(Int64(result.number)), .int8(Int64(bitPattern: result.position.offset.rawValue)),
                .int8(Int64(bitPattern: result.position.hash)), .int8(Int64(bitPattern: result.clock)),
                .int8(Int64(bitPattern: result.reapFloor.rawValue)),
                .int8(Int64(bitPattern: result.indexVersion)),
            ])
    }
}

extension Connection {
    /// Rolls the open transaction back, unless it ended with a lost connection.
    func undo(after error: any Error) throws(PostgresError) {
        if let error = error as? PostgresError, error.isConnectionLost { return }
        try rollBack()
    }
}

extension Connection.Step {
    /// Commits the open transaction.
    static let commit = Connection.Step("COMMIT")
}
