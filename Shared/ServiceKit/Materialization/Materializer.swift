import CRDT
import Foundation
import Logging
import OperationLog
import Replica

/// Folds one database's log into a replica and keeps following it: the part that replicator and
/// query-service share.
///
/// The replica is disposable. It carries the position it has folded in the transaction of the data; when
/// the log does not have that position (a restored log, a file from elsewhere), the replica is deleted and
/// built anew.
///
/// Actor isolation guards `folding`, `position`, `waiters` and `failure`; folds run one after the other on
/// `executor`.
public actor Materializer {
    /// The database.
    public nonisolated let database: String
    /// The documents, as of the position in the same snapshot.
    public nonisolated let replica: Replica
    /// Runs what blocks for the disk; concurrent, since readers do not wait for writers.
    public nonisolated let executor = BlockingExecutor(label: "mimeo.materializer", isSerial: false)

    private let log: any OperationLog
    private let logger: Logger
    private let onFold: @Sendable ([FoldedOperation]) async -> Void
    private var folding: Task<Void, any Error>?
    private var waiters: [(id: UInt64, offset: UInt64, continuation: CheckedContinuation<Bool, Never>)] = []
    private var nextWaiter: UInt64 = 0
    /// How far the log is folded.
    public private(set) var position: LogPosition
    /// Why folding has stopped; nil while it goes on.
    public private(set) var failure: String?

    /// Opens or rebuilds the replica in `folder`. `onFold` hears of every operation once per process, in
    /// log order.
    public static func open(
        _ database: String, log: any OperationLog, folder: String, logger: Logger,
        onFold: @escaping @Sendable ([FoldedOperation]) async -> Void = { _ in }
    ) async throws -> Materializer {
        guard let start = try await log.position(at: 0, in: database) else {
            throw OperationLogError(.corrupt, "a log has no beginning")
        }
        var replica = try Replica(
            directory: folder, role: .materialization, environment: .system, logger: logger)
        var position = start
        if let checkpoint = try replica.checkpoint() {
            if try await log.position(at: checkpoint.offset, in: database) == checkpoint {
                position = checkpoint
            } else {
                logger.warning(
                    "the log has no such history: the materialization is built anew",
                    metadata: ["database": "\(database)"])
                try replica.close()
                try FileManager.default.removeItem(atPath: folder)
                replica = try Replica(
                    directory: folder, role: .materialization, environment: .system, logger: logger)
            }
        }
        return Materializer(database, log, replica, position, logger, onFold)
    }

    private init(
        _ database: String, _ log: any OperationLog, _ replica: Replica, _ position: LogPosition,
        _ logger: Logger,
        _ onFold: @escaping @Sendable ([FoldedOperation]) async -> Void
    ) {
        self.database = database
        self.log = log
        self.replica = replica
        self.position = position
        self.logger = logger
        self.onFold = onFold
    }

    /// Follows the log until the task is cancelled or the log closes.
    public func run() async {
        for await _ in log.changes(in: database) {
            do {
                try await advance()
            } catch is CancellationError {
                return
            } catch {
                failure = "\(error)"
                logger.error(
                    "the log cannot be folded", metadata: ["database": "\(database)", "error": "\(error)"])
            }
        }
    }

    /// Folds up to the log's head of this moment.
    public func advance() async throws {
        let previous = folding
        let task = Task {
            _ = try? await previous?.value
            try await self.fold()
        }
        folding = task
        try await task.value
    }

    /// Waits until the position has reached `offset`; false when that takes longer than `timeout`.
    public func wait(for offset: UInt64, timeout: Duration) async -> Bool {
        if position.offset >= offset { return true }
        nextWaiter += 1
        let id = nextWaiter
        let limit = Task {
            try await Task.sleep(for: timeout)
            self.giveUp(id)
        }
        defer { limit.cancel() }
        return await withTaskCancellationHandler {
            await withCheckedContinuation { continuation in
                if position.offset >= offset || Task.isCancelled {
                    continuation.resume(returning: position.offset >= offset)
                } else {
                    waiters.append((id, offset, continuation))
                }
            }
        } onCancel: {
            Task { await self.giveUp(id) }
        }
    }

    /// Lets every waiter go and closes the replica.
    public func close() async {
        _ = try? await folding?.value
        for waiter in waiters { waiter.continuation.resume(returning: false) }
        waiters = []
        try? replica.close()
    }

    private func giveUp(_ id: UInt64) {
        guard let index = waiters.firstIndex(where: { $0.id == id }) else { return }
        waiters.remove(at: index).continuation.resume(returning: false)
    }

    private func fold() async throws {
        while true {
            let entries = try await log.read(database, after: position.offset)
            guard let last = entries.last else { break }
            let logID = position.logID
            let items = entries.map {
                Replica.LogItem(
                    position: LogPosition(logID: logID, offset: $0.offset, hash: $0.hash), bytes: $0.bytes)
            }
            let replica = replica
            let folded = try await executor.run { try replica.fold(items) }
            position = LogPosition(logID: logID, offset: last.offset, hash: last.hash)
            failure = nil
            await onFold(folded)
            let reached = waiters.filter { $0.offset <= last.offset }
            waiters.removeAll { $0.offset <= last.offset }
            for waiter in reached { waiter.continuation.resume(returning: true) }
        }
    }
}

extension Environment {
    /// The machine's clock and randomness.
    public static let system = Environment(
        wallMilliseconds: { UInt64(max(0, Date().timeIntervalSince1970 * 1_000)) },
        random: {
            var generator = SystemRandomNumberGenerator()
            return generator.next()
        },
        pause: {
            Thread.sleep(
                forTimeInterval: Double($0.components.seconds) + Double($0.components.attoseconds) / 1e18)
        })
}
