import CRDT
import Dispatch
import Logging
import Machine
import OperationLog
import Synchronization

/// Tells other processes of this one's commits, and this one of theirs, with one connection, `LISTEN` and
/// `NOTIFY`.
///
/// A notification is a hint; the truth is a look at the heads, once per `pollInterval` and after every
/// reconnection. Notifying takes a lock that the whole server shares, so it happens after the commit,
/// outside of it, and one notification covers all commits of a database since the last. A notification is a
/// transaction with its own commit: nobody waits for its fsync, and there is at most one per
/// `noticeSpacing`, or it would cost appenders as much as their own commits.
///
/// All variables belong to `queue`, except `notices` and `isAway`.
final class PostgresChangeWatcher: @unchecked Sendable {
    // Unchecked: every `var` is touched on the serial `queue` only.
    private let url: String
    private let hub: ChangeHub
    private let logger: Logger
    private let options: PostgresOperationLog.Options
    private let queue = DispatchQueue(label: "mimeo.postgres.watch")
    private var connection: Connection?
    private var bell: (any DispatchSourceRead)?
    private var timer: (any DispatchSourceTimer)?
    /// Shared by the announcing threads and `queue`.
    private let notices = Mutex(Notices())
    /// True if the last attempt to connect failed.
    private let isAway = Atomic(false)
    /// True while a timer is set for the next notice.
    private var isNoticeDue = false
    private var lastNotice = ContinuousClock.now - PostgresLimits.noticeSpacing
    private var pause: Duration
    private var isStopped = false

    private struct Notices {
        /// The heads to notify.
        var heads: [DatabaseID: Offset] = [:]
        /// True while a notice is planned, and for a while after each: repeated commits then need not wake
        /// a thread.
        var isPlanned = false
    }

    private static let channel = "mimeo_log"

    /// Starts watching; connects in the background.
    init(url: String, hub: ChangeHub, options: PostgresOperationLog.Options, logger: Logger) {
        self.url = url
        self.hub = hub
        self.options = options
        self.logger = logger
        pause = options.firstReconnectPause
        queue.async { self.connect() }
    }

    /// True if the last attempt to reach the server failed; a lost connection is retried at once.
    var hasLostServer: Bool { isAway.load(ordering: .relaxed) }

    /// Tells this process at once, and the others soon, that databases have grown.
    func announce(_ heads: [DatabaseID: Offset]) {
        for (database, head) in heads { hub.announce(database, head: head) }
        let isPlanned = notices.withLock { notices in
            for (database, head) in heads {
                notices.heads[database] = max(notices.heads[database] ?? 0, head)
            }
            defer { notices.isPlanned = true }
            return notices.isPlanned
        }
        // Waking a thread costs a good part of a commit.
        guard !isPlanned else { return }
        queue.async { self.planNotice() }
    }

    /// Stops watching and returns when the connection is closed.
    func stop() async {
        let stopped = PendingAnswer<Void>()
        queue.async {
            self.isStopped = true
            self.notify()
            self.disconnect { stopped.give(()) }
        }
        await stopped.value()
    }

    // MARK: on the queue

    private func connect() {
        guard !isStopped, connection == nil else { return }
        do {
            let connection = try Connection(url: url, patience: options.answerTimeout)
            try options.fence?.admit(connection)
            try connection.run("SET synchronous_commit = off; LISTEN \(Self.channel)")
            self.connection = connection
            isAway.store(false, ordering: .relaxed)
            listen(on: connection.socket)
            look()
            notify()
        } catch {
            isAway.store(true, ordering: .relaxed)
            logger.warning("cannot watch the log until PostgreSQL can be reached: \(error)")
            connectLater()
        }
    }

    private func connectLater() {
        // Jittered, so that the processes of a restarted server do not all come at once.
        let wait = pause * Double.random(in: 0.5...1)
        pause = min(pause * 2, PostgresLimits.lastReconnectPause)
        queue.asyncAfter(deadline: .now() + .microseconds(wait.wholeMicroseconds)) { [weak self] in
            self?.connect()
        }
    }

    private func listen(on socket: Int32) {
        let bell = DispatchSource.makeReadSource(fileDescriptor: socket, queue: queue)
        bell.setEventHandler { [weak self] in self?.hear() }
        bell.activate()
        self.bell = bell
        let timer = DispatchSource.makeTimerSource(queue: queue)
        timer.setEventHandler { [weak self] in self?.look() }
        let microseconds = options.pollInterval.wholeMicroseconds
        timer.schedule(
            deadline: .now() + .microseconds(microseconds), repeating: .microseconds(microseconds),
            leeway: .microseconds(microseconds / 10))
        timer.activate()
        self.timer = timer
    }

    /// A notification's text is the head, a space and the database's id.
    private func hear() {
        guarded { connection in
            for payload in try connection.notifications() {
                let parts = payload.split(separator: " ", maxSplits: 1)
                guard parts.count == 2, let head = UInt64(parts[0]) else { continue }
                hub.announce(DatabaseID(String(parts[1])), head: Offset(head))
            }
        }
    }

    private func look() {
        guard !hub.isEmpty else { return }
        guarded { connection in
            guard options.fence?.isCurrent(connection) ?? true else {
                throw OperationLogError(.replaced, "the server was replaced by another one")
            }
            for (database, head) in try PostgresLogReader.heads(connection) {
                hub.announce(database, head: head)
            }
            // Reset only here, so that a server which accepts connections and then refuses is retried less
            // and less often.
            pause = options.firstReconnectPause
        }
        // libpq may have read notifications together with the answer; the socket does not become readable
        // for them.
        hear()
    }

    /// Plans the next notice, which also covers all commits until it is due.
    private func planNotice() {
        guard !isNoticeDue else { return }
        isNoticeDue = true
        let wait = PostgresLimits.noticeSpacing - (ContinuousClock.now - lastNotice)
        queue.asyncAfter(deadline: .now() + .microseconds(max(0, wait.wholeMicroseconds))) {
            self.isNoticeDue = false
            self.notify()
        }
    }

    /// Without a connection the next one sends the notices.
    private func notify() {
        let heads = notices.withLock { notices in
            notices.isPlanned = !notices.heads.isEmpty
            return notices.heads
        }
        guard connection != nil, !heads.isEmpty else { return }
        lastNotice = .now
        guarded { connection in
            for (database, head) in heads {
                _ = try connection.query(
                    "SELECT pg_notify($1, $2)", [.text(Self.channel), .text("\(head) \(database)")])
            }
            // Kept until here, so that the next connection sends anything that was lost with this one.
            notices.withLock { notices in notices.heads = notices.heads.filter { heads[$0.key] != $0.value } }
            planNotice()
        }
        hear()
    }

    private func guarded(_ body: (Connection) throws -> Void) {
        guard let connection else { return }
        do {
            try body(connection)
        } catch {
            logger.warning("lost the connection that watches the log: \(error)")
            disconnect { self.connectLater() }
        }
    }

    /// Closes the connection once nothing waits on its socket, as Dispatch asks.
    private func disconnect(_ then: @escaping @Sendable () -> Void) {
        let last = connection
        connection = nil
        timer?.cancel()
        timer = nil
        guard let bell else { return then() }
        self.bell = nil
        bell.setCancelHandler {
            withExtendedLifetime(last) {}
            then()
        }
        bell.cancel()
    }
}

extension Duration {
    /// Whole microseconds, for Dispatch.
    var wholeMicroseconds: Int {
        Int(components.seconds * 1_000_000 + components.attoseconds / 1_000_000_000_000)
    }
}
