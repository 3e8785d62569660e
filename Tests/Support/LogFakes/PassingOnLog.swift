import CRDT
import OperationLog
import Synchronization

/// A log that passes every call on to another one, which may be replaced while clients stay: a failover. What
/// is to go otherwise is overridden.
open class PassingOnLog: OperationLog, @unchecked Sendable {
    // Unchecked because it is open: what it has itself is guarded by this lock.
    private let place: Mutex<(log: any OperationLog, term: UInt64)>

    /// A log in front of this one.
    public init(_ log: any OperationLog) { place = Mutex((log, 0)) }

    /// From now on everything goes to another log.
    public func failOver(to other: any OperationLog) {
        place.withLock { $0 = (other, $0.term + 1) }
    }

    /// Each failover ends one.
    public var term: UInt64 { place.withLock(\.term) }

    /// Where calls go.
    public var log: any OperationLog { place.withLock(\.log) }

    /// Passed on.
    open func createDatabase(_ database: DatabaseID) async throws -> Bool {
        try await log.createDatabase(database)
    }

    /// Passed on.
    open func requireStorage() async throws { try await log.requireStorage() }

    /// Passed on.
    open func requireRoom() async throws { try await log.requireRoom() }

    /// Passed on.
    open func eraseDatabase(_ database: DatabaseID) async throws -> Offset? {
        try await log.eraseDatabase(database)
    }

    /// Passed on.
    open func scrub() async throws { try await log.scrub() }

    /// Passed on.
    open func databases() async throws -> [DatabaseID] { try await log.databases() }

    /// Passed on.
    open func databaseExists(_ database: DatabaseID) async throws -> Bool {
        try await log.databaseExists(database)
    }

    /// Passed on, as far as it is of this term.
    open func append(_ requests: [AppendRequest], to database: DatabaseID) async throws -> [AppendOutcome] {
        let (log, term) = place.withLock(\.self)
        guard requests.allSatisfy({ $0.term == nil || $0.term == term }) else {
            return requests.map { _ in .conflict(.termOver) }
        }
        return try await log.append(requests, to: database)
    }

    /// Passed on.
    open func frontier(of actors: [ActorID], in database: DatabaseID) async throws -> [ActorID: FrontierEntry]
    {
        try await log.frontier(of: actors, in: database)
    }

    /// Passed on.
    open func head(of database: DatabaseID) async throws -> LogPosition { try await log.head(of: database) }

    /// Passed on.
    open func position(at offset: Offset, in database: DatabaseID) async throws -> LogPosition? {
        try await log.position(at: offset, in: database)
    }

    /// Passed on.
    open func read(_ database: DatabaseID, after offset: Offset, limit: ReadLimit) async throws -> [LogEntry]
    {
        try await log.read(database, after: offset, limit: limit)
    }

    /// The wake-ups are passed on, not what they bring along: what is read is for `read` to say.
    open func changes(in database: DatabaseID) -> AsyncStream<LogChange> {
        let changes = log.changes(in: database)
        return AsyncStream(bufferingPolicy: .bufferingNewest(1)) { continuation in
            let passing = Task {
                for await _ in changes { continuation.yield(LogChange()) }
                continuation.finish()
            }
            continuation.onTermination = { _ in passing.cancel() }
        }
    }

    /// Passed on.
    open var status: LogStatus { log.status }

    /// Passed on.
    open func close() async { await log.close() }

    /// Passed on.
    open func truncation(of database: DatabaseID) async throws -> LogPosition {
        try await log.truncation(of: database)
    }

    /// Passed on.
    open func truncate(_ database: DatabaseID, through offset: Offset, keepingHashesAfter floor: Offset)
        async throws
    {
        try await log.truncate(database, through: offset, keepingHashesAfter: floor)
    }

    /// Passed on.
    open func snapshot(of database: DatabaseID) async throws -> LogSnapshot? {
        try await log.snapshot(of: database)
    }

    /// Passed on.
    open func beginSnapshot(of database: DatabaseID, at position: LogPosition) async throws -> SnapshotDraft {
        try await log.beginSnapshot(of: database, at: position)
    }

    /// Passed on.
    open func add(_ chunk: [UInt8], to draft: SnapshotDraft, in database: DatabaseID) async throws {
        try await log.add(chunk, to: draft, in: database)
    }

    /// Passed on.
    open func finish(_ draft: SnapshotDraft, in database: DatabaseID) async throws -> LogSnapshot {
        try await log.finish(draft, in: database)
    }

    /// Passed on.
    open func chunk(_ index: Int, of snapshot: LogSnapshot, in database: DatabaseID) async throws -> [UInt8] {
        try await log.chunk(index, of: snapshot, in: database)
    }

    /// Passed on.
    open func lease(_ purpose: String, of slots: Int, for duration: Duration, in database: DatabaseID)
        async throws
        -> ActorLease?
    { try await log.lease(purpose, of: slots, for: duration, in: database) }

    /// Passed on.
    open func renew(_ lease: ActorLease, for duration: Duration, in database: DatabaseID) async throws -> Bool
    {
        try await log.renew(lease, for: duration, in: database)
    }

    /// Passed on.
    open func retire(_ actors: [ActorID], in database: DatabaseID) async throws {
        try await log.retire(actors, in: database)
    }

    /// Passed on.
    open func release(_ lease: ActorLease, retiring: Bool, in database: DatabaseID) async throws {
        try await log.release(lease, retiring: retiring, in: database)
    }
}
