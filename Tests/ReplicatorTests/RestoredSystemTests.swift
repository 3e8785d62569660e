import CRDT
import Foundation
import LogFakes
import OperationLog
import Replicator
import ServiceKit
import TestSupport
import Testing

@Suite("A system database that goes back under running sessions", .timeLimit(.minutes(3)))
struct RestoredSystemTests {
    private static func open(_ folder: URL, _ log: any OperationLog) -> SystemDatabase {
        SystemDatabase(
            log: log, folder: folder.appendingPathComponent("system").path, logger: TestBench.quiet)
    }

    /// A log whose system database lacks a revocation that the other one has.
    private static func logs(_ folder: URL) async throws -> (SQLiteOperationLog, SQLiteOperationLog) {
        let path = folder.appendingPathComponent("log.sqlite").path
        let log = try SQLiteOperationLog(path: path)
        try await log.createDatabase(TestBench.database)
        let system = open(folder, log)
        try await system.open()
        try await system.write {
            try $0.put(DatabaseRecord(id: TestBench.database.text, createdAtSeconds: 1))
        }
        await system.close()
        await log.close()
        let backup = folder.appendingPathComponent("backup.sqlite").path
        try FileManager.default.copyItem(atPath: path, toPath: backup)
        return (try SQLiteOperationLog(path: path), try SQLiteOperationLog(path: backup))
    }

    @Test("sessions end and none begins until an operator accepts it; then the peers go on by themselves")
    func sessions() async throws {
        try await withTemporaryDirectory { folder in
            let (first, restored) = try await Self.logs(folder)
            let log = PassingOnLog(first)
            let system = Self.open(folder, log)
            try await TestBench.serve(folder, over: log, first, system: system) { bench in
                let peer = try bench.peer("peer")
                peer.sync.start()
                let early = try peer.execute("INSERT INTO c DOCUMENTS ({'_id': 1})")
                #expect(try await peer.isAcknowledged(early))
                try await system.write {
                    try $0.put(
                        Revocation(
                            database: TestBench.database, subject: .user, value: "eve", sinceSeconds: 1))
                }
                log.failOver(to: restored)
                #expect(try await eventually { system.restoreNotice != nil })
                let authenticator = Authenticator(system: system)
                #expect(authenticator.distrust?.code == .restoreNotAccepted)
                // The look at running sessions comes every half second.
                try await Task.sleep(for: ServiceKit.Limits.contactLook * 3)
                let late = try peer.execute("INSERT INTO c DOCUMENTS ({'_id': 2})")
                #expect(try await !peer.isAcknowledged(late, within: .seconds(1)))
                try await system.acceptRestore(nowSeconds: 2)
                #expect(authenticator.distrust == nil)
                #expect(try await peer.isAcknowledged(late))
                await peer.sync.stop()
            }
            await first.close()
            await restored.close()
        }
    }
}
