import CRDT
import Foundation
import Identity
import LogFakes
import Logging
import OperationLog
import ServiceKit
import Synchronization
import TestSupport
import Testing

@Suite("The system database", .timeLimit(.minutes(2)))
struct SystemDatabaseTests {
    /// A log that may be another one, or not answer, behind the back of whoever follows it.
    private final class FailingLog: PassingOnLog, @unchecked Sendable {
        // Unchecked because its superclass is: this is guarded by its own lock.
        private let isAway = Mutex(false)

        func goAway(_ away: Bool) { isAway.withLock { $0 = away } }

        override func position(at offset: Offset, in database: DatabaseID) async throws -> LogPosition? {
            guard isAway.withLock({ !$0 }) else { throw OperationLogError(.unreachable, "nobody is there") }
            return try await super.position(at: offset, in: database)
        }
    }

    private static var quiet: Logger {
        var logger = Logger(label: "test")
        logger.logLevel = .critical
        return logger
    }

    private static func eventually(_ condition: () async throws -> Bool) async throws -> Bool {
        let end = ContinuousClock.now + .seconds(60)
        while ContinuousClock.now < end {
            if try await condition() { return true }
            try await Task.sleep(for: .milliseconds(10))
        }
        return try await condition()
    }

    private static func open(_ log: any OperationLog, _ folder: URL, _ name: String) async throws
        -> SystemDatabase
    {
        let system = SystemDatabase(
            log: log, folder: folder.appendingPathComponent(name).path, logger: quiet)
        try await system.open()
        return system
    }

    private static func log(_ folder: URL, _ name: String) throws -> SQLiteOperationLog {
        try SQLiteOperationLog(path: folder.appendingPathComponent("\(name).sqlite").path, logger: quiet)
    }

    private static func revocation(_ user: String) -> Revocation {
        Revocation(database: "cars", subject: .user, value: user, sinceSeconds: 1)
    }

    private static func isRevoked(_ user: String, _ system: SystemDatabase) -> Bool {
        system.directory.revocation(of: .user, user, in: "cars") != nil
    }

    @Test("one whose log was put back is read anew, however long that takes, and followed after that")
    func readAnew() async throws {
        try await withTemporaryDirectory { folder in
            let (first, other) = (try Self.log(folder, "first"), try Self.log(folder, "other"))
            let writer = try await Self.open(other, folder, "writer")
            try await writer.write { try $0.put(DatabaseRecord(id: "cars", createdAtSeconds: 1)) }
            try await writer.write { try $0.put(Self.revocation("eve")) }

            let log = FailingLog(first)
            let system = try await Self.open(log, folder, "reader")
            for id in ["cars", "boats", "ships"] {
                try await system.write { try $0.put(DatabaseRecord(id: id, createdAtSeconds: 1)) }
            }
            let running = Task { await system.run() }
            #expect(await system.failure() == nil)
            #expect(!Self.isRevoked("eve", system) && system.directory.database("boats") != nil)

            log.goAway(true)
            log.failOver(to: other)
            // Whoever asks finds it, and so does the next change; until it is read anew that is told.
            await #expect(throws: (any Error).self) { try await system.refresh() }
            let last = try await Self.open(first, folder, "last")
            try await last.write { try $0.put(Self.revocation("nobody")) }
            #expect(try await Self.eventually { await system.failure()?.contains("was reset") == true })
            let part = SystemDatabasePart(system)
            #expect(await part.health().status == .failing)
            // What was known still counts: nobody is let in because the log is away.
            #expect(system.directory.database("boats") != nil)

            log.goAway(false)
            #expect(try await Self.eventually { Self.isRevoked("eve", system) })
            #expect(try await Self.eventually { await system.failure() == nil })
            #expect(system.directory.database("boats") == nil)
            // It lacks what was known, so an operator has to say that it may count; any gateway may hear it.
            #expect(await part.health().detail?.hasPrefix("SRV-0603") == true)
            try await writer.acceptRestore(nowSeconds: 1)
            #expect(try await Self.eventually { await part.health() == .ok })
            try await writer.write { try $0.put(Self.revocation("mallory")) }
            #expect(try await Self.eventually { Self.isRevoked("mallory", system) })

            running.cancel()
            for database in [system, writer, last] { await database.close() }
            for log in [first, other] { await log.close() }
        }
    }

    @Test("a service is well when its log has a database and every record can be read, and else it says so")
    func health() async throws {
        try await withTemporaryDirectory { folder in
            let log = try Self.log(folder, "log")
            let system = try await Self.open(log, folder, "system")
            let part = SystemDatabasePart(system)
            let empty = await part.health()
            #expect(empty.status == .failing && empty.detail?.contains("--log") == true)
            try await system.write { try $0.put(DatabaseRecord(id: "cars", createdAtSeconds: 1)) }
            #expect(await part.health() == .ok)
            // A record of a later version, perhaps a revocation of a new kind: it may not count as nothing.
            struct Later: SystemRecord {
                static let collection = SystemCollectionName.revocations
                var id: String
                var fleet: String
            }
            try await system.write { try $0.put(Later(id: "later", fleet: "all")) }
            #expect(await system.failure()?.contains("1 records") == true)
            #expect(await part.health().status == .failing)
            try await system.write { try $0.remove("later", Later.self) }
            #expect(await part.health() == .ok)
            await system.close()
            await log.close()
        }
    }

    @Test("changes wake whoever listens, the first time at once, and end when it is closed")
    func changes() async throws {
        try await withTemporaryDirectory { folder in
            let log = try Self.log(folder, "log")
            let system = try await Self.open(log, folder, "system")
            let woken = Mutex(0)
            let listening = Task {
                for await _ in system.changes { woken.withLock { $0 += 1 } }
            }
            #expect(try await Self.eventually { woken.withLock { $0 } == 1 })
            try await system.write { try $0.put(Self.revocation("eve")) }
            #expect(try await Self.eventually { woken.withLock { $0 } >= 2 })
            await system.close()
            await listening.value
            await log.close()
        }
    }
}
