import CRDT
import DQL
import Testing

@Suite("Eviction and subscriptions", .timeLimit(.minutes(2)))
struct EvictionTests {
    @Test("a subscription made anew brings back what was evicted while it was cancelled")
    func resubscribing() async throws {
        try await TestBench.run { bench in
            let peer = try bench.peer("peer")
            let key = try peer.sync.subscribe(statement: "SELECT * FROM cars", arguments: ObjectValue())
            try peer.execute("INSERT INTO cars DOCUMENTS ({'_id': 'a', 'n': 1}), ({'_id': 'b', 'n': 2})")
            peer.sync.start()
            #expect(try await peer.isAcknowledged(1))
            #expect(try await eventually { try peer.replica.cursor(of: key) != nil })
            peer.sync.unsubscribe(key)
            try peer.execute("EVICT FROM cars")
            #expect(try peer.rows("SELECT * FROM cars") == [])
            #expect(try peer.replica.cursor(of: key) == nil)
            try peer.sync.subscribe(statement: "SELECT * FROM cars", arguments: ObjectValue())
            #expect(try await eventually { try peer.rows("SELECT * FROM cars").count == 2 })
            await peer.sync.stop()
        }
    }
}
