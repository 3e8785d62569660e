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
}
