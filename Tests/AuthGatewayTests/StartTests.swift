import AuthGateway
import CRDT
import LogFakes
import OperationLog
import Synchronization
import Testing

/// A log whose n-th call fails as when its server goes away: before it does anything, or after it has done
/// it.
private final class InterruptedLog: PassingOnLog, @unchecked Sendable {
    private let remaining: Mutex<Int>
    private let isDone: Bool

    init(_ log: any OperationLog, call number: Int, isDone: Bool) {
        remaining = Mutex(number)
        self.isDone = isDone
        super.init(log)
    }

    /// True if that call has come.
    var hasFailed: Bool { remaining.withLock { $0 < 0 } }

    private func passing<Result>(_ isChange: Bool, _ body: () async throws -> Result) async throws -> Result {
        let isMine = remaining.withLock { remaining in
            remaining -= 1
            return remaining == -1
        }
        guard isMine else { return try await body() }
        if isDone && isChange {
            _ = try await body()
            throw OperationLogError(.outcomeUnknown, "the server went away")
        }
        throw OperationLogError(.unreachable, "the server went away")
    }

    override func createDatabase(_ database: DatabaseID) async throws -> Bool {
        try await passing(true) { try await super.createDatabase(database) }
    }

    override func append(_ requests: [AppendRequest], to database: DatabaseID) async throws -> [AppendOutcome]
    {
        try await passing(true) { try await super.append(requests, to: database) }
    }

    override func frontier(
        of actors: [ActorID], in database: DatabaseID
    ) async throws -> [ActorID: FrontierEntry] {
        try await passing(false) { try await super.frontier(of: actors, in: database) }
    }

    override func head(of database: DatabaseID) async throws -> LogPosition {
        try await passing(false) { try await super.head(of: database) }
    }

    override func read(_ database: DatabaseID, after offset: Offset, limit: ReadLimit) async throws
        -> [LogEntry]
    {
        try await passing(false) { try await super.read(database, after: offset, limit: limit) }
    }

    override func lease(
        _ purpose: String, of slots: Int, for duration: Duration, in database: DatabaseID
    ) async throws -> ActorLease? {
        try await passing(true) {
            try await super.lease(purpose, of: slots, for: duration, in: database)
        }
    }
}

@Suite("A gateway's start while its log goes away")
struct StartTests {
    @Test("waits, whichever call fails, and ends with one first database", arguments: [false, true])
    func interrupted(isDone: Bool) async throws {
        var calls = 0
        var hasFailed = true
        while hasFailed {
            let fixture = GatewayFixture()
            let place = Mutex<InterruptedLog?>(nil)
            let number = calls
            let gateway = try fixture.gateway(wrap: { log in
                let log = InterruptedLog(log, call: number, isDone: isDone)
                place.withLock { $0 = log }
                return log
            })
            try await fixture.serving(gateway) { _ async throws in
                #expect(Set(fixture.registered) == [gateway.development.id], "call \(number)")
            }
            let first = gateway.development
            let again = try fixture.gateway()
            try await fixture.serving(again) { address async throws in
                #expect(again.development == first, "call \(number)")
                #expect(try await login(address, first.loginBody()).status == 200)
            }
            // A gateway that has started has calls of its own.
            hasFailed = place.withLock { $0?.hasFailed } == true && calls < 40
            calls += 1
        }
        #expect(calls >= 6, "a start makes \(calls) calls only: this shows nothing")
    }
}
