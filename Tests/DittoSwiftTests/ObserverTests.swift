import Dispatch
import DittoSwift
import Synchronization
import Testing

@Suite("Observers", .timeLimit(.minutes(5)))
struct ObserverTests {
    private func insert(_ ditto: Ditto, _ id: Int, into collection: String = "cars") async throws {
        try await ditto.store.execute(
            query: "INSERT INTO \(collection) DOCUMENTS (:d) ON ID CONFLICT DO UPDATE",
            arguments: ["d": ["_id": id]])
    }

    @Test("the first call has the current result, the next ones what changed it")
    func currentThenChanges() async throws {
        try await withDitto { ditto in
            try await insert(ditto, 1)
            let counts = Collected<Int>()
            try ditto.store.registerObserver(query: "SELECT * FROM cars") { counts.add($0.items.count) }
            #expect(await counts.wait { $0.count == 1 } == [1])
            try await insert(ditto, 2)
            #expect(await counts.wait { $0.count == 2 } == [1, 2])
        }
    }

    @Test("a commit that touches other collections, or does not change the result, is not told")
    func unrelated() async throws {
        try await withDitto { ditto in
            let counts = Collected<Int>()
            try ditto.store.registerObserver(query: "SELECT * FROM cars WHERE _id < 10") {
                counts.add($0.items.count)
            }
            #expect(await counts.wait { $0.count == 1 } == [0])
            try await insert(ditto, 1, into: "boats")
            try await insert(ditto, 20)
            try await insert(ditto, 2)
            #expect(await counts.wait { $0.count == 2 } == [0, 1])
        }
    }

    @Test("a change of what is read that leaves the result as it was is not told")
    func unchangedResult() async throws {
        try await withDitto { ditto in
            let counts = Collected<Int>()
            try ditto.store.registerObserver(query: "SELECT _id FROM cars WHERE _id < 10") {
                counts.add($0.items.count)
            }
            #expect(await counts.wait { $0.count == 1 } == [0])
            try await insert(ditto, 1)
            #expect(await counts.wait { $0.count == 2 } == [0, 1])
            try await ditto.store.execute(query: "UPDATE cars SET color = 'red' WHERE _id = 1")
            try await insert(ditto, 2)
            #expect(await counts.wait { $0.count >= 3 } == [0, 1, 2])
        }
    }

    @Test(
        "changes that come while a call is under way are told together, in order, and the last is never lost")
    func coalescing() async throws {
        try await withDitto { ditto in
            let counts = Collected<Int>()
            let isRunning = Mutex(false)
            let overlaps = Collected<Bool>()
            // The first call lasts until all is written.
            let areInserted = DispatchSemaphore(value: 0)
            try ditto.store.registerObserver(query: "SELECT * FROM cars") { result in
                overlaps.add(
                    isRunning.withLock { running in
                        defer { running = true }
                        return running
                    })
                counts.add(result.items.count)
                if result.items.isEmpty { areInserted.wait() }
                isRunning.withLock { $0 = false }
            }
            for id in 0..<40 { try await insert(ditto, id) }
            areInserted.signal()
            let seen = await counts.wait { $0.last == 40 }
            #expect(seen.last == 40)
            #expect(seen == seen.sorted())
            #expect(seen == [0, 40])
            #expect(!overlaps.all.contains(true))
        }
    }

    @Test("no call runs after cancel has returned, not even one that was under way")
    func cancelling() async throws {
        try await withDitto { ditto in
            for round in 0..<20 {
                let isCancelled = Mutex(false)
                let late = Collected<Int>()
                let began = Collected<Int>()
                let queue = DispatchQueue(label: "test", attributes: .concurrent)
                let observer = try ditto.store.registerObserver(
                    query: "SELECT * FROM cars", deliverOn: queue
                ) { result in
                    began.add(1)
                    Thread.sleep(forTimeInterval: 0.002)
                    if isCancelled.withLock({ $0 }) { late.add(result.items.count) }
                }
                for id in 0..<5 { try await insert(ditto, round * 10 + id) }
                _ = await began.wait { !$0.isEmpty }
                observer.cancel()
                isCancelled.withLock { $0 = true }
                #expect(observer.isCancelled)
                try await insert(ditto, round * 10 + 9)
                try await Task.sleep(for: .milliseconds(5))
                #expect(late.all.isEmpty)
            }
            #expect(ditto.store.observers.isEmpty)
        }
    }

    @Test("a handler may cancel its own observer")
    func cancelInside() async throws {
        try await withDitto { ditto in
            let calls = Collected<Int>()
            let kept = Mutex<DittoStoreObserver?>(nil)
            let observer = try ditto.store.registerObserver(query: "SELECT * FROM cars") { result in
                calls.add(result.items.count)
                if result.items.count == 1 { kept.withLock { $0 }?.cancel() }
            }
            kept.withLock { $0 = observer }
            _ = await calls.wait { $0.count == 1 }
            try await insert(ditto, 1)
            #expect(await eventually { observer.isCancelled })
            try await insert(ditto, 2)
            try await Task.sleep(for: .milliseconds(30))
            #expect(calls.all == [0, 1])
        }
    }

    @Test("an observer at its own pace gets the next result only after its signal")
    func signalNext() async throws {
        try await withDitto { ditto in
            let counts = Collected<Int>()
            let signal = Mutex<DittoSignalNext?>(nil)
            try ditto.store.registerObserver(
                query: "SELECT * FROM cars",
                handlerWithSignalNext: { result, signalNext in
                    signal.withLock { $0 = signalNext }
                    counts.add(result.items.count)
                })
            _ = await counts.wait { $0.count == 1 }
            for id in 0..<3 { try await insert(ditto, id) }
            try await Task.sleep(for: .milliseconds(30))
            #expect(counts.all == [0])
            let first = signal.withLock { $0 }
            first?()
            #expect(await counts.wait { $0.count == 2 } == [0, 3])
            // A signal counts once.
            first?()
            try await insert(ditto, 3)
            try await Task.sleep(for: .milliseconds(30))
            #expect(counts.all == [0, 3])
        }
    }

    @Test("an observer lives on when nobody keeps it, and is listed until it is cancelled")
    func lifetime() async throws {
        try await withDitto { ditto in
            let counts = Collected<Int>()
            try ditto.store.registerObserver(
                query: "SELECT * FROM cars WHERE _id = :id", arguments: ["id": 7]
            ) { counts.add($0.items.count) }
            let observer = try #require(ditto.store.observers.first)
            #expect(ditto.store.observers.count == 1)
            #expect(observer.queryString == "SELECT * FROM cars WHERE _id = :id")
            #expect(observer.queryArguments?["id"] as? Int == 7)
            #expect(observer.ditto === ditto)
            _ = await counts.wait { $0.count == 1 }
            try await insert(ditto, 7)
            #expect(await counts.wait { $0.count == 2 } == [0, 1])
        }
    }

    @Test("only a correct SELECT with all its arguments can be observed")
    func refused() async throws {
        try await withDitto { ditto in
            let store = ditto.store
            #expect { try store.registerObserver(query: "DELETE FROM c") { _ in } } throws: {
                storeReason($0) == "queryNotSupported"
            }
            #expect { try store.registerObserver(query: "SELEKT") { _ in } } throws: {
                storeReason($0) == "queryInvalid"
            }
            #expect { try store.registerObserver(query: "SELECT * FROM c WHERE a = :a") { _ in } } throws: {
                storeReason($0) == "queryArgumentsInvalid"
            }
            #expect(store.observers.isEmpty)
        }
    }

    @Test("closing cancels observers")
    func closing() async throws {
        try await withDitto { ditto in
            let observer = try ditto.store.registerObserver(query: "SELECT * FROM cars") { _ in }
            await ditto.close()
            #expect(observer.isCancelled)
            #expect(ditto.store.observers.isEmpty)
        }
    }
}
