import CRDT
import Dispatch
import GRDB
import Glibc
import Logging
import Machine
import Synchronization
import WriteAhead

/// The operation log in one SQLite file, for one machine: several processes may have it open at once.
///
/// - Write-ahead logging with `synchronous = FULL`: a commit returns after its fsync.
/// - One writing connection per process, fed by `GroupCommitter`. Between processes SQLite's write lock
///   decides, taken at the start of the transaction (BEGIN IMMEDIATE), so that offsets follow commit order.
/// - Reads run on their own connections beside the writer and never wait for it.
/// - SQLite's `-wal` and `-shm` and our `-wake` (`WakeFile`) lie beside the log's file.
/// - After a commit that failed in an unknown way `LogRecovery` opens the file again.
///
/// All stored properties are constant; each part guards its own state. `closing` makes `close` idempotent.
public final class SQLiteOperationLog: OperationLog {
    /// Options of one log; the defaults suit a server.
    public struct Options: Sendable {
        /// How long a writer waits for another process's write lock before `LOG-0302`.
        public var busyTimeout = LogLimits.busyTimeout
        /// Operations admitted and not yet committed.
        public var queuedOperations = LogLimits.queuedOperations
        /// Bytes admitted and not yet committed.
        public var queuedBytes = LogLimits.queuedBytes
        /// Append calls that may wait for room.
        public var waitingAppends = LogLimits.waitingAppends
        /// Interval of polling for foreign appends whose hint was lost.
        public var pollInterval = LogLimits.pollInterval
        /// Pause before the first attempt to recover after a failed commit.
        public var recoveryPause = LogLimits.recoveryPause
        /// Called after each recovery.
        public var onRecovery: @Sendable () -> Void = {}
        /// Unix time in milliseconds: the clock of leases, which all processes of the machine share.
        public var now: @Sendable () -> Int64 = {
            Int64(clamping: SystemClock.milliseconds())
        }

        /// The defaults.
        public init() {}
    }

    private let opening: LogOpening
    private let recovery: LogRecovery
    private let committer: GroupCommitter
    private let hub: ChangeHub
    let wakeFile: WakeFile
    private let file: FileIdentity?
    private let watcher: ChangeWatcher
    private let closing = Mutex(false)
    /// Runs the changes in between the committer's groups, one after the other as the file takes them. They
    /// block, and Dispatch's global queue has the threads of all tasks.
    private let changes = DispatchQueue(label: "mimeo.operation-log.changes")
    /// The end that the log had and lacks since this opening.
    private let loss: LogLoss?

    /// Opens a log, creating or migrating the file if needed. The folder must exist. Blocks for some
    /// milliseconds, longer while another process opens or migrates the same file.
    /// - Throws: `OperationLogError`: `LOG-0201`, `LOG-0202`, `LOG-0203`, `LOG-0302`, `LOG-0401`.
    public init(
        path: String, options: Options = Options(),
        logger: Logger = Logger(label: "mimeo.operation-log")
    ) throws {
        let wakeFile = try WakeFile(logPath: path)
        let (pool, writeAhead, watching, loss) = try wakeFile.opening(timeout: options.busyTimeout) {
            // While others append, the log is not what a crash has left.
            try openConnections(path: path, isAlone: !wakeFile.hasOtherListeners, options: options)
        }
        self.loss = loss
        let hub = ChangeHub()
        let writer = LogWriter(
            pool: pool, writeAhead: writeAhead, now: options.now, heads: KnownHeads(of: pool))
        // The place that the log had when it was closed, unless it lacks that.
        if loss == nil, let mark = writeAhead.mark { writer.take(durable: mark.note) }
        let opening = LogOpening(writer)
        let recovery = LogRecovery(
            path: path, options: options, wakeFile: wakeFile, opening: opening, hub: hub, logger: logger)
        let gate = AdmissionGate(
            limit: AdmissionGate.Cost(operations: options.queuedOperations, bytes: options.queuedBytes),
            waiterLimit: options.waitingAppends)
        committer = GroupCommitter(gate: gate, onPoison: { recovery.begin(after: $0) }) { calls in
            GroupCommitter.Commit {
                let (outcome, grown, note) = opening.writer.commit(calls)
                // First, because a follower has more work after a commit than an answered caller.
                for head in grown {
                    hub.announce(
                        head.database, head: head.position.offset, entries: head.entries)
                }
                return (
                    outcome,
                    {
                        note()
                        if !grown.isEmpty { wakeFile.ringSoon() }
                    }
                )
            }
        }
        watcher = ChangeWatcher(
            wakeFile: wakeFile, connection: watching, hub: hub, pollInterval: options.pollInterval,
            logger: logger)
        self.wakeFile = wakeFile
        file = FileIdentity(path)
        self.opening = opening
        self.recovery = recovery
        self.hub = hub
        recovery.serve(committer)
    }

    /// The connections of the present opening.
    var pool: DatabasePool { opening.writer.pool }

    /// One insert; a fresh log id is drawn for it.
    @discardableResult
    public func createDatabase(_ database: DatabaseID) async throws -> Bool {
        guard database.isValidInLog else {
            throw OperationLogError(.invalidDatabaseID, "no database can have the id \"\(database)\"")
        }
        return try await writing { writer throws(LogWriter.Failure) in try writer.createDatabase(database) }
    }

    /// In order of creation.
    public func databases() async throws -> [DatabaseID] {
        try await reading { db in
            try String.fetchAll(
                db.cachedStatement(sql: "SELECT id FROM databases WHERE instr(id, ':') = 0 ORDER BY number")
            )
            .map { DatabaseID($0) }
        }
    }

    /// One lookup.
    public func databaseExists(_ database: DatabaseID) async throws -> Bool {
        guard database.isValidInLog else { return false }
        return try await reading { db in
            let sql = "SELECT EXISTS (SELECT 1 FROM databases WHERE id = ?)"
            return try Bool.fetchOne(db.cachedStatement(sql: sql), arguments: [database.text]) ?? false
        }
    }

    /// Joins the next group; returns after its fsync.
    public func append(_ requests: [AppendRequest], to database: DatabaseID) async throws -> [AppendOutcome] {
        try await committer.append(AppendCall(requests, database: database))
    }

    /// Commits on this thread, or joins the next group while another one is under way.
    public func appendBlocking(
        _ requests: [AppendRequest], to database: DatabaseID
    ) throws -> [AppendOutcome] {
        try committer.appendBlocking(AppendCall(requests, database: database))
    }

    /// One lookup per actor, and a scan of the unflushed operations if another process appended last.
    public func frontier(of actors: [ActorID], in database: DatabaseID) async throws -> [ActorID:
        FrontierEntry]
    {
        let frontiers = opening.writer.frontiers
        return try await reading { try LogReader.frontier($0, database: database, actors: actors, frontiers) }
    }

    /// Two lookups, which must agree, unless nothing was committed since the last ones.
    public func head(of database: DatabaseID) async throws -> LogPosition {
        if let known = headNow(of: database) { return known }
        let heads = heads
        let state = heads.state
        let head = try await reading { try LogReader.head($0, database: database).position }
        heads.remember(head, of: database, since: state)
        return head
    }

    /// A lock and a look at shared memory.
    public func headNow(of database: DatabaseID) -> LogPosition? { heads[database] }

    /// The heads that the present opening knows.
    var heads: KnownHeads { opening.writer.heads }

    /// Reads and verifies the entry at that offset.
    public func position(at offset: Offset, in database: DatabaseID) async throws -> LogPosition? {
        try await reading { try LogReader.position($0, database: database, at: offset) }
    }

    /// One range scan on a connection of its own.
    public func read(
        _ database: DatabaseID, after offset: Offset, limit: ReadLimit
    ) async throws -> [LogEntry] {
        try await reading { try LogReader.entries($0, database: database, after: offset, limit: limit) }
    }

    /// Wake-ups come directly from this process's writer, from other processes through `WakeFile`, at the
    /// latest after `pollInterval`.
    public func changes(in database: DatabaseID) -> AsyncStream<LogChange> { hub.subscribe(to: database) }

    /// One term for the whole life of the log.
    public var term: UInt64 { 0 }

    /// Two uncontended locks.
    public var status: LogStatus {
        var status = committer.status
        status.loss = loss
        return status
    }

    /// One look at the file's folder. A file that was removed or replaced stays open here, and anything
    /// written to it is gone with this process.
    public func requireStorage() async throws {
        guard let file, FileIdentity(file.path) == file else {
            throw OperationLogError(.unreachable, "the log's file was removed or replaced")
        }
    }

    /// Waits for the group in progress, then releases connections, descriptors and streams.
    public func close() async {
        let isFirst = closing.withLock { isClosing in
            defer { isClosing = true }
            return !isClosing
        }
        guard isFirst else { return }
        await committer.close(OperationLogError(.closed, "the log was closed"))
        wakeFile.ringIfDue()
        hub.finish()
        await watcher.stop()
        await recovery.stop()
        // GRDB closes the writer before the readers, but only a writer that closes last checkpoints the
        // write-ahead log into the file.
        let writer = opening.writer
        writer.heads.close()
        writer.pool.releaseMemory()
        // It only fails for a statement still in use, and `pool` waits for those; `deinit` releases the rest.
        try? writer.pool.close()
        // Whoever closes last removes the write-ahead log. While it is there, its frames count.
        if let file, FileIdentity("\(file.path)-wal") == nil { writer.writeAhead.mark?.settle() }
        wakeFile.leave()
    }

    /// Runs a change in between the committer's groups.
    func writing<Result: Sendable>(
        _ body: @escaping @Sendable (LogWriter) throws(LogWriter.Failure) -> Result
    ) async throws -> Result {
        try committer.checkHealth()
        let outcome = await PendingAnswer.of(changes) { [opening] in
            Swift.Result { () throws(LogWriter.Failure) in try body(opening.writer) }
        }
        // A writer that was poisoned before has been reported, and may have been replaced since.
        if case .failure(let failure) = outcome, failure.isPoisonous, failure.error.code != .poisoned {
            committer.poison(failure.error)
        }
        return try outcome.mapError(\.error).get()
    }

    func reading<Result: Sendable>(
        _ body: @escaping @Sendable (Database) throws -> Result
    ) async throws -> Result {
        let isClosed = closing.withLock { $0 }
        guard !isClosed else { throw OperationLogError(.closed, "the log was closed") }
        let pool = pool
        do {
            return try await pool.read(body)
        } catch let error as DatabaseError {
            // A recovery has closed these connections meanwhile.
            if pool !== self.pool { return try await reading(body) }
            let code: OperationLogErrorCode = isDamage(error) ? .corrupt : .storageFailed
            throw OperationLogError(code, describe(error))
        }
    }
}

/// A file at a path, told from another one that takes its place.
struct FileIdentity: Equatable {
    let path: String
    private let device: UInt
    private let node: UInt

    /// Nil if there is no file.
    init?(_ path: String) {
        var found = stat()
        guard stat(path, &found) == 0 else { return nil }
        (self.path, device, node) = (path, UInt(found.st_dev), UInt(found.st_ino))
    }
}

/// The pool for reading and appending, and the watcher's own connection. Runs under the opening lock.
func openConnections(
    path: String, isAlone: Bool = true, options: SQLiteOperationLog.Options
) throws -> (DatabasePool, WriteAheadLog, watching: DatabaseQueue, loss: LogLoss?) {
    if isAlone, let loss = WriteAheadMark.loss(of: path, isSynced: true) {
        let remedy = "restore it from a backup, or remove \(path)-mark to go on with what is left"
        throw OperationLogError(.corrupt, "\(path) has lost commits that were durable: \(loss); \(remedy)")
    }
    let before = isAlone ? WriteAheadMark.content(of: path) : nil
    if isAlone { WriteAheadMark.adopt(path) }
    do {
        var configuration = logConfiguration(options)
        try LogSchema.check(path: path, configuration)
        let pool = try DatabasePool(path: path, configuration: configuration)
        let (writeAhead, loss) = try pool.writeWithoutTransaction { db in
            try setDurable(db)
            try WriteAheadLog.checkpoint(db, isShared: true)
            try LogSchema.migrate(db, path: path)
            try LogLeases.arrive(db, path: path)
            let loss = try before.flatMap { try LogReader.loss(db, since: $0.note) }
            let mark = WriteAheadMark(path: path)
            if let before { mark?.note = before.note }
            return (
                try WriteAheadLog(of: db, checkpointPages: LogLimits.checkpointPages, mark: mark), loss
            )
        }
        configuration.readonly = true
        return (pool, writeAhead, try DatabaseQueue(path: path, configuration: configuration), loss)
    } catch let error as DatabaseError {
        switch error.resultCode {
        case .SQLITE_NOTADB:
            throw OperationLogError(.notAnOperationLog, "\(path) is not a SQLite database")
        case .SQLITE_CORRUPT:
            throw OperationLogError(.corrupt, "\(path) is damaged: \(describe(error))")
        case .SQLITE_BUSY:
            throw OperationLogError(.busy, "another process holds the write lock of \(path)")
        default:
            throw OperationLogError(.cannotOpen, "cannot open \(path): \(error.message ?? "no detail")")
        }
    }
}

/// The configuration of every connection to a log's file.
func logConfiguration(_ options: SQLiteOperationLog.Options) -> Configuration {
    let attempts = options.busyTimeout.microseconds / LogLimits.busyRetry.microseconds
    var configuration = Configuration()
    configuration.label = "mimeo.operation-log"
    configuration.maximumReaderCount = LogLimits.readConnections
    configuration.busyMode = .callback { attempt in
        guard attempt < attempts else { return false }
        usleep(useconds_t(LogLimits.busyRetry.microseconds))
        return true
    }
    PageSums.add(to: &configuration)
    return configuration
}

/// Prepares the writing connection.
func setDurable(_ db: Database) throws {
    // GRDB leaves a WAL database at NORMAL, which loses acknowledged commits when the power fails.
    try db.execute(sql: "PRAGMA synchronous = FULL")
    // Truncated and erased entries are gone from the file, and not only from its tables.
    try db.execute(sql: "PRAGMA secure_delete = ON")
}

extension SQLiteOperationLog {
    /// The format of a file, which stays as it is; nil for a missing or empty one.
    /// - Throws: `LOG-0201` for one that the system does not let us read, `LOG-0202`, `LOG-0203` for a
    ///   foreign or newer one, `LOG-0401` for a damaged one.
    public static func storedFormat(path: String) throws -> StoredFormat? {
        let version = try LogSchema.storedVersion(path: path)
        guard version > 0 else { return nil }
        return StoredFormat(
            stored: Int(version), oldest: Int(LogSchema.oldestVersion),
            current: Int(LogSchema.currentVersion))
    }
}
