import CRDT
import Foundation
import Synchronization
import Testing

@testable import OperationLog
@testable import Postgres

/// A caller that nobody appends beside commits itself, if that takes no more than a moment (0044).
@Suite(
    "The log in PostgreSQL: who appends alone",
    .enabled(if: TestDatabase.serverURL != nil, "`make test` starts a PostgreSQL"), .timeLimit(.minutes(2)))
struct LoneCallerTests {
    private static func call(_ requests: AppendRequest...) throws -> AppendCall {
        try AppendCall(requests, database: "db")
    }

    private final class Answered: Sendable { let flag = Atomic(false) }

    private static func locked(_ url: String) throws -> Connection {
        let holder = try Connection(url: url)
        try holder.run("BEGIN; SELECT 1 FROM mimeo_log.databases FOR UPDATE")
        return holder
    }

    /// Runs `body` with a writer whose first group has been appended.
    private static func use(
        _ body: (PostgresLogWriter, PostgresOperationLog, _ url: String) async throws -> Void
    )
        async throws
    {
        try await TestDatabase.use { url in
            let log = try PostgresOperationLog(url: url)
            try await log.createDatabase("db")
            let writer = PostgresLogWriter(url: url, logger: quiet)
            #expect(!writer.isSentAtOnce(try call(record(1, 1))), "it has no connection yet")
            #expect(writer.finish(writer.begin([try call(record(1, 1))])).grown == ["db": 1])
            try await body(writer, log, url)
            writer.close()
            await log.close()
        }
    }

    @Test("an append that the server takes as it was sent is known within a moment, and finished at once")
    func decided() async throws {
        try await Self.use { writer, log, _ in
            for sequence in 2...20 as ClosedRange<UInt64> {
                let call = try Self.call(record(1, SequenceNumber(sequence)))
                #expect(writer.isSentAtOnce(call))
                let group = writer.begin([call])
                #expect(writer.hasAppended(group, within: .seconds(30)))
                #expect(writer.finish(group).grown == ["db": Offset(sequence)])
            }
            #expect(try await log.head(of: "db").offset == 20)
        }
    }

    @Test("behind a lock nothing is decided, and the same group is finished once")
    func undecided() async throws {
        try await Self.use { writer, log, url in
            let holder = try Self.locked(url)
            let group = writer.begin([try Self.call(record(1, 2))])
            #expect(!writer.hasAppended(group, within: .milliseconds(20)))
            try holder.run("COMMIT")
            #expect(writer.finish(group).grown == ["db": 2])
            #expect(try await log.read("db", after: 0).map(\.sequence) == [1, 2])
        }
    }

    @Test("what another process has overtaken is not decided by one answer, and appended behind it")
    func overtaken() async throws {
        try await Self.use { writer, log, _ in
            _ = try await log.append([record(2, 1)], to: "db")
            let call = try Self.call(record(1, 2))
            let group = writer.begin([call])
            #expect(!writer.hasAppended(group, within: .seconds(30)))
            #expect(writer.finish(group).grown == ["db": 3])
            #expect(!writer.isSentAtOnce(try Self.call(record(1, 3))), "others append too")
        }
    }

    @Test("what would have to wait for the server's ear is not sent by its caller")
    func large() async throws {
        try await Self.use { writer, _, _ in
            let half = record(1, 2, size: PostgresLimits.callerBytes / 2)
            #expect(writer.isSentAtOnce(try Self.call(half)))
            #expect(
                !writer.isSentAtOnce(try Self.call(half, record(1, 3, size: PostgresLimits.callerBytes / 2))))
            let small = try AppendCall((2...1_000).map { record(1, $0) }, database: "db")
            #expect(!writer.isSentAtOnce(small), "columns are bytes too")
            let conditional = AppendRequest(
                record: record(1, 2).record, authorKey: "key", touches: [],
                condition: AppendCondition(readAt: 1, reads: []))
            #expect(!writer.isSentAtOnce(try Self.call(conditional)), "it takes a second round trip")
            // Unflushed changes go with the next append, and can be large.
            var sequence: SequenceNumber = 2
            while writer.isSentAtOnce(try Self.call(record(1, sequence))), sequence < 40_000 {
                let next = sequence.advanced(by: 2_000)
                let many = try AppendCall((sequence..<next).map { record(1, $0) }, database: "db")
                #expect(writer.finish(writer.begin([many])).grown.count == 1)
                sequence = next
            }
            #expect(2_000..<40_000 ~= sequence)
            #expect(writer.finish(writer.begin([try Self.call(record(1, sequence))])).grown.count == 1)
            #expect(writer.isSentAtOnce(try Self.call(record(1, sequence.next))), "everything is flushed")
        }
    }

    @Test("the log lets its callers do that: an append is answered while the committing thread stands still")
    func wiring() async throws {
        try await TestDatabase.use { url in
            let log = try PostgresOperationLog(url: url)
            try await log.createDatabase("db")
            _ = try await log.append([record(1, 1)], to: "db")
            var sequence: SequenceNumber = 1
            // Sooner or later one takes no longer than a caller waits.
            var hasBeen = false
            while !hasBeen, sequence < 200 {
                // Behind a pause everything takes longer.
                for _ in 0..<4 {
                    sequence = sequence.next
                    _ = try await log.append([record(1, sequence)], to: "db")
                }
                while log.committer.hasTurnTaken { try await Task.sleep(for: .milliseconds(1)) }
                sequence = sequence.next
                let isAnswered = Answered()
                log.committer.queue.suspend()
                let append = Task { [sequence] in
                    defer { isAnswered.flag.store(true, ordering: .relaxed) }
                    return try await log.append([record(1, sequence)], to: "db")
                }
                for _ in 0..<100 where !isAnswered.flag.load(ordering: .relaxed) {
                    try await Task.sleep(for: .milliseconds(1))
                }
                hasBeen = isAnswered.flag.load(ordering: .relaxed)
                log.committer.queue.resume()
                #expect(try await append.value == [.appended(offset: Offset(sequence.rawValue))])
                while log.committer.hasTurnTaken { try await Task.sleep(for: .milliseconds(1)) }
            }
            #expect(hasBeen, "none of \(sequence) appends")
            await log.close()
        }
    }

    @Test("appends that wait for a lock leave the threads of tasks to whoever gives it back")
    func threads() async throws {
        try await TestDatabase.use { url in
            // More than there are threads for tasks, each its own committer.
            let names = (0...ProcessInfo.processInfo.activeProcessorCount).map { "db\($0)" }
            let logs = try names.map { _ in try PostgresOperationLog(url: url) }
            for (log, name) in zip(logs, names) {
                try await log.createDatabase(DatabaseID(name))
                _ = try await log.append([record(1, 1)], to: DatabaseID(name))
            }
            let holder = try Self.locked(url)
            try await withThrowingTaskGroup(of: Void.self) { group in
                for (log, name) in zip(logs, names) {
                    group.addTask {
                        let outcomes = try await log.append([record(1, 2)], to: DatabaseID(name))
                        #expect(outcomes == [.appended(offset: 2)])
                    }
                }
                for log in logs {
                    while log.status.queuedOperations == 0 { try await Task.sleep(for: .milliseconds(1)) }
                }
                try holder.run("COMMIT")
                try await group.waitForAll()
            }
            for log in logs { await log.close() }
        }
    }
}
