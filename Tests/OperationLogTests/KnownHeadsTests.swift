import CRDT
import Foundation
import Testing

@testable import OperationLog

@Suite("SQLite log: heads that need no look", .timeLimit(.minutes(5)))
struct KnownHeadsTests {
    @Test("a commit publishes its head, which is the one that a look finds")
    func published() async throws {
        try await withTwoLogs { log, other in
            for sequence in 1...5 as ClosedRange<UInt64> {
                _ = try await log.append([request(1, SequenceNumber(sequence))], to: "db")
                let known = try #require(log.headNow(of: "db"))
                #expect(known.offset == Offset(sequence))
                // The other opening has nothing of it, and looks.
                #expect(other.headNow(of: "db") == nil)
                #expect(try await other.head(of: "db") == known)
                #expect(other.headNow(of: "db") == known)
                #expect(try await log.head(of: "db") == known)
            }
        }
    }

    @Test("any commit of another opening makes the heads unknown, and a look finds the new ones")
    func foreign() async throws {
        try await withTwoLogs { log, other in
            _ = try await log.append([request(1, 1)], to: "db")
            _ = try await other.append([request(2, 1)], to: "db")
            #expect(log.headNow(of: "db") == nil)
            #expect(try await log.head(of: "db").offset == 2)
            #expect(log.headNow(of: "db")?.offset == 2)
            // One that moves no head, too: it may have removed the database.
            _ = try await other.lease("test", of: 1, for: .seconds(60), in: "db")
            #expect(log.headNow(of: "db") == nil)
            #expect(try await log.head(of: "db").offset == 2)
            _ = try await other.eraseDatabase("db")
            #expect(log.headNow(of: "db") == nil)
            await #expect(throws: OperationLogError.self) { try await log.head(of: "db") }
        }
    }

    @Test("a look that a commit overtakes does not replace the head of the commit")
    func overtaken() async throws {
        try await withTwoLogs { log, _ in
            _ = try await log.append([request(1, 1)], to: "db")
            let heads = log.heads
            let (before, old) = (heads.state, try await log.head(of: "db"))
            _ = try await log.append([request(1, 2)], to: "db")
            heads.remember(old, of: "db", since: before)
            #expect(log.headNow(of: "db")?.offset == 2)
            // A look from before another opening's commit is not taken for the present either.
            let state = heads.state
            #expect(state != before)
        }
    }

    @Test("a head is not published where another process has committed after it")
    func overtakenCommit() async throws {
        try await withTwoLogs { log, other in
            _ = try await log.append([request(1, 1)], to: "db")
            let (heads, before) = (log.heads, log.heads.state)
            let position = try await log.head(of: "db")
            // As if the second append came between this log's commit and its publication.
            _ = try await other.append([request(2, 1)], to: "db")
            _ = try await other.append([request(2, 2)], to: "db")
            heads.publish([GrownHead(database: "db", position: position, entries: [])], after: before)
            #expect(log.headNow(of: "db") == nil)
            #expect(try await log.head(of: "db").offset == 3)
        }
    }

    @Test("heads of several databases are known together, and a checkpoint forgets none that it should keep")
    func several() async throws {
        try await withTwoLogs { log, _ in
            try await log.createDatabase("two")
            _ = try await log.append([request(1, 1)], to: "db")
            _ = try await log.append([request(1, 1)], to: "two")
            #expect(log.headNow(of: "two")?.offset == 1)
            #expect(log.headNow(of: "db")?.offset == 1)
            #expect(log.headNow(of: "none") == nil)
            _ = try await log.pool.writeWithoutTransaction { try $0.checkpoint(.truncate) }
            _ = try await log.append([request(1, 2)], to: "db")
            #expect(try await log.head(of: "db").offset == 2)
            #expect(try await log.head(of: "two").offset == 1)
        }
    }

    @Test("a closed log knows no head")
    func closed() async throws {
        try await withTwoLogs { log, _ in
            _ = try await log.append([request(1, 1)], to: "db")
            await log.close()
            #expect(log.headNow(of: "db") == nil)
        }
    }
}

/// Runs the body with two openings of one log that has a database "db".
private func withTwoLogs(
    _ body: (_ log: SQLiteOperationLog, _ other: SQLiteOperationLog) async throws -> Void
) async throws {
    try await withTemporaryPath { path in
        let log = try SQLiteOperationLog(path: path)
        try await log.createDatabase("db")
        let other = try SQLiteOperationLog(path: path)
        try await body(log, other)
        await other.close()
        await log.close()
    }
}
