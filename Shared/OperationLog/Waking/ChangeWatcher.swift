import Dispatch
import GRDB
import Glibc
import Logging

/// Sees the commits of other processes and announces them to the hub.
///
/// The hint is inotify on the wake file, the truth a look at the log's heads: after every hint, and once per
/// `pollInterval` in case a hint was lost. A look first reads `PRAGMA data_version`, some microseconds from
/// shared memory, and goes on only if somebody committed. Without subscribers there are no looks at all.
///
/// All variables belong to `queue`. Descriptors are closed by the cancel handlers of their sources, as
/// Dispatch asks.
final class ChangeWatcher: @unchecked Sendable {
    // Unchecked: every mutable property is touched on the serial `queue` only, or before the object is
    // shared.
    private let hub: ChangeHub
    private let logger: Logger
    private let queue = DispatchQueue(label: "mimeo.operation-log.watch")
    private let connection: DatabaseQueue
    private let timer: any DispatchSourceTimer
    private let bell: any DispatchSourceRead
    private let cancelled = DispatchGroup()
    private var lastLook = ContinuousClock.now
    private var isLookPlanned = false
    private var lastVersion: Int64?
    private var isFailing = false
    private var isStopped = false

    /// Starts watching. The connection is the watcher's own: a data version counts the commits of all others.
    init(
        wakeFile: WakeFile, connection: DatabaseQueue, hub: ChangeHub, pollInterval: Duration, logger: Logger
    ) throws(OperationLogError) {
        self.hub = hub
        self.logger = logger
        self.connection = connection
        let descriptor = inotify_init1(Int32(IN_NONBLOCK) | Int32(IN_CLOEXEC))
        guard descriptor >= 0 else {
            throw OperationLogError(.cannotOpen, "no inotify instance is left: \(systemMessage(errno))")
        }
        guard inotify_add_watch(descriptor, wakeFile.path, UInt32(IN_MODIFY)) >= 0 else {
            let reason = systemMessage(errno)
            Glibc.close(descriptor)
            throw OperationLogError(.cannotOpen, "cannot watch \(wakeFile.path): \(reason)")
        }
        bell = DispatchSource.makeReadSource(fileDescriptor: descriptor, queue: queue)
        timer = DispatchSource.makeTimerSource(queue: queue)
        start(descriptor, pollInterval: pollInterval)
    }

    deinit {
        bell.cancel()
        timer.cancel()
    }

    /// Stops looking, and returns when the descriptors are closed.
    func stop() async {
        await withCheckedContinuation { continuation in
            queue.async {
                self.isStopped = true
                self.bell.cancel()
                self.timer.cancel()
                self.cancelled.notify(queue: self.queue) {
                    // It only fails for a connection in use, and the queue has nothing else to run on it.
                    try? self.connection.close()
                    continuation.resume()
                }
            }
        }
    }

    private func start(_ descriptor: Int32, pollInterval: Duration) {
        bell.setEventHandler { [weak self] in
            drain(descriptor)
            self?.planLook()
        }
        timer.setEventHandler { [weak self] in self?.look() }
        cancelled.enter()
        bell.setCancelHandler { [cancelled] in
            Glibc.close(descriptor)
            cancelled.leave()
        }
        cancelled.enter()
        timer.setCancelHandler { [cancelled] in cancelled.leave() }
        let interval = DispatchTimeInterval.microseconds(Int(pollInterval.microseconds))
        // A tenth of leeway lets the kernel join this with other timers.
        let leeway = DispatchTimeInterval.microseconds(Int(pollInterval.microseconds / 10))
        timer.schedule(deadline: .now() + interval, repeating: interval, leeway: leeway)
        bell.activate()
        timer.activate()
    }

    /// Looks now, or as soon as the spacing allows.
    private func planLook() {
        guard !isLookPlanned else { return }
        let wait = LogLimits.watchSpacing - (ContinuousClock.now - lastLook)
        guard wait > .zero else { return look() }
        isLookPlanned = true
        queue.asyncAfter(deadline: .now() + .microseconds(Int(wait.microseconds) + 1)) { [weak self] in
            self?.isLookPlanned = false
            self?.look()
        }
    }

    private func look() {
        guard !isStopped, !hub.isEmpty else { return }
        lastLook = ContinuousClock.now
        do {
            let heads = try connection.unsafeRead { db -> [(String, UInt64)] in
                let version = try Int64.fetchOne(db.cachedStatement(sql: "PRAGMA data_version"))
                guard version != lastVersion else { return [] }
                lastVersion = version
                return try LogReader.heads(db)
            }
            for (database, head) in heads { hub.announce(database, head: head) }
            isFailing = false
        } catch {
            if !isFailing { logger.warning("looking for appends of other processes failed: \(error)") }
            isFailing = true
            lastVersion = nil
        }
    }
}

/// Empties an inotify descriptor. What it says is known: there is one watch, for one event.
private func drain(_ descriptor: Int32) {
    var buffer = [UInt8](repeating: 0, count: 4_096)
    while read(descriptor, &buffer, buffer.count) > 0 {}
}
