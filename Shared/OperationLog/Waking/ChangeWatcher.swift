import CRDT
import Dispatch
import GRDB
import Glibc
import Logging
import Machine

/// Sees the commits of other processes and announces them to the hub.
///
/// inotify on the wake file is the hint; a look at the log's heads is the truth. The watcher looks after
/// every hint, and once per `pollInterval` in case a hint was lost; without a free inotify instance it only
/// polls, more often. A look first reads `PRAGMA data_version`, some microseconds from shared memory, and
/// stops there if nobody committed. Without subscribers it does not look at all.
///
/// All variables belong to `queue`. The cancel handlers of the sources close their descriptors, as Dispatch
/// asks.
final class ChangeWatcher: @unchecked Sendable {
    // Unchecked: every mutable property is touched only on the serial `queue`, or before the object is
    // shared.
    private let hub: ChangeHub
    private let logger: Logger
    private let queue = DispatchQueue(label: "mimeo.operation-log.watch")
    private let connection: DatabaseQueue
    private let timer: any DispatchSourceTimer
    private let bell: (any DispatchSourceRead)?
    private let cancelled = DispatchGroup()
    private var lastLook = ContinuousClock.now
    private var isLookPlanned = false
    private var lastVersion: Int64?
    private var isFailing = false
    private var isStopped = false

    /// Starts watching. The connection is the watcher's own: a data version counts the commits of all others.
    init(
        wakeFile: WakeFile, connection: DatabaseQueue, hub: ChangeHub, pollInterval: Duration, logger: Logger
    ) {
        self.hub = hub
        self.logger = logger
        self.connection = connection
        timer = DispatchSource.makeTimerSource(queue: queue)
        guard let descriptor = Self.watch(wakeFile.path) else {
            logger.warning("no inotify instance is left for \(wakeFile.path): polling instead")
            bell = nil
            start(pollInterval: min(pollInterval, LogLimits.pollIntervalWithoutHints))
            return
        }
        let bell = DispatchSource.makeReadSource(fileDescriptor: descriptor, queue: queue)
        self.bell = bell
        start(bell, descriptor)
        start(pollInterval: pollInterval)
    }

    /// An inotify descriptor that watches a file; nil when the system has none left.
    private static func watch(_ path: String) -> Int32? {
        let descriptor = inotify_init1(Int32(IN_NONBLOCK) | Int32(IN_CLOEXEC))
        guard descriptor >= 0 else { return nil }
        if inotify_add_watch(descriptor, path, UInt32(IN_MODIFY)) >= 0 { return descriptor }
        Glibc.close(descriptor)
        return nil
    }

    deinit {
        bell?.cancel()
        timer.cancel()
    }

    /// Stops watching, and returns when the descriptors are closed.
    func stop() async {
        let stopped = PendingAnswer<Void>()
        queue.async {
            self.isStopped = true
            self.bell?.cancel()
            self.timer.cancel()
            self.cancelled.notify(queue: self.queue) {
                // It only fails for a connection in use, and the queue runs nothing else on it.
                try? self.connection.close()
                stopped.give(())
            }
        }
        await stopped.value()
    }

    private func start(_ bell: any DispatchSourceRead, _ descriptor: Int32) {
        bell.setEventHandler { [weak self] in
            drain(descriptor)
            self?.planLook()
        }
        cancelled.enter()
        bell.setCancelHandler { [cancelled] in
            Glibc.close(descriptor)
            cancelled.leave()
        }
        bell.activate()
    }

    private func start(pollInterval: Duration) {
        timer.setEventHandler { [weak self] in self?.look() }
        cancelled.enter()
        timer.setCancelHandler { [cancelled] in cancelled.leave() }
        let interval = DispatchTimeInterval.microseconds(Int(pollInterval.microseconds))
        // A tenth of leeway lets the kernel join this with other timers.
        let leeway = DispatchTimeInterval.microseconds(Int(pollInterval.microseconds / 10))
        timer.schedule(deadline: .now() + interval, repeating: interval, leeway: leeway)
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
            let heads = try connection.unsafeRead { db -> [(DatabaseID, Offset)] in
                let version = try Int64.fetchOne(db.cachedStatement(sql: "PRAGMA data_version"))
                guard version != lastVersion else { return [] }
                lastVersion = version
                return try LogReader.heads(db)
            }
            for (database, head) in heads { hub.announce(database, head: head) }
            isFailing = false
        } catch {
            if !isFailing { logger.warning("cannot look for appends of other processes, retrying: \(error)") }
            isFailing = true
            lastVersion = nil
        }
    }
}

/// Empties an inotify descriptor. The content is known: there is one watch, for one event.
private func drain(_ descriptor: Int32) {
    var buffer = [UInt8](repeating: 0, count: 4_096)
    while read(descriptor, &buffer, buffer.count) > 0 {}
}
