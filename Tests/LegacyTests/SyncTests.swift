import DittoSwift
import Foundation
import Mimeo
import TestSupport
import Testing

/// Applications of 4.x and of the current API on one server.
@Suite("Syncing with the 4.x API", .timeLimit(.minutes(5)))
struct SyncTests {
    private func withPeers(
        _ body: @escaping (_ old: Ditto, _ new: Ditto) async throws -> Void
    ) async throws {
        try await withTemporaryDirectory { directory in
            try await EmbeddedServer.run(data: directory.appendingPathComponent("server").path) { server in
                let old = Ditto.alone(
                    .onlinePlayground(
                        appID: server.databaseID, token: server.token,
                        customAuthURL: URL(string: server.url)),
                    in: directory.appendingPathComponent("old"))
                let new = try await Ditto.openAlone(
                    config: DittoConfig(
                        databaseID: server.databaseID, connect: .server(url: server.url),
                        persistenceDirectory: directory.appendingPathComponent("new")))
                let token = server.token
                new.auth?.expirationHandler = { ditto, _ in
                    _ = try? await ditto.auth?.login(token: token, provider: .development)
                }
                try old.startSync()
                try new.sync.start()
                try await body(old, new)
                await old.close()
                await new.close()
            }
        }
    }

    @Test("taking the server's address out of webSocketURLs ends the session, and putting it back begins one")
    func serverAddress() async throws {
        try await withTemporaryDirectory { directory in
            try await EmbeddedServer.run(data: directory.appendingPathComponent("server").path) { server in
                let ditto = Ditto.alone(
                    .onlinePlayground(
                        appID: server.databaseID, token: server.token, enableDittoCloudSync: false,
                        customAuthURL: URL(string: server.url)),
                    in: directory.appendingPathComponent("a"))
                let address = server.url.replacingOccurrences(of: "http://", with: "ws://")
                func status() async throws -> String? {
                    let rows = try await ditto.rows("SELECT * FROM system:data_sync_info")
                    return (rows.first?["documents"] as? [String: Any?])?["sync_session_status"] as? String
                }
                try ditto.startSync()
                // Never named: the identity has it.
                #expect(try await eventually { try await status() == "Connected" })
                for _ in 0..<2 {
                    ditto.updateTransportConfig { $0.connect.webSocketURLs.insert(address) }
                    #expect(try await eventually { try await status() == "Connected" })
                    ditto.updateTransportConfig { $0.connect.webSocketURLs.removeAll() }
                    #expect(try await eventually { try await status() == "Disabled" })
                    #expect(ditto.isSyncActive)
                }
                // Neither a restart of sync nor another change brings it back.
                ditto.stopSync()
                try ditto.startSync()
                ditto.updateTransportConfig { $0.connect.retryInterval = 1 }
                try await ditto.store.execute(query: "INSERT INTO cars DOCUMENTS ({'_id': 'x'})")
                #expect(try await status() == "Disabled")
                ditto.updateTransportConfig { $0.connect.webSocketURLs = [address] }
                #expect(try await eventually { try await status() == "Connected" })
                await ditto.close()
            }
        }
    }

    @Test("a document reads alike, whichever API wrote it, and both edit it at the same time")
    func oneDocument() async throws {
        try await withPeers { old, new in
            let cars = old.store.collection("cars")
            let subscription = cars.findAll().subscribe()
            try new.sync.registerSubscription(query: "SELECT * FROM cars")
            let content: [String: Any?] = [
                "text": "x", "n": 1, "part": 0.5, "flag": true, "none": nil, "list": [1, ["k": 2]],
                "map": ["x": 1, "deep": ["y": "z"]],
            ]
            try cars.upsert(content.merging(["_id": "old", "count": DittoCounter()]) { $1 })
            try await new.store.execute(
                query: "INSERT INTO COLLECTION cars (count COUNTER) DOCUMENTS (:car)",
                arguments: ["car": content.merging(["_id": "new", "count": 0]) { $1 }])
            #expect(try await eventually { try await new.rows("SELECT * FROM cars").count == 2 })
            #expect(await eventually { cars.findAll().exec().count == 2 })
            for ditto in [old, new] {
                let items = try await ditto.store.execute(query: "SELECT * FROM cars ORDER BY _id").items
                #expect(
                    items.first?.jsonString().replacingOccurrences(of: "new", with: "old")
                        == items.last?.jsonString())
                let read = ditto.store["cars"].findAll().exec()
                #expect(read.map(\.description) == items.map { $0.jsonString() })
            }
            // Objects are MAPs: both write below them at the same time, and both stay. Counters add up.
            old.stopSync()
            new.sync.stop()
            cars.findByID("new").update { car in
                car?["map"]["old"].set(1)
                car?["count"].counter?.increment(by: 2)
            }
            try await new.store.execute(
                query: "UPDATE cars APPLY count PN_INCREMENT BY 3 SET map.new = 2 WHERE _id = 'new'")
            try old.startSync()
            try new.sync.start()
            for ditto in [old, new] {
                #expect(
                    await eventually {
                        let car = ditto.store["cars"].findByID("new").exec()
                        return car?["count"].counter?.value == 5
                            && car?["map"].dictionaryValue.keys.sorted() == ["deep", "new", "old", "x"]
                    })
            }
            #expect(
                old.store.queriesHash(queries: [old.store["cars"].findAll().observeLocal { _, _ in }])
                    == new.store.queriesHash(queries: [new.store["cars"].findAll().observeLocal { _, _ in }]))
            subscription.cancel()
        }
    }

    @Test("default data of two devices is one document, and every other write beats it")
    func defaults() async throws {
        try await withPeers { old, new in
            let subscription = old.store["settings"].findAll().subscribe()
            try new.sync.registerSubscription(query: "SELECT * FROM settings")
            let content: [String: Any?] = ["_id": "ui", "color": "grey", "size": 1]
            old.stopSync()
            new.sync.stop()
            try new.store.collection("settings").upsert(content, writeStrategy: .insertDefaultIfAbsent)
            try new.store.collection("settings").upsert(["_id": "ui", "color": "blue"])
            try old.store.collection("settings").upsert(content, writeStrategy: .insertDefaultIfAbsent)
            try old.startSync()
            try new.sync.start()
            for ditto in [old, new] {
                #expect(
                    await eventually {
                        ditto.store["settings"].findByID("ui").exec()?["color"].stringValue == "blue"
                    })
                #expect(try await ditto.rows("SELECT conflicts(size) AS c FROM settings").count == 1)
            }
            subscription.cancel()
        }
    }

    @Test(
        "a transaction arrives whole, without what it evicted; a subscription brings evicted documents back")
    func transactions() async throws {
        try await withPeers { old, new in
            let names = ["people", "cars"]
            let subscriptions = names.map { new.store[$0].findAll().subscribe() }
            // Whole is what arrives after both are in force.
            for name in names { try old.store[name].upsert(["_id": "first"]) }
            #expect(await eventually { names.allSatisfy { new.store[$0].findAll().exec().count == 1 } })
            for name in names { old.store[name].findByID("first").remove() }
            #expect(await eventually { names.allSatisfy { new.store[$0].findAll().exec().isEmpty } })
            old.store.write { transaction in
                let cars = transaction.scoped(toCollectionNamed: "cars")
                let people = transaction.scoped(toCollectionNamed: "people")
                _ = try? people.upsert(["_id": "abc123", "name": "Susan"] as [String: Any?])
                _ = try? cars.upsert(["_id": "f", "make": "Ford", "owner": "abc123"] as [String: Any?])
                people.findByID("abc123").evict()
            }
            #expect(await eventually { new.store["people"].findAll().exec().count == 1 })
            // The two subscriptions may still be catching up, each in a step of its own.
            #expect(await eventually { new.store["cars"].findAll().exec().count == 1 })
            #expect(old.store["people"].findAll().exec().isEmpty)
            var held: DittoSubscription? = old.store["people"].findAll().subscribe()
            #expect(await eventually { old.store["people"].findAll().exec().count == 1 })
            #expect(held != nil)
            old.store["people"].findAll().evict()
            #expect(await eventually { old.store["people"].findAll().exec().count == 1 })
            held = nil
            old.store["people"].findAll().evict()
            old.store["cars"].findByID("f").remove()
            #expect(await eventually { new.store["cars"].findAll().exec().isEmpty })
            #expect(old.store["people"].findAll().exec().isEmpty)
            for subscription in subscriptions { subscription.cancel() }
        }
    }

    @Test("one program uses both APIs on one store")
    func oneProgram() async throws {
        try await withLegacyStore { ditto in
            let cars = ditto.store.collection("cars")
            try cars.upsert(["_id": "a", "color": "red", "engine": ["kw": 90]] as [String: Any?])
            try await ditto.store.execute(query: "UPDATE cars SET engine.fuel = 'gas' WHERE _id = 'a'")
            cars.find("engine.fuel == 'gas'").update { $0.first?["color"].set("blue") }
            #expect(try await ditto.rows("SELECT color FROM cars WHERE color = 'blue'").count == 1)
            try await ditto.store.transaction { transaction in
                try await transaction.execute(query: "INSERT INTO cars DOCUMENTS ({'_id': 'b', 'n': 1})")
            }
            #expect(cars.findByID("b").remove())
            #expect(try await ditto.rows("SELECT * FROM cars").count == 1)
        }
    }

    @Test("in strict mode the 4.x API reads and writes MAPs all the same")
    func strictMode() async throws {
        try await withLegacyStore { ditto in
            try await ditto.store.execute(query: "ALTER SYSTEM SET dql_strict_mode = true")
            let cars = ditto.store.collection("cars")
            let calls = Gathered<Int>()
            let query = cars.find("engine.kw > 0").observeLocal { documents, _ in calls.add(documents.count) }
            try cars.upsert(["_id": "a", "engine": ["kw": 90]] as [String: Any?])
            cars.findByID("a").update { $0?["engine"]["fuel"].set("gas") }
            #expect(cars.find("engine.kw == 90 && engine.fuel == 'gas'").exec().count == 1)
            #expect(await calls.wait { $0.last == 1 }.last == 1)
            try await ditto.store.execute(query: "ALTER SYSTEM SET dql_strict_mode = false")
            #expect(try await ditto.rows("SELECT * FROM cars WHERE engine.fuel = 'gas'").count == 1)
            query.stop()
        }
    }
}
