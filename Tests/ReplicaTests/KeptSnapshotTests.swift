import CRDT
import DQL
import Dispatch
import Foundation
import TestSupport
import Testing

@testable import Replica

@Suite("Snapshots that are left open")
struct KeptSnapshotTests {
    private func count(_ replica: PeerReplica) throws -> [String] {
        try replica.rows("SELECT COUNT(*) AS n FROM c")
    }

    @Test("a read shows what was committed before it, however many snapshots were left open")
    func shows() throws {
        try withPeer { replica, _ in
            for number in 0..<40 {
                try replica.execute("INSERT INTO c DOCUMENTS ({'_id': \(number)})")
                // Two at a time, so that several connections have snapshots.
                let seen = try replica.read { outer in
                    let inner = try count(replica)
                    return [
                        inner,
                        try PreparedStatement("SELECT COUNT(*) AS n FROM c").rows(in: outer).map {
                            JSONText.print($0)
                        },
                    ]
                }
                #expect(seen == [["{\"n\":\(number + 1)}"], ["{\"n\":\(number + 1)}"]])
                #expect(try count(replica) == ["{\"n\":\(number + 1)}"])
            }
        }
    }

    @Test("a read that lasts keeps its moment, and the next one on its connection has the present")
    func lasts() throws {
        try withPeer { replica, _ in
            try replica.execute("INSERT INTO c DOCUMENTS ({'_id': 1})")
            #expect(try count(replica) == ["{\"n\":1}"])
            try replica.read { transaction in
                let statement = try PreparedStatement("SELECT COUNT(*) AS n FROM c")
                #expect(try statement.rows(in: transaction) == [["n": 1]])
                try replica.execute("INSERT INTO c DOCUMENTS ({'_id': 2})")
                try replica.createIndex("a", on: "a")
                #expect(try statement.rows(in: transaction) == [["n": 1]])
                #expect(try transaction.catalog(of: "c").indexes.isEmpty)
                #expect(try count(replica) == ["{\"n\":2}"])
            }
            #expect(try count(replica) == ["{\"n\":2}"])
            #expect(try replica.read { try $0.catalog(of: "c").indexes.map(\.name) } == ["a"])
        }
    }

    @Test("a read within a write sees what was before, and one after it what it wrote")
    func within() throws {
        try withPeer { replica, _ in
            try replica.execute("INSERT INTO c DOCUMENTS ({'_id': 1})")
            _ = try replica.write { transaction in
                let id = try DocumentID(2)
                try transaction.edit("c", id) { editor in editor.create() }
                #expect(try count(replica) == ["{\"n\":1}"])
            }
            #expect(try count(replica) == ["{\"n\":2}"])
        }
    }

    @Test("a read that began during a write and ends after it leaves no snapshot of before the write")
    func spans() throws {
        try withPeer { replica, _ in
            try replica.execute("INSERT INTO c DOCUMENTS ({'_id': 1})")
            let (begun, committed, ended) = (
                DispatchSemaphore(value: 0), DispatchSemaphore(value: 0), DispatchSemaphore(value: 0)
            )
            _ = try replica.write { transaction in
                try transaction.edit("c", DocumentID(2)) { editor in editor.create() }
                DispatchQueue.global().async {
                    defer { ended.signal() }
                    try? replica.read { snapshot in
                        defer { begun.signal() }
                        _ = try snapshot.count(of: "c")
                        begun.signal()
                        committed.wait()
                    }
                }
                begun.wait()
            }
            committed.signal()
            ended.wait()
            #expect(try count(replica) == ["{\"n\":2}"])
        }
    }

    @Test("a read that fails leaves nothing open that the next one would see")
    func fails() throws {
        struct Failure: Error {}
        try withPeer { replica, _ in
            try replica.execute("INSERT INTO c DOCUMENTS ({'_id': 1})")
            #expect(throws: Failure.self) {
                try replica.read { transaction in
                    try transaction.scan("c") { _ in throw Failure() }
                }
            }
            try replica.execute("INSERT INTO c DOCUMENTS ({'_id': 2})")
            #expect(try count(replica) == ["{\"n\":2}"])
        }
    }

    @Test("they hold up no checkpoint: between reads and writes the write-ahead log begins anew")
    func checkpoints() throws {
        try withTemporaryDirectory { folder in
            let replica = try open(folder)
            let long = String(repeating: "x", count: 40_000)
            for number in 0..<300 {
                try replica.execute(
                    "INSERT INTO c DOCUMENTS ({'_id': :n, 'a': :long})",
                    arguments(("n", .int(Int64(number))), ("long", .string(long))))
                #expect(try count(replica) == ["{\"n\":\(number + 1)}"])
            }
            let log = folder.appendingPathComponent("\(DocumentStore.fileName)-wal").path
            let bytes = try FileManager.default.attributesOfItem(atPath: log)[.size] as? Int
            // What was written is three times as much.
            #expect(try #require(bytes) < 10_000_000)
            try replica.close()
        }
    }
}
