import CRDT
import DQL
import Foundation
import Logging
import Machine
import OperationLog
import Replica
import Synchronization

/// The audit: admin changes, logins and certificates, as lines of the service's log and as documents of the
/// collection `audit` in the reserved database `mimeo.audit` (decision 0058).
///
/// An entry is a log line at once. It is on the operation log within `Limits.auditPause`, or when `record`
/// returns. While the operation log is away, at most `Limits.auditWaiting` entries wait for it. Documents are
/// removed after `Limits.auditDays`, and beyond `Limits.auditEntries` the oldest.
///
/// The database is opened at first use. Actor isolation guards the materialization and what is written; the
/// lock guards the waiting entries and is never held across a wait.
public actor AuditLog {
    /// The database's id; like the system database's, no application's database has it.
    public static let id: DatabaseID = "mimeo.audit"

    private struct Waiting {
        var digest = AuditDigest()
        var entries: [AuditEntry] = []
        /// Entries that found no room.
        var dropped: Int64 = 0
    }

    private let log: any OperationLog
    private let folder: String
    private let logger: Logger
    private let writer: LeasedActor
    private let now: @Sendable () -> Int64
    /// True if the address of a client is the last one that a proxy names.
    nonisolated let trustsProxy: Bool
    private let bounds: Bounds
    private let waiting = Mutex(Waiting())
    private var materializer: Materializer?
    private var working: Task<Void, any Error>?
    private var nextTrim: ContinuousClock.Instant?
    /// The reads: conditions of operators compute for as long as they may, beside the work of all clients.
    private let reads = BoundedTurns(1, waiting: Limits.auditReads, for: Limits.auditReadTime)
    private var lastNumber: UInt32 = 0
    private var isClosed = false

    /// Bounds that a test may set.
    struct Bounds: Sendable {
        var entries = Limits.auditEntries
        var milliseconds = Limits.auditDays * 86_400_000
        var removedAtOnce = Limits.auditRemovedAtOnce
    }

    /// - Parameters:
    ///   - folder: the materialization's folder; it is disposable.
    ///   - trustsProxy: whether `X-Forwarded-For` has the client's address.
    ///   - now: milliseconds since 1970.
    init(
        log: any OperationLog, folder: String, trustsProxy: Bool = false, bounds: Bounds = Bounds(),
        now: @escaping @Sendable () -> Int64 = { Int64(clamping: SystemClock.milliseconds()) },
        logger: Logger
    ) {
        self.log = log
        self.folder = folder
        self.trustsProxy = trustsProxy
        self.bounds = bounds
        self.now = now
        self.logger = logger
        writer = LeasedActor(log: log, database: Self.id, purpose: "audit")
    }

    /// The present time for an entry.
    public nonisolated var milliseconds: Int64 { now() }

    // MARK: Entries

    /// Adds an entry that may come in floods; equal ones within a minute are counted.
    public nonisolated func note(_ entry: AuditEntry) {
        let own = waiting.withLock { waiting -> AuditEntry? in
            guard let own = waiting.digest.take(entry.bounded) else { return nil }
            Self.add(own, to: &waiting)
            return own
        }
        if let own { say(own) }
    }

    /// Adds an entry of its own, and returns when it is on the operation log.
    /// - Throws: the log's errors; the entry then waits.
    public func record(_ entry: AuditEntry) async throws {
        let entry = entry.bounded
        waiting.withLock { Self.add(entry, to: &$0) }
        say(entry)
        try await flush()
    }

    private static func add(_ entry: AuditEntry, to waiting: inout Waiting) {
        guard waiting.entries.count < Limits.auditWaiting else {
            waiting.dropped += 1
            return
        }
        waiting.entries.append(entry)
    }

    private nonisolated func say(_ entry: AuditEntry) {
        let level: Logger.Level = entry.result == .failed ? .warning : .info
        logger.log(level: level, "\(AuditEntry.lineMessage)", metadata: entry.metadata)
    }

    // MARK: The operation log

    /// Writes waiting entries and removes old ones, until the task is cancelled.
    public func run() async {
        var isAway = false
        while !Task.isCancelled {
            try? await Task.sleep(for: Limits.auditPause)
            do {
                try await flush()
                try await trimIfDue()
                isAway = false
            } catch let error as OperationLogError where error.code == .closed {
                return
            } catch {
                if !isAway { logger.warning("the audit waits for the log", metadata: ["reason": "\(error)"]) }
                isAway = true
            }
        }
    }

    /// Writes what waits, and releases the lease and the materialization.
    public func close() async {
        let last = waiting.withLock { $0.digest.end(at: now(), isLast: true) }
        add(last)
        try? await flush()
        isClosed = true
        await writer.close()
        await materializer?.close()
        materializer = nil
    }

    private nonisolated func add(_ entries: [AuditEntry]) {
        for entry in entries {
            waiting.withLock { Self.add(entry, to: &$0) }
            say(entry)
        }
    }

    private func flush() async throws {
        let ended = waiting.withLock { $0.digest.end(at: now()) }
        add(ended)
        try await inTurn {
            while let batch = await self.nextBatch() {
                do {
                    try await self.write(batch)
                } catch {
                    self.waiting.withLock { $0.entries.insert(contentsOf: batch, at: 0) }
                    throw error
                }
            }
        }
    }

    /// Entries for one operation; nil if none wait.
    private func nextBatch() -> [AuditEntry]? {
        let (batch, dropped) = waiting.withLock { waiting in
            let batch = Array(waiting.entries.prefix(Limits.auditBatch))
            waiting.entries.removeFirst(batch.count)
            defer { waiting.dropped = 0 }
            return (batch, waiting.dropped)
        }
        if dropped > 0 {
            logger.error(
                "entries of the audit found no room and are only in this log",
                metadata: ["count": "\(dropped)"])
        }
        return batch.isEmpty ? nil : batch
    }

    private func write(_ batch: [AuditEntry]) async throws {
        let documents = batch.map { entry in
            lastNumber &+= 1
            return entry.document(
                id: AuditEntry.id(entry.milliseconds, lastNumber, .random(in: .min ... .max)))
        }
        let insertion = try PreparedStatement("INSERT INTO audit DOCUMENTS (:document)")
        try await opened().append(by: writer) { transaction in
            for document in documents {
                _ = try insertion.execute(
                    in: transaction, arguments: ObjectValue([(key: "document", value: .object(document))]),
                    options: ExecutionOptions(strictMode: true),
                    idGenerator: { preconditionFailure("every entry has its id") })
            }
        }
    }

    /// Runs pieces of work one after the other.
    private func inTurn(_ body: @escaping @Sendable () async throws -> Void) async throws {
        let previous = working
        let task = Task {
            _ = try? await previous?.value
            try await body()
        }
        working = task
        try await task.value
    }

    private func opened() async throws -> Materializer {
        if let materializer {
            guard await materializer.hasLostHistory else { return materializer }
            self.materializer = nil
            await materializer.close()
        }
        guard !isClosed else { throw OperationLogError(.closed, "the audit is closed: the service stops") }
        try await log.createDatabase(Self.id)
        let opened = try await Materializer.open(Self.id, log: log, folder: folder, logger: logger)
        materializer = opened
        return opened
    }

    // MARK: Reading

    /// The rows of a SELECT over the collection `audit`, `Limits.auditRows` and some megabytes at most;
    /// everything that was added before is there. One is read at a time.
    /// - Returns: the rows, and whether there are more.
    /// - Throws: `Refused` for other statements and for errors in them, `SRV-0429`, and the log's errors.
    public func rows(
        of statement: String, _ arguments: ObjectValue = ObjectValue()
    ) async throws -> (rows: [Value], hasMore: Bool) {
        guard await reads.begin() else {
            throw ServiceError(
                .tooManyRunning, "as many reads of the audit run and wait as may; try again shortly")
        }
        defer { reads.end() }
        do {
            try await flush()
            do {
                return try await read(statement, arguments)
            } catch {
                guard await materializer?.hasLostHistory == true else { throw error }
                // The copy is damaged, and is rebuilt.
                return try await read(statement, arguments)
            }
        } catch let error as DQLError {
            throw Refused(reason: "\(error)")
        }
    }

    /// A statement that cannot be executed, with the reason for a person.
    public struct Refused: Error {
        /// For whoever wrote the statement.
        public let reason: String
    }

    private func read(
        _ statement: String, _ arguments: ObjectValue
    ) async throws -> (rows: [Value], hasMore: Bool) {
        let materializer = try await opened()
        try await materializer.advance()
        let deadline = ContinuousClock.now + Limits.auditReadTime
        var options = ExecutionOptions(
            strictMode: false, context: FunctionContext(now: now(), timeZones: SystemTimeZones()))
        options.interruption = { ContinuousClock.now < deadline ? nil : .timeout }
        options.materializedBytes = Limits.auditGatheredBytes
        let (replica, settled) = (materializer.replica, options)
        return try await materializer.executor.run {
            let prepared = try PreparedStatement(statement)
            guard prepared.kind == .select else { throw Refused(reason: "the audit is only read: SELECT …") }
            return try replica.read { transaction in
                var (rows, bytes, hasMore) = ([Value](), 0, false)
                _ = try prepared.forEachRow(in: transaction, arguments: arguments, options: settled) { row in
                    guard rows.count < Limits.auditRows, bytes < Limits.auditAnswerBytes else {
                        hasMore = true
                        return false
                    }
                    bytes += row.heldBytes
                    rows.append(row)
                    return true
                }
                return (rows, hasMore)
            }
        }
    }

    // MARK: Removing

    private func trimIfDue() async throws {
        guard materializer != nil, nextTrim.map({ ContinuousClock.now >= $0 }) ?? true else { return }
        nextTrim = .now + Limits.auditTrimPause
        try await trim()
    }

    /// Removes the entries that are too old or too many, the oldest first.
    func trim() async throws {
        try await inTurn {
            while try await self.removeOldest() {}
        }
    }

    /// Removes some; returns whether more are due.
    private func removeOldest() async throws -> Bool {
        let oldest = AuditEntry.time(now() - bounds.milliseconds)
        let all = try await count("SELECT COUNT(*) AS n FROM audit", [])
        let expired = try await count(
            "SELECT COUNT(*) AS n FROM audit WHERE _id < :oldest", [("oldest", .string(oldest))])
        let due = max(expired, all - bounds.entries)
        guard due > 0 else { return false }
        let removed = min(due, bounds.removedAtOnce)
        let last = try await read(
            "SELECT _id FROM audit ORDER BY _id LIMIT 1 OFFSET \(removed - 1)", ObjectValue()
        ).rows.first?["_id"]
        guard let last else { return false }
        let removal = try PreparedStatement("DELETE FROM audit WHERE _id <= :last")
        try await opened().append(by: writer) { transaction in
            _ = try removal.execute(
                in: transaction, arguments: ObjectValue([(key: "last", value: last)]),
                options: ExecutionOptions(strictMode: true),
                idGenerator: { preconditionFailure("a removal makes no document") })
        }
        return due > removed
    }

    private func count(_ statement: String, _ arguments: [(String, Value)]) async throws -> Int64 {
        let members = ObjectValue(arguments.map { (key: $0.0, value: $0.1) })
        return try await read(statement, members).rows.first?["n"]?.intValue ?? 0
    }
}
