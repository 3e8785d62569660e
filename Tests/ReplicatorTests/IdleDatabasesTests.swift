import Foundation
import OperationLog
import TestSupport
import Testing

@testable import Replicator

@Suite("Databases that nobody syncs any more", .timeLimit(.minutes(2)))
struct IdleDatabasesTests {
    @Test("those that were left first are closed, beyond as many as stay open, and only after a while")
    func order() {
        var idle = IdleDatabases(kept: 1, patience: .seconds(10))
        let start = ContinuousClock.now
        #expect(idle.due(["a": 0, "b": 2, "c": 0], at: start) == [])
        #expect(idle.due(["a": 0, "b": 0, "c": 1], at: start + .seconds(5)) == [])
        // Of two idle ones the one that was left first, but not before its time.
        #expect(idle.due(["a": 0, "b": 0, "c": 1], at: start + .seconds(9)) == [])
        #expect(idle.due(["a": 0, "b": 0, "c": 1], at: start + .seconds(10)) == ["a"])
        // One that has a session again begins anew.
        #expect(idle.due(["a": 1, "b": 0, "c": 0], at: start + .seconds(20)) == ["b"])
        #expect(idle.due(["a": 0, "c": 0], at: start + .seconds(21)) == [])
        #expect(idle.due(["a": 0, "c": 0], at: start + .seconds(30)) == ["c"])
        // One that is closed is forgotten.
        #expect(idle.due([:], at: start + .seconds(40)) == [])
        #expect(idle.due(["a": 0, "c": 0], at: start + .seconds(41)) == [])
    }

    @Test("closed behind their last session, not before; the next one opens them again")
    func closed() async throws {
        var sessions = SessionOptions()
        (sessions.idleDatabases, sessions.idlePatience) = (0, .zero)
        var housekeeping = HousekeepingOptions()
        let look = Duration.milliseconds(40)
        housekeeping.interval = look
        try await withTemporaryDirectory { folder in
            let log = try SQLiteOperationLog(path: folder.appendingPathComponent("log.sqlite").path)
            try await log.createDatabase(TestBench.database)
            try await TestBench.serve(folder, over: log, log, sessions: sessions, housekeeping: housekeeping)
            {
                bench in
                let part = try #require(bench.part)
                let peer = try bench.peer("a")
                try peer.sync.subscribe(statement: "SELECT * FROM c", arguments: .init())
                for number in 1...2 {
                    peer.sync.start()
                    let commit = try peer.execute("INSERT INTO c DOCUMENTS ({'_id': \(number)})")
                    #expect(try await peer.isAcknowledged(commit))
                    for _ in 0..<10 { try await Task.sleep(for: look) }
                    #expect(part.openHub(of: TestBench.database) != nil)
                    await peer.sync.stop()
                    #expect(try await eventually { part.openHub(of: TestBench.database) == nil })
                }
                #expect(try await log.head(of: TestBench.database).offset == 2)
                try peer.replica.close()
            }
            await log.close()
        }
    }
}
