import CRDT
import Logging
import Machine
import OperationLog
import ServiceKit

/// The replicator's housekeeping of all databases, for as long as it runs.
///
/// A database that is not open is opened for it, and closed again: when its log has grown enough for a
/// snapshot, and once per `reapingInterval` for its tombstones. So a database that only query-service writes
/// stays bounded too. In between, databases without syncing peers are closed (`IdleDatabases`). A lease that
/// is held for the interval says to all processes, and after a restart, that the search was done. Every
/// process searches its open databases itself, the first time after the first interval.
struct Housekeeping {
    let log: any OperationLog
    let options: HousekeepingOptions
    let logger: Logger
    let isOpen: @Sendable (DatabaseID) -> Bool
    let hub: @Sendable (DatabaseID) async throws -> DatabaseHub
    /// Closes a hub that was opened for this, or that nobody syncs any more, unless somebody uses it by now.
    let close: @Sendable (DatabaseHub) async -> Void
    /// The databases that are open now.
    let open: @Sendable () -> [DatabaseHub]
    /// Chooses the open databases to close.
    let idle: IdleDatabases
    /// The offset after which a backup needs a database's log; nil for none.
    let holds: @Sendable (DatabaseID) -> Offset?

    private static let purpose = "reaping"
    private let measures = LogMeasures()

    init(
        log: any OperationLog, options: HousekeepingOptions, logger: Logger,
        isOpen: @escaping @Sendable (DatabaseID) -> Bool,
        hub: @escaping @Sendable (DatabaseID) async throws -> DatabaseHub,
        close: @escaping @Sendable (DatabaseHub) async -> Void, open: @escaping @Sendable () -> [DatabaseHub],
        idle: IdleDatabases, holds: @escaping @Sendable (DatabaseID) -> Offset?
    ) {
        (self.log, self.options, self.logger) = (log, options, logger)
        (self.isOpen, self.hub, self.close) = (isOpen, hub, close)
        (self.open, self.idle, self.holds) = (open, idle, holds)
    }

    func run() async throws {
        let clock = ContinuousClock()
        var idle = idle
        var nextSearch: [DatabaseID: ContinuousClock.Instant] = [:]
        while !Task.isCancelled {
            // Jittered, so that several replicators do not all look at the same moment.
            try? await Task.sleep(for: options.interval * Double.random(in: 0.5...1))
            if Task.isCancelled { return }
            await closeIdle(&idle)
            do {
                for database in try await log.databases() where !Task.isCancelled {
                    let isLate = nextSearch[database].map { clock.now >= $0 } ?? true
                    let isDone = try await look(at: database, isLate: isLate)
                    guard isLate, let isDone else { continue }
                    nextSearch[database] = clock.now + options.reapingInterval / (isDone ? 1 : 24)
                }
            } catch let error as OperationLogError where error.code == .closed {
                return
            } catch {
                logger.warning("the housekeeping waits for the log: \(error)")
            }
        }
    }

    /// Here, between two turns: so none is closed while the housekeeper works with it.
    private func closeIdle(_ idle: inout IdleDatabases) async {
        var (sessions, hubs) = ([DatabaseID: Int](), [DatabaseID: DatabaseHub]())
        for hub in open() {
            sessions[hub.database] = await hub.sessions
            hubs[hub.database] = hub
        }
        for database in idle.due(sessions, at: .now) {
            guard let hub = hubs[database] else { continue }
            logger.debug("nobody syncs a database: closed", metadata: ["database": "\(database)"])
            await close(hub)
        }
    }

    /// Does what is due.
    /// - Parameter isLate: whether tombstones are to be searched for as well.
    /// - Returns: whether this process has searched for them; nil when that has to be tried again soon.
    private func look(at database: DatabaseID, isLate: Bool) async throws -> Bool? {
        let head = try await log.head(of: database).offset
        let reaps = isLate && options.tombstoneTimeToLive != nil && head > 0
        let isGrown = try await isSnapshotDue(database, head)
        if isOpen(database) {
            guard reaps || isGrown, try await turn(database, reaps: reaps), reaps else { return nil }
            return true
        }
        var search: ActorLease?
        if reaps {
            search = try await log.lease(Self.purpose, of: 1, for: options.reapingInterval, in: database)
        }
        guard search != nil || isGrown else { return false }
        let isDone = try await turn(database, reaps: search != nil)
        guard let search else { return false }
        guard isDone else {
            try await log.release(search, retiring: false, in: database)
            return nil
        }
        return true
    }

    private func isSnapshotDue(_ database: DatabaseID, _ head: Offset) async throws -> Bool {
        guard let due = options.snapshotOperations else { return false }
        let last = try await log.snapshot(of: database)?.position.offset ?? 0
        if head.rawValue >= due && head.reduced(by: due) >= last { return true }
        let measure = try await options.measure(of: database, in: log, measures)
        return head > last && options.isTooLarge(measure)
    }

    /// One database's turn; false when it failed or another process has it.
    private func turn(_ database: DatabaseID, reaps: Bool) async throws -> Bool {
        do {
            let wasOpen = isOpen(database)
            let hub = try await hub(database)
            let housekeeper = Housekeeper(
                materializer: hub.materializer, log: log, database: database, options: options,
                logger: logger, wallMilliseconds: Environment.system.wallMilliseconds, measures: measures,
                hold: holds(database))
            do {
                let report = try await housekeeper.turn(reaps: reaps)
                if !wasOpen { await close(hub) }
                return report != nil
            } catch {
                if !wasOpen { await close(hub) }
                throw error
            }
        } catch let error as OperationLogError where error.code == .closed {
            throw error
        } catch {
            logger.warning(
                "a database's housekeeping failed: \(error)", metadata: ["database": "\(database)"])
            return false
        }
    }
}
