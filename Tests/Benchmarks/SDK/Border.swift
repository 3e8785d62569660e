import DittoSwift
import Foundation

/// Measures the SDK with the statements that `Tests/Benchmarks/native.py` also makes by the C interface and
/// in Python, on the store that it has filled. Times are microseconds, the best of some rounds: other work
/// only adds to them.
func measureBorder(_ directory: String) async throws {
    let ditto = try await Ditto.openAlone(config: config(directory))
    let store = ditto.store
    let calls = AsyncStream.makeStream(of: Void.self)
    var called = calls.stream.makeAsyncIterator()
    let observer = try store.registerObserver(query: "SELECT n FROM watched") { _ in
        calls.continuation.yield()
    }
    await called.next()
    say([
        "point": try await best(of: 2_000) { _ in
            let result = try await store.execute(
                query: "SELECT * FROM sensors WHERE _id = :id", arguments: ["id": "sensor-00000500"])
            precondition(result.items[0].value.count > 3)
        },
        "thousand": try await best(of: 20) { _ in
            let result = try await store.execute(query: "SELECT * FROM sensors")
            precondition(result.items.reduce(0) { $0 + $1.value.count } > 3_000)
        },
        "insert": try await best(of: 30) { _ in
            var document = sensor(0)
            document["_id"] = UUID().uuidString
            try await store.execute(query: "INSERT INTO other DOCUMENTS (:d)", arguments: ["d": document])
        },
        "observer": try await best(of: 20) { number in
            try await store.execute(
                query: "INSERT INTO watched DOCUMENTS (:d)", arguments: ["d": ["n": number]])
            await called.next()
        },
    ])
    observer.cancel()
    await ditto.close()
}

private func best(of calls: Int, _ body: (Int) async throws -> Void) async rethrows -> Double {
    var best = Double.infinity
    for _ in 0..<5 {
        let start = Clock.seconds()
        for number in 0..<calls { try await body(number) }
        best = min(best, (Clock.seconds() - start) / Double(calls) * 1e6)
    }
    return best
}
