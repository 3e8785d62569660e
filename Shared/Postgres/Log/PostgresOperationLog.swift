import CRDT
import Glibc
import Logging
import OperationLog
import Synchronization

/// The operation log in PostgreSQL, for any number of machines.
///
/// - Offsets follow commit order because an append holds the lock of its database's row until its commit.
///   The append is one statement or function, sent with its whole transaction in one pipeline, so the lock
///   never waits for a client.
/// - Group commit across the tasks of a process; between processes the row lock decides.
/// - One connection writes, a few read (`ConnectionLanes`), one watches (`PostgresChangeWatcher`), and one
///   reclaims space where this process truncates. Lost connections are opened again.
///
/// All stored properties are constant; each part guards its own state. `closing` makes `close` idempotent.
public final class PostgresOperationLog: OperationLog {
    /// Options of one log; the defaults suit a server.
    public struct Options: Sendable {
        /// Operations admitted and not yet committed.
        public var queuedOperations = LogLimits.queuedOperations
        /// Bytes admitted and not yet committed.
        public var queuedBytes = LogLimits.queuedBytes
        /// Append calls that may wait for room.
        public var waitingAppends = LogLimits.waitingAppends
        /// Interval of polling for foreign appends whose hint was lost.
        public var pollInterval = LogLimits.pollInterval
        /// How long the server may take to answer before a connection counts as lost.
        public var answerTimeout = PostgresLimits.answerTimeout
        /// How long an append waits for a lock that another process holds.
        public var lockTimeout = LogLimits.busyTimeout
        /// How long the holder of such a lock may have been idle inside its transaction before an append
        /// that waited in vain ends it.
        public var stalledWriterTimeout = PostgresLimits.stalledWriterTimeout
        /// The first pause before the lost connection that watches the log is opened again; each pause is
        /// twice the last.
        public var firstReconnectPause = PostgresLimits.firstReconnectPause
        /// Keeps away from servers that were replaced; nil keeps away from none.
        public var fence: ServerFence?

        /// The defaults.
        public init() {}
    }

    private let url: String
    private let fence: ServerFence?
    private let lanes: ConnectionLanes
    /// The connection for long work that nobody should have to wait for.
    let upkeep: ConnectionLanes
    private let writer: PostgresLogWriter
    let committer: GroupCommitter
    private let hub = ChangeHub()
    private let watcher: PostgresChangeWatcher
    private let closing = Mutex(false)
    /// True while this opening has the making of drafts.
    let draftMaking = Mutex(false)

    /// Opens a log, creating or migrating its schema `mimeo_log` if needed. Blocks while it connects.
    /// - Parameter url: libpq's form, `postgres://user@host/database?sslmode=verify-full`. The role needs
    ///   the right to create a schema for the first opening only.
    /// - Throws: `OperationLogError`: `LOG-0201` to `LOG-0203`, `LOG-0309`.
    public init(
        url: String, options: Options = Options(), logger: Logger = Logger(label: "mimeo.operation-log")
    ) throws {
        try Self.opening(url) {
            let connection = try Connection(url: url, patience: options.answerTimeout)
            try options.fence?.admit(connection)
            if try !PostgresLogSchema.isNewest(connection) {
                let patience = PostgresLimits.migrationTimeout
                try PostgresLogSchema.migrate(try Connection(url: url, patience: patience))
            }
        }
        let writer = PostgresLogWriter(url: url, options: options, logger: logger)
        let watcher = PostgresChangeWatcher(url: url, hub: hub, options: options, logger: logger)
        let gate = AdmissionGate(
            limit: AdmissionGate.Cost(operations: options.queuedOperations, bytes: options.queuedBytes),
            waiterLimit: options.waitingAppends)
        committer = GroupCommitter(gate: gate, groupsUnderWay: 2, runsInline: writer.isSentAtOnce) { calls in
            let group = writer.begin(calls)
            return GroupCommitter.Commit(
                isDecided: { writer.hasAppended(group, within: $0) },
                finish: {
                    let (outcome, grown) = writer.finish(group)
                    return (outcome, { if !grown.isEmpty { watcher.announce(grown) } })
                })
        }
        lanes = ConnectionLanes(url: url, patience: options.answerTimeout, fence: options.fence)
        upkeep = ConnectionLanes(
            url: url, count: 1, patience: PostgresLimits.upkeepTimeout, fence: options.fence)
        (self.url, fence) = (url, options.fence)
        self.writer = writer
        self.watcher = watcher
    }

    /// Opens a log like `init`, retrying for `patience` when the server cannot be reached. Blocks.
    public static func open(
        url: String, options: Options = Options(), patience: Duration, logger: Logger
    ) throws -> PostgresOperationLog {
        let deadline = ContinuousClock.now + patience
        var pause = PostgresLimits.firstReconnectPause
        while true {
            do {
                return try PostgresOperationLog(url: url, options: options, logger: logger)
            } catch let error as OperationLogError
                where error.code == .unreachable && ContinuousClock.now + pause < deadline
            {
                logger.warning("\(error.message); trying again")
                usleep(useconds_t(pause.wholeMicroseconds))
                pause = min(pause * 2, PostgresLimits.lastReconnectPause)
            }
        }
    }

    /// One function call; a fresh log id is drawn for it.
    @discardableResult
    public func createDatabase(_ database: DatabaseID) async throws -> Bool {
        guard database.isValidInLog else {
            throw OperationLogError(.invalidDatabaseID, "no database can have the id \"\(database)\"")
        }
        try committer.checkHealth()
        let logID = LogID.random()
        return try await changing { connection in
            let rows = try connection.query(
                "SELECT mimeo_log.create_database($1, $2, $3)",
                [
                    .text(database.text), .bytes(logID.bytes),
                    .int8(Int64(bitPattern: ChainHash.start(logID))),
                ])
            return rows.bool(0, 0)
        }
    }

    /// In order of creation.
    public func databases() async throws -> [DatabaseID] {
        try await reading { connection in
            let rows = try connection.query(
                "SELECT id FROM mimeo_log.databases WHERE strpos(id, ':') = 0 ORDER BY number")
            return (0..<rows.count).map { DatabaseID(rows.text($0, 0)) }
        }
    }

    /// One lookup.
    public func databaseExists(_ database: DatabaseID) async throws -> Bool {
        guard database.isValidInLog else { return false }
        return try await reading { connection in
            let sql = "SELECT EXISTS (SELECT 1 FROM mimeo_log.databases WHERE id = $1)"
            return try connection.query(sql, [.text(database.text)]).bool(0, 0)
        }
    }

    /// Joins the next group; returns after its commit.
    public func append(_ requests: [AppendRequest], to database: DatabaseID) async throws -> [AppendOutcome] {
        try await append(requests, to: database, with: nil)
    }

    /// The same. A `FoldRide` is committed along if its operations have conditions or leases, and its call is
    /// the only one of its database in the group.
    public func append(
        _ requests: [AppendRequest], to database: DatabaseID, with rider: (any AppendRider)?
    ) async throws -> [AppendOutcome] {
        try await committer.append(AppendCall(requests, database: database, rider: rider))
    }

    /// One lookup for all actors.
    public func frontier(of actors: [ActorID], in database: DatabaseID) async throws -> [ActorID:
        FrontierEntry]
    {
        try await reading { try PostgresLogReader.frontier($0, database, actors) }
    }

    /// The database's row and its last entry, which must agree.
    public func head(of database: DatabaseID) async throws -> LogPosition {
        try await reading { try PostgresLogReader.head($0, database).position }
    }

    /// Reads and verifies the entry at that offset.
    public func position(at offset: Offset, in database: DatabaseID) async throws -> LogPosition? {
        try await reading { try PostgresLogReader.position($0, database, at: offset) }
    }

    /// One range scan.
    public func read(
        _ database: DatabaseID, after offset: Offset, limit: ReadLimit
    ) async throws -> [LogEntry] {
        try await reading { try PostgresLogReader.entries($0, database, after: offset, limit: limit) }
    }

    /// Wake-ups come directly from this process's writer, from other processes through `NOTIFY`, at the
    /// latest after `pollInterval`.
    public func changes(in database: DatabaseID) -> AsyncStream<LogChange> { hub.subscribe(to: database) }

    /// A term lasts from one connection of the writer to the next.
    public var term: UInt64 { writer.term }

    /// Uncontended locks. Reports the refusals `LOG-0312` while the server is one that was replaced, and
    /// `LOG-0309` while it cannot be reached.
    public var status: LogStatus {
        let status = committer.status
        guard status.refusal == nil, let refusal = fence?.refusal ?? unreachable else { return status }
        return LogStatus(
            queuedOperations: status.queuedOperations, queuedBytes: status.queuedBytes,
            waitingAppends: status.waitingAppends, refusal: refusal)
    }

    private var unreachable: OperationLogError? {
        watcher.hasLostServer ? OperationLogError(.unreachable, "PostgreSQL cannot be reached") : nil
    }

    /// The fence of this log's server, for others that connect to it.
    /// - Returns: nil for another server's address.
    public func fence(of url: String) -> ServerFence? { isKept(at: url) ? fence : nil }

    /// Returns whether this log is kept at an address.
    public func isKept(at url: String) -> Bool { url == self.url }

    /// Waits for the group in progress, then closes connections and streams.
    public func close() async {
        let isFirst = closing.withLock { isClosing in
            defer { isClosing = true }
            return !isClosing
        }
        guard isFirst else { return }
        if draftMaking.withLock({ $0 }) { await releaseDrafts() }
        await committer.close(OperationLogError(.closed, "the log was closed"))
        writer.close()
        hub.finish()
        await watcher.stop()
        await lanes.close()
        await upkeep.close()
    }

    func reading<Result: Sendable>(
        _ body: @escaping @Sendable (Connection) throws -> Result
    ) async throws -> Result {
        do {
            return try await lanes.run(body)
        } catch let error as PostgresError {
            guard !error.isConnectionLost else {
                throw OperationLogError(.unreachable, "PostgreSQL cannot be reached: \(error.message)")
            }
            throw error.state?.hasPrefix("XX") ?? false
                ? OperationLogError(.corrupt, error.description) : PostgresLogWriter.translated(error)
        }
    }

    /// Runs a change on a reading connection, in a transaction of its own, or on one of `others`. It is
    /// never repeated; after a lost connection its outcome is unknown (`LOG-0308`).
    func changing<Result: Sendable>(
        _ body: @escaping @Sendable (Connection) throws -> Result
    ) async throws -> Result {
        try await changing { try await lanes.run(isRepeatable: false, body) }
    }

    /// Runs interruptible work that nobody waits for, on the connection for long work.
    func keepingUp<Result: Sendable>(
        _ body: @escaping @Sendable (Connection) throws -> Result
    ) async throws -> Result {
        try await changing { try await upkeep.runWhileWanted(body) }
    }

    private func changing<Result>(run: () async throws -> Result) async throws -> Result {
        try committer.checkHealth()
        do {
            return try await run()
        } catch let error as PostgresError {
            throw error.state?.hasPrefix("XX") ?? false
                ? OperationLogError(.corrupt, error.description) : PostgresLogWriter.translated(error)
        }
    }
}

extension PostgresOperationLog {
    /// The format of a server's log, which stays as it is; nil for a server without one.
    /// - Throws: as `init`.
    public static func storedFormat(url: String) throws -> StoredFormat? {
        try opening(url) { try PostgresLogSchema.storedFormat(try Connection(url: url)) }
    }

    private static func opening<Result>(_ url: String, _ body: () throws -> Result) throws -> Result {
        do {
            return try body()
        } catch let error as PostgresError {
            guard error.isConnectionLost else {
                throw OperationLogError(.cannotOpen, "cannot prepare the schema mimeo_log: \(error)")
            }
            // Refusals of a server that answers, and URLs that libpq cannot parse, are permanent.
            guard Connection.mayComeBack(url) else {
                throw OperationLogError(.cannotOpen, "PostgreSQL refuses the connection: \(error.message)")
            }
            throw OperationLogError(.unreachable, "PostgreSQL cannot be reached: \(error.message)")
        }
    }
}
