import CRDT
import DQL
import Foundation
import Identity
import Replicator
import ServiceKit
import Testing

@Suite("Several peers and replicators", .timeLimit(.minutes(2)))
struct InstancesTests {
    /// A second replicator on the same log file, with a materialization of its own.
    private func withSecond(
        _ bench: TestBench, _ body: @escaping @Sendable (TestBench) async throws -> Void
    ) async throws {
        let source = InMemoryKeySource()
        source.insert(bench.key.publicKey)
        let part = ReplicatorPart(
            log: bench.log, authenticator: Authenticator(source: source),
            materializations: TestBench.materializations(of: bench.log, bench.folder, "second"),
            logger: TestBench.quiet)
        let host = ServiceHost(parts: [part], listen: .anyLoopbackPort, logger: TestBench.quiet)
        try await host.run { address in
            try await body(
                TestBench(folder: bench.folder, log: bench.log, key: bench.key, address: address))
        }
    }

    @Test("what is written at one instance arrives at another on the same log")
    func twoInstances() async throws {
        try await TestBench.run { bench in
            try await withSecond(bench) { second in
                let writer = try bench.peer("writer")
                let reader = try second.peer("reader")
                try reader.sync.subscribe(statement: "SELECT * FROM cars", arguments: ObjectValue())
                writer.sync.start()
                reader.sync.start()
                try writer.execute("INSERT INTO cars DOCUMENTS ({'_id': 'a'})")
                #expect(try await eventually { try reader.rows("SELECT _id FROM cars").count == 1 })
                let commit = try reader.execute("UPDATE cars SET n = 1 WHERE _id = 'a'")
                #expect(try await reader.isAcknowledged(commit))
                await writer.sync.stop()
                await reader.sync.stop()
            }
        }
    }

    @Test("twenty peers with two hundred documents each converge")
    func manyPeers() async throws {
        try await TestBench.run { bench in
            let peers = try (0..<20).map { try bench.peer("peer\($0)") }
            for (number, peer) in peers.enumerated() {
                try peer.sync.subscribe(statement: "SELECT * FROM items", arguments: ObjectValue())
                let documents = (0..<200).map {
                    Value.object(ObjectValue([(key: "_id", value: .int(Int64(number * 200 + $0)))]))
                }
                try peer.execute(
                    "INSERT INTO items DOCUMENTS (:docs)",
                    ObjectValue([(key: "docs", value: .array(documents))]))
                peer.sync.start()
            }
            for peer in peers {
                #expect(
                    try await eventually(within: .seconds(60)) {
                        try peer.rows("SELECT COUNT(*) AS n FROM items") == ["{\"n\":4000}"]
                    })
            }
            for peer in peers { await peer.sync.stop() }
        }
    }

    @Test("start and stop in any overlap end in what was asked for last")
    func reentrancy() async throws {
        try await TestBench.run { bench in
            let peer = try bench.peer("peer")
            for _ in 0..<10 {
                peer.sync.start()
                async let first: Void = peer.sync.stop()
                async let second: Void = peer.sync.stop()
                peer.sync.start()
                _ = await (first, second)
            }
            await peer.sync.stop()
            #expect(peer.sync.status == .stopped)
            peer.sync.start()
            #expect(try await peer.isAcknowledged(peer.execute("INSERT INTO cars DOCUMENTS ({'_id': 'a'})")))
            await peer.sync.stop()
        }
    }

    @Test("a hundred evicted documents come back without ending the session")
    func manyEvictions() async throws {
        try await TestBench.run { bench in
            let peer = try bench.peer("peer")
            try peer.sync.subscribe(statement: "SELECT * FROM cars", arguments: ObjectValue())
            peer.sync.start()
            for number in 0..<100 { try peer.execute("INSERT INTO cars DOCUMENTS ({'_id': \(number)})") }
            for number in 0..<100 { try peer.execute("EVICT FROM cars WHERE _id = \(number)") }
            #expect(try await eventually { try peer.rows("SELECT _id FROM cars").count == 100 })
            await peer.sync.stop()
        }
    }
}
