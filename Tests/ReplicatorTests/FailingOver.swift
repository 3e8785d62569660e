import CRDT
import OperationLog
import Synchronization

/// A log whose server is replaced by another one while clients stay.
final class FailingOver: OperationLog {
    private let log: Mutex<any OperationLog>

    init(_ log: any OperationLog) { self.log = Mutex(log) }

    func failOver(to other: any OperationLog) { log.withLock { $0 = other } }

    private var current: any OperationLog { log.withLock { $0 } }

    func createDatabase(_ database: String) async throws -> Bool {
        try await current.createDatabase(database)
    }

    func databases() async throws -> [String] { try await current.databases() }

    func databaseExists(_ database: String) async throws -> Bool {
        try await current.databaseExists(database)
    }

    func append(_ requests: [AppendRequest], to database: String) async throws -> [AppendOutcome] {
        try await current.append(requests, to: database)
    }

    func frontier(of actors: [ActorID], in database: String) async throws -> [ActorID: FrontierEntry] {
        try await current.frontier(of: actors, in: database)
    }

    func head(of database: String) async throws -> LogPosition { try await current.head(of: database) }

    func position(at offset: UInt64, in database: String) async throws -> LogPosition? {
        try await current.position(at: offset, in: database)
    }

    func read(_ database: String, after offset: UInt64, limit: ReadLimit) async throws -> [LogEntry] {
        try await current.read(database, after: offset, limit: limit)
    }

    func changes(in database: String) -> AsyncStream<Void> { current.changes(in: database) }

    var status: LogStatus { current.status }

    func close() async { await current.close() }

    func truncation(of database: String) async throws -> LogPosition {
        try await current.truncation(of: database)
    }
    func truncate(_ database: String, through offset: UInt64, keepingHashesAfter floor: UInt64) async throws {
        try await current.truncate(database, through: offset, keepingHashesAfter: floor)
    }
    func snapshot(of database: String) async throws -> LogSnapshot? {
        try await current.snapshot(of: database)
    }
    func beginSnapshot(of database: String, at position: LogPosition) async throws -> SnapshotDraft {
        try await current.beginSnapshot(of: database, at: position)
    }
    func add(_ chunk: [UInt8], to draft: SnapshotDraft, in database: String) async throws {
        try await current.add(chunk, to: draft, in: database)
    }
    func finish(_ draft: SnapshotDraft, in database: String) async throws -> LogSnapshot {
        try await current.finish(draft, in: database)
    }
    func chunk(_ index: Int, of snapshot: LogSnapshot, in database: String) async throws -> [UInt8] {
        try await current.chunk(index, of: snapshot, in: database)
    }
    func lease(_ purpose: String, of slots: Int, for duration: Duration, in database: String) async throws
        -> ActorLease?
    { try await current.lease(purpose, of: slots, for: duration, in: database) }
    func renew(_ lease: ActorLease, for duration: Duration, in database: String) async throws -> Bool {
        try await current.renew(lease, for: duration, in: database)
    }
    func retire(_ actors: [ActorID], in database: String) async throws {
        try await current.retire(actors, in: database)
    }
    func release(_ lease: ActorLease, retiring: Bool, in database: String) async throws {
        try await current.release(lease, retiring: retiring, in: database)
    }
}
