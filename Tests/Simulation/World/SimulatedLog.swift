import CRDT
import OperationLog

/// The shipped log's file behind virtual time: calls wait for each other and for the disk as the world says.
///
/// What becomes of an append, how it is chained and stored, and what a read verifies is the shipped code
/// (`SQLiteLogFile`). When a group is committed, how many calls it holds, and when their callers and the
/// followers hear of it is drawn here.
///
/// `@unchecked Sendable`: a simulation has one thread.
final class SimulatedLog: OperationLog, @unchecked Sendable {
    struct Pending {
        let call: AppendCall
        let continuation: CheckedContinuation<[AppendOutcome], any Error>
    }

    static let database: DatabaseID = "simulated"

    unowned let world: World
    private(set) var file: SQLiteLogFile
    let folder: String
    let disk: Machine
    private var pending: [Pending] = []
    private var followers: [Int: AsyncStream<LogChange>.Continuation] = [:]
    private var nextFollower = 0
    private var isCommitting = false
    /// Tells calls of before a restart from later ones.
    private var lifetime = 0
    private var isClosed = false

    init(world: World, folder: String, disk: Machine, id: LogID) throws {
        self.world = world
        self.folder = folder
        self.disk = disk
        file = try Self.open(folder, world)
        try file.createDatabase(DatabaseID(Self.database.text), id: id)
        // Whatever happens later, there is a log.
        try file.close()
        file = try Self.open(folder, world)
    }

    private static func open(_ folder: String, _ world: World) throws -> SQLiteLogFile {
        try SQLiteLogFile(
            path: "\(folder)/log.sqlite", now: { [unowned world] in Int64(world.now) },
            random: { [unowned world] in Int64(bitPattern: world.generator.next()) })
    }

    /// The server's storage goes away under its callers; `change` may alter the file before it is back.
    func restart(_ change: () throws -> Void) throws {
        lifetime += 1
        let waiting = pending
        pending = []
        isCommitting = false
        for call in waiting { call.continuation.resume(throwing: closed) }
        for follower in followers.values { follower.finish() }
        followers = [:]
        try? file.close()
        try change()
        file = try Self.open(folder, world)
    }

    func end() throws {
        isClosed = true
        for follower in followers.values { follower.finish() }
        followers = [:]
        try file.close()
    }

    private var closed: OperationLogError { OperationLogError(.closed, "the simulated log went away") }

    // MARK: Appending

    func append(_ requests: [AppendRequest], to database: DatabaseID) async throws -> [AppendOutcome] {
        guard !requests.isEmpty else { return [] }
        let call = try AppendCall(requests, database: database)
        return try await withCheckedThrowingContinuation { continuation in
            pending.append(Pending(call: call, continuation: continuation))
            planCommit()
        }
    }

    private func planCommit() {
        guard !isCommitting, !pending.isEmpty else { return }
        isCommitting = true
        let lifetime = lifetime
        world.schedule(.commit(lifetime), in: world.delay(1, 20, slow: 400))
    }

    /// Commits the group that has gathered; its callers hear of it later.
    func commitGroup(_ planned: Int) throws {
        guard planned == lifetime, !pending.isEmpty else { return }
        isCommitting = false
        let group = Array(pending.prefix(1 + world.generator.below(pending.count)))
        pending.removeFirst(group.count)
        let (outcome, change) = file.commit(group.map(\.call))
        switch outcome {
        // A group of operations that the log has needs nothing of the disk but room, and goes on without.
        case .committed where disk.isOff:
            for item in group { item.continuation.resume(throwing: closed) }
            return try world.logLostPower()
        case .committed(let results):
            try world.committed()
            for (item, result) in zip(group, results) {
                world.schedule(
                    .appended(item.continuation, result, lifetime), in: world.delay(0, 5, slow: 100))
            }
            for id in followers.keys.sorted() {
                let told = world.profile.bringsEntries ? change : LogChange()
                world.schedule(.wake(id, told, lifetime), in: world.delay(1, 40, slow: 3_000))
            }
        case .refused(let error), .poisoned(let error):
            for item in group { item.continuation.resume(throwing: error) }
            guard disk.isOff else { throw Violation("the log takes nothing: \(error)") }
            return try world.logLostPower()
        }
        planCommit()
    }

    /// Tells the caller of an append what became of it, unless the log went away meanwhile.
    func answer(
        _ continuation: CheckedContinuation<[AppendOutcome], any Error>,
        _ result: Result<[AppendOutcome], OperationLogError>, _ since: Int
    ) {
        continuation.resume(with: since == lifetime ? result.mapError { $0 as any Error } : .failure(closed))
    }

    // MARK: Reading

    func head(of database: DatabaseID) async throws -> LogPosition {
        try await pause()
        return try file.head(of: database)
    }

    func position(at offset: Offset, in database: DatabaseID) async throws -> LogPosition? {
        try await pause()
        return try file.position(at: offset, in: database)
    }

    func frontier(of actors: [ActorID], in database: DatabaseID) async throws -> [ActorID: FrontierEntry] {
        try await pause()
        return try file.frontier(of: actors, in: database)
    }

    func read(_ database: DatabaseID, after offset: Offset, limit: ReadLimit) async throws -> [LogEntry] {
        try await pause()
        // Short reads, so that a fold is divided.
        let few = ReadLimit(operations: 1 + world.generator.below(6), bytes: limit.bytes)
        return try file.read(database, after: offset, limit: few)
    }

    /// A read takes its time in one of four calls.
    func pause() async throws {
        let before = lifetime
        if world.generator.chance(25) {
            await withCheckedContinuation { world.schedule(.resume($0), in: world.delay(0, 6, slow: 200)) }
        }
        guard before == lifetime, !isClosed else { throw closed }
    }

    func changes(in database: DatabaseID) -> AsyncStream<LogChange> {
        let (stream, continuation) = AsyncStream<LogChange>.makeStream(bufferingPolicy: .bufferingNewest(1))
        nextFollower += 1
        followers[nextFollower] = continuation
        continuation.yield(LogChange())
        return stream
    }

    func wake(_ follower: Int, _ change: LogChange, _ since: Int) {
        guard since == lifetime else { return }
        followers[follower]?.wake(change)
    }

    // MARK: What nobody asks of a simulated log

    func createDatabase(_ database: DatabaseID) async throws -> Bool { false }
    func eraseDatabase(_ database: DatabaseID) async throws -> Offset? { nil }
    func scrub() async throws {}
    func databases() async throws -> [DatabaseID] { [Self.database] }
    func databaseExists(_ database: DatabaseID) async throws -> Bool { true }
    var term: UInt64 { 0 }
    func requireStorage() async throws {}
    var status: LogStatus {
        LogStatus(queuedOperations: pending.count, queuedBytes: 0, waitingAppends: 0, refusal: nil)
    }
    func close() async {}
}
