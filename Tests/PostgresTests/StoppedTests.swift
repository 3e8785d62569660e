import CLibPQ
import CRDT
import Foundation
import Logging
import OperationLog
import Synchronization
import Testing

@testable import Postgres

/// A server that was stopped keeps its connections, and a client that was stopped keeps its locks.
@Suite(
    "The log in PostgreSQL: a side that stops without going away",
    .enabled(if: TestDatabase.serverURL != nil, "`make test` starts a PostgreSQL"), .timeLimit(.minutes(5)))
struct StoppedTests {
    @Test("a server that does not answer is given up, with a code, and everything goes on when one does")
    func silentServer() async throws {
        try await TestDatabase.use { url in
            var options = PostgresOperationLog.Options()
            options.answerTimeout = .milliseconds(500)
            let log = try PostgresOperationLog(url: url, options: options, logger: quiet)
            try await log.createDatabase("db")
            _ = try await log.append([record(1, 1)], to: "db")
            // Nothing of ours is answered behind this, and no lock's time-out is as short.
            let holder = try Connection(url: url)
            try holder.run("BEGIN; LOCK TABLE mimeo_log.databases")
            let unknown = await #expect(throws: OperationLogError.self) {
                _ = try await log.append([record(1, 2)], to: "db")
            }
            #expect(unknown?.code == .outcomeUnknown)
            let unread = await #expect(throws: OperationLogError.self) {
                _ = try await log.read("db", after: 0)
            }
            #expect(unread?.code == .unreachable)
            try holder.run("COMMIT")
            try await appendThroughFailures(log, 1, count: 3)
            #expect(try await readThroughFailures(log).map(\.sequence) == [1, 2, 3])
            await log.close()
        }
    }

    /// Runs `body` beside a client of ours that was stopped behind this statement of its transaction.
    private static func besideStopped(_ url: String, at statement: String, _ body: () async throws -> Void)
        async throws
    {
        let client = try #require(
            PQconnectdb(url + (url.contains("?") ? "&" : "?") + "application_name=mimeo"))
        defer { PQfinish(client) }
        #expect(PQenterPipelineMode(client) == 1)
        for text in ["BEGIN", statement] {
            #expect(PQsendQueryParams(client, text, 0, nil, nil, nil, nil, 1) == 1)
        }
        #expect(PQsendFlushRequest(client) == 1)
        #expect(PQflush(client) == 0)
        let watch = try Connection(url: url)
        while true {
            let rows = try watch.query(
                """
                SELECT count(*) FROM pg_stat_activity WHERE datname = current_database()
                    AND state = 'active' AND wait_event = 'ClientRead' AND pid <> pg_backend_pid()
                """)
            if rows.int8(0, 0) == 1 { break }
            try await Task.sleep(for: .milliseconds(5))
        }
        try await body()
    }

    @Test("a client that was stopped in the midst of an append does not hold the log up for long")
    func stoppedWriter() async throws {
        try await TestDatabase.use { url in
            var options = PostgresOperationLog.Options()
            options.lockTimeout = .seconds(1)
            options.stalledWriterTimeout = .milliseconds(500)
            let log = try PostgresOperationLog(url: url, options: options, logger: quiet)
            try await log.createDatabase("db")
            _ = try await log.append([record(1, 1)], to: "db")
            try await Self.besideStopped(url, at: "UPDATE mimeo_log.databases SET head = head + 1") {
                let outcomes = try await log.append([record(1, 2)], to: "db")
                #expect(outcomes == [.appended(offset: 2)])
            }
            await log.close()
        }
    }

    @Test("a leader that was stopped in the midst of a batch loses its lead")
    func stoppedLeader() async throws {
        try await ProjectionBench.run { bench in
            try await bench.append(ProjectionPostgresTests.insert(into: "c", 0))
            try await bench.projecting { try await bench.catchUp($0) }
            let lead =
                "SELECT pg_advisory_lock(\(ProjectionLocks.lead), number) FROM mimeo_projection.databases"
            try await Self.besideStopped(bench.url, at: lead) {
                try await bench.append(ProjectionPostgresTests.insert(into: "c", 1))
                try await bench.projecting(stallTimeout: .seconds(1)) { try await bench.catchUp($0) }
                #expect(try bench.stored().count == 2)
            }
        }
    }

    @Test("a server that is not heard of is asked for no longer than connecting may take")
    func silentAddress() async throws {
        // Takes connections, and says nothing.
        let listener = socket(AF_INET, Int32(SOCK_STREAM.rawValue), 0)
        defer { close(listener) }
        var address = sockaddr_in()
        address.sin_family = sa_family_t(AF_INET)
        address.sin_addr.s_addr = UInt32(INADDR_LOOPBACK).bigEndian
        var size = socklen_t(MemoryLayout<sockaddr_in>.size)
        let port = withUnsafeMutablePointer(to: &address) { pointer in
            pointer.withMemoryRebound(to: sockaddr.self, capacity: 1) {
                #expect(bind(listener, $0, size) == 0 && listen(listener, 8) == 0)
                #expect(getsockname(listener, $0, &size) == 0)
            }
            return UInt16(bigEndian: pointer.pointee.sin_port)
        }
        let error = #expect(throws: OperationLogError.self) {
            try PostgresOperationLog(url: "postgres://127.0.0.1:\(port)/none?connect_timeout=2")
        }
        #expect(error?.code == .unreachable)
    }

    @Test("a worker that waits for its server keeps nobody longer than he wants to wait")
    func waitingWorker() async throws {
        let isHeld = DispatchSemaphore(value: 0)
        let holder = WorkerLane {
            isHeld.wait()
            throw ProjectionError(.unreachable, "none")
        }
        let waiting = Task { try? await holder.run { _ in } }
        await holder.pause(for: .milliseconds(10))
        isHeld.signal()
        await waiting.value
    }

    @Test("nothing was changed where no connection was to be had")
    func noConnection() async throws {
        let lanes = ConnectionLanes(url: "postgres://127.0.0.1:1/none", count: 1)
        let error = await #expect(throws: OperationLogError.self) {
            try await lanes.run(isRepeatable: false) { try $0.run("SELECT 1") }
        }
        #expect(error?.code == .unreachable)
        await lanes.close()
    }

    @Test("who is let in and then refused comes back less and less often")
    func refusedLooks() async throws {
        try await TestDatabase.use { url in
            let attempts = Attempts()
            var options = PostgresOperationLog.Options()
            options.pollInterval = .milliseconds(10)
            options.firstReconnectPause = .milliseconds(10)
            let log = try PostgresOperationLog(
                url: url, options: options,
                logger: Logger(label: "test") { _ in AttemptHandler(attempts: attempts) })
            try await log.createDatabase("db")
            let following = Task { for await _ in log.changes(in: "db") {} }
            try Connection(url: url).run("ALTER TABLE mimeo_log.databases RENAME TO other")
            while attempts.times.count < 7 { try await Task.sleep(for: .milliseconds(5)) }
            let times = attempts.times
            // Three pauses of half of 80, 160 and 320 ms at least.
            #expect(times[6] - times[3] > .milliseconds(250))
            following.cancel()
            await log.close()
        }
    }
}

/// The times of failed attempts, of which each logs a line.
private final class Attempts: Sendable {
    private let noted = Mutex<[ContinuousClock.Instant]>([])
    var times: [ContinuousClock.Instant] { noted.withLock(\.self) }
    func add() { noted.withLock { $0.append(.now) } }
}

/// Notes when something is logged.
private struct AttemptHandler: LogHandler {
    let attempts: Attempts
    var metadata: Logger.Metadata = [:]
    var logLevel = Logger.Level.warning

    subscript(metadataKey key: String) -> Logger.Metadata.Value? {
        get { metadata[key] }
        set { metadata[key] = newValue }
    }

    func log(event: LogEvent) { attempts.add() }
}
