import CRDT
import OperationLog
import Synchronization

/// A log that passes everything on, except what a test wants to go wrong.
final class TamperedLog: OperationLog {
    private let place: Mutex<any OperationLog>
    private var log: any OperationLog { place.withLock { $0 } }
    private struct Tampering {
        var outcomes: [AppendOutcome] = []
        var appendFailure: OperationLogErrorCode?
        var readFailure: OperationLogErrorCode?
        var requests: [AppendRequest] = []
    }
    private let tampering = Mutex(Tampering())

    init(_ log: any OperationLog) { place = Mutex(log) }

    /// From now on everything goes to another log.
    func failOver(to other: any OperationLog) { place.withLock { $0 = other } }

    /// Outcomes that the next appends get instead of being stored, one each.
    func answerAppends(with outcomes: [AppendOutcome]) { tampering.withLock { $0.outcomes = outcomes } }
    func failAppends(_ code: OperationLogErrorCode?) { tampering.withLock { $0.appendFailure = code } }
    func failReads(_ code: OperationLogErrorCode?) { tampering.withLock { $0.readFailure = code } }
    /// Everything that was to be appended.
    var requests: [AppendRequest] { tampering.withLock { $0.requests } }

    func append(_ requests: [AppendRequest], to database: String) async throws -> [AppendOutcome] {
        let (outcome, failure) = tampering.withLock { state in
            state.requests += requests
            return (state.outcomes.isEmpty ? nil : state.outcomes.removeFirst(), state.appendFailure)
        }
        if let failure { throw OperationLogError(failure, "tampered with") }
        if let outcome { return [outcome] }
        return try await log.append(requests, to: database)
    }

    func read(_ database: String, after offset: UInt64, limit: ReadLimit) async throws -> [LogEntry] {
        if let failure = tampering.withLock({ $0.readFailure }) {
            throw OperationLogError(failure, "tampered with")
        }
        return try await log.read(database, after: offset, limit: limit)
    }

    func createDatabase(_ database: String) async throws -> Bool { try await log.createDatabase(database) }
    func databases() async throws -> [String] { try await log.databases() }
    func databaseExists(_ database: String) async throws -> Bool { try await log.databaseExists(database) }
    func frontier(of actors: [ActorID], in database: String) async throws -> [ActorID: FrontierEntry] {
        try await log.frontier(of: actors, in: database)
    }
    func head(of database: String) async throws -> LogPosition { try await log.head(of: database) }
    func position(at offset: UInt64, in database: String) async throws -> LogPosition? {
        try await log.position(at: offset, in: database)
    }
    func changes(in database: String) -> AsyncStream<Void> { log.changes(in: database) }
    var status: LogStatus { log.status }
    func close() async { await log.close() }

    func truncation(of database: String) async throws -> LogPosition {
        try await log.truncation(of: database)
    }
    func truncate(_ database: String, through offset: UInt64, keepingHashesAfter floor: UInt64) async throws {
        try await log.truncate(database, through: offset, keepingHashesAfter: floor)
    }
    func snapshot(of database: String) async throws -> LogSnapshot? { try await log.snapshot(of: database) }
    func beginSnapshot(of database: String, at position: LogPosition) async throws -> SnapshotDraft {
        try await log.beginSnapshot(of: database, at: position)
    }
    func add(_ chunk: [UInt8], to draft: SnapshotDraft, in database: String) async throws {
        try await log.add(chunk, to: draft, in: database)
    }
    func finish(_ draft: SnapshotDraft, in database: String) async throws -> LogSnapshot {
        try await log.finish(draft, in: database)
    }
    func chunk(_ index: Int, of snapshot: LogSnapshot, in database: String) async throws -> [UInt8] {
        try await log.chunk(index, of: snapshot, in: database)
    }
    func lease(_ purpose: String, of slots: Int, for duration: Duration, in database: String) async throws
        -> ActorLease?
    { try await log.lease(purpose, of: slots, for: duration, in: database) }
    func renew(_ lease: ActorLease, for duration: Duration, in database: String) async throws -> Bool {
        try await log.renew(lease, for: duration, in: database)
    }
    func retire(_ actors: [ActorID], in database: String) async throws {
        try await log.retire(actors, in: database)
    }
    func release(_ lease: ActorLease, retiring: Bool, in database: String) async throws {
        try await log.release(lease, retiring: retiring, in: database)
    }
}
