import DittoSwift
import Foundation
import Testing

@Suite("Collections of the 4.x API")
struct CollectionTests {
    private struct Car: Codable, Equatable {
        var _id: String
        var make: String
        var year: Int
    }

    // MARK: names

    @Test("a name is not empty, is shorter than 100 characters, has no U+0000 and no $TS_ at its beginning")
    func names() async throws {
        try await withLegacyStore { ditto in
            for name in ["", String(repeating: "x", count: 100), "a\0b", "$TS_x"] {
                let collection = ditto.store.collection(name)
                let error = caught { try collection.upsert(["a": 1]) }
                #expect(error?.name == "storeError.queryInvalid" && error?.code == "SDK-0211", "\(name)")
                #expect(collection.findAll().exec().isEmpty)
                #expect(collection.findAll().remove().isEmpty)
                #expect(!collection.findByID("a").evict())
            }
            #expect(ditto.store.collectionNames() == [])
            for name in [String(repeating: "ü", count: 99), "my cars", "SELECT", "a`b", "x$TS_"] {
                try ditto.store[name].upsert(["_id": 1])
                #expect(ditto.store[name].findAll().exec().count == 1, "\(name)")
            }
            #expect(ditto.store.collectionNames().count == 5)
            #expect(ditto.store.collections().exec().map(\.name) == ditto.store.collectionNames())
        }
    }

    // MARK: finding

    @Test("a query is in the language of 4.x, with $args")
    func finding() async throws {
        try await withLegacyStore { ditto in
            let cars = ditto.store.collection("cars")
            for (id, color, year) in [("a", "red", 1999), ("b", "blue", 2005), ("c", "red", 2020)] {
                try cars.upsert(["_id": id, "color": color, "year": year] as [String: Any?])
            }
            func ids(_ found: DittoPendingCursorOperation) -> [String] { found.exec().map(\.id.stringValue) }
            #expect(ids(cars.find("color == 'red' && year > 2000")) == ["c"])
            #expect(ids(cars.find("color == $args.color", args: ["color": "red"])) == ["a", "c"])
            #expect(
                ids(cars.find("year <= $args['to'] || !(color == \"red\")", args: ["to": 2000])) == [
                    "a", "b",
                ])
            #expect(ids(cars.findAll()) == ["a", "b", "c"])
            #expect(cars.findByID("b").exec()?["year"].intValue == 2005)
            #expect(cars.findByID("x").exec() == nil)
        }
    }

    @Test("a query that cannot run gives nothing, and its error is in the log with its code")
    func wrongQueries() async throws {
        try await withLegacyStore { ditto in
            let cars = ditto.store.collection("cars")
            try cars.upsert(["_id": "a"])
            let log = await ErrorLog.during {
                #expect(cars.find("color === ").exec().isEmpty)
                #expect(cars.find("color == $args.color").exec().isEmpty)
                #expect(cars.find("a == $args.a", args: ["a": { 1 }]).remove().isEmpty)
                #expect(cars.find("SELECT * FROM cars").evict().isEmpty)
                #expect(cars.find("color == ").update { _ in Issue.record("called") }.isEmpty)
                #expect(cars.findByID(nil).exec() == nil)
                #expect(cars.findAll().sort("year +").exec().isEmpty)
            }
            #expect(log.contains { $0.contains("exec failed") && $0.contains("DQL-01") })
            #expect(
                log.contains { $0.contains("exec failed") && $0.contains("Parameter color was not provided") }
            )
            #expect(log.contains { $0.contains("remove failed") && $0.contains("SDK-0201") })
            #expect(
                log.contains { $0.contains("evict failed") && $0.contains("a condition, not a statement") })
            #expect(log.contains { $0.contains("update failed") })
            #expect(log.contains { $0.contains("exec failed") && $0.contains("CRDT-") })
            #expect(cars.findAll().exec().count == 1)
        }
    }

    @Test("an error that is not thrown is logged once a second")
    func rareLog() async throws {
        try await withLegacyStore { ditto in
            let log = await ErrorLog.during {
                for _ in 0..<100 { _ = ditto.store.collection("cars").find("nope ==").exec() }
            }
            #expect(log.filter { $0.contains("exec failed") }.count < 5)
        }
    }

    @Test("sort, limit and offset come in any order; of limit and offset the last call counts")
    func windows() async throws {
        try await withLegacyStore { ditto in
            let cars = ditto.store.collection("cars")
            for (id, n, m) in [("a", 2, 1), ("b", 1, 1), ("c", 2, 0), ("d", 3, 0), ("e", 1, 0)] {
                try cars.upsert(["_id": id, "n": n, "m": ["x": m]] as [String: Any?])
            }
            func ids(_ found: DittoPendingCursorOperation) -> String {
                found.exec().map(\.id.stringValue).joined()
            }
            #expect(ids(cars.findAll().sort("n")) == "beacd")
            #expect(ids(cars.findAll().sort("n", direction: .descending)) == "dacbe")
            #expect(ids(cars.findAll().sort("n").sort("m.x")) == "ebcad")
            #expect(
                ids(cars.findAll().sort("n", direction: .descending).sort("_id", direction: .descending))
                    == "dcaeb")
            #expect(ids(cars.findAll().limit(2)) == "ab")
            #expect(ids(cars.findAll().offset(3)) == "de")
            #expect(ids(cars.findAll().limit(1).limit(2).offset(4).offset(1).sort("n")) == "ea")
            #expect(ids(cars.findAll().limit(2).limit(-1)) == "abcde")
            #expect(ids(cars.findAll().limit(0)) == "")
            #expect(cars.find("n == 1").sort("_id", direction: .descending).limit(1).remove() == ["e"])
            #expect(cars.findAll().offset(3).evict() == ["d"])
            #expect(ids(cars.findAll()) == "abc")
        }
    }

    // MARK: writing

    @Test("merge writes the given fields and leaves the others; nested objects are merged")
    func merge() async throws {
        try await withLegacyStore { ditto in
            let cars = ditto.store.collection("cars")
            let id = try cars.upsert(
                ["_id": "a", "color": "red", "engine": ["kw": 90, "fuel": ["kind": "gas"]]] as [String: Any?])
            #expect(id == "a")
            try cars.upsert(["_id": "a", "year": 1999, "engine": ["fuel": ["ron": 95]]] as [String: Any?])
            let car = try #require(cars.findByID("a").exec())
            #expect(car["color"].stringValue == "red" && car["year"].intValue == 1999)
            #expect(car["engine"]["kw"].intValue == 90)
            #expect(car["engine"]["fuel"]["kind"].stringValue == "gas")
            #expect(car["engine"]["fuel"]["ron"].intValue == 95)
            let made = try cars.upsert(["color": "blue"])
            #expect(UUID(uuidString: made.stringValue) != nil)
            #expect(cars.findByID(made).exec()?["color"].stringValue == "blue")
        }
    }

    @Test("every write strategy does to a document that is there what it says")
    func strategies() async throws {
        try await withLegacyStore { ditto in
            let cars = ditto.store.collection("cars")
            func write(_ strategy: DittoWriteStrategy, to id: String) throws -> [String: Any?] {
                try cars.upsert(["_id": id, "a": 1, "b": ["x": 1]] as [String: Any?])
                #expect(
                    try cars.upsert(
                        ["_id": id, "a": 2, "b": ["y": 2]] as [String: Any?], writeStrategy: strategy)
                        == DittoDocumentID(stringLiteral: id))
                return cars.findByID(id).exec()?.value ?? [:]
            }
            func texts(_ value: [String: Any?]) -> String {
                let b = value["b"] as? [String: Any?] ?? [:]
                return "\(value["a"].flatMap { $0 } ?? "-") \(b.keys.sorted())"
            }
            #expect(texts(try write(.merge, to: "merge")) == #"2 ["x", "y"]"#)
            #expect(texts(try write(.insertIfAbsent, to: "absent")) == #"1 ["x"]"#)
            #expect(texts(try write(.insertDefaultIfAbsent, to: "default")) == #"1 ["x"]"#)
            #expect(texts(try write(.updateDifferentValues, to: "different")) == #"2 ["x", "y"]"#)
            #expect(texts(try write(.overwrite, to: "overwrite")) == #"2 ["y"]"#)
            for strategy: DittoWriteStrategy in [.insertIfAbsent, .insertDefaultIfAbsent, .overwrite] {
                let id = try cars.upsert(["n": 1], writeStrategy: strategy)
                #expect(cars.findByID(id).exec()?["n"].intValue == 1)
            }
        }
    }

    @Test("updateDifferentValues of what is there makes no commit, merge makes one")
    func sameContent() async throws {
        try await withLegacyStore { ditto in
            let cars = ditto.store.collection("cars")
            let car: [String: Any?] = ["_id": "a", "n": 1, "m": ["x": [1, 2]]]
            try cars.upsert(car)
            func last() async throws -> UInt64? {
                try await ditto.store.execute(query: "UPDATE none SET a = 1 WHERE _id = 1").commitID
            }
            let before = try await last()
            try cars.upsert(car, writeStrategy: .updateDifferentValues)
            #expect(try await last() == before)
            try cars.upsert(car)
            #expect(try await last() != before)
        }
    }

    @Test("insert of 1.x takes an id, and writes defaults")
    func insert() async throws {
        try await withLegacyStore { ditto in
            let cars = ditto.store.collection("cars")
            #expect(try cars.insert(["n": 1], id: "a") == "a")
            #expect(try cars.insert(["n": 2], id: ["k": 7]) == ["k": 7])
            try cars.insert(["n": 9], id: "a", isDefault: true)
            #expect(cars.findByID("a").exec()?["n"].intValue == 1)
            try cars.insert(["n": 9, "m": 1], id: "a")
            #expect(cars.findByID("a").exec()?.value["n"] as? Int == 9)
        }
    }

    @Test("what encodes itself is a document, and comes back as its type")
    func encodable() async throws {
        try await withLegacyStore { ditto in
            let cars = ditto.store.collection("cars")
            let car = Car(_id: "a", make: "Ford", year: 1999)
            #expect(try cars.upsert(car) == "a")
            let found = try #require(cars.findByID("a").exec())
            let typed = try found.typed(as: Car.self)
            #expect(typed.value == car && typed.id == "a")
            #expect(caught { _ = try found.typed(as: [Int].self) }?.name == "storeError.queryError")
            #expect(caught { try cars.upsert([1, 2]) }?.code == "SDK-0201")
        }
    }

    @Test("removing says whether there was something, and it stays removed")
    func removing() async throws {
        try await withLegacyStore { ditto in
            let cars = ditto.store.collection("cars")
            for id in ["a", "b", "c", "d"] { try cars.upsert(["_id": id]) }
            #expect(cars.findByID("a").remove())
            #expect(!cars.findByID("a").remove())
            #expect(cars.findByID("b").evict())
            #expect(!cars.findByID("x").evict())
            #expect(Set(cars.findAll().remove()) == ["c", "d"])
            #expect(cars.findAll().exec().isEmpty)
        }
    }

    @Test("each error that can be thrown is the case that an application catches")
    func thrown() async throws {
        try await withLegacyStore { ditto in
            let cars = ditto.store.collection("cars")
            #expect(caught { try cars.upsert(["a": { 1 }]) }?.name == "storeError.queryArgumentsInvalid")
            #expect(caught { try cars.upsert(["a": UInt64.max]) }?.name == "storeError.queryArgumentsInvalid")
            #expect(caught { try cars.upsert(["_id": 1.5]) }?.name == "storeError.documentIDInvalid")
            #expect(caught { try cars.upsert(["_id": nil]) }?.name == "storeError.documentIDInvalid")
            #expect(
                caught { try cars.upsert(["a": String(repeating: "x", count: 6_000_000)]) }?.name
                    == "validationError.sizeLimitExceeded")
            await ditto.close()
            #expect(caught { try cars.upsert(["a": 1]) }?.code == "SDK-0402")
            #expect(caught { try ditto.startSync() }?.name == "storeError.backendError")
        }
    }

    @Test("an overwrite that fails leaves the document as it was, also in a transaction")
    func failedOverwrite() async throws {
        try await withLegacyStore { ditto in
            let cars = ditto.store.collection("cars")
            try cars.upsert(["_id": "a", "n": 1])
            let large: [String: Any?] = ["_id": "a", "text": String(repeating: "x", count: 6_000_000)]
            #expect(caught { try cars.upsert(large, writeStrategy: .overwrite) } != nil)
            ditto.store.write { transaction in
                let cars = transaction["cars"]
                #expect(caught { try cars.upsert(large, writeStrategy: .overwrite) } != nil)
                #expect(cars.findByID("a").exec()?["n"].intValue == 1)
            }
            #expect(cars.findByID("a").exec()?["n"].intValue == 1)
        }
    }
}
