import CRDT
import DQL
import Logging
import OperationLog

/// The projections of one PostgreSQL server, which share its connections for reading.
public final class PostgresProjections: Sendable {
    private let url: String
    private let patience: Duration
    private let stallTimeout: Duration
    private let lanes: ConnectionLanes
    private let logger: Logger
    private let indexes: ProjectionIndexes?
    private let fence: ServerFence?
    private let isBesideLog: Bool

    /// Projections on a server. Connects to nothing yet.
    /// - Parameters:
    ///   - url: libpq's form. The role needs the right to create schemas.
    ///   - isBesideLog: true if the logs of all projections are kept at the same URL.
    ///   - patience: how long the server may take to answer before a connection counts as lost.
    ///   - stallTimeout: how long a leader may be idle although there is work before it loses its lead.
    ///   - indexes: the definitions of indexes; nil to have none.
    ///   - fence: keeps away from servers that were replaced.
    public init(
        url: String, isBesideLog: Bool = false, patience: Duration = PostgresLimits.answerTimeout,
        stallTimeout: Duration = PostgresLimits.stallTimeout, indexes: ProjectionIndexes? = nil,
        fence: ServerFence? = nil, logger: Logger
    ) {
        self.isBesideLog = isBesideLog
        self.indexes = indexes
        self.fence = fence
        self.url = url
        self.patience = patience
        self.stallTimeout = stallTimeout
        self.logger = logger
        lanes = ConnectionLanes(
            url: url, count: PostgresLimits.projectionLanes, patience: patience, fence: fence)
    }

    /// Opens a database's projection, creating it if needed. It follows the log while `run` runs.
    /// - Throws: `PROJ-0101` to `PROJ-0104`, having changed nothing; the log's errors.
    public func open(_ database: DatabaseID, log: any OperationLog) async throws -> PostgresProjection {
        guard let start = try await log.position(at: 0, in: database) else {
            throw OperationLogError(.corrupt, "the log has no position at offset 0")
        }
        let (url, patience, stallTimeout, logger) = (url, patience, stallTimeout, logger)
        let (indexes, fence) = (indexes, fence)
        let lane = WorkerLane {
            do {
                return try ProjectionSession(
                    url: url, database: database, start: start, logger: logger, patience: patience,
                    stallTimeout: stallTimeout, indexes: indexes, fence: fence)
            } catch {
                throw ProjectionError.opening(error, url: url)
            }
        }
        _ = try await lane.run { try $0.look() }
        let worker = ProjectionWorker(
            database, log: log, start: start, lane: lane, builder: IndexBuilder(url: url, logger: logger),
            logger: logger)
        return PostgresProjection(
            database, worker, lanes, isBesideLog: isBesideLog, definitions: indexes?.collection,
            logger: logger)
    }

    /// Returns whether a database has a projection here.
    public func keeps(_ database: DatabaseID) async throws -> Bool {
        try await working { connection in
            try connection.query(
                "SELECT EXISTS (SELECT 1 FROM mimeo_projection.databases WHERE id = $1)",
                [.text(database.text)]
            ).bool(0, 0)
        }
    }

    /// Removes a database's projection. Workers of other processes that fold it fail from now on.
    /// - Throws: `PROJ-0201` while somebody reads it: call it again.
    public func erase(_ database: DatabaseID) async throws {
        let logger = logger
        try await working { try GenerationRemoval($0, logger).erase(database) }
    }

    /// Runs work on the schema, with its errors translated; the schema is created if necessary.
    private func working<Result: Sendable>(
        _ body: @escaping @Sendable (Connection) throws -> Result
    ) async throws -> Result {
        do {
            return try await lanes.run { connection in
                try ProjectionSchema.migrate(connection)
                return try body(connection)
            }
        } catch {
            throw ProjectionError.translated(error)
        }
    }

    /// Closes the connections for reading. Close the projections first.
    public func close() async { await lanes.close() }
}

/// A failure to build indexes, which is tried again.
public struct IndexFailure: Sendable {
    /// The code of the error.
    public let code: ProjectionErrorCode
    /// The error for operators: it may have PostgreSQL's own words.
    public let reason: String
    /// The time at which it was found last.
    public let at: ContinuousClock.Instant
}

/// One database's projection in PostgreSQL: statements run on it, and it follows the log.
///
/// All stored properties are constant; each part guards its own state.
public final class PostgresProjection: Sendable {
    /// The result of a draft.
    public struct Draft<Value: Sendable>: Sendable {
        /// The closure's result.
        public let value: Value
        /// The operation for the log; nil when nothing was changed.
        public let operation: Operation?
        /// Documents above the soft limit.
        public let warnings: [String]
        /// The offset of the snapshot.
        public let readAt: Offset
    }

    let database: DatabaseID
    let worker: ProjectionWorker
    let lanes: ConnectionLanes
    /// True if the log is on the same server.
    public let isBesideLog: Bool
    /// The collection of the definitions of indexes.
    private let definitions: CollectionName?
    private let logger: Logger

    init(
        _ database: DatabaseID, _ worker: ProjectionWorker, _ lanes: ConnectionLanes, isBesideLog: Bool,
        definitions: CollectionName?, logger: Logger
    ) {
        (self.definitions, self.logger) = (definitions, logger)
        self.database = database
        self.worker = worker
        self.lanes = lanes
        self.isBesideLog = isBesideLog
    }

    /// The position of the projection, as far as this process knows.
    public var position: LogPosition { get async { await worker.position } }
    /// The reason why it does not follow the log at present; nil while it does.
    public var failure: String? { get async { await worker.failure } }
    /// The reason why this process could not build indexes; nil since it can, or another one does.
    public var indexFailure: IndexFailure? { get async { await worker.indexFailure } }

    /// Follows the log, leading or watching, until the task is cancelled or the log closes.
    public func run() async { await worker.run() }

    /// Brings the projection towards the log's present head.
    public func advance() async throws { try await worker.advance() }

    /// Runs an append to the log, and folds the entries that it has added after the position which it is
    /// given, if this process leads and is still there. Nothing is looked up for that. Else they are folded
    /// in their time, by whoever leads.
    /// - Parameter ride: their fold, which may be committed with the append.
    public func write<Result: Sendable>(
        with ride: FoldRide? = nil,
        _ append: @Sendable (LogPosition) async throws -> (result: Result, entries: [LogEntry])
    ) async throws -> Result {
        try await worker.write(with: ride, append)
    }

    /// Waits until the projection has reached `offset`; false when that takes longer than `timeout`.
    public func wait(for offset: Offset, timeout: Duration) async -> Bool {
        await worker.wait(for: offset, timeout: timeout)
    }

    /// Chooses the thread that work with a connection runs on, which may block.
    public typealias Running<Result: Sendable> =
        @Sendable (_ work: @escaping @Sendable () throws -> Result) async throws -> Result

    /// Runs a closure on a snapshot, on a thread that may block. It may run twice, so it must have no other
    /// effect than its result.
    /// - Parameters:
    ///   - offset: the least offset of the snapshot; guaranteed after `wait(for:)` unless the server was
    ///     restored meanwhile.
    ///   - key: the only document that the closure will look up: it is read with the snapshot.
    ///   - running: runs the work on a thread of the caller's choice; nil for one of the connection's. No
    ///     more than `PostgresLimits.projectionLanes` may run at a time, or they wait for one another.
    ///   - waiting: told of each wait for a scan, which it may end.
    /// - Throws: `PROJ-0101`, `PROJ-0201` to `PROJ-0205`, `PROJ-0301`; the errors of `body` and `running`.
    public func read<Result: Sendable>(
        from offset: Offset = 0, fetching key: DocumentKey? = nil, running: Running<Result>? = nil,
        waiting: (any ServerWait)? = nil, _ body: @escaping @Sendable (ProjectionSnapshot) throws -> Result
    ) async throws -> Result {
        guard await worker.isReady else {
            throw ProjectionError(.notReady, "the projection is being rebuilt; try again")
        }
        let (database, logID) = (database, await worker.position.logID)
        do {
            return try await onLane(running) { connection in
                let demand = ProjectionSnapshot.Demand.position { position in
                    guard position.logID == logID, position.offset >= offset else {
                        throw ProjectionError(.notReady, "the projection was set back; try again")
                    }
                }
                return try ProjectionSnapshot.run(
                    of: database, on: connection, fetching: key, demanding: demand, waiting: waiting, body)
            }
        } catch {
            throw ProjectionError.translated(error)
        }
    }

    /// The same on a snapshot at the log's head, from an offset on, in one round trip for most statements.
    /// Nothing of it was asked before, so it is of a moment after the call.
    /// - Returns: nil if the projection is elsewhere, or is not beside its log.
    /// - Throws: `LOG-0309`, as the log would; otherwise as `read`.
    public func readAtHead<Result: Sendable>(
        from offset: Offset, fetching key: DocumentKey? = nil, running: Running<Result>? = nil,
        waiting: (any ServerWait)? = nil, _ body: @escaping @Sendable (ProjectionSnapshot) throws -> Result
    ) async throws -> Result? {
        guard isBesideLog, await worker.isReady else { return nil }
        let database = database
        do {
            return try await onLane(running) { connection in
                try ProjectionSnapshot.run(
                    of: database, on: connection, fetching: key, demanding: .head(from: offset),
                    waiting: waiting, body)
            }
        } catch is ProjectionSnapshot.IsElsewhere {
            return nil
        } catch let error as PostgresError where error.isConnectionLost {
            throw OperationLogError(.unreachable, "PostgreSQL cannot be reached: \(error.message)")
        } catch let error as OperationLogError {
            throw error
        } catch {
            throw ProjectionError.translated(error)
        }
    }

    /// Runs work with a connection, and asks for a rebuild if a document is damaged.
    private func onLane<Result: Sendable>(
        _ running: Running<Result>?, _ work: @escaping @Sendable (Connection) throws -> Result
    ) async throws -> Result {
        do {
            guard let running else { return try await lanes.run(work) }
            return try await running { [lanes] in try lanes.runHere(work) }
        } catch  where ProjectionError.isDamage(error) {
            try? await askForRebuild()
            throw ProjectionError(.damaged, "the projection is damaged and will be rebuilt: \(error)")
        }
    }

    /// Asks the leader to rebuild the projection, unless a rebuild is under way.
    func askForRebuild() async throws {
        let database = database
        try await lanes.run { connection in
            _ = try connection.query(
                """
                UPDATE mimeo_projection.databases SET rebuild = true
                WHERE id = $1 AND building IS NULL AND NOT rebuild
                """, [.text(database.text)])
        }
    }

    /// Runs a closure on a snapshot under the actor's next stamp and returns its changes as an operation,
    /// writing nothing. It may run twice, as in `read`.
    /// - Parameters:
    ///   - keys: documents that the closure will look up or edit: they are read at once.
    ///   - sequence: the actor's next sequence.
    public func draft<Value: Sendable>(
        from offset: Offset = 0, expecting keys: [DocumentKey] = [], as actor: ActorID,
        sequence: SequenceNumber, wallMilliseconds: UInt64, running: Running<Draft<Value>>? = nil,
        waiting: (any ServerWait)? = nil, _ body: @escaping @Sendable (ProjectionDraft) throws -> Value
    ) async throws -> Draft<Value> {
        try await read(from: offset, running: running, waiting: waiting) { snapshot in
            try snapshot.expect(keys)
            let draft = try snapshot.draft(as: actor, sequence: sequence, wallMilliseconds: wallMilliseconds)
            let offset = try snapshot.position().offset
            let value = try body(draft)
            let operation = try draft.operation()
            if let operation { try snapshot.checkTables(of: operation) }
            return Draft(
                value: value, operation: operation, warnings: draft.warnings,
                readAt: offset)
        }
    }

    /// The drafts of one snapshot, and a plan that a caller makes of them.
    public struct Planned<Plan: Sendable>: Sendable {
        /// The caller's plan.
        public let plan: Plan
        /// The position of the snapshot.
        public let start: LogPosition
        /// The fold of the plan's operations, for the log's append; nil where a leader folds them.
        public let ride: FoldRide?
    }

    /// The same as `draft` for several pieces of work, each on what those before it leave; see `DraftChain`.
    /// - Parameters:
    ///   - isAtHead: true for a snapshot at the log's head, as of `readAtHead`.
    ///   - plan: makes a plan of the results of those that were drafted.
    ///   - requests: the appends of a plan, in the order in which they will be in the log.
    /// - Returns: nil if the projection is not at the head, or is not beside its log.
    public func drafts<Work: Sendable, Value: Sendable, Plan: Sendable>(
        from offset: Offset, isAtHead: Bool, expecting keys: [DocumentKey] = [], as actor: ActorID,
        sequence: SequenceNumber, wallMilliseconds: @escaping @Sendable () -> UInt64,
        running: Running<Planned<Plan>>? = nil, waiting: (any ServerWait)? = nil, _ works: [Work],
        goesOn: @escaping @Sendable ((any Error)?) throws -> Bool,
        checking check: @escaping @Sendable (Operation) throws -> Void,
        planning plan: @escaping @Sendable ([Result<Draft<Value>, any Error>]) -> Plan,
        requests: @escaping @Sendable (Plan) -> [AppendRequest],
        _ body: @escaping @Sendable (Work, ProjectionDraft, SequenceNumber) throws -> Value
    ) async throws -> Planned<Plan>? {
        let (definitions, logger) = (definitions, logger)
        let work: @Sendable (ProjectionSnapshot) throws -> Planned<Plan> = { snapshot in
            try snapshot.expect(keys)
            var chain = try snapshot.chain(as: actor, sequence: sequence, wallMilliseconds: wallMilliseconds)
            let start = try snapshot.position()
            let links = try DraftChain.all(works, goesOn: goesOn) { work in
                try chain.add { operation in
                    try snapshot.checkTables(of: operation)
                    try check(operation)
                } _: {
                    try body(work, $0, $1)
                }
            }
            let drafts = links.map { link in
                link.map {
                    Draft(
                        value: $0.value, operation: $0.operation, warnings: $0.warnings, readAt: start.offset)
                }
            }
            let made = plan(drafts)
            let ride =
                isAtHead ? try snapshot.ride(of: requests(made), definitions: definitions, logger) : nil
            return Planned(plan: made, start: start, ride: ride)
        }
        guard isAtHead else {
            return try await read(from: offset, running: running, waiting: waiting, work)
        }
        return try await readAtHead(from: offset, running: running, waiting: waiting, work)
    }

    /// Releases every waiter and gives up the lead.
    public func close() async { await worker.close() }
}
