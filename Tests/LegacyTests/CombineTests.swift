import DittoSwiftCombine
import Foundation
import Synchronization
import Testing

@Suite("Publishers", .timeLimit(.minutes(5)))
struct CombineTests {
    @Test("a live query publishes its documents and events until it is cancelled")
    func liveQuery() async throws {
        try await withLegacyStore { ditto in
            let cars = ditto.store.collection("cars")
            let seen = Gathered<String>()
            let cancellable = cars.find("n > 0").sort("n").liveQueryPublisher()
                .map { "\($0.documents.map(\.id)) \($0.event)" }
                .sink { seen.add($0) }
            #expect(await seen.wait { $0.count == 1 } == ["[] initial"])
            try cars.upsert(["_id": "a", "n": 1])
            #expect(await seen.wait { $0.count == 2 }.last?.hasPrefix("[a] update(insertions: [0]") == true)
            let single = Gathered<Int>()
            let other = cars.findByID("a").singleDocumentLiveQueryPublisher()
                .sink { single.add(($0.document?["n"].intValue ?? 0) + ($0.event.isInitial ? 100 : 0)) }
            _ = await single.wait { $0.count == 1 }
            try cars.upsert(["_id": "a", "n": 2])
            #expect(await single.wait { $0.count == 2 } == [101, 2])
            cancellable.cancel()
            other.cancel()
            #expect(ditto.store.observers.isEmpty)
        }
    }

    @Test("a subscriber that asks for one value at a time gets each difference from the value before")
    func demand() async throws {
        try await withLegacyStore { ditto in
            let cars = ditto.store.collection("cars")
            let slow = SlowSubscriber()
            cars.findAll().liveQueryPublisher().map { "\($0.documents.count) \($0.event)" }.subscribe(slow)
            slow.ask()
            #expect(await slow.seen.wait { $0.count == 1 } == ["0 initial"])
            for id in ["a", "b", "c"] { try cars.upsert(["_id": id]) }
            try await Task.sleep(for: .milliseconds(100))
            #expect(slow.seen.all.count == 1)
            slow.ask()
            slow.ask()
            // The first change came alone or with the others; nothing is told twice or left out.
            let all = await slow.seen.wait { $0.last?.hasPrefix("3 ") == true }
            let inserted = all.dropFirst().reduce(0) {
                $0 + $1.split(separator: "]")[0].filter(\.isNumber).count - 1
            }
            #expect(inserted == 3)
            slow.end()
            #expect(ditto.store.observers.isEmpty)
        }
    }

    private final class SlowSubscriber: Subscriber, Sendable {
        let seen = Gathered<String>()
        private let subscription = Mutex<Held?>(nil)
        // Safe: publishers' subscriptions may be used from any thread.
        private struct Held: @unchecked Sendable { let subscription: any Subscription }

        func receive(subscription: any Subscription) {
            let held = Held(subscription: subscription)
            self.subscription.withLock { $0 = held }
        }
        func receive(_ input: String) -> Subscribers.Demand {
            seen.add(input)
            return .none
        }
        func receive(completion: Subscribers.Completion<Never>) {}
        func ask() { subscription.withLock { $0 }?.subscription.request(.max(1)) }
        func end() { subscription.withLock { $0 }?.subscription.cancel() }
    }

    @Test("a fetch publishes its end and finishes; a token that is none finishes at once")
    func attachments() async throws {
        try await withLegacyStore { ditto in
            let files = ditto.store.collection("files")
            let file = ditto.persistenceDirectory.appendingPathComponent("file")
            try Data("bytes".utf8).write(to: file)
            let attachment = try #require(files.newAttachment(path: file.path))
            try files.upsert(["_id": "a", "file": attachment] as [String: Any?])
            let document = try #require(files.findByID("a").exec())
            let token = try #require(document["file"].attachmentToken)
            let seen = Gathered<String>()
            var parts: Set<AnyCancellable> = []
            files.fetchAttachmentPublisher(attachmentToken: token).completed()
                .sink(receiveCompletion: { _ in seen.add("finished") }, receiveValue: { seen.add($0.id) })
                .store(in: &parts)
            #expect(await seen.wait { $0.count == 2 } == [attachment.id, "finished"])
            ditto.store.fetchAttachmentPublisher(attachmentToken: token).progress()
                .sink(
                    receiveCompletion: { _ in seen.add("finished") },
                    receiveValue: { seen.add("\($0.percentage)") }
                )
                .store(in: &parts)
            #expect(await seen.wait { $0.last == "finished" && $0.count > 2 }.last == "finished")
            let count = seen.all.count
            ditto.store.fetchAttachmentPublisher(attachmentToken: ["id": 5])
                .sink(
                    receiveCompletion: { _ in seen.add("nothing") }, receiveValue: { _ in seen.add("value") }
                )
                .store(in: &parts)
            #expect(await seen.wait { $0.count > count }.last == "nothing")
        }
    }

    @Test("presence, peers and disk usage publish what there is now")
    func states() async throws {
        try await withLegacyStore { ditto in
            let seen = Gathered<String>()
            var parts: Set<AnyCancellable> = []
            ditto.presence.graphPublisher().sink { seen.add("graph \($0.remotePeers.count)") }.store(
                in: &parts)
            ditto.remotePeersPublisher().sink { seen.add("peers \($0.count)") }.store(in: &parts)
            ditto.diskUsage.diskUsagePublisher().first().sink { seen.add("disk \($0.sizeInBytes > 0)") }
                .store(in: &parts)
            #expect(await Set(seen.wait { $0.count >= 3 }) == ["graph 0", "peers 0", "disk true"])
        }
    }

    @Test("combineLatest pairs the newest values, and ends with its parts")
    func combineLatest() {
        let (numbers, texts) = (PassthroughSubject<Int, Never>(), PassthroughSubject<String, Never>())
        let flags = CurrentValueSubject<Bool, Never>(true)
        let seen = Gathered<String>()
        let pairs = numbers.combineLatest(texts).sink {
            seen.add(String(describing: $0))
        } receiveValue: {
            seen.add("\($0)\($1)")
        }
        let three = numbers.combineLatest(texts, flags).sink { seen.add("\($0)\($1)\($2)") }
        let made = numbers.combineLatest(texts) { $1 + "\($0)" }.sink { seen.add($0) }
        numbers.send(1)
        #expect(seen.all.isEmpty)
        texts.send("a")
        #expect(Set(seen.all) == ["1a", "1atrue", "a1"])
        numbers.send(completion: .finished)
        texts.send("b")
        #expect(seen.all.count == 6)
        texts.send(completion: .finished)
        #expect(seen.all.last == "finished" || seen.all.contains("finished"))
        pairs.cancel()
        three.cancel()
        made.cancel()
    }

    @Test("values come on the queue that an application asks for, and timers and subjects merge with them")
    func schedulers() async throws {
        try await withLegacyStore { ditto in
            let cars = ditto.store.collection("cars")
            let seen = Gathered<String>()
            let key = DispatchSpecificKey<String>()
            let queue = DispatchQueue(label: "interface")
            queue.setSpecific(key: key, value: "interface")
            var parts: Set<AnyCancellable> = []
            let taps = PassthroughSubject<Int, Never>()
            let counts = cars.findAll().liveQueryPublisher().map(\.documents.count)
            counts.merge(with: taps).receive(on: queue)
                .sink { seen.add("\($0) on \(DispatchQueue.getSpecific(key: key) ?? "another")") }
                .store(in: &parts)
            #expect(await seen.wait { $0.count == 1 } == ["0 on interface"])
            taps.send(7)
            #expect(await seen.wait { $0.count == 2 }.last == "7 on interface")
            try cars.upsert(["_id": "a"])
            #expect(await seen.wait { $0.count == 3 }.last == "1 on interface")
            // The document is the only change within the pause.
            counts.debounce(for: .milliseconds(20), scheduler: queue).first()
                .sink { seen.add("settled at \($0)") }.store(in: &parts)
            #expect(await seen.wait { $0.count == 4 }.last == "settled at 1")
            let name = Notification.Name("test.legacy.combine")
            NotificationCenter.default.publisher(for: name).sink { seen.add($0.name.rawValue) }
                .store(in: &parts)
            NotificationCenter.default.post(name: name, object: nil)
            #expect(seen.all.last == "test.legacy.combine")
        }
    }

    @Test("merged publishers publish as they come, fail with the first failure, finish with the last")
    func merge() {
        struct Broken: Error {}
        let (one, two) = (PassthroughSubject<Int, any Error>(), PassthroughSubject<Int, any Error>())
        let three = PassthroughSubject<Int, any Error>()
        let seen = Gathered<String>()
        func end(_ completion: Subscribers.Completion<any Error>) {
            if case .finished = completion { seen.add("finished") } else { seen.add("failed") }
        }
        let all = one.merge(with: two, three).sink(receiveCompletion: end) { seen.add("\($0)") }
        one.send(1)
        three.send(3)
        one.send(completion: .finished)
        two.send(2)
        three.send(completion: .finished)
        #expect(seen.all == ["1", "3", "2"])
        two.send(completion: .finished)
        #expect(seen.all.last == "finished")
        let failing = PassthroughSubject<Int, any Error>()
        let other = PassthroughSubject<Int, any Error>()
        let many = Publishers.MergeMany([failing, other]).sink(receiveCompletion: end) { seen.add("\($0)") }
        failing.send(completion: .failure(Broken()))
        other.send(9)
        #expect(seen.all.suffix(2) == ["finished", "failed"])
        all.cancel()
        many.cancel()
    }
}
