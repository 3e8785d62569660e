import Logging
import OperationLog
import Replica
import ServiceKit

/// The replicator's housekeeping of all databases, for as long as it runs.
///
/// A database is opened for it when its log has grown enough for a snapshot, so that also one that only
/// query-service writes stays bounded. Reaping is done where a hub is open already, once per
/// `reapingInterval`, the first time after the first interval.
struct Housekeeping {
    let log: any OperationLog
    let options: HousekeepingOptions
    let logger: Logger
    let isOpen: @Sendable (String) -> Bool
    let hub: @Sendable (String) async throws -> DatabaseHub

    func run() async throws {
        let clock = ContinuousClock()
        var lastReaped: [String: ContinuousClock.Instant] = [:]
        while !Task.isCancelled {
            // Jittered, so that several replicators do not all look at the same moment.
            try? await Task.sleep(for: options.interval * Double.random(in: 0.5...1))
            if Task.isCancelled { return }
            do {
                for database in try await log.databases() where !Task.isCancelled {
                    let reaps =
                        lastReaped[database].map { clock.now - $0 >= options.reapingInterval } ?? true
                    guard try await isDue(database, reaps: reaps) else { continue }
                    if try await turn(database, reaps: reaps), reaps { lastReaped[database] = clock.now }
                }
            } catch let error as OperationLogError where error.code == .closed {
                return
            } catch {
                logger.warning("the housekeeping waits for the log: \(error)")
            }
        }
    }

    /// Whether there is something to do that opening the database is worth.
    private func isDue(_ database: String, reaps: Bool) async throws -> Bool {
        let head = try await log.head(of: database).offset
        if reaps, options.tombstoneTimeToLive != nil, head > 0, isOpen(database) { return true }
        guard let due = options.snapshotOperations else { return false }
        let last = try await log.snapshot(of: database)?.position.offset ?? 0
        return head >= last + due
    }

    /// One database's turn; false when it failed or another process has it.
    private func turn(_ database: String, reaps: Bool) async throws -> Bool {
        do {
            let hub = try await hub(database)
            let housekeeper = Housekeeper(
                materializer: hub.materializer, log: log, database: database, options: options,
                logger: logger, wallMilliseconds: Environment.system.wallMilliseconds)
            return try await housekeeper.turn(reaps: reaps) != nil
        } catch let error as OperationLogError where error.code == .closed {
            throw error
        } catch {
            logger.warning(
                "a database's housekeeping failed: \(error)", metadata: ["database": "\(database)"])
            return false
        }
    }
}
