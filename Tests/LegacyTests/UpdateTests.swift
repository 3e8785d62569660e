import DittoSwift
import Foundation
import Synchronization
import Testing

@Suite("Updates and transactions of the 4.x API")
struct UpdateTests {
    /// An object that leaves a closure.
    private final class Kept<Object>: @unchecked Sendable {
        // Safe: one thread, that of the test.
        var object: Object?
    }

    private func text(_ result: DittoUpdateResult) -> String {
        switch result {
        case .set(let id, let path, let value): "\(id) \(path)=\(value ?? "nil")"
        case .removed(let id, let path): "\(id) -\(path)"
        case .incremented(let id, let path, let amount): "\(id) \(path)+\(amount)"
        }
    }

    @Test("the closure of an id gets the document, its changes are seen at once and returned in order")
    func byID() async throws {
        try await withLegacyStore { ditto in
            let cars = ditto.store.collection("cars")
            try cars.upsert(
                ["_id": "a", "n": 1, "m": ["x": 1], "c": DittoCounter(), "old": 1] as [String: Any?])
            let results = cars.findByID("a").update { car in
                #expect(car?.id == "a" && car?["n"].intValue == 1)
                car?["n"].set((car?["n"].intValue ?? 0) + 1)
                #expect(car?["n"].intValue == 2 && car?.value["n"] as? Int == 2)
                car?["m"]["y"].set("deep")
                car?["old"].remove()
                car?["c"].counter?.increment(by: 3)
                car?["c"].counter?.increment(by: -1)
                #expect(car?["c"].counter?.value == 2 && car?["c"].mutableCounter != nil)
                car?["new"]["below"].set(["k": [1, 2]])
            }
            #expect(
                results.map(text) == [
                    "a n=2", "a m.y=deep", "a -old", "a c+3.0", "a c+-1.0",
                    #"a new.below=["k": Optional([Optional(1), Optional(2)])]"#,
                ])
            let car = try #require(cars.findByID("a").exec())
            #expect(
                car["n"].intValue == 2 && car["m"]["x"].intValue == 1 && car["m"]["y"].stringValue == "deep")
            #expect(car["c"].counter?.value == 2 && car["old"].value == nil)
            #expect(car["new"]["below"]["k"][1].intValue == 2)
        }
    }

    @Test("the closure of an id that is not there is called once, with nil")
    func missing() async throws {
        try await withLegacyStore { ditto in
            var calls = 0
            let results = ditto.store.collection("cars").findByID("none").update { car in
                calls += 1
                #expect(car == nil)
            }
            #expect(calls == 1 && results.isEmpty)
        }
    }

    @Test("the closure of a query gets all its documents, once, and its changes are one commit")
    func byQuery() async throws {
        try await withLegacyStore { ditto in
            let cars = ditto.store.collection("cars")
            for n in 0..<4 { try cars.upsert(["_id": n, "n": n]) }
            let before = try await ditto.store.execute(query: "UPDATE cars SET a = 1 WHERE _id = 0").commitID
            var calls = 0
            let results = cars.find("n >= 1").sort("n", direction: .descending).update { found in
                calls += 1
                #expect(found.map { $0["n"].intValue } == [3, 2, 1])
                for car in found where car["n"].intValue > 1 { car["n"].set(10 * car["n"].intValue) }
            }
            #expect(calls == 1 && Set(results.keys) == [1, 2, 3])
            #expect(results[1]?.count == 0 && results[3].map { $0.map(text) } == ["3 n=30"])
            let after = try await ditto.store.execute(query: "UPDATE cars SET a = 2 WHERE _id = 0").commitID
            #expect(try #require(after) - #require(before) == 2)
            #expect(cars.find("n > 5").exec().map { $0["n"].intValue } == [20, 30])
        }
    }

    @Test("set writes defaults only where there is nothing, and every value that an upsert takes")
    func setting() async throws {
        try await withLegacyStore { ditto in
            let cars = ditto.store.collection("cars")
            try cars.upsert(
                ["_id": "a", "n": 1, "m": ["x": 1], "r": DittoRegister(value: ["x": 1])] as [String: Any?])
            cars.findByID("a").update { car in
                car?["n"].set(9, isDefault: true)
                car?["k"].set(9, isDefault: true)
                car?["m"].set(["y": 2])
                car?["r"].register?.set(value: ["y": 2])
                car?["count"]["deep"].set(DittoCounter())
                car?["count"]["deep"].counter?.increment(by: 4)
                car?["n2"].set(7)
                car?["n2"].replaceWithCounter()
                car?["n2"].increment(amount: 1)
                car?["none"].set(nil)
                car?["date"].set(Date(timeIntervalSince1970: 0))
            }
            let car = try #require(cars.findByID("a").exec())
            #expect(car["n"].intValue == 1 && car["k"].intValue == 9)
            #expect(car["m"].dictionaryValue.keys.sorted() == ["x", "y"])
            #expect((car["r"].register?.value as? [String: Any?])?.keys.sorted() == ["y"])
            #expect(car["count"]["deep"].counter?.value == 4 && car["n2"].counter?.value == 8)
            #expect(car.value.keys.contains("none") && car["none"].value == nil)
            #expect(car["date"].stringValue == "1970-01-01T00:00:00.000Z")
        }
    }

    @Test("what cannot be changed is refused in the log, and the rest is written")
    func refused() async throws {
        try await withLegacyStore { ditto in
            let cars = ditto.store.collection("cars")
            try cars.upsert(["_id": "a", "list": [1, 2], "n": 1] as [String: Any?])
            let log = await ErrorLog.during {
                let results = cars.findByID("a").update { car in
                    car?["list"][0].set(5)
                    car?["_id"].set("b")
                    car?[""].set(1)
                    car?["n"].set({ 1 })
                    car?["n"].counter?.increment(by: 1)
                    car?["n"].set(2)
                }
                #expect(results.count == 1)
            }
            #expect(log.contains { $0.contains("SDK-0213") })
            #expect(log.contains { $0.contains("SDK-0201") })
            #expect(log.filter { $0.contains("DQL-") }.count >= 1)
            #expect(cars.findByID("a").exec()?.value.keys.sorted() == ["_id", "list", "n"])
            #expect(cars.findByID("a").exec()?["n"].intValue == 2)
        }
    }

    @Test("a document that a closure keeps still reads, and changes nothing any more")
    func kept() async throws {
        try await withLegacyStore { ditto in
            let cars = ditto.store.collection("cars")
            try cars.upsert(["_id": "a", "n": 1])
            let kept = Kept<DittoMutableDocument>()
            cars.findByID("a").update { car in
                kept.object = car
                car?["n"].set(2)
            }
            let log = await ErrorLog.during {
                kept.object?["n"].set(3)
                kept.object?["n"].remove()
                kept.object?["n"].increment(amount: 1)
            }
            #expect(log.contains { $0.contains("SDK-0212") })
            #expect(kept.object?["n"].intValue == 2)
            #expect(cars.findByID("a").exec()?["n"].intValue == 2)
            // Also while its transaction is open.
            ditto.store.write { transaction in
                transaction["cars"].findByID("a").update { kept.object = $0 }
                kept.object?["n"].set(4)
            }
            #expect(cars.findByID("a").exec()?["n"].intValue == 2)
        }
    }

    @Test("a write inside of a closure fails at once, a read sees the state before")
    func nested() async throws {
        try await withLegacyStore { ditto in
            let store = ditto.store
            let cars = store.collection("cars")
            try cars.upsert(["_id": "a", "n": 1])
            let log = await ErrorLog.during {
                let results = store.write { transaction in
                    try? transaction["cars"].upsert(["_id": "b"])
                    #expect(caught { try cars.upsert(["_id": "c"]) }?.name == "storeError.queryNotSupported")
                    #expect(store.write { _ in Issue.record("called") }.isEmpty)
                    #expect(cars.findByID("a").update { _ in Issue.record("called") }.isEmpty)
                    #expect(!cars.findByID("a").remove())
                    #expect(cars.findAll().evict().isEmpty)
                    #expect(cars.findAll().exec().map(\.id) == ["a"])
                    #expect(transaction["cars"].findAll().exec().map(\.id) == ["a", "b"])
                }
                #expect(results == [.inserted(docID: "b", collection: "cars")])
                cars.findByID("a").update { car in
                    car?["n"].set(5)
                    #expect(caught { try cars.upsert(["_id": "c"]) }?.code == "SDK-0205")
                }
            }
            #expect(log.contains { $0.contains("store.write failed") && $0.contains("SDK-0205") })
            #expect(cars.findAll().exec().map { $0["n"].intValue } == [5, 0])
        }
    }

    @Test("inside of a transaction of the current API it fails at once too, and the other way round")
    func nestedAcross() async throws {
        try await withLegacyStore { ditto in
            let cars = ditto.store.collection("cars")
            try await ditto.store.transaction { transaction in
                try await transaction.execute(query: "INSERT INTO cars DOCUMENTS ({'_id': 'a'})")
                #expect(caught { try cars.upsert(["_id": "b"]) }?.code == "SDK-0205")
            }
            let outcome = Gathered<String>()
            ditto.store.write { _ in
                let done = DispatchSemaphore(value: 0)
                Task {
                    do {
                        try await ditto.store.execute(query: "INSERT INTO cars DOCUMENTS ({'_id': 'c'})")
                        outcome.add("written")
                    } catch {
                        outcome.add("\(error.localizedDescription.prefix(8))")
                    }
                    done.signal()
                }
                done.wait()
            }
            #expect(outcome.all == ["SDK-0205"])
            #expect(cars.findAll().exec().map(\.id) == ["a"])
        }
    }

    // MARK: store.write

    @Test("a transaction is written as one, with a result for each operation in order")
    func writing() async throws {
        try await withLegacyStore { ditto in
            try ditto.store["people"].upsert(["_id": "old"])
            try ditto.store["cars"].upsert(["_id": "x", "n": 1])
            let before = try await ditto.store.execute(query: "UPDATE c SET a = 1").commitID
            let results = ditto.store.write { transaction in
                let cars = transaction.scoped(toCollectionNamed: "cars")
                let people = transaction["people"]
                do {
                    try people.upsert(["_id": "abc123", "name": "Susan"] as [String: Any?])
                    try cars.upsert(["_id": "y", "make": "Ford", "owner": "abc123"] as [String: Any?])
                    try cars.insert(["n": 1], id: "z", isDefault: true)
                } catch {
                    Issue.record(error)
                }
                cars.findByID("x").update { $0?["n"].set(2) }
                #expect(
                    cars.find("n >= $args.n", args: ["n": 1]).sort("_id").limit(5).offset(1).exec().map(\.id)
                        == ["z"])
                people.findByID("old").remove()
                cars.findAll().limit(1).evict()
                people.findByID("abc123").evict()
            }
            #expect(
                results == [
                    .inserted(docID: "abc123", collection: "people"),
                    .inserted(docID: "y", collection: "cars"), .inserted(docID: "z", collection: "cars"),
                    .updated(docID: "x", collection: "cars"), .removed(docID: "old", collection: "people"),
                    .evicted(docID: "x", collection: "cars"), .evicted(docID: "abc123", collection: "people"),
                ])
            #expect(
                try await ditto.store.execute(query: "UPDATE c SET a = 1").commitID == before.map { $0 + 1 })
            #expect(ditto.store["cars"].findAll().exec().map(\.id) == ["y", "z"])
            #expect(ditto.store["people"].findAll().exec().isEmpty)
        }
    }

    @Test("a `try` that fails inside undoes nothing of what was done before")
    func failingInside() async throws {
        try await withLegacyStore { ditto in
            let results = ditto.store.write { transaction in
                do {
                    try transaction["cars"].upsert(["_id": "a"])
                    try transaction["cars"].upsert(["_id": 1.5])
                    try transaction["cars"].upsert(["_id": "b"])
                } catch {
                    #expect(error is DittoSwiftError)
                }
            }
            #expect(results == [.inserted(docID: "a", collection: "cars")])
            #expect(ditto.store["cars"].findAll().exec().map(\.id) == ["a"])
        }
    }

    @Test("a transaction that a closure keeps has ended")
    func keptTransaction() async throws {
        try await withLegacyStore { ditto in
            let kept = Kept<DittoScopedWriteTransaction>()
            ditto.store.write { kept.object = $0["cars"] }
            let scoped = try #require(kept.object)
            #expect(caught { try scoped.upsert(["_id": "a"]) }?.code == "SDK-0206")
            #expect(scoped.findAll().exec().isEmpty && !scoped.findByID("a").remove())
            #expect(ditto.store["cars"].findAll().exec().isEmpty)
        }
    }

    @Test("a whole that is too large is written by nobody, and says so in the log")
    func tooLarge() async throws {
        try await withLegacyStore { ditto in
            try await ditto.store.execute(
                query: "ALTER SYSTEM SET sqlite3_begin_txn_timeout_secs = 1")
            // The store is taken by somebody else: the wait ends.
            let (gate, opening) = AsyncStream.makeStream(of: Void.self)
            let (entered, entering) = AsyncStream.makeStream(of: Void.self)
            let holder = Task {
                try await ditto.store.transaction { _ in
                    entering.yield()
                    for await _ in gate {}
                }
            }
            for await _ in entered { break }
            let log = await ErrorLog.during {
                let results = await withCheckedContinuation { continuation in
                    Thread.detachNewThread {
                        continuation.resume(
                            returning: ditto.store.write { _ in Issue.record("called") }.count)
                    }
                }
                #expect(results == 0)
            }
            #expect(log.contains { $0.contains("SDK-0207") })
            opening.finish()
            try await holder.value
        }
    }

    @Test("many threads write at the same time, and nothing is lost")
    func threads() async throws {
        try await withLegacyStore { ditto in
            let cars = ditto.store.collection("cars")
            try cars.upsert(["_id": "a", "n": 0])
            await withTaskGroup(of: Void.self) { group in
                for _ in 0..<8 {
                    group.addTask {
                        await withCheckedContinuation { continuation in
                            Thread.detachNewThread {
                                for _ in 0..<5 {
                                    cars.findByID("a").update { $0?["n"].set(($0?["n"].intValue ?? 0) + 1) }
                                }
                                continuation.resume()
                            }
                        }
                    }
                }
            }
            #expect(cars.findByID("a").exec()?["n"].intValue == 40)
        }
    }
}
