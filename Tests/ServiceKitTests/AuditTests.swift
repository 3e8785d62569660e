import CRDT
import Foundation
import LogFakes
import Logging
import OperationLog
import Synchronization
import TestSupport
import Testing

@testable import ServiceKit

@Suite("The audit", .timeLimit(.minutes(2)))
struct AuditTests {
    private static var quiet: Logger {
        var logger = Logger(label: "test")
        logger.logLevel = .critical
        return logger
    }

    private static func login(
        _ address: String, _ result: AuditEntry.Result = .refused, at milliseconds: Int64 = 0,
        user: String? = nil
    ) -> AuditEntry {
        AuditEntry(milliseconds: milliseconds, action: "login", result: result, user: user, address: address)
    }

    // MARK: Floods

    @Test("the first of a kind is an entry, and further ones are one at the end of the minute")
    func repeated() {
        var digest = AuditDigest()
        #expect(digest.take(Self.login("10.0.0.1", at: 1_000)) != nil)
        for second in 2...40 {
            #expect(digest.take(Self.login("10.0.0.1", at: Int64(second) * 1_000)) == nil)
        }
        #expect(digest.take(Self.login("10.0.0.2", at: 41_000)) != nil)
        #expect(digest.take(Self.login("10.0.0.1", .ok, at: 42_000, user: "ada")) != nil)
        #expect(digest.end(at: 60_999).isEmpty)
        let ended = digest.end(at: 61_000)
        #expect(ended.map(\.count) == [39] && ended.first?.milliseconds == 40_000)
        #expect(ended.first?.address == "10.0.0.1")
        #expect(digest.take(Self.login("10.0.0.1", at: 62_000)) != nil)
        #expect(digest.end(at: 63_000, isLast: true).isEmpty)
    }

    @Test("a flood from any number of addresses adds a bounded number, and hides no success")
    func flood() {
        var digest = AuditDigest()
        var own = 0
        for number in 0..<20_000 where digest.take(Self.login("a\(number)", at: 5)) != nil { own += 1 }
        // One more: the one that stands for all others.
        #expect(own == Limits.auditKinds + 1)
        #expect(digest.take(Self.login("10.0.0.1", .ok, at: 5, user: "ada"))?.user == "ada")
        let ended = digest.end(at: 60_005)
        #expect(ended.map(\.address) == ["others"])
        #expect(ended.first?.count == Int64(20_000 - own))
    }

    // MARK: On the log

    /// A log that cannot be appended to for a while.
    private final class AwayLog: PassingOnLog, @unchecked Sendable {
        // Unchecked because its superclass is: this is guarded by its own lock.
        private let isAway = Mutex(false)

        func goAway(_ away: Bool) { isAway.withLock { $0 = away } }

        override func append(_ requests: [AppendRequest], to database: DatabaseID) async throws
            -> [AppendOutcome]
        {
            guard isAway.withLock({ !$0 }) else { throw OperationLogError(.unreachable, "nobody is there") }
            return try await super.append(requests, to: database)
        }
    }

    private final class Clock: Sendable {
        let milliseconds = Mutex<Int64>(1_800_000_000_000)
        var now: Int64 { milliseconds.withLock { $0 } }
    }

    private static func run(
        _ bounds: AuditLog.Bounds = AuditLog.Bounds(),
        _ body: @escaping @Sendable (AuditLog, AwayLog, Clock, URL) async throws -> Void
    ) async throws {
        try await withTemporaryDirectory { folder in
            let file = try SQLiteOperationLog(
                path: folder.appendingPathComponent("log.sqlite").path, logger: quiet)
            let (log, clock) = (AwayLog(file), Clock())
            let audit = AuditLog(
                log: log, folder: folder.appendingPathComponent("audit").path, bounds: bounds,
                now: { clock.now }, logger: quiet)
            try await body(audit, log, clock, folder)
            await audit.close()
            await file.close()
        }
    }

    private static func addresses(_ audit: AuditLog) async throws -> [String] {
        try await audit.rows(of: "SELECT address FROM audit ORDER BY _id").rows
            .compactMap { $0["address"]?.stringValue }
    }

    @Test("what is recorded is on the log when that returns, for every process, with all that is known")
    func recorded() async throws {
        try await Self.run { audit, log, clock, folder async throws in
            var entry = AuditEntry(
                milliseconds: clock.now, action: "POST /admin/x", result: .failed, code: "SRV-0500",
                user: "admin", address: "10.0.0.1")
            (entry.database, entry.path, entry.request) = (
                "cars", "/admin/x", String(repeating: "r", count: 900)
            )
            try await audit.record(entry)
            let other = AuditLog(
                log: log, folder: folder.appendingPathComponent("other").path, now: { clock.now },
                logger: Self.quiet)
            let row = try await other.rows(of: "SELECT * FROM audit").rows.first
            #expect(row?["action"] == "POST /admin/x" && row?["result"] == "failed")
            #expect(row?["code"] == "SRV-0500" && row?["user"] == "admin" && row?["count"] == 1)
            #expect(row?["at"] == .int(clock.now) && row?["database"] == "cars" && row?["provider"] == nil)
            #expect(row?["request"]?.stringValue?.count == Limits.auditTextCharacters + 1)
            await other.close()
        }
    }

    @Test("entries wait while the log is away, within their bound, and are written when it is back")
    func away() async throws {
        try await Self.run { audit, log, clock, _ async throws in
            log.goAway(true)
            await #expect(throws: OperationLogError.self) {
                try await audit.record(Self.login("first", at: clock.now))
            }
            clock.milliseconds.withLock { $0 += 1 }
            audit.note(Self.login("second", at: clock.now))
            log.goAway(false)
            #expect(try await Self.addresses(audit) == ["first", "second"])
            log.goAway(true)
            // Each result has its own bound of kinds; admin changes have none.
            for _ in 0..<(Limits.auditWaiting / 10_000) {
                try? await audit.record(Self.login("third", at: clock.now))
            }
            log.goAway(false)
            #expect(try await Self.addresses(audit).contains("third"))
        }
    }

    @Test("an answer ends after some megabytes and says that there is more; no statement gathers more either")
    func large() async throws {
        try await Self.run { audit, _, clock, _ async throws in
            for number in 0..<16 {
                clock.milliseconds.withLock { $0 += 1 }
                try await audit.record(Self.login("\(number)", at: clock.now))
            }
            let found = try await audit.rows(of: "SELECT repeat('abcdefgh', 200000) AS x FROM audit")
            #expect(found.rows.count == 6 && found.hasMore)
            let keys = "repeat('abcdefgh', 400000) || address, repeat('12345678', 400000) || address"
            let gathering = "SELECT COUNT(*) AS n FROM audit GROUP BY \(keys)"
            await #expect(throws: AuditLog.Refused.self) { _ = try await audit.rows(of: gathering) }
        }
    }

    @Test("the oldest entries go when they are too many, and all when they are too old")
    func removed() async throws {
        let bounds = AuditLog.Bounds(entries: 5, milliseconds: 1_000_000, removedAtOnce: 2)
        try await Self.run(bounds) { audit, _, clock, _ async throws in
            for number in 0..<12 {
                clock.milliseconds.withLock { $0 += 1 }
                try await audit.record(Self.login("\(number)", at: clock.now))
            }
            try await audit.trim()
            #expect(try await Self.addresses(audit) == ["7", "8", "9", "10", "11"])
            clock.milliseconds.withLock { $0 += 1_000_000 - 1 }
            try await audit.trim()
            #expect(try await Self.addresses(audit) == ["10", "11"])
            clock.milliseconds.withLock { $0 += 2 }
            try await audit.trim()
            #expect(try await Self.addresses(audit) == [])
        }
    }

    @Test(
        "only a SELECT is executed, and what is wrong with one is said",
        arguments: ["DELETE FROM audit", "SELECT FROM", "INSERT INTO audit DOCUMENTS ({'_id': 1})"])
    func refused(statement: String) async throws {
        try await Self.run { audit, _, clock, _ async throws in
            try await audit.record(Self.login("kept", at: clock.now))
            await #expect(throws: AuditLog.Refused.self) { _ = try await audit.rows(of: statement) }
            #expect(try await Self.addresses(audit) == ["kept"])
        }
    }
}
