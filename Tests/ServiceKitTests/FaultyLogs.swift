import CRDT
import LogFakes
import OperationLog
import Synchronization

/// A log whose appends take a time of a test's clock.
final class SlowLog: PassingOnLog, @unchecked Sendable {
    // Unchecked as its superclass is; what it has itself is guarded or immutable.
    let time = Mutex(Duration.zero)
    private let wait: @Sendable (Duration) -> Void

    init(_ log: any OperationLog, _ wait: @escaping @Sendable (Duration) -> Void) {
        self.wait = wait
        super.init(log)
    }

    override func append(_ requests: [AppendRequest], to database: DatabaseID) async throws -> [AppendOutcome]
    {
        wait(time.withLock { $0 })
        return try await super.append(requests, to: database)
    }
}

/// A log that refuses changes as a server does.
final class FullLog: PassingOnLog, @unchecked Sendable {
    let refusal = Mutex<OperationLogErrorCode?>(nil)

    override func append(
        _ requests: [AppendRequest], to database: DatabaseID
    ) async throws -> [AppendOutcome] {
        try await requireRoom()
        return try await super.append(requests, to: database)
    }

    override func requireRoom() async throws {
        if let code = refusal.withLock({ $0 }) { throw OperationLogError(code, "as the test says") }
    }
}

/// A log whose disk stands still on demand.
final class HangingLog: PassingOnLog, @unchecked Sendable {
    // Unchecked as its superclass is; what it has itself is guarded or immutable.
    let hangs = Mutex(false)
    private let (begun, telling) = AsyncStream.makeStream(of: Void.self)
    private let (over, ending) = AsyncStream.makeStream(of: Void.self)

    override func append(_ requests: [AppendRequest], to database: DatabaseID) async throws -> [AppendOutcome]
    {
        await hang()
        return try await super.append(requests, to: database)
    }

    override func lease(
        _ purpose: String, of slots: Int, for duration: Duration, in database: DatabaseID
    ) async throws -> ActorLease? {
        await hang()
        return try await super.lease(purpose, of: slots, for: duration, in: database)
    }

    private func hang() async {
        guard hangs.withLock({ $0 }) else { return }
        telling.yield()
        for await _ in over { break }
    }

    /// Returns once a call hangs.
    func reached() async { for await _ in begun { return } }

    func goOn() {
        hangs.withLock { $0 = false }
        ending.yield()
    }
}
