import CRDT
import Foundation
import Identity
import Logging
import OperationLog
import TestSupport
import Testing

@testable import ServiceKit

@Suite("A log that was put back to an earlier state", .timeLimit(.minutes(2)))
struct RestoreTests {
    private static var quiet: Logger {
        var logger = Logger(label: "test")
        logger.handler = SwiftLogNoOpLogHandler()
        return logger
    }

    /// Runs a body with the system database in a folder.
    private static func with<Result: Sendable>(
        _ folder: URL, _ body: (SystemDatabase) async throws -> Result
    ) async throws -> Result {
        let log = try SQLiteOperationLog(
            path: folder.appendingPathComponent("log.sqlite").path, logger: quiet)
        let system = SystemDatabase(
            log: log, folder: folder.appendingPathComponent("system").path, logger: quiet)
        try await system.open()
        let result = try await body(system)
        await system.close()
        await log.close()
        return result
    }

    private static let companions = ["", "-wal", "-shm", "-mark", "-wake"]

    /// Copies the closed log away, or back.
    private static func copyLog(from: URL, to: URL) throws {
        let manager = FileManager.default
        try manager.createDirectory(at: to, withIntermediateDirectories: true)
        for suffix in companions {
            let target = to.appendingPathComponent("log.sqlite\(suffix)")
            try? manager.removeItem(at: target)
            let source = from.appendingPathComponent("log.sqlite\(suffix)")
            if manager.fileExists(atPath: source.path) { try manager.copyItem(at: source, to: target) }
        }
    }

    private static func isRefused(_ system: SystemDatabase) -> Bool {
        do {
            try system.requireTrust()
            return false
        } catch {
            return error.code == .restoreNotAccepted && error.httpHeaders.isEmpty
        }
    }

    @Test("it names the revocations and keys that it takes back, over restarts, until somebody accepts that")
    func takenBack() async throws {
        try await withTemporaryDirectory { folder in
            let backup = folder.appendingPathComponent("backup")
            let key = APIKeyRecord(
                id: "k1", database: "cars", name: "n", secretHash: "h", permissions: .everything,
                createdAtSeconds: 1, expiresAtSeconds: 9)
            try await Self.with(folder) { system in
                try await system.write { try $0.put(DatabaseRecord(id: "cars", createdAtSeconds: 1)) }
                try await system.write { try $0.put(key) }
                #expect(system.restoreNotice == nil)
            }
            try Self.copyLog(from: folder, to: backup)
            try await Self.with(folder) { system in
                try await system.write {
                    try $0.put(Revocation(database: "cars", subject: .user, value: "eve", sinceSeconds: 2))
                    try $0.remove("k1", APIKeyRecord.self)
                    try $0.put(
                        DocumentErasure(
                            database: "cars", digests: ["a", "b"], blobs: [], requestedAtSeconds: 3))
                }
                #expect(system.restoreNotice == nil)
            }
            try Self.copyLog(from: backup, to: folder)
            for _ in 0..<2 {
                try await Self.with(folder) { system in
                    let notice = try #require(system.restoreNotice)
                    #expect(
                        notice.takenBack == [
                            "the revocation of user 'eve' of database cars is taken back",
                            "the API key k1 of database cars, which was deleted, is valid again",
                            "the erasure of 2 documents of database cars is taken back",
                        ])
                    #expect(Self.isRefused(system))
                    let authenticator = Authenticator(system: system)
                    let error = await #expect(throws: ServiceError.self) {
                        _ = try await authenticator.identity(token: "a.b.c")
                    }
                    #expect(error?.code == .restoreNotAccepted)
                    let health = await SystemDatabasePart(system).health()
                    #expect(health.detail?.hasPrefix("SRV-0603") == true)
                }
            }
            try await Self.with(folder) { system in
                try await system.acceptRestore(nowSeconds: 5)
                #expect(system.restoreNotice == nil && !Self.isRefused(system))
                #expect(await SystemDatabasePart(system).health() == .ok)
            }
            try await Self.with(folder) { #expect($0.restoreNotice == nil) }
        }
    }

    @Test("a log that lacks operations which were durable here is told, whatever they held")
    func loss() async throws {
        try await withTemporaryDirectory { folder in
            let backup = folder.appendingPathComponent("backup")
            try await Self.with(folder) { system in
                try await system.write { try $0.put(DatabaseRecord(id: "cars", createdAtSeconds: 1)) }
            }
            try Self.copyLog(from: folder, to: backup)
            try await Self.with(folder) { system in
                try await system.write { try $0.put(DatabaseRecord(id: "boats", createdAtSeconds: 1)) }
            }
            // The copies of a machine that is gone know nothing; the mark beside the log does.
            try FileManager.default.removeItem(at: folder.appendingPathComponent("system"))
            let file = folder.appendingPathComponent("log.sqlite")
            try FileManager.default.removeItem(at: file)
            try FileManager.default.copyItem(at: backup.appendingPathComponent("log.sqlite"), to: file)
            try await Self.with(folder) { system in
                let first = try #require(system.restoreNotice?.takenBack.first)
                #expect(first.hasSuffix("of database mimeo.system are lost"), "\(first)")
                try await system.acceptRestore(nowSeconds: 5)
            }
            try await Self.with(folder) { #expect($0.restoreNotice == nil) }
        }
    }

    @Test("a service that was away while the log was truncated has lost nothing")
    func truncated() async throws {
        try await withTemporaryDirectory { folder in
            let kept = folder.appendingPathComponent("kept")
            try await Self.with(folder) { system in
                try await system.write { try $0.put(DatabaseRecord(id: "cars", createdAtSeconds: 1)) }
            }
            try FileManager.default.copyItem(at: folder.appendingPathComponent("system"), to: kept)
            try await Self.with(folder) { system in
                for number in 0..<5 {
                    try await system.write {
                        try $0.put(DatabaseRecord(id: "d\(number)", createdAtSeconds: 1))
                    }
                }
            }
            let log = try SQLiteOperationLog(
                path: folder.appendingPathComponent("log.sqlite").path, logger: Self.quiet)
            let materializer = try await Materializer.open(
                SystemDatabase.id, log: log, folder: folder.appendingPathComponent("m").path,
                logger: Self.quiet)
            try await materializer.advance()
            let snapshot = try #require(try await materializer.writeSnapshot { true })
            try await log.truncate(
                SystemDatabase.id, through: snapshot.position.offset,
                keepingHashesAfter: snapshot.position.offset)
            await materializer.close()
            await log.close()
            let system = folder.appendingPathComponent("system")
            try FileManager.default.removeItem(at: system)
            try FileManager.default.moveItem(at: kept, to: system)
            try await Self.with(folder) { system in
                #expect(system.restoreNotice == nil)
                #expect(system.directory.databases.count == 6)
            }
        }
    }
}
