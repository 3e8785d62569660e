import CRDT
import Foundation
import Synchronization
import Testing

@testable import OperationLog
@testable import Postgres

@Suite("A log that was restored, or failed over to a standby that lacks commits")
struct RestoredLogTests {
    @Test(
        "every cursor behind the loss notices, every cursor before it goes on", arguments: LogDriver.allCases)
    func noticed(driver: LogDriver) async throws {
        try await driver.withBackup(
            first: { log in
                _ = try await log.append(requests(1, 1...5), to: "db")
                _ = try await log.append(requests(2, 1...5), to: "db")
            },
            later: { log in
                _ = try await log.append(requests(1, 6...10), to: "db")
                return try await places(log, 0...15)
            },
            restored: { log, places in
                #expect(try await log.head(of: "db") == places[10])
                #expect(try await self.places(log, 0...10) == Array(places[...10]))
                for offset in Offset(11)...15 {
                    #expect(try await log.position(at: offset, in: "db") == nil)
                }
                // Other operations take the lost ones' offsets, one of them even the same actor and number.
                _ = try await log.append([request(1, 6, text: "other")] + requests(3, 1...6), to: "db")
                let again = try await self.places(log, 0...17)
                #expect(Array(again[...10]) == Array(places[...10]))
                for offset in 11...15 { #expect(again[offset] != places[offset]) }
                // And still when all of that was removed from the log.
                let draft = try await log.beginSnapshot(of: "db", at: try #require(again[17]))
                try await log.add([1], to: draft, in: "db")
                _ = try await log.finish(draft, in: "db")
                try await log.truncate("db", through: 16, keepingHashesAfter: 0)
                #expect(try await self.places(log, 0...17) == again)
                // The author learns from the frontier where it stands.
                #expect(try await log.frontier(of: [ActorID(1)], in: "db")[ActorID(1)]?.sequence == 6)
                let late = try await log.append([request(1, 6)], to: "db")
                #expect(late == [.conflict(.differentContent(sequence: 6))])
            })
    }

    @Test(
        "no service writes on as the actor that it had leased, nor under a lease of before",
        arguments: LogDriver.allCases)
    func leases(driver: LogDriver) async throws {
        let held = Mutex<ActorLease?>(nil)
        let old: @Sendable () throws -> ActorLease = { try #require(held.withLock { $0 }) }
        func append(_ sequence: SequenceNumber, _ lease: ActorLease, _ log: any OperationLog) async throws
            -> AppendOutcome
        {
            let record = request(lease.actor.rawValue, sequence).record
            let request = AppendRequest(
                record: record, authorKey: lease.authorKey, touches: [], lease: lease)
            return try await log.append([request], to: "db")[0]
        }
        try await driver.withBackup(
            first: { log in
                let lease = try await log.lease("writing", of: 1, for: .seconds(3_600), in: "db")
                held.withLock { $0 = lease }
                #expect(try await append(1, try old(), log) == .appended(offset: 1))
            },
            later: { log in
                // The log is where it was: what is held stays.
                #expect(try await append(2, try old(), log) == .appended(offset: 2))
                #expect(try await log.lease("writing", of: 1, for: .seconds(1), in: "db") == nil)
                try await log.release(try old(), retiring: false, in: "db")
                let again = try #require(await log.lease("writing", of: 1, for: .seconds(3_600), in: "db"))
                #expect(again.actor == (try old()).actor)
            },
            restored: { log, _ in
                #expect(try await append(2, try old(), log) == .conflict(.leaseLost))
                let fresh = try #require(await log.lease("writing", of: 1, for: .seconds(3_600), in: "db"))
                #expect(fresh.actor != (try old()).actor)
                #expect(try await append(1, fresh, log) == .appended(offset: 2))
            })
    }

    private func places(
        _ log: any OperationLog, _ offsets: ClosedRange<UInt64>
    ) async throws -> [LogPosition?] {
        var places: [LogPosition?] = []
        for offset in offsets { places.append(try await log.position(at: Offset(offset), in: "db")) }
        return places
    }
}

extension LogDriver {
    /// Runs `first`, takes a backup, runs `later` on the log and `restored` on the backup.
    fileprivate func withBackup<Kept>(
        first: (any OperationLog) async throws -> Void,
        later: (any OperationLog) async throws -> Kept,
        restored: (any OperationLog, Kept) async throws -> Void
    ) async throws {
        switch self {
        case .sqlite:
            try await withTemporaryPath { path in
                let log = try SQLiteOperationLog(path: path)
                try await log.createDatabase("db")
                try await first(log)
                await log.close()
                try FileManager.default.copyItem(atPath: path, toPath: path + ".backup")
                let original = try SQLiteOperationLog(path: path)
                let kept = try await later(original)
                await original.close()
                let backup = try SQLiteOperationLog(path: path + ".backup")
                try await restored(backup, kept)
                await backup.close()
            }
        case .postgres:
            try await PostgresServer.withDatabase { url in
                let log = try PostgresOperationLog(url: url)
                try await log.createDatabase("db")
                try await first(log)
                await log.close()
                let name = String(try #require(URLComponents(string: url)).path.dropFirst())
                let server = try Connection(url: try #require(PostgresServer.url))
                try server.run(
                    """
                    SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = '\(name)'
                    """)
                try server.run("CREATE DATABASE \(name)_backup TEMPLATE \(name)")
                defer {
                    #expect(throws: Never.self) {
                        try server.run("DROP DATABASE \(name)_backup WITH (FORCE)")
                    }
                }
                let original = try PostgresOperationLog(url: url)
                let kept = try await later(original)
                await original.close()
                let backup = try PostgresOperationLog(url: url.replacing("/\(name)", with: "/\(name)_backup"))
                try await restored(backup, kept)
                await backup.close()
            }
        }
    }
}
