import DittoSwift
import Foundation
import Synchronization
import Testing

@Suite("Live queries of the 4.x API", .timeLimit(.minutes(5)))
struct LiveQueryTests {
    private let queue = DispatchQueue(label: "test.live-queries")

    /// `initial a b` or `old a b; +0 -1 ~0 0>1; new b c` of a call.
    private static func text(_ documents: [DittoDocument], _ event: DittoLiveQueryEvent) -> String {
        let now = documents.map(\.id.description).joined()
        switch event {
        case .initial: return "initial \(now)"
        case .update(let update):
            let parts =
                update.insertions.map { "+\($0)" } + update.deletions.map { "-\($0)" }
                + update.updates.map { "~\($0)" } + update.moves.map { "\($0.from)>\($0.to)" }
            let old = update.oldDocuments.map(\.id.description).joined()
            return "\(old) \(parts.joined(separator: " ")) \(now)"
        }
    }

    @Test("the first call comes once, also without documents; then one for each change, with its difference")
    func events() async throws {
        try await withLegacyStore { ditto in
            let cars = ditto.store.collection("cars")
            let calls = Gathered<String>()
            let query = cars.find("n > 0").sort("n").observeLocal(deliverOn: queue) { documents, event in
                calls.add(Self.text(documents, event))
            }
            #expect(query.query == "n > 0" && query.collectionName == "cars")
            func after(_ count: Int) async -> String { await calls.wait { $0.count == count }.last ?? "" }
            #expect(await after(1) == "initial ")
            try cars.upsert(["_id": "a", "n": 1])
            #expect(await after(2) == " +0 a")
            try cars.upsert(["_id": "b", "n": 2])
            #expect(await after(3) == "a +1 ab")
            try cars.upsert(["_id": "a", "n": 3])
            let moved = await after(4)
            #expect(moved.hasPrefix("ab ~1 ") && moved.hasSuffix(" ba"))
            #expect(moved.contains("0>1") || moved.contains("1>0"))
            cars.findByID("b").remove()
            #expect(await after(5) == "ba -0 a")
            // What does not change the result calls nobody.
            try cars.upsert(["_id": "c", "n": 0])
            try cars.upsert(["_id": "a", "n": 3])
            cars.findByID("a").update { $0?["n"].set(0) }
            #expect(await after(6) == "a -0 ")
            #expect(calls.all.count == 6)
            query.stop()
        }
    }

    @Test("windows of sort, limit and offset move over the documents")
    func windows() async throws {
        try await withLegacyStore { ditto in
            let cars = ditto.store.collection("cars")
            for (id, n) in [("a", 1), ("b", 2), ("c", 3), ("d", 4)] {
                try cars.upsert(["_id": id, "n": n] as [String: Any?])
            }
            let calls = Gathered<String>()
            let query = cars.findAll().sort("n").offset(1).limit(2).observeLocal(
                deliverOn: queue, eventHandler: { calls.add(Self.text($0, $1)) })
            #expect(await calls.wait { $0.count == 1 } == ["initial bc"])
            try cars.upsert(["_id": "a", "n": 9])
            #expect(await calls.wait { $0.count == 2 }.last == "bc +1 -0 cd")
            query.stop()
        }
    }

    @Test("a query of an id has the document or nil, and the one before")
    func byID() async throws {
        try await withLegacyStore { ditto in
            let cars = ditto.store.collection("cars")
            let calls = Gathered<String>()
            let query = cars.findByID("a").observeLocal(deliverOn: queue) { document, event in
                calls.add(
                    "\(event.isInitial) \(event.oldDocument?["n"].int ?? -1) \(document?["n"].int ?? -1)"
                )
            }
            func after(_ count: Int) async -> String { await calls.wait { $0.count == count }.last ?? "" }
            #expect(await after(1) == "true -1 -1")
            try cars.upsert(["_id": "a", "n": 1])
            #expect(await after(2) == "false -1 1")
            try cars.upsert(["_id": "b", "n": 7])
            try cars.upsert(["_id": "a", "n": 2])
            #expect(await after(3) == "false 1 2")
            cars.findByID("a").remove()
            #expect(await after(4) == "false 2 -1")
            query.stop()
            query.stop()
        }
    }

    @Test("with a next signal the next call waits for it, and what comes meanwhile comes together")
    func nextSignal() async throws {
        try await withLegacyStore { ditto in
            let cars = ditto.store.collection("cars")
            let calls = Gathered<String>()
            let signals = Gathered<DittoSignalNext>()
            let query = cars.findAll().observeLocalWithNextSignal(deliverOn: queue) {
                documents, event, next in
                calls.add(Self.text(documents, event))
                signals.add(next)
            }
            #expect(await calls.wait { $0.count == 1 } == ["initial "])
            for id in ["a", "b", "c"] { try cars.upsert(["_id": id]) }
            try await Task.sleep(for: .milliseconds(100))
            #expect(calls.all.count == 1)
            signals.all[0]()
            #expect(await calls.wait { $0.count == 2 }.last == " +0 +1 +2 abc")
            let single = cars.findByID("a").observeLocalWithNextSignal(deliverOn: queue) {
                document, _, next in
                calls.add("single \(document?.id.description ?? "")")
                next()
            }
            #expect(await calls.wait { $0.count == 3 }.last == "single a")
            single.stop()
            query.stop()
        }
    }

    @Test("it ends when it is stopped and when nobody holds it, and a closure may stop its own")
    func ending() async throws {
        try await withLegacyStore { ditto in
            let cars = ditto.store.collection("cars")
            let calls = Gathered<String>()
            let own = Mutex<DittoLiveQuery?>(nil)
            func observe(_ name: String) -> DittoLiveQuery {
                cars.findAll().observeLocal(deliverOn: queue) { documents, _ in
                    calls.add("\(name) \(documents.count)")
                    if name == "own", documents.count == 1 { own.withLock { $0 }?.stop() }
                }
            }
            let stopped = observe("stopped")
            var dropped: DittoLiveQuery? = observe("dropped")
            own.withLock { $0 = observe("own") }
            _ = await calls.wait { $0.count == 3 }
            #expect(ditto.store.observers.count == 3 && dropped != nil)
            stopped.stop()
            dropped = nil
            #expect(ditto.store.observers.count == 1)
            try cars.upsert(["_id": "a"])
            #expect(await calls.wait { $0.count == 4 }.last == "own 1")
            #expect(await eventually { ditto.store.observers.isEmpty })
            try cars.upsert(["_id": "b"])
            try await Task.sleep(for: .milliseconds(50))
            #expect(calls.all.count == 4)
        }
    }

    @Test("a query that cannot run is never called, and the log says why")
    func wrong() async throws {
        try await withLegacyStore { ditto in
            let cars = ditto.store.collection("cars")
            try cars.upsert(["_id": "a"])
            let log = await ErrorLog.during {
                let query = cars.find("n ==").observeLocal(deliverOn: queue) { _, _ in Issue.record("called")
                }
                let missing = cars.find("n == $args.n").observeLocal(deliverOn: queue) { _, _ in
                    Issue.record("called")
                }
                let subscription = cars.find("n ==").subscribe()
                #expect(ditto.store.observers.isEmpty && ditto.sync.subscriptions.isEmpty)
                query.stop()
                missing.stop()
                subscription.cancel()
            }
            #expect(log.contains { $0.contains("observeLocal failed") && $0.contains("DQL-") })
            #expect(log.contains { $0.contains("subscribe failed") && $0.contains("DQL-") })
        }
    }

    @Test("a subscription with a window asks for all documents of its query, which is a warning and no error")
    func subscribedWindows() async throws {
        try await withLegacyStore { ditto in
            let cars = ditto.store.collection("boats")
            for level in [DittoLogLevel.warning, .error] {
                let log = await ErrorLog.during(level) {
                    let all = [
                        cars.findAll().limit(1).subscribe(), cars.find("n == 1").offset(2).subscribe(),
                        cars.find("n == 2").sort("n").subscribe(),
                    ]
                    #expect(all.map(\.query) == ["true", "n == 1", "n == 2"])
                    #expect(ditto.sync.subscriptions.count == 3)
                    for subscription in all { subscription.cancel() }
                }
                let told = log.contains { $0.contains("sort, limit and offset") && $0.contains("SDK-0306") }
                #expect(told == (level == .warning))
                #expect(!log.contains { $0.contains("subscribe failed") && $0.contains("SDK-0306") })
            }
        }
    }

    @Test("a closure may write")
    func writingInside() async throws {
        try await withLegacyStore { ditto in
            let cars = ditto.store.collection("cars")
            let calls = Gathered<Int>()
            let query = cars.findAll().observeLocal(deliverOn: queue) { documents, _ in
                calls.add(documents.count)
                if documents.count < 4 { _ = try? cars.upsert(["n": documents.count]) }
            }
            #expect(await calls.wait { $0.last == 4 } == [0, 1, 2, 3, 4])
            query.stop()
        }
    }

    @Test("without a queue it is called on the one that the application serves")
    func defaultQueue() async throws {
        try await withLegacyStore { ditto in
            let calls = Gathered<Int>()
            let query = ditto.store["cars"].findAll().observeLocal { documents, _ in
                calls.add(documents.count)
            }
            #expect(await calls.wait { !$0.isEmpty } == [0])
            query.stop()
        }
    }

    @Test("collections are observed by their names")
    func collections() async throws {
        try await withLegacyStore { ditto in
            let calls = Gathered<String>()
            let query = ditto.store.collections().observeLocal(deliverOn: queue) { event in
                calls.add(
                    "\(event.isInitial) \(event.oldCollections.map(\.name)) \(event.collections.map(\.name)) "
                        + "\(event.insertions) \(event.deletions) \(event.updates) \(event.moves.count)")
            }
            #expect(await calls.wait { $0.count == 1 } == ["true [] [] [] [] [] 0"])
            try ditto.store["b"].upsert(["_id": 1])
            #expect(await calls.wait { $0.count == 2 }.last == #"false [] ["b"] [0] [] [] 0"#)
            try ditto.store["a"].upsert(["_id": 1])
            #expect(await calls.wait { $0.count == 3 }.last == #"false ["b"] ["a", "b"] [0] [] [] 0"#)
            query.stop()
            ditto.store.collections().subscribe().cancel()
        }
    }

    @Test("subscriptions last as long as they are held; observe of 1.x has one of its own")
    func subscriptions() async throws {
        try await withLegacyStore { ditto in
            let cars = ditto.store.collection("cars")
            var held: DittoSubscription? = cars.find("n == $args.n", args: ["n": 1]).subscribe()
            let byID = cars.findByID(["k": 1]).subscribe()
            let all = cars.findAll().subscribe()
            let texts = Set(ditto.sync.subscriptions.map(\.queryString))
            #expect(
                texts == [
                    "SELECT * FROM cars WHERE n = :n", "SELECT * FROM cars WHERE _id = :id",
                    "SELECT * FROM cars",
                ])
            #expect(held?.query == "n == $args.n" && held?.collectionName == "cars")
            held = nil
            #expect(ditto.sync.subscriptions.count == 2)
            byID.cancel()
            all.cancel()
            all.cancel()
            #expect(ditto.sync.subscriptions.isEmpty)
            var both: DittoLiveQuery? = cars.findAll().observe(deliverOn: queue) { _, _ in }
            let single = cars.findByID("a").observe(deliverOn: queue) { _, _ in }
            #expect(ditto.sync.subscriptions.count == 2 && ditto.store.observers.count == 2 && both != nil)
            both = nil
            single.stop()
            #expect(ditto.sync.subscriptions.isEmpty && ditto.store.observers.isEmpty)
        }
    }

    @Test("the hash of queries changes with their documents, and is the same for the same documents")
    func hashes() async throws {
        try await withLegacyStore { ditto in
            let cars = ditto.store.collection("cars")
            try cars.upsert(["_id": "a", "n": 1])
            let all = cars.findAll().observeLocal(deliverOn: queue) { _, _ in }
            let some = cars.find("n > 1").observeLocal(deliverOn: queue) { _, _ in }
            let before = ditto.store.queriesHash(queries: [all, some])
            let words = ditto.store.queriesHashMnemonic(queries: [all, some])
            #expect(
                before == ditto.store.queriesHash(queries: [all, some])
                    && words.split(separator: "-").count == 5)
            try ditto.store["other"].upsert(["_id": "a"])
            #expect(ditto.store.queriesHash(queries: [all, some]) == before)
            try cars.upsert(["_id": "a", "n": 2])
            #expect(ditto.store.queriesHash(queries: [all, some]) != before)
            #expect(ditto.store.queriesHashMnemonic(queries: [all, some]) != words)
            #expect(ditto.store.queriesHash(queries: [all]) != ditto.store.queriesHash(queries: [all, some]))
            let documents = cars.findAll().exec()
            let event = DittoLiveQueryEvent.initial
            #expect(event.hash(documents: documents) != event.hash(documents: []))
            #expect(!event.hashMnemonic(documents: documents).isEmpty && event.description == "initial")
        }
    }

    @Test("observers of both APIs see the same commits")
    func bothAPIs() async throws {
        try await withLegacyStore { ditto in
            let cars = ditto.store.collection("cars")
            let (old, new) = (Gathered<String>(), Gathered<String>())
            let query = cars.find("color == 'red'").sort("n").observeLocalWithNextSignal(deliverOn: queue) {
                documents, _, next in
                old.add(documents.map { "\($0.id)\($0["n"].intValue)" }.joined())
                next()
            }
            let observer = try ditto.store.registerObserver(
                query: "SELECT * FROM cars WHERE color = 'red' ORDER BY n", deliverOn: queue
            ) { result in
                new.add(
                    result.items.map { "\($0.value["_id"] as? String ?? "")\($0.value["n"] as? Int ?? 0)" }
                        .joined())
            }
            for step in 0..<6 {
                if step.isMultiple(of: 2) {
                    try cars.upsert(["_id": "x\(step)", "color": "red", "n": step] as [String: Any?])
                } else {
                    try await ditto.store.execute(query: "UPDATE cars SET n = n + 10 WHERE color = 'red'")
                }
                _ = await old.wait { $0.count == step + 2 }
                _ = await new.wait { $0.count == step + 2 }
            }
            #expect(old.all == new.all && old.all.count == 7)
            query.stop()
            observer.cancel()
        }
    }
}
