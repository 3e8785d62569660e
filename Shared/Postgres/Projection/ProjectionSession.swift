import CRDT
import Logging
import OperationLog

/// The work of one worker on one connection: it tries to lead a database's projection, and while it leads,
/// folds, builds, switches and cleans up.
///
/// The lead is an advisory lock held by the connection. Every write uses the same connection, so a worker
/// cannot write once it has lost the lead. Each batch also checks the checkpoint (`GenerationWriter`), in
/// case a proxy between us and PostgreSQL shares connections between clients.
///
/// Used by the lane's thread only; ends with its connection.
final class ProjectionSession {
    /// The state of a database's projection.
    struct Look: Sendable {
        let isLeading: Bool
        /// True if this session has just begun to lead.
        let isNew: Bool
        let current: Generation
        let building: Generation?
        /// True if somebody asked for a rebuild.
        let isRebuildWanted: Bool
        /// True if a leader has something to do for the indexes.
        let hasIndexWork: Bool
    }

    private let connection: Connection
    private let database: DatabaseID
    private let logger: Logger
    private let stallTimeout: Duration
    private let fence: ServerFence?
    private let definitions: ProjectionIndexes?
    private let surveyedDocuments: Int
    private var number: Int32 = 0
    private var views = ""
    private var current: GenerationWriter?
    private var building: GenerationWriter?
    private var isLeading = false

    /// Connects, and creates the schema and the database's first, empty generation if needed.
    /// - Parameters:
    ///   - start: the beginning of the log.
    ///   - patience: how long the server may take to answer.
    ///   - stallTimeout: how long a leader may be idle although there is work, this one or another.
    ///   - surveyedDocuments: see `PostgresLimits`.
    ///   - fence: keeps away from servers that were replaced.
    init(
        url: String, database: DatabaseID, start: LogPosition, logger: Logger,
        patience: Duration = PostgresLimits.answerTimeout,
        stallTimeout: Duration = PostgresLimits.stallTimeout, indexes: ProjectionIndexes? = nil,
        surveyedDocuments: Int = PostgresLimits.surveyedDocuments, fence: ServerFence? = nil
    ) throws {
        definitions = indexes
        self.surveyedDocuments = surveyedDocuments
        connection = try Connection(url: url, patience: patience)
        try fence?.admit(connection)
        self.fence = fence
        self.database = database
        self.logger = logger
        self.stallTimeout = stallTimeout
        try ProjectionSchema.migrate(connection)
        // A projection that lost its last commits in a crash folds them again, so no commit waits for the
        // disk. Statements are planned while tables are empty and run when they are not, so full scans are
        // disabled.
        try connection.run(
            """
            SET synchronous_commit = off; SET lock_timeout = '\(PostgresLimits.workerLockSeconds)s';
            SET idle_in_transaction_session_timeout = '\(stallTimeout.wholeMicroseconds / 1_000)ms';
            SET client_min_messages = warning;
            SET enable_seqscan = off; SET enable_hashjoin = off; SET enable_mergejoin = off; SET jit = off
            """)
        try enroll(start)
    }

    // MARK: Leading

    /// The present state; begins to lead if nobody does.
    func look() throws -> Look {
        guard fence?.isCurrent(connection) ?? true else {
            throw PostgresError(state: nil, message: "the server was replaced", isConnectionLost: true)
        }
        let wasLeading = isLeading
        if !isLeading {
            isLeading = try connection.query(
                "SELECT pg_try_advisory_lock(\(ProjectionLocks.lead), $1::int4)", [.int8(Int64(number))]
            ).bool(0, 0)
        }
        let rows = try connection.query(
            """
            SELECT d.view_schema, d.rebuild, \(Generation.columns(of: "g")),
                \(Generation.columns(of: "b"))
            FROM mimeo_projection.databases d JOIN mimeo_projection.generations g ON g.number = d.generation
            LEFT JOIN mimeo_projection.generations b ON b.number = d.building WHERE d.number = $1::int4
            """, [.int8(Int64(number))])
        guard rows.count == 1, let stored = try Generation(rows, 0, column: 2) else {
            throw ProjectionError(.damaged, "the catalog has lost the database's generation")
        }
        let beside = try Generation(rows, 0, column: 2 + Generation.columnCount)
        if isLeading, !wasLeading {
            views = rows.text(0, 0)
            current = try GenerationWriter(
                stored, views: views, connection, logger, definitions: definitions,
                surveyedDocuments: surveyedDocuments)
            building = try beside.map { try writer(beside: $0) }
        }
        current?.follow(stored)
        try current?.countRides()
        return Look(
            isLeading: isLeading, isNew: isLeading && !wasLeading, current: stored, building: beside,
            isRebuildWanted: rows.bool(0, 1), hasIndexWork: isLeading && hasIndexWork)
    }

    /// Ends the connection of a leader that is idle although there is work, between two batches or inside
    /// one: its process was stopped, or its machine is gone and nobody told the server.
    func unseatIdleLeader() throws {
        _ = try connection.end(
            Connection.StalledClients(
                condition: """
                    a.pid IN (
                        SELECT pid FROM pg_locks
                        WHERE locktype = 'advisory' AND classid = \(ProjectionLocks.lead)
                            AND objid = $1::int4::oid AND objsubid = 2 AND granted
                            AND database = (SELECT oid FROM pg_database WHERE datname = current_database()))
                    """, parameters: [.int8(Int64(number))], idle: stallTimeout, includesIdle: true))
    }

    /// Gives up the lead, if it has it. The server ends a closed connection only after some time and
    /// considers the lead taken until then, so this worker's next session would wait for its last one.
    func resign() {
        guard isLeading else { return }
        isLeading = false
        try? connection.rollBack()
        try? connection.run("SELECT pg_advisory_unlock_all()")
    }

    /// Shows activity: a leader that is idle for long while there is work is unseated.
    func showLife() throws { try connection.run("SELECT 1") }

    /// Folds entries into the generation that readers use.
    func fold(_ entries: [LogEntry]) throws -> Generation {
        guard let current else { preconditionFailure("only a leader folds") }
        try current.fold(entries)
        return current.generation
    }

    /// The same without a look before, for entries that follow a position; nil if this session does not lead
    /// at that position.
    /// - Parameter ridden: the generation as the last ride of this process has left it.
    func foldNow(
        _ entries: [LogEntry], after start: LogPosition, ridden: Generation?
    ) throws -> Generation? {
        guard isLeading, fence?.isCurrent(connection) ?? true, let current else { return nil }
        if let ridden { current.follow(ridden) }
        guard current.generation.position == start else { return nil }
        try current.fold(entries)
        return current.generation
    }

    // MARK: Indexes

    /// True if a leader has something to do for the indexes.
    var hasIndexWork: Bool { current?.hasIndexWork ?? false || building?.hasIndexWork ?? false }

    /// Compares the indexes with their definitions, and returns what has to be built.
    /// - Parameters:
    ///   - isCurrentGood: false to leave the current generation alone, which is to be replaced.
    ///   - isTaken: true if the work is done now.
    func indexWork(isCurrentGood: Bool, isTaken: Bool) throws -> [IndexWork] {
        let writers = [isCurrentGood ? current : nil, building].compactMap(\.self)
        for writer in writers { try writer.alignIndexes() }
        // Nothing is taken before all of it is known: a failure would lose it.
        let works = writers.map { $0.indexWork() }
        if isTaken { for (writer, work) in zip(writers, works) { writer.take(work) } }
        return works.filter { !$0.isEmpty }
    }

    /// The right that the last comparison with the definitions lacked; nil if it lacked none.
    var indexRefusal: PostgresError? { current?.indexRefusal ?? building?.indexRefusal }

    /// Lets readers of a generation use indexes that were built.
    func finish(_ numbers: [Int64], in generation: Int32) throws {
        let writer = [current, building].compactMap(\.self).first { $0.generation.number == generation }
        try writer?.finish(numbers)
    }

    /// Takes back work that could not be done.
    func takeBack(_ work: IndexWork) {
        let writer = [current, building].compactMap(\.self).first {
            $0.generation.number == work.generation
        }
        writer?.takeBack(work)
    }

    /// True if the generation that is being built has all its indexes.
    var isBesideIndexed: Bool { !(building?.isAwaitingIndexes ?? false) }

    // MARK: Building beside

    /// Returns whether the role may build a generation, and switch to it: both make schemas.
    func mayBuild() throws -> Bool {
        try connection.query("SELECT has_database_privilege(current_database(), 'CREATE')").bool(0, 0)
    }

    /// Begins a generation beside the current one; drops an earlier unfinished one.
    func startBuilding(at start: LogPosition) throws -> Generation {
        try connection.run("BEGIN")
        do {
            let made = try Generation.make(at: start, connection)
            try connection.run("CREATE SCHEMA \(ProjectionNames.hiddenViews(made))")
            _ = try connection.query(
                """
                UPDATE mimeo_projection.databases SET building = $2::int4, rebuild = false
                WHERE number = $1::int4
                """, [.int8(Int64(number)), .int8(Int64(made))])
            let stored = try connection.query(
                """
                SELECT \(Generation.columns(of: "g")) FROM mimeo_projection.generations g
                WHERE g.number = $1::int4
                """, [.int8(Int64(made))])
            try connection.run("COMMIT")
            guard let generation = try Generation(stored, 0) else {
                throw ProjectionError(.damaged, "the catalog lost a generation")
            }
            building = try writer(beside: generation)
            return generation
        } catch {
            try connection.undo(after: error)
            throw error
        }
    }

    /// Puts documents of the log's snapshot into the generation that is being built.
    func load(_ documents: [SnapshotDocument]) throws {
        guard let building else { preconditionFailure("nothing is being built") }
        try building.load(documents)
    }

    /// Completes the loading: the generation being built is now at the snapshot's position.
    func finishLoading(_ start: SnapshotStart) throws -> Generation {
        guard let building else { preconditionFailure("nothing is being built") }
        try building.stand(at: start)
        return building.generation
    }

    /// Folds entries into the generation that is being built.
    func build(_ entries: [LogEntry]) throws -> Generation {
        guard let building else { preconditionFailure("nothing is being built") }
        try building.fold(entries)
        return building.generation
    }

    /// Lets readers use the new generation; running reads continue on the old one. The views are exchanged
    /// by renaming their schemas, so it takes a moment however many there are.
    /// - Parameter isUrgent: true if readers have nothing to read before.
    /// - Returns: nil if a ride that began before the building has gone further than the new one.
    func switchOver(isUrgent: Bool) throws -> Generation? {
        guard let built = building, let old = current else {
            preconditionFailure("there is nothing to switch to")
        }
        let (oldNumber, newNumber) = (old.generation.number, built.generation.number)
        try connection.run("BEGIN")
        do {
            // No ride is under way on a generation that readers leave.
            let left = try connection.query(Generation.lock(oldNumber))
            let stored = left.count == 1 ? try Generation(left, 0) : nil
            if !isUrgent, let stored, stored.position.offset > built.generation.position.offset {
                try connection.rollBack()
                return nil
            }
            _ = try connection.query(
                """
                UPDATE mimeo_projection.databases SET generation = $2::int4, building = NULL
                WHERE number = $1::int4
                """, [.int8(Int64(number)), .int8(Int64(newNumber))])
            try connection.run(
                """
                CREATE SCHEMA IF NOT EXISTS \(ProjectionNames.quoted(views));
                ALTER SCHEMA \(ProjectionNames.quoted(views))
                RENAME TO \(ProjectionNames.hiddenViews(oldNumber));
                CREATE SCHEMA IF NOT EXISTS \(ProjectionNames.hiddenViews(newNumber));
                ALTER SCHEMA \(ProjectionNames.hiddenViews(newNumber))
                RENAME TO \(ProjectionNames.quoted(views));
                """)
            try connection.run("COMMIT")
        } catch {
            try connection.undo(after: error)
            throw error
        }
        built.viewsAreNow(in: views)
        current = built
        building = nil
        return built.generation
    }

    // MARK: Cleaning up

    /// Removes generations that no database names and nobody reads.
    /// - Returns: whether some are left because they are being read.
    func cleanUp() throws -> Bool { try GenerationRemoval(connection, logger).cleanUp() }

    // MARK: Beginning

    private func writer(beside generation: Generation) throws -> GenerationWriter {
        try GenerationWriter(
            generation, views: ProjectionNames.hiddenViews(generation.number), connection, logger,
            definitions: definitions, surveyedDocuments: surveyedDocuments)
    }

    /// Finds the database's row, or creates it with an empty generation at the log's beginning.
    private func enroll(_ start: LogPosition) throws {
        if let known = try databaseNumber() {
            number = known
            return
        }
        try connection.run("BEGIN")
        do {
            try connection.run("LOCK TABLE mimeo_projection.databases IN SHARE ROW EXCLUSIVE MODE")
            if let known = try databaseNumber() {
                number = known
            } else {
                number = try makeDatabase(start)
            }
            try connection.run("COMMIT")
        } catch {
            try connection.undo(after: error)
            throw error
        }
    }

    private func databaseNumber() throws -> Int32? {
        let rows = try connection.query(
            "SELECT number::int8 FROM mimeo_projection.databases WHERE id = $1", [.text(database.text)])
        return rows.count == 1 ? Int32(rows.int8(0, 0)) : nil
    }

    private func makeDatabase(_ start: LogPosition) throws -> Int32 {
        let generation = try Generation.make(at: start, connection)
        let wanted = ProjectionNames.viewSchema(database)
        for attempt in 0..<PostgresLimits.nameAttempts {
            let name =
                attempt == 0
                ? wanted
                : ProjectionNames.distinct(wanted, Array(database.text.utf8), attempt: attempt - 1)
            let isTaken = try connection.query(
                "SELECT EXISTS (SELECT 1 FROM pg_namespace WHERE nspname = $1)", [.text(name)]
            ).bool(0, 0)
            // Another application's schema stays unchanged.
            guard !isTaken else { continue }
            try connection.run("CREATE SCHEMA \(ProjectionNames.quoted(name))")
            let rows = try connection.query(
                """
                INSERT INTO mimeo_projection.databases (id, view_schema, generation)
                VALUES ($1, $2, $3::int4) RETURNING number::int8
                """, [.text(database.text), .text(name), .int8(Int64(generation))])
            return Int32(rows.int8(0, 0))
        }
        throw ProjectionError(.storageFailed, "cannot find a free name for the schema of the views")
    }
}

/// The first halves of the advisory locks' keys; the second is the number of a database or generation.
enum ProjectionLocks {
    /// "MmPl": held by the session that leads a database's projection.
    static let lead = 1_299_009_644
    /// "MmPi": held by the connection that builds the indexes of a generation.
    static let indexes = 1_299_009_641
    /// "MmPg": shared by readers of a generation, exclusive while it is removed.
    static let generation = 1_299_009_639
}
