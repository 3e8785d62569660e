import CRDT
import DQL
import Exchange
import Foundation
import Synchronization
import TestSupport
import Testing

@testable import Replica

@Suite("Crashes and full disks")
struct FailureTests {
    /// A kill -9 leaves the files as they are at that moment (the kernel's cache survives the process). A
    /// copy made while a transaction is open is the same, without a child process.
    @Test(
        "files taken in the middle of a transaction hold every finished commit and nothing of the open one"
    )
    func killedInTheMiddle() throws {
        try withTemporaryDirectory { folder in
            let environment = TestEnvironment()
            let place = folder.appendingPathComponent("store")
            let replica = try open(place, environment)
            // Two megabytes of changes: more than SQLite's cache, so a part of them is in the WAL already.
            let large = Value.string(String(repeating: "x", count: 1_000_000))
            let insert = try PreparedStatement(
                "INSERT INTO c DOCUMENTS ({'_id': :id, 't': :t}), ({'_id': :more, 't': :t})")
            for round in 0..<8 {
                let before = try replica.everything()
                let copy = folder.appendingPathComponent("copy-\(round)")
                _ = try replica.write { transaction in
                    _ = try insert.execute(
                        in: transaction,
                        arguments: arguments(
                            ("id", .int(Int64(round))), ("more", .int(Int64(round + 100))), ("t", large)),
                        idGenerator: { preconditionFailure("ids are given") })
                    try Self.copyFiles(from: place, to: copy)
                }
                let survivor = try open(copy, TestEnvironment(seed: 5))
                #expect(try survivor.everything() == before)
                #expect(survivor.head == UInt64(round))
                let sequences = try survivor.ownActors().map(\.sequence)
                #expect(sequences == (round == 0 ? [] : [SequenceNumber(UInt64(round))]))
                try survivor.close()
                try FileManager.default.removeItem(at: copy)
            }
        }
    }

    @Test("a full disk refuses the write as a whole, reads go on, and there is no need to reopen")
    func fullDisk() throws {
        try withPeer { replica, _ in
            try replica.execute("INSERT INTO c DOCUMENTS ({'_id': 1, 'a': 1})")
            let before = try replica.everything()
            let actor = replica.actor
            try Self.limitPages(of: replica, toFree: 20)
            let large = Value.string(String(repeating: "x", count: 500_000))
            for statement in ["INSERT INTO c DOCUMENTS ({'_id': 2, 't': :t})", "UPDATE c SET t = :t"] {
                #expect(code { try replica.execute(statement, arguments(("t", large))) } == .storageFailed)
            }
            let update = DocumentUpdate(
                key: try key("c", 9), content: .state(try document("t", large, by: 5, at: 10).encoded()))
            #expect(code { _ = try replica.receive(Reception(updates: [update])) } == .storageFailed)
            #expect(try replica.everything() == before)
            #expect(try replica.rows("SELECT a FROM c") == ["{\"a\":1}"])
            #expect(replica.head == 1)
            try Self.limitPages(of: replica, toFree: 1_000_000)
            let result = try replica.execute(
                "INSERT INTO c DOCUMENTS ({'_id': 2, 't': :t})", arguments(("t", large)))
            #expect(result.operation?.sequence == 2)
            #expect(result.operation?.actor == actor)
            #expect(try replica.receive(Reception(updates: [update])) == .stored)
        }
    }

    static func limitPages(of replica: PeerReplica, toFree pages: Int) throws {
        try replica.store.pool.writeWithoutTransaction { database in
            let count = try Int.fetchOne(database, sql: "PRAGMA page_count") ?? 0
            try database.execute(sql: "PRAGMA max_page_count = \(count + pages)")
        }
    }

    private static func copyFiles(from source: URL, to destination: URL) throws {
        try FileManager.default.createDirectory(at: destination, withIntermediateDirectories: true)
        for name in [DocumentStore.fileName, "\(DocumentStore.fileName)-wal"] {
            try FileManager.default.copyItem(
                at: source.appendingPathComponent(name), to: destination.appendingPathComponent(name))
        }
    }
}

/// Carries a result from one thread to another.
final class FailureBox: Sendable {
    private let result = Mutex<Result<Void, any Error>>(.success(()))
    func set(_ value: Result<Void, any Error>) { result.withLock { $0 = value } }
    func get() throws { try result.withLock { $0 }.get() }
}
