import CRDT
import Dispatch
import GRDB
import Logging
import Machine
import Synchronization
import WriteAhead

/// The writer of the present opening, with its connections; a recovery replaces it.
final class LogOpening: Sendable {
    private let current: Mutex<LogWriter>

    init(_ writer: LogWriter) { current = Mutex(writer) }

    /// The present writer.
    var writer: LogWriter { current.withLock { $0 } }

    /// Replaces the writer, and returns the previous one.
    func replace(with next: LogWriter) -> LogWriter {
        current.withLock { current in
            defer { current = next }
            return current
        }
    }
}

/// Takes the log into use again after a commit that failed in an unknown way, without a restart.
///
/// After a failed sync the kernel shows pages that the disk may lack, and a later sync does not write them.
/// So an attempt trusts nothing that was not written again, and each step must succeed:
/// 1. the path still names the file that was opened, and the same write-ahead log is beside it;
/// 2. new connections are opened beside the old ones. The index of the write-ahead log lives on, so the
///    failed commit is invisible, as it never entered the index;
/// 3. a checkpoint writes everything visible into the file, syncs that, and truncates the write-ahead log;
/// 4. a commit of no content goes through with its sync. It begins the write-ahead log with new salts, after
///    which the frames of the failed commit can never count: those operations are not stored, for good;
/// 5. the last place that was acknowledged here is there; it was before the checkpoint too.
/// Then new connections and empty indexes replace the old ones, appends are accepted, and followers look.
/// Before, appends are refused (`LOG-0304`), and reads go on with the old connections. Damage (`LOG-0401`) is
/// never recovered from. Decision 0158.
///
/// `state` guards the plan; attempts run on `queue`, one at a time.
final class LogRecovery: Sendable {
    private struct State {
        var isPlanned = false
        var isStopped = false
        /// The first failure since the last recovery.
        var since: ContinuousClock.Instant?
        var pause: Duration
        /// The last recovery.
        var recovered: ContinuousClock.Instant?
        /// The reason of the last attempt that failed: each is logged once.
        var reason: String?
    }

    private struct Committer { weak var committer: GroupCommitter? }

    private let path: String
    private let options: SQLiteOperationLog.Options
    private let wakeFile: WakeFile
    private let opening: LogOpening
    private let hub: ChangeHub
    private let file: FileIdentity?
    private let writeAheadFile: FileIdentity?
    private var longestPause: Duration { options.recoveryPause * LogLimits.recoveryPauses }
    private var writeAheadPath: String { path + "-wal" }
    private let logger: Logger
    private let queue = DispatchQueue(label: "mimeo.operation-log.recovery")
    private let state: Mutex<State>
    private let committer = Mutex(Committer())

    init(
        path: String, options: SQLiteOperationLog.Options, wakeFile: WakeFile, opening: LogOpening,
        hub: ChangeHub, logger: Logger
    ) {
        (self.path, self.options, self.wakeFile) = (path, options, wakeFile)
        (self.opening, self.hub, self.logger) = (opening, hub, logger)
        file = FileIdentity(path)
        // It stays as long as connections are open, whatever is recovered.
        writeAheadFile = FileIdentity("\(path)-wal")
        state = Mutex(State(pause: options.recoveryPause))
    }

    /// Names the committer that accepts appends again after a recovery.
    func serve(_ committer: GroupCommitter) { self.committer.withLock { $0.committer = committer } }

    /// Plans a recovery from a failure. Damage has none.
    func begin(after failure: OperationLogError) {
        guard failure.code != .corrupt else { return }
        let isFirst = state.withLock { state in
            defer { state.since = state.since ?? .now }
            return state.since == nil
        }
        if isFirst {
            logger.error(
                "a commit of the operation log failed: appends are refused until the log has recovered",
                metadata: ["error": "\(failure)"])
        }
        plan()
    }

    /// Ends the attempts; one that runs is waited for.
    func stop() async {
        state.withLock { $0.isStopped = true }
        await PendingAnswer.of(queue) {}
    }

    private func plan() {
        let pause = state.withLock { state -> Duration? in
            guard !state.isPlanned, !state.isStopped else { return nil }
            state.isPlanned = true
            defer { state.pause = min(state.pause * 2, longestPause) }
            return state.pause
        }
        guard let pause else { return }
        queue.asyncAfter(deadline: .now() + .microseconds(Int(pause.microseconds))) { [weak self] in
            self?.attempt()
        }
    }

    private func attempt() {
        let isStopped = state.withLock { state in
            state.isPlanned = false
            return state.isStopped
        }
        guard !isStopped else { return }
        do {
            let (writer, heads) = try wakeFile.withOpeningLock(timeout: options.busyTimeout) { try open() }
            let since = state.withLock { state in
                // A log that fails again at once is given more and more time.
                let isCalm = state.recovered.map { .now - $0 > longestPause } ?? true
                defer {
                    (state.since, state.reason, state.recovered) = (nil, nil, .now)
                    if isCalm { state.pause = options.recoveryPause }
                }
                return state.since
            }
            let old = opening.replace(with: writer)
            committer.withLock { $0.committer }?.recover()
            for (database, head) in heads { hub.announce(database, head: head) }
            logger.notice(
                "the operation log has recovered: appends are accepted",
                metadata: ["seconds": "\(since.map { (ContinuousClock.now - $0) / .seconds(1) } ?? 0)"])
            options.onRecovery()
            // It waits for those who still read there.
            old.heads.close()
            old.pool.releaseMemory()
            try? old.pool.close()
        } catch let error as OperationLogError where error.code == .corrupt {
            logger.critical("the operation log is damaged", metadata: ["error": "\(error)"])
            committer.withLock { $0.committer }?.poison(error)
        } catch {
            let isNew = state.withLock { state in
                defer { state.reason = "\(error)" }
                return state.reason != "\(error)"
            }
            if isNew {
                logger.warning(
                    "the operation log cannot recover yet, retrying", metadata: ["error": "\(error)"])
            }
            plan()
        }
    }

    /// The steps of an attempt. The first that fails ends it, and leaves everything as it was.
    private func open() throws -> (LogWriter, [(DatabaseID, Offset)]) {
        guard let file, FileIdentity(path) == file, FileIdentity(writeAheadPath) == writeAheadFile else {
            throw OperationLogError(.unreachable, "the log's file was removed or replaced")
        }
        let durable = opening.writer.durable
        let configuration = logConfiguration(options)
        try LogSchema.check(path: path, configuration)
        let pool = try DatabasePool(path: path, configuration: configuration)
        do {
            let (writeAhead, heads) = try pool.writeWithoutTransaction { db in
                try setDurable(db)
                // Before the write-ahead log is emptied, and after.
                try LogReader.keep(durable, db)
                _ = try db.checkpoint(.truncate)
                try db.execute(sql: "PRAGMA user_version = \(LogSchema.currentVersion)")
                try LogReader.keep(durable, db)
                let mark = WriteAheadMark(path: path)
                mark?.note = durable
                return (
                    try WriteAheadLog(of: db, checkpointPages: LogLimits.checkpointPages, mark: mark),
                    try LogReader.heads(db)
                )
            }
            let writer = LogWriter(
                pool: pool, writeAhead: writeAhead, now: options.now, heads: KnownHeads(of: pool))
            writer.take(durable: durable)
            return (writer, heads)
        } catch {
            try? pool.close()
            throw error
        }
    }
}
