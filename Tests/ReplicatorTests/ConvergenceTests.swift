import CRDT
import DQL
import Testing

@Suite("Peers that sync through a replicator", .timeLimit(.minutes(2)))
struct ConvergenceTests {
    @Test("what one peer writes reaches a subscriber and is acknowledged")
    func delivery() async throws {
        try await TestBench.run { bench in
            let writer = try bench.peer("writer")
            let reader = try bench.peer("reader")
            try reader.sync.subscribe(
                statement: "SELECT * FROM cars WHERE color = 'red'", arguments: ObjectValue())
            try writer.execute(
                "INSERT INTO cars DOCUMENTS ({'_id': 'a', 'color': 'red'}), ({'_id': 'b', 'color': 'blue'})")
            writer.sync.start()
            reader.sync.start()
            #expect(try await writer.isAcknowledged(1))
            #expect(try await eventually { try reader.rows("SELECT _id FROM cars") == ["{\"_id\":\"a\"}"] })
            let commit = try writer.execute("UPDATE cars SET color = 'red' WHERE _id = 'b'")
            #expect(try await writer.isAcknowledged(commit))
            #expect(try await eventually { try reader.rows("SELECT _id FROM cars").count == 2 })
            await writer.sync.stop()
            await reader.sync.stop()
        }
    }

    @Test(
        "a document that leaves a subscription arrives with the change that did it, also after an absence"
    )
    func leaving() async throws {
        try await TestBench.run { bench in
            let writer = try bench.peer("writer")
            let reader = try bench.peer("reader")
            try reader.sync.subscribe(
                statement: "SELECT * FROM cars WHERE color = 'red'", arguments: ObjectValue())
            try writer.execute(
                "INSERT INTO cars DOCUMENTS ({'_id': 'a', 'color': 'red'}), ({'_id': 'b', 'color': 'red'})")
            writer.sync.start()
            reader.sync.start()
            #expect(try await eventually { try reader.rows("SELECT * FROM cars").count == 2 })
            let live = try writer.execute("UPDATE cars SET color = 'blue' WHERE _id = 'a'")
            #expect(try await writer.isAcknowledged(live))
            #expect(
                try await eventually {
                    try reader.rows("SELECT color FROM cars WHERE _id = 'a'") == ["{\"color\":\"blue\"}"]
                })
            await reader.sync.stop()
            let away = try writer.execute("UPDATE cars SET color = 'green' WHERE _id = 'b'")
            #expect(try await writer.isAcknowledged(away))
            reader.sync.start()
            #expect(
                try await eventually {
                    try reader.rows("SELECT color FROM cars WHERE _id = 'b'") == ["{\"color\":\"green\"}"]
                })
            await writer.sync.stop()
            await reader.sync.stop()
        }
    }

    @Test("conflicting edits of two offline peers end in the same documents everywhere")
    func conflicts() async throws {
        try await TestBench.run { bench in
            let peers = [try bench.peer("one"), try bench.peer("two")]
            for peer in peers {
                try peer.sync.subscribe(statement: "SELECT * FROM items", arguments: ObjectValue())
                peer.sync.start()
            }
            for batch in 0..<20 {
                let documents = (0..<50).map { index -> Value in
                    ["_id": .int(Int64(batch * 50 + index)), "n": 0, "map": ["a": 1]]
                }
                try peers[0].execute(
                    "INSERT INTO items DOCUMENTS (:docs)", arguments("docs", .array(documents)))
            }
            #expect(try await eventually { try peers[1].rows("SELECT _id FROM items").count == 1_000 })
            for peer in peers { await peer.sync.stop() }
            for (index, peer) in peers.enumerated() {
                for number in 0..<100 {
                    try peer.execute(
                        "UPDATE items SET n = \(index + 1), map.p\(index) = \(number) WHERE _id = \(number)")
                    try peer.execute("UPDATE items UNSET map.a WHERE _id = \(number * 2)")
                    if index == number % 2 {
                        try peer.execute("DELETE FROM items WHERE _id = \(500 + number)")
                    }
                }
            }
            for peer in peers { peer.sync.start() }
            for peer in peers { #expect(try await peer.isAcknowledged(peer.replica.head)) }
            #expect(
                try await eventually {
                    try peers[0].rows("SELECT * FROM items ORDER BY _id")
                        == peers[1].rows("SELECT * FROM items ORDER BY _id")
                })
            #expect(try peers[0].rows("SELECT _id FROM items").count == 900)
            for peer in peers { await peer.sync.stop() }
        }
    }

    @Test("a document larger than a frame travels in chunks")
    func chunks() async throws {
        try await TestBench.run { bench in
            let writer = try bench.peer("writer")
            let reader = try bench.peer("reader")
            try reader.sync.subscribe(statement: "SELECT * FROM files", arguments: ObjectValue())
            let text = String(repeating: "x", count: 3_000_000)
            try writer.execute(
                "INSERT INTO files DOCUMENTS (:d)", arguments("d", ["_id": "big", "text": .string(text)]))
            writer.sync.start()
            reader.sync.start()
            #expect(
                try await eventually {
                    try reader.rows("SELECT char_length(text) AS n FROM files") == ["{\"n\":3000000}"]
                })
            await writer.sync.stop()
            await reader.sync.stop()
        }
    }

    @Test("an evicted document comes back while a live subscription matches it")
    func eviction() async throws {
        try await TestBench.run { bench in
            let peer = try bench.peer("peer")
            try peer.sync.subscribe(statement: "SELECT * FROM cars", arguments: ObjectValue())
            try peer.execute("INSERT INTO cars DOCUMENTS ({'_id': 'a', 'n': 1})")
            peer.sync.start()
            #expect(try await peer.isAcknowledged(1))
            try peer.execute("EVICT FROM cars WHERE _id = 'a'")
            #expect(try await eventually { try peer.rows("SELECT n FROM cars") == ["{\"n\":1}"] })
            let commit = try peer.execute("UPDATE cars SET n = 2 WHERE _id = 'a'")
            #expect(try await peer.isAcknowledged(commit))
            await peer.sync.stop()
        }
    }
}

private func arguments(_ name: String, _ value: Value) -> ObjectValue {
    ObjectValue([(key: name, value: value)])
}
