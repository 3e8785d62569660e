import Dispatch
import GRDB
import Synchronization
import Testing

@testable import OperationLog

@Suite("SQLite log: failing writes", .timeLimit(.minutes(5)))
struct SQLiteFailureTests {
    @Test("a full storage refuses appends with a reason, reads go on, and space heals it")
    func storageFull() async throws {
        try await withLog { log, _ in
            _ = try await log.append(requests(1, 1...3), to: "db")
            try setPageLimit(log, 1)
            let refusal = try await code {
                _ = try await log.append(requests(1, 4...40, size: 10_000), to: "db")
            }
            #expect(refusal == .storageFull)
            #expect(try await readAll(log).map(\.offset) == [1, 2, 3])
            #expect(log.status.refusal == nil)
            try setPageLimit(log, 1_000_000)
            let outcomes = try await log.append(requests(1, 4...40, size: 10_000), to: "db")
            #expect(outcomes.last == .appended(offset: 40))
        }
    }

    @Test("a failed commit poisons the writer until the log is opened again, and reads go on")
    func failedCommit() async throws {
        try await withLog { log, path in
            _ = try await log.append([request(1, 1)], to: "db")
            let failure = FailingCommit()
            log.pool.add(transactionObserver: failure, extent: .databaseLifetime)
            #expect(try await code { _ = try await log.append([request(1, 2)], to: "db") } == .commitFailed)
            log.pool.remove(transactionObserver: failure)
            #expect(try await code { _ = try await log.append([request(1, 2)], to: "db") } == .poisoned)
            #expect(try await code { _ = try await log.createDatabase("new") } == .poisoned)
            #expect(log.status.refusal?.code == .poisoned)
            #expect(try await readAll(log).map(\.offset) == [1])
            await log.close()
            let again = try SQLiteOperationLog(path: path)
            #expect(try await again.append([request(1, 2)], to: "db") == [.appended(offset: 2)])
            await again.close()
        }
    }

    @Test("appends that queued behind a failed commit are not acknowledged")
    func queuedBehindFailure() async throws {
        try await withLog { log, path in
            let holder = try LockHolder(path)
            let failure = FailingCommit()
            log.pool.asyncWriteWithoutTransaction {
                $0.add(transactionObserver: failure, extent: .databaseLifetime)
            }
            async let first = code { _ = try await log.append([request(1, 1)], to: "db") }
            #expect(try await eventually { log.status.queuedOperations == 1 })
            async let second = code { _ = try await log.append([request(2, 1)], to: "db") }
            #expect(try await eventually { log.status.queuedOperations == 2 })
            try holder.letGo()
            let codes = [try await first, try await second]
            #expect(codes.contains(.commitFailed))
            #expect(codes.allSatisfy { $0 == .commitFailed || $0 == .poisoned })
            #expect(try await log.head(of: "db").offset == 0)
        }
    }

    @Test("nothing is committed between the failure of a change beside the appends and its being noticed")
    func behindFailedChange() async throws {
        try await withLog { log, path in
            let failure = HeldFailure()
            log.pool.add(transactionObserver: failure, extent: .databaseLifetime)
            async let change = code { _ = try await log.createDatabase("new") }
            #expect(try await eventually { failure.isReached })
            async let append = code { _ = try await log.append([request(1, 1)], to: "db") }
            #expect(try await eventually { log.status.queuedOperations == 1 })
            // Until the committing thread waits for the connection; if it does not yet, this shows nothing.
            try await Task.sleep(for: .milliseconds(100))
            failure.letGo()
            #expect(try await change == .commitFailed)
            #expect(try await append == .poisoned)
            #expect(try await log.head(of: "db").offset == 0)
        }
    }

    @Test("a write lock that another process keeps is waited for, then reported")
    func busy() async throws {
        var options = SQLiteOperationLog.Options()
        options.busyTimeout = .milliseconds(30)
        try await withLog(options) { log, path in
            let holder = try LockHolder(path)
            #expect(try await code { _ = try await log.append([request(1, 1)], to: "db") } == .busy)
            #expect(try await code { _ = try await log.createDatabase("new") } == .busy)
            try holder.letGo()
            #expect(try await log.append([request(1, 1)], to: "db") == [.appended(offset: 1)])
        }
    }

    @Test("a statement that the storage refuses is an error that poisons nothing")
    func refusedStatement() async throws {
        try await withLog { log, path in
            try edit(path) { try $0.execute(sql: "ALTER TABLE actors RENAME TO elsewhere") }
            #expect(try await code { _ = try await log.append([request(1, 1)], to: "db") } == .storageFailed)
            #expect(try await code { _ = try await log.frontier(of: [.init(1)], in: "db") } == .storageFailed)
            try edit(path) { try $0.execute(sql: "ALTER TABLE elsewhere RENAME TO actors") }
            #expect(try await log.append([request(1, 1)], to: "db") == [.appended(offset: 1)])
        }
    }
}

private func withLog(
    _ options: SQLiteOperationLog.Options = withoutRecovery(),
    _ body: (SQLiteOperationLog, _ path: String) async throws -> Void
) async throws {
    try await withTemporaryPath { path in
        let log = try SQLiteOperationLog(path: path, options: options)
        try await log.createDatabase("db")
        try await body(log, path)
        await log.close()
    }
}

/// SQLite raises the limit to the size the file has, so 1 means: not a page more.
private func setPageLimit(_ log: SQLiteOperationLog, _ pages: Int) throws {
    try log.pool.unsafeReentrantWrite { db in
        _ = try Int.fetchOne(db, sql: "PRAGMA max_page_count = \(pages)")
    }
}

/// Fails every commit as a disk would whose fsync fails.
private final class FailingCommit: TransactionObserver, Sendable {
    func observes(eventsOfKind eventKind: DatabaseEventKind) -> Bool { true }
    func databaseDidChange(with event: DatabaseEvent) {}
    func databaseWillCommit() throws { throw DatabaseError(resultCode: .SQLITE_IOERR_FSYNC) }
    func databaseDidCommit(_ db: Database) {}
    func databaseDidRollback(_ db: Database) {}
}

/// Fails the first commit as a disk would whose fsync fails, when it is told to.
private final class HeldFailure: TransactionObserver, Sendable {
    private let gate = DispatchSemaphore(value: 0)
    private let commits = Mutex(0)

    /// True if the commit that is to fail has begun.
    var isReached: Bool { commits.withLock { $0 > 0 } }
    func letGo() { gate.signal() }

    func observes(eventsOfKind eventKind: DatabaseEventKind) -> Bool { true }
    func databaseDidChange(with event: DatabaseEvent) {}
    func databaseWillCommit() throws {
        let number = commits.withLock { count in
            count += 1
            return count
        }
        guard number == 1 else { return }
        gate.wait()
        throw DatabaseError(resultCode: .SQLITE_IOERR_FSYNC)
    }
    func databaseDidCommit(_ db: Database) {}
    func databaseDidRollback(_ db: Database) {}
}
