import DittoSwift
import Foundation
import Mimeo
import TestSupport
import Testing

@Suite("The patterns of the guide to modelling and versioning data")
struct PatternTests {
    @Test("foreign keys and composite ids: a car names its owner, and is found by its whole id")
    func relationships() async throws {
        try await withStore { ditto in
            try await Relationships.add(person: "abc123", name: "Susan", cars: ["def456", "xyz"], to: ditto)
            try await Relationships.add(person: "other", name: "Max", cars: ["def456"], to: ditto)
            #expect(try await Relationships.cars(of: "abc123", in: ditto.store) == ["def456", "xyz"])
            let car = try await Relationships.car("def456", of: "other", in: ditto)
            #expect(car?["make"] as? String == "Hyundai")
            #expect(try await Relationships.car("xyz", of: "other", in: ditto) == nil)
            // An id never changes.
            await #expect(throws: DittoSwiftError.self) {
                try await ditto.store.execute(query: "UPDATE people SET _id = 'new' WHERE _id = 'other'")
            }
        }
    }

    @Test("a write transaction arrives whole: who has the person has the cars")
    func wholeTransactions() async throws {
        try await withTwoPeers(["people", "cars"]) { a, b in
            try await Relationships.add(person: "first", name: "First", cars: ["1", "2"], to: a)
            #expect(
                try await eventually {
                    let cars = try await Relationships.cars(of: "first", in: b.store)
                    let people = try await b.store.execute(query: "SELECT * FROM people")
                    return cars.count == 2 && people.items.count == 1
                })
            // Both subscriptions are live now: what comes is told operation by operation.
            for number in 0..<20 {
                try await Relationships.add(person: "p\(number)", name: "P", cars: ["1", "2"], to: a)
            }
            var halves = 0
            #expect(
                try await eventually {
                    let seen = try await b.store.transaction(isReadOnly: true) { transaction in
                        let people = try await transaction.execute(query: "SELECT _id FROM people")
                        let cars = try await transaction.execute(
                            query: "SELECT _id.owner AS owner, COUNT(*) AS n FROM cars GROUP BY _id.owner")
                        let counts = cars.items.map { $0.value["n"] as? Int ?? 0 }
                        return (people: people.items.count, counts: counts)
                    }
                    if seen.counts.contains(where: { $0 != 2 }) || seen.counts.count != seen.people {
                        halves += 1
                    }
                    return seen.people == 21
                })
            #expect(halves == 0)
        }
    }

    @Test("what is for first class only is shown to first class only")
    func firstClassOnly() async throws {
        try await withStore { ditto in
            try await Notes.write("champagne", firstClassOnly: true, to: ditto)
            try await Notes.write("water", firstClassOnly: false, to: ditto)
            #expect(try await Notes.shown(toFirstClass: false, in: ditto) == ["water"])
            #expect(try await Notes.shown(toFirstClass: true, in: ditto) == ["champagne", "water"])
        }
    }

    @Test("versions: the newer application migrates older documents, the older one ignores newer ones")
    func versions() async throws {
        try await withStore { ditto in
            try await ditto.store.execute(
                query: """
                    INSERT INTO cars DOCUMENTS
                        ({'_id': 'a', '_schemaVersion': 1, 'make': 'Ford', 'year': '1999'}),
                        ({'_id': 'b', '_schemaVersion': 2, 'make': 'Jeep', 'year': 2020, 'hometown': 'Rome'}),
                        ({'_id': 'c', '_schemaVersion': 3, 'make': 'Fiat', 'year': {'from': 2020}})
                    """)
            #expect(try await FirstVersion.cars(in: ditto) == ["Ford"])
            let all = try await ditto.store.execute(query: "SELECT * FROM cars ORDER BY _id")
            let cars = all.items.map { V2Car($0.value) }
            #expect(cars[0]?.year == 1999)
            #expect(cars[0]?.hometown == "N/A")
            #expect(cars[1]?.hometown == "Rome")
            #expect(cars[2] == nil)
        }
    }

    @Test("an older application keeps the fields that it does not know")
    func unknownFields() async throws {
        try await withTwoPeers(["cars"]) { newer, older in
            try await newer.store.execute(
                query: """
                    INSERT INTO cars DOCUMENTS ({'_id': 'a', '_schemaVersion': 2, 'make': 'Jeep',
                        'color': 'red', 'hometown': 'Rome', 'options': {'roof': 'glass'}})
                    """)
            #expect(try await eventually { try await count("cars", older) == 1 })
            try await FirstVersion.repaint("a", color: "blue", in: older)
            #expect(
                try await eventually {
                    let car = try await newer.store.execute(query: "SELECT * FROM cars").items.first?.value
                    return car?["color"] as? String == "blue"
                })
            let car = try #require(
                try await newer.store.execute(query: "SELECT * FROM cars").items.first?.value)
            #expect(car["hometown"] as? String == "Rome")
            #expect((car["options"] as? [String: Any?])?["roof"] as? String == "glass")
            // Also one that writes the whole of what it knows.
            try await older.store.execute(
                query: "INSERT INTO cars DOCUMENTS (:car) ON ID CONFLICT DO UPDATE",
                arguments: ["car": ["_id": "a", "make": "Jeep", "color": "green"] as [String: Any?]])
            let kept = try await older.store.execute(query: "SELECT * FROM cars").items.first?.value
            #expect(kept?["color"] as? String == "green")
            #expect(kept?["hometown"] as? String == "Rome")
        }
    }

    @Test("a document of a newer version stops the older application's sync, and the user is told")
    func newerVersionStopsSync() async throws {
        try await withTwoPeers(["cars"]) { newer, older in
            let outcomes = Outcomes()
            let observer = try FirstVersion.stopSyncForNewerVersions(older) {
                outcomes.note("update, please")
            }
            try await newer.store.execute(
                query: "INSERT INTO cars DOCUMENTS ({'_id': 'a', '_schemaVersion': 1})")
            #expect(try await eventually { try await count("cars", older) == 1 })
            #expect(older.sync.isActive)
            #expect(outcomes.all.isEmpty)
            try await newer.store.execute(
                query: "INSERT INTO cars DOCUMENTS ({'_id': 'b', '_schemaVersion': 2})")
            #expect(await eventually { outcomes.all == ["update, please"] })
            #expect(!older.sync.isActive)
            observer.cancel()
        }
    }

    @Test("a soft delete hides a document, can be taken back, and lets it be swept away later")
    func softDelete() async throws {
        try await withStore { ditto in
            try await ditto.store.execute(query: "INSERT INTO cars DOCUMENTS ({'_id': 'a'}), ({'_id': 'b'})")
            try await SoftDelete.delete("a", from: ditto)
            #expect(try await SoftDelete.live(in: ditto) == ["b"])
            try await ditto.store.execute(query: "UPDATE cars SET isDeleted = false WHERE _id = 'a'")
            #expect(try await SoftDelete.live(in: ditto) == ["a", "b"])
            try await SoftDelete.delete("a", from: ditto)
            #expect(try await SoftDelete.sweep(ditto) == 1)
            #expect(try await count("cars", ditto) == 1)
        }
    }

    @Test("an audit map keeps both of two concurrent changes; of two proposals the user's choice remains")
    func auditAndChoice() async throws {
        try await withTwoPeers(["cars"]) { a, b in
            try await a.store.execute(
                query: "INSERT INTO cars DOCUMENTS ({'_id': 'a', 'color': 'red', 'mileage': 160000})")
            #expect(try await eventually { try await count("cars", b) == 1 })
            a.sync.stop()
            b.sync.stop()
            // "Using a MAP for Concurrent Updates": different fields never meet.
            try await a.store.execute(query: "UPDATE cars SET color = 'blue' WHERE _id = 'a'")
            try await b.store.execute(query: "UPDATE cars SET mileage = 160200 WHERE _id = 'a'")
            try await ConcurrentEdits.audit("a", "painted", by: "peerA", in: a)
            try await ConcurrentEdits.audit("a", "driven", by: "peerB", in: b)
            try await ConcurrentEdits.propose("blue", for: "a", by: "peerA", in: a)
            try await ConcurrentEdits.propose("black", for: "a", by: "peerB", in: b)
            try a.sync.start()
            try b.sync.start()
            let both = ["peerA": "blue", "peerB": "black"]
            for peer in [a, b] {
                #expect(
                    try await eventually { try await ConcurrentEdits.proposals(for: "a", in: peer) == both })
                let car = try await peer.store.execute(query: "SELECT * FROM cars").items.first?.value
                #expect(car?["color"] as? String == "blue")
                #expect(car?["mileage"] as? Int == 160_200)
                let log = car?["log"] as? [String: Any?]
                #expect(log?.compactMapValues { $0 as? String } == ["peerA": "painted", "peerB": "driven"])
            }
            try await ConcurrentEdits.choose("black", for: "a", in: b)
            #expect(
                try await eventually {
                    let car = try await a.store.execute(query: "SELECT * FROM cars").items.first?.value
                    return car?["color"] as? String == "black" && car?["proposals"] == nil
                })
        }
    }

    @Test("one field as an object here and as an array there: both peers end with the same one")
    func typesThatDiverge() async throws {
        try await withTwoPeers(["people"]) { a, b in
            a.sync.stop()
            b.sync.stop()
            try await a.store.execute(
                query: """
                    INSERT INTO people DOCUMENTS ({'_id': 'bob', 'name': 'Bob Jones',
                        'address': {'street': 'Long Road', 'house number': 10298, 'zip': '90210'}})
                    """)
            try await b.store.execute(
                query: """
                    INSERT INTO people DOCUMENTS ({'_id': 'bob', 'name': 'Bob Jones',
                        'address': [10298, 'Long Road', '90210']})
                    """)
            try a.sync.start()
            try b.sync.start()
            try await a.store.execute(query: "INSERT INTO people DOCUMENTS ({'_id': 'last'})")
            try await b.store.execute(
                query: "INSERT INTO people DOCUMENTS ({'_id': 'last'}) ON ID CONFLICT DO NOTHING")
            func bob(_ ditto: Ditto) async throws -> String? {
                try await ditto.store.execute(query: "SELECT * FROM people WHERE _id = 'bob'").items.first?
                    .jsonString()
            }
            #expect(
                try await eventually {
                    let there = try await [count("people", a), count("people", b)] == [2, 2]
                    let (one, other) = try await (bob(a), bob(b))
                    return there && one == other && one != nil
                })
        }
    }

    @Test("debounced diffing tells the sum of many changes")
    func debouncing() async throws {
        try await withStore { ditto in
            let outcomes = Outcomes()
            let diffing = DebouncedDiffing(every: 0.05) { diff, ids in
                for index in diff.insertions { outcomes.note("+\(ids[index])") }
                for _ in diff.deletions { outcomes.note("-") }
            }
            let observer = try diffing.observe("SELECT * FROM cars ORDER BY _id", in: ditto)
            for number in 0..<50 {
                try await ditto.store.execute(
                    query: "INSERT INTO cars DOCUMENTS (:d)",
                    arguments: ["d": ["_id": String(format: "%02d", number)]])
            }
            #expect(await eventually { outcomes.all.count == 50 })
            #expect(outcomes.all == (0..<50).map { String(format: "+%02d", $0) })
            observer.cancel()
        }
    }

    // MARK: Stores and peers

    private func count(_ collection: String, _ ditto: Ditto) async throws -> Int {
        try await ditto.store.execute(query: "SELECT _id FROM \(collection)").items.count
    }

    private func withStore(_ body: (Ditto) async throws -> Void) async throws {
        try await withTemporaryDirectory { directory in
            var config = DittoConfig.default
            config.persistenceDirectory = directory
            let ditto = try await Ditto.openAlone(config: config)
            try await body(ditto)
            await ditto.close()
        }
    }

    /// Two peers of one server that sync these collections.
    private func withTwoPeers(
        _ collections: [String], _ body: @escaping (Ditto, Ditto) async throws -> Void
    ) async throws {
        try await withTemporaryDirectory { directory in
            try await EmbeddedServer.run(data: directory.appendingPathComponent("server").path) { server in
                func peer(_ name: String) async throws -> Ditto {
                    let application = ServerApplication()
                    try await application.connect(
                        databaseID: server.databaseID, url: server.url, token: server.token,
                        persistenceDirectory: directory.appendingPathComponent(name))
                    let ditto = try #require(application.ditto)
                    ditto.transportConfig = DittoTransportConfig()
                    for collection in collections {
                        try ditto.sync.registerSubscription(query: "SELECT * FROM \(collection)")
                    }
                    return ditto
                }
                let (a, b) = (try await peer("a"), try await peer("b"))
                try await body(a, b)
                await a.close()
                await b.close()
            }
        }
    }

    /// Returns whether the condition came true within thirty seconds.
    private func eventually(_ condition: () async throws -> Bool) async rethrows -> Bool {
        let deadline = Date().addingTimeInterval(30)
        while Date() < deadline {
            if try await condition() { return true }
            try? await Task.sleep(nanoseconds: 10_000_000)
        }
        return try await condition()
    }
}
