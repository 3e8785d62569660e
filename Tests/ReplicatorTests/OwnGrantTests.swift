import CRDT
import Exchange
import Foundation
import Identity
import OperationLog
import Sync
import Synchronization
import Testing
import Transport

@testable import Replicator

@Suite("A peer applies its own write grant", .timeLimit(.minutes(2)))
struct PeerGrantTests {
    private static let boats = AccessRules(queriesByCollection: ["boats": ["true"]])

    @Test("what it may not write never leaves, is reported, and holds up nothing else")
    func neverLeaves() async throws {
        try await TestBench.run { bench in
            // The server would take everything: what stays away was kept back here.
            let token = bench.token(grant: .everything)
            let own = bench.token(grant: Grant(read: .everything, write: Self.boats))
            let refused = Mutex<[Refusal]>([])
            let peer = try bench.peer(
                "peer", token: token, writeRules: { _ in AccessToken.claimedWriteRules(of: own) },
                notify: { notice in
                    if case .report(.writeRefused(let refusal)) = notice {
                        refused.withLock { $0.append(refusal) }
                    }
                })
            try peer.execute("INSERT INTO boats DOCUMENTS ({'_id': 1})")
            try peer.execute("INSERT INTO cars DOCUMENTS ({'_id': 1})")
            try peer.execute("INSERT INTO boats DOCUMENTS ({'_id': 2})")
            let last = try peer.execute("UPDATE boats SET n = 1 WHERE _id = 1")
            try peer.sync.subscribe(statement: "SELECT * FROM cars", arguments: ObjectValue())
            peer.sync.start()
            #expect(try await peer.isAcknowledged(last))
            let told = try peer.replica.latestRefusedCommits(10)
            #expect(told == [2])
            #expect(refused.withLock { $0.map(\.error.code) } == ["SYNC-0401"])
            // The document is the server's again: not there. Nothing of it is in the log.
            #expect(try peer.rows("SELECT * FROM cars").isEmpty)
            #expect(try peer.rows("SELECT * FROM boats").count == 2)
            let reader = try bench.peer("reader")
            for collection in ["cars", "boats"] {
                try reader.sync.subscribe(
                    statement: "SELECT * FROM \(collection)", arguments: ObjectValue())
            }
            reader.sync.start()
            #expect(try await eventually { try reader.rows("SELECT * FROM boats").count == 2 })
            #expect(try reader.rows("SELECT * FROM cars").isEmpty)
            // A further session finds nothing to send, and nothing to refuse.
            await peer.sync.stop()
            peer.sync.start()
            let more = try peer.execute("INSERT INTO boats DOCUMENTS ({'_id': 3})")
            #expect(try await peer.isAcknowledged(more))
            #expect(try peer.replica.latestRefusedCommits(10) == [2])
            await peer.sync.stop()
            await reader.sync.stop()
        }
    }

    @Test("many such writes, between others, are set aside in a few steps, and the others arrive in order")
    func many() async throws {
        try await TestBench.run { bench in
            let narrow = bench.token(grant: Grant(read: .everything, write: Self.boats))
            let peer = try bench.peer(
                "peer", token: narrow, writeRules: { AccessToken.claimedWriteRules(of: $0) })
            var last: UInt64 = 0
            for number in 0..<200 {
                let collection = number % 2 == 0 ? "cars" : "boats"
                last = try peer.execute("INSERT INTO \(collection) DOCUMENTS ({'_id': \(number)})")
            }
            peer.sync.start()
            #expect(try await peer.isAcknowledged(last, within: .seconds(60)))
            #expect(try peer.replica.latestRefusedCommits(1_000).count == 100)
            let written = try await bench.log.read(TestBench.database, after: 0, limit: ReadLimit())
            // The store's first actor, and the one or two that a repair has moved the rest to.
            #expect(Set(written.map(\.actor)).count <= 3)
            #expect(try peer.rows("SELECT * FROM boats").count == 100)
            await peer.sync.stop()
        }
    }

    @Test("a write that waits is judged by what a newer token allows")
    func renewed() async throws {
        try await TestBench.run { bench in
            let (narrow, wide) = (
                bench.token(grant: Grant(read: .everything, write: Self.boats)),
                bench.token(grant: .everything)
            )
            let newest = Mutex(narrow)
            let peer = try bench.peer(
                "peer", token: narrow, newestToken: { newest.withLock { $0 } },
                writeRules: { AccessToken.claimedWriteRules(of: $0) })
            peer.sync.start()
            let first = try peer.execute("INSERT INTO boats DOCUMENTS ({'_id': 1})")
            #expect(try await peer.isAcknowledged(first))
            newest.withLock { $0 = wide }
            peer.sync.renewToken()
            let second = try peer.execute("INSERT INTO cars DOCUMENTS ({'_id': 1})")
            #expect(try await peer.isAcknowledged(second))
            #expect(try peer.replica.latestRefusedCommits(10).isEmpty)
            await peer.sync.stop()
        }
    }

    @Test("what a token says of writing is read without being believed, and everything is no rule")
    func claims() throws {
        let key = try DatabaseSigningKey(databaseID: "bench", number: 1)
        func token(_ grant: Grant) -> String {
            AccessToken.issue(
                Identity(
                    userID: "u", databaseID: "bench", peerKey: nil, grant: grant, expiresAtSeconds: 10),
                with: key, nowSeconds: 0)
        }
        func document(_ collection: CollectionName, _ id: String) throws -> DocumentKey {
            DocumentKey(collection: collection, id: try DocumentID(.string(id)))
        }
        #expect(AccessToken.claimedWriteRules(of: token(.everything)) == nil)
        for text in ["", "a.b", "a.b.c", String(repeating: "a", count: 100_000)] {
            #expect(AccessToken.claimedWriteRules(of: text) == nil)
        }
        let none = try #require(AccessToken.claimedWriteRules(of: token(.readOnly)))
        #expect(!none(try document("cars", "a")))
        let rules = AccessRules(queriesByCollection: ["cars": ["_id = 'a'"], "boats": ["true"]])
        let some = try #require(
            AccessToken.claimedWriteRules(of: token(Grant(write: rules, queryLanguage: 1))))
        let asked = [
            try document("cars", "a"), try document("cars", "b"), try document("boats", "b"),
            try document("x", "a"),
        ]
        #expect(asked.map(some) == [true, false, true, false])
    }
}
