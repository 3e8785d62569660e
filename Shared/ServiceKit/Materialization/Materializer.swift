import CRDT
import Exchange
import Foundation
import Logging
import Machine
import OperationLog
import Replica
import Synchronization
import Tracing

/// Folds one database's log into a replica and follows the log. Replicator and query-service share this.
///
/// The replica is disposable. It stores the folded position in the same transaction as the data. If the log
/// lacks that position (a restored log, a file from elsewhere), or the file is damaged, the replica is
/// deleted and rebuilt: from the log's snapshot, if there is one, and the operations after it. Any read or
/// fold that meets damage, whoever made it, ends this materializer (`hasLostHistory`); its owner opens the
/// next one, which rebuilds. `DamageLedger` notes each.
///
/// Actor isolation guards all variables; folds and writes run one after the other on `executor`. At most one
/// fold runs and one more is queued, however many callers wait for it.
public actor Materializer {
    /// The database.
    public nonisolated let database: DatabaseID
    /// The documents, as of the position in the same snapshot.
    public nonisolated let replica: Materialization
    /// Runs calls that block for the disk; concurrent, since readers do not wait for writers.
    public nonisolated let executor: BlockingExecutor

    private struct Queued {
        let task: Task<Void, any Error>
        /// Entries that a wake-up brought, folded without reading the log; nil if the log must be read.
        var brought: [LogEntry]?
    }

    let log: any OperationLog
    private nonisolated let folder: String
    private let logger: Logger
    /// The listeners, by number: each is told of every fold after it has joined.
    private var listeners: [(id: UInt64, onFold: @Sendable ([FoldedOperation]) async -> Void)]
    private var lastListener: UInt64 = 0
    /// The latest fold or write: running, queued or done.
    var folding: Task<Void, any Error>?
    /// The fold that has not begun yet.
    private var queued: Queued?
    /// Whatever tasks wait for: the offset up to which all listeners were told, and the end.
    private struct Reach: Sendable {
        var offset: Offset
        var isClosed = false

        func answer(_ wanted: Offset) -> Bool? {
            if offset >= wanted { return true }
            return isClosed ? false : nil
        }
    }
    private nonisolated let reached: Monitor<Reach>
    nonisolated let throttle = FoldThrottle()
    /// See `write`.
    var own = OwnPositions()
    private(set) var isClosed = false
    /// Position in the log of the last folded operation.
    public private(set) var position: LogPosition {
        didSet { published.withLock { $0 = position } }
    }
    private nonisolated let published: Mutex<LogPosition>
    /// The same, told without waiting: whatever is folded up to it can be read.
    public nonisolated var positionNow: LogPosition { published.withLock { $0 } }
    /// Error of the last fold; nil if it succeeded.
    public internal(set) var failure: String?
    private var isHistoryLost = false {
        // Whoever has found it, a fold or a look at the log's head: following ends.
        didSet { if isHistoryLost { damage.end() } }
    }
    private nonisolated let damage: ReplicaDamage
    /// True if this replica is unusable: the log lacks the folded history or the next operation (it was reset
    /// to an earlier state, or truncated while this fold lagged), or the replica is damaged or discarded.
    /// Nothing may be decided by it any more; its owner opens another one, which begins with the log's
    /// snapshot.
    public var hasLostHistory: Bool { isHistoryLost || damage.isThere }

    /// Opens or rebuilds the replica in `folder`. `onFold` gets every operation once per process, in log
    /// order. Simulations pass their own `environment` and `executor`.
    /// - Throws: `SRV-0501` for a folder that is damaged again and again.
    public static func open(
        _ database: DatabaseID, log: any OperationLog, folder: String, logger: Logger,
        environment: Environment = .system,
        executor: BlockingExecutor = BlockingExecutor(label: "mimeo.materializer", isSerial: false),
        onFold: @escaping @Sendable ([FoldedOperation]) async -> Void = { _ in }
    ) async throws -> Materializer {
        try await open(
            database, log: log, folder: folder, logger: logger, environment: environment, executor: executor,
            beforeRebuild: { _ in }, onFold: onFold)
    }

    /// As above; `beforeRebuild` may read the old replica when the log was put back and lacks its history.
    static func open(
        _ database: DatabaseID, log: any OperationLog, folder: String, logger: Logger,
        environment: Environment = .system,
        executor: BlockingExecutor = BlockingExecutor(label: "mimeo.materializer", isSerial: false),
        beforeRebuild: @escaping @Sendable (Materialization) -> Void,
        onFold: @escaping @Sendable ([FoldedOperation]) async -> Void
    ) async throws -> Materializer {
        guard let start = try await log.position(at: 0, in: database) else {
            throw OperationLogError(.corrupt, "the log has no position 0; restore it from a backup")
        }
        let (replica, checkpoint, folder) = try await executor.run {
            try openFreeReplica(beside: folder, environment, logger)
        }
        if let checkpoint, try await isUsable(checkpoint, log, database) {
            return Materializer(database, log, replica, folder, checkpoint, executor, logger, onFold)
        }
        let renew: @Sendable (Materialization) throws -> Materialization = { old in
            // Deleted while the directory is still locked: nobody can open files that are being deleted.
            try Materialization.discard(directory: folder)
            try old.close()
            return try openReplica(folder, environment, logger).0
        }
        var fresh = replica
        if try await executor.run({ try checkpoint != nil || replica.isHalfLoaded() }) {
            logger.warning(
                "the log lacks the history of the materialization, which is rebuilt",
                metadata: ["database": "\(database)"])
            if let checkpoint, try await wasPutBack(checkpoint, log, database) {
                try await executor.run { beforeRebuild(replica) }
            }
            fresh = try await executor.run { try renew(replica) }
        }
        let (loaded, position) = try await loadSnapshot(
            into: fresh, log, database, executor, logger, renew: renew)
        return Materializer(database, log, loaded, folder, position ?? start, executor, logger, onFold)
    }

    /// Returns whether the log has this position and everything after it.
    private static func isUsable(
        _ checkpoint: LogPosition, _ log: any OperationLog, _ database: DatabaseID
    ) async throws -> Bool {
        guard try await log.position(at: checkpoint.offset, in: database) == checkpoint else { return false }
        return try await log.truncation(of: database).offset <= checkpoint.offset
    }

    /// Returns whether the log had this position and lost it. A log that was truncated beyond the position
    /// has lost nothing.
    private static func wasPutBack(
        _ checkpoint: LogPosition, _ log: any OperationLog, _ database: DatabaseID
    ) async throws -> Bool {
        let head = try await log.head(of: database)
        if head.logID != checkpoint.logID || head.offset < checkpoint.offset { return true }
        let found = try await log.position(at: checkpoint.offset, in: database)
        return found != nil && found != checkpoint
    }

    /// Opens `folder`, or the first free folder beside it while another instance of the same service has
    /// `folder` open: instances share the log, not their materializations.
    private static func openFreeReplica(
        beside folder: String, _ environment: Environment, _ logger: Logger
    ) throws -> (Materialization, LogPosition?, folder: String) {
        for instance in 1..<Limits.instancesOnOneFolder {
            let candidate = instance == 1 ? folder : "\(folder).\(instance)"
            do {
                let (replica, checkpoint) = try openReplica(candidate, environment, logger)
                return (replica, checkpoint, candidate)
            } catch let error as ReplicaError where error.code == .directoryLocked {
                continue
            }
        }
        let last = "\(folder).\(Limits.instancesOnOneFolder)"
        let (replica, checkpoint) = try openReplica(last, environment, logger)
        return (replica, checkpoint, last)
    }

    /// Removes the materializations of other instances of the service that do not run.
    private static func removeUnused(_ database: DatabaseID, beside folder: String) {
        let parent = URL(fileURLWithPath: folder).deletingLastPathComponent().path
        for other in DatabaseFolders.of(database, in: parent)
        where URL(fileURLWithPath: other).path != URL(fileURLWithPath: folder).path {
            removeUnused(other)
        }
    }

    private static func openReplica(
        _ folder: String, _ environment: Environment, _ logger: Logger
    ) throws -> (Materialization, LogPosition?) {
        func attempt() throws -> (Materialization, LogPosition?) {
            let replica = try Materialization(
                directory: folder, environment: environment, logger: logger)
            return (replica, try replica.checkpoint())
        }
        try DamageLedger.shared.admitRebuild(of: folder)
        do {
            return try attempt()
        } catch let error as ReplicaError where error.code == .damaged {
            DamageLedger.shared.note(folder, reason: "\(error)", logger: logger)
            try Materialization.discard(directory: folder)
            return try attempt()
        }
    }

    private init(
        _ database: DatabaseID, _ log: any OperationLog, _ replica: Materialization, _ folder: String,
        _ position: LogPosition, _ executor: BlockingExecutor, _ logger: Logger,
        _ onFold: @escaping @Sendable ([FoldedOperation]) async -> Void
    ) {
        self.database = database
        self.log = log
        self.replica = replica
        self.folder = folder
        self.position = position
        published = Mutex(position)
        reached = Monitor(Reach(offset: position.offset))
        self.executor = executor
        self.logger = logger
        listeners = [(0, onFold)]
        let damage = ReplicaDamage()
        self.damage = damage
        let folder = replica.directory
        replica.whenDamaged { reason in
            if damage.note() { DamageLedger.shared.note(folder, reason: reason, logger: logger) }
        }
    }

    /// Tells a listener of every operation folded from now on, in log order; the next fold waits until all
    /// listeners have taken one. `beginning` is told the position that they follow, before the first.
    /// - Returns: a number for `leave`.
    func join(
        beginning: @Sendable (LogPosition) -> Void,
        onFold: @escaping @Sendable ([FoldedOperation]) async -> Void
    ) -> UInt64 {
        beginning(position)
        lastListener += 1
        listeners.append((lastListener, onFold))
        return lastListener
    }

    /// Tells a listener nothing any more, but of the fold that is being told.
    func leave(_ listener: UInt64) { listeners.removeAll { $0.id == listener } }

    /// Follows the log until the task is cancelled or the log closes. A failed fold is retried with growing
    /// pauses, since no wake-up comes for operations that are in the log already. Returns as soon as
    /// `hasLostHistory` is true: no retry cures that.
    public func run() async {
        await withDiscardingTaskGroup { group in
            group.addTask {
                await self.follow()
                self.damage.end()
            }
            // A read that meets damage ends the following, whether or not the log grows.
            for await _ in damage.absence {}
            group.cancelAll()
        }
    }

    private func follow() async {
        for await change in log.changes(in: database) {
            var pause = Limits.foldRetry
            var brought: [LogEntry]? = change.entries
            while !Task.isCancelled, !isClosed {
                do {
                    try await begin(brought).value
                    break
                } catch let error as OperationLogError where error.code == .closed {
                    return
                } catch {
                    if hasLostHistory { return }
                    brought = nil
                    try? await Task.sleep(for: pause)
                    pause = min(pause * 2, Limits.foldRetryLongest)
                }
            }
        }
    }

    /// Folds up to the log's present head. Throws `ReplicaError.closed` after `close`.
    public func advance() async throws {
        throttle.beginWait()
        defer { throttle.endWait() }
        try await begin().value
    }

    /// Folds until the position reaches an offset that the log has, and returns then, without waiting for
    /// operations after it. Throws as `advance`.
    public func advance(through offset: Offset) async throws {
        guard position.offset < offset else { return }
        throttle.beginWait()
        defer { throttle.endWait() }
        let fold = begin()
        let wait = Task { [reached] in await reached.take(within: nil) { $0.answer(offset) } ?? false }
        Task {
            _ = try? await fold.value
            wait.cancel()
        }
        if await !wait.value { try await fold.value }
    }

    /// Folds through an offset, and rewrites the files without the free pages in which removed content may
    /// stand. Folders beside this one that no instance has open are removed.
    public func compact(through offset: Offset) async throws {
        try await advance(through: offset)
        let (replica, database, folder) = (replica, database, folder)
        try await executor.run {
            try replica.compact()
            Self.removeUnused(database, beside: folder)
        }
    }

    /// Returns whether the log has the folded history. No entry read from the log before this call is folded
    /// after it. Entries that a wake-up brought may be: they come from a log whose storage only its own
    /// process writes.
    public func isHistoryOfLog() async throws -> Bool {
        throttle.beginWait()
        defer { throttle.endWait() }
        _ = try? await folding?.value
        let position = position
        return try await log.position(at: position.offset, in: database) == position
    }

    /// Stops background folding until `endYield`, so that the caller's work comes first. Only folds that
    /// somebody waits for run meanwhile. The caller must bound its work.
    public nonisolated func prioritizeAppends() { throttle.prioritizeAppends() }

    /// Ends one `prioritizeAppends`.
    public nonisolated func endYield() { throttle.endYield() }

    /// A fold up to the log's present head: the queued one, or a new one. A new fold with `brought` folds
    /// only those entries, if they follow the position and nobody else joins the fold.
    private func begin(_ brought: [LogEntry]? = nil) -> Task<Void, any Error> {
        if let queued {
            self.queued?.brought = nil
            return queued.task
        }
        let previous = folding
        let task = Task {
            _ = try? await previous?.value
            // The head is read from here on: a later caller needs another fold.
            let brought = self.queued?.brought
            self.queued = nil
            try await self.fold(brought ?? [])
        }
        queued = Queued(task: task, brought: brought)
        folding = task
        return task
    }

    /// Waits until the position has reached `offset`; returns false after `timeout`, or when the materializer
    /// closes.
    public func wait(for offset: Offset, timeout: Duration) async -> Bool {
        if position.offset >= offset { return true }
        guard !isClosed else { return false }
        throttle.beginWait()
        defer { throttle.endWait() }
        return await reached.take(within: timeout) { $0.answer(offset) } ?? false
    }

    /// Releases every waiter and closes the replica.
    /// - Parameter discards: true to delete its files, so that the next opening begins from the log.
    public func close(discards: Bool = false) async {
        isClosed = true
        if discards { isHistoryLost = true }
        throttle.beginWait()
        _ = try? await folding?.value
        reached.change { $0.isClosed = true }
        let (replica, folder, mustGo) = (replica, folder, discards || damage.isThere)
        try? await executor.run {
            // Deleted while the directory is still locked: nobody can open files that are being deleted, and
            // the next opening finds nothing and rebuilds.
            if mustGo { try Materialization.discard(directory: folder) }
            try replica.close()
        }
    }

    private func fold(_ brought: [LogEntry]) async throws {
        do {
            if try await foldBrought(brought) {
                failure = nil
                return
            }
            // Up to the present head only: else this would not end while the log grows faster than the fold.
            let head = try await log.head(of: database)
            guard head.offset > position.offset || head == position else { throw loseHistory() }
            let target = head.offset
            while position.offset < target, !isClosed {
                await throttle.waitForYields()
                guard !isClosed, try await foldNext() else { break }
            }
            // Without the error a caller would take an old state for that of the head.
            if isClosed, position.offset < target {
                throw ReplicaError(.closed, "the materialization was closed")
            }
            failure = nil
        } catch {
            if let error = error as? OperationLogError, error.code == .truncated {
                // The log was truncated before this process read it. The next fold begins with the snapshot.
                isHistoryLost = true
            }
            let reason = "\(error)"
            if failure != reason, !isClosed {
                logger.error(
                    "the log cannot be folded", metadata: ["database": "\(database)", "error": "\(reason)"])
            }
            failure = reason
            throw error
        }
    }

    /// Records that the log was restored, or its server failed over to one that lacks commits, while this
    /// process ran.
    private func loseHistory() -> OperationLogError {
        isHistoryLost = true
        return OperationLogError(
            .corrupt, "the log lacks the history that is folded here: it was reset to an earlier state",
            database: database, offset: position.offset)
    }

    /// Folds entries that a wake-up brought, which saves a read of the log, unless a write has folded them.
    /// Returns false if they do not follow the position, and the log must be read.
    private func foldBrought(_ entries: [LogEntry]) async throws -> Bool {
        if own.endAt(entries) { return true }
        guard let first = entries.first, follows(first) else { return false }
        await throttle.waitForYields()
        guard !isClosed else { return false }
        try await fold(entries: entries)
        return true
    }

    /// Folds the entries of one read; returns false at the head.
    private func foldNext() async throws -> Bool {
        let entries = try await log.read(database, after: position.offset)
        guard let first = entries.first else { return false }
        // The log verifies its own chain; this checks that it is still the chain folded here.
        guard follows(first) else { throw loseHistory() }
        try await fold(entries: entries)
        return true
    }

    /// Returns whether an entry is the next one of the history folded here.
    private func follows(_ entry: LogEntry) -> Bool {
        let digest = ChainHash.digest(
            actor: entry.actor, sequence: entry.sequence, timestamp: entry.timestamp,
            contentHash: ChainHash.content(entry.bytes))
        return entry.offset == position.offset.next
            && entry.hash == ChainHash.next(after: position.hash, digest: digest)
    }

    /// Folds entries that follow the position.
    private func fold(entries: [LogEntry]) async throws {
        let logID = position.logID
        let items = entries.map {
            Materialization.LogItem(
                position: LogPosition(logID: logID, offset: $0.offset, hash: $0.hash), bytes: $0.bytes)
        }
        var rest = items[...]
        while !rest.isEmpty {
            let (replica, part) = (replica, Array(rest))
            let folded = try await withSpan("fold") { span in
                span.attributes["mimeo.database"] = database.text
                span.attributes["mimeo.operations"] = Int64(part.count)
                return try await executor.run { try replica.fold(part) }
            }
            precondition(!folded.isEmpty, "a fold of entries folds one at least")
            rest = rest.dropFirst(folded.count)
            await tell(folded)
        }
    }

    /// Moves the position behind folded operations, and tells everybody of them.
    func tell(_ folded: [FoldedOperation]) async {
        guard let last = folded.last else { return }
        // A listener that joins from here on begins after these.
        let listeners = listeners
        position = last.position
        for listener in listeners { await listener.onFold(folded) }
        reached.change { $0.offset = last.position.offset }
    }
}
