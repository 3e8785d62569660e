import CRDT
import Foundation
import LogFakes
import OperationLog
import Synchronization
import TestSupport
import Testing
import Transport
import WebSocket

@testable import Replicator
@testable import Sync

@Suite("Peers that wait for the server, and servers that wait for peers", .timeLimit(.minutes(2)))
struct WaitingPeersTests {
    /// A log that says nothing of where it ends while it is held.
    private final class HeldLog: PassingOnLog, @unchecked Sendable {
        private let isHeld = Mutex(true)

        func letGo() { isHeld.withLock { $0 = false } }

        override func head(of database: DatabaseID) async throws -> LogPosition {
            while isHeld.withLock(\.self) { try await Task.sleep(for: .milliseconds(10)) }
            return try await super.head(of: database)
        }
    }

    private func withBench(
        _ sessions: SessionOptions, _ body: @escaping @Sendable (TestBench, HeldLog) async throws -> Void
    ) async throws {
        try await withTemporaryDirectory { folder in
            let log = try SQLiteOperationLog(path: folder.appendingPathComponent("log.sqlite").path)
            try await log.createDatabase(TestBench.database)
            let held = HeldLog(log)
            try await TestBench.serve(folder, over: held, log, sessions: sessions) { bench in
                try await body(bench, held)
            }
            await log.close()
        }
    }

    @Test("who does not greet is sent away with the reason; who greets stays")
    func silent() async throws {
        var sessions = SessionOptions()
        sessions.greetingSeconds = 1
        let moved = MovedClock()
        sessions.clock = moved.clock
        try await withBench(sessions) { bench, log in
            log.letGo()
            let frames = try await bench.converse(token: bench.token(), [], greets: false)
            guard case .close(let reason)? = frames.last else {
                Issue.record("no reason was told")
                return
            }
            #expect(reason.code == "SYNC-0104")
            #expect(reason.message == "no greeting came in time")
            let statuses = Mutex<[PeerSync.Status]>([])
            let peer = try bench.peer(
                "a",
                notify: { notice in
                    if case .status(let status) = notice { statuses.withLock { $0.append(status) } }
                })
            peer.sync.start()
            let first = try peer.execute("INSERT INTO c DOCUMENTS ({'_id': 1})")
            #expect(try await peer.isAcknowledged(first))
            let before = statuses.withLock(\.self)
            let looks = moved.looks
            moved.advance(bySeconds: 60)
            #expect(try await eventually { moved.looks > looks + 2 })
            let second = try peer.execute("INSERT INTO c DOCUMENTS ({'_id': 2})")
            #expect(try await peer.isAcknowledged(second))
            #expect(statuses.withLock(\.self) == before)
            await peer.sync.stop()
            try peer.replica.close()
        }
    }

    @Test("who waits for a database that does not open is sent elsewhere; it goes on being opened")
    func heldDatabase() async throws {
        var sessions = SessionOptions()
        sessions.openingSeconds = 1
        try await withBench(sessions) { bench, log in
            let client = WebSocketClient(
                address: try WebSocketAddress(bench.url),
                headers: [("Authorization", "Bearer \(bench.token())")], subprotocols: ["mimeo.sync.1"])
            let close = try await client.run { connection, _ in
                let message = try await connection.receive()
                #expect(message == nil)
                return connection.receivedClose
            }
            #expect(close?.code == 1013)
            #expect(close?.reason == "SYNC-0501")
            log.letGo()
            let frames = try await bench.converse(token: bench.token(), []) { !$0.isEmpty }
            guard case .hello? = frames.first else {
                Issue.record("no greeting was answered: \(frames)")
                return
            }
        }
    }
}
