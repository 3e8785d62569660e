import Dispatch
import Synchronization
import TestSupport
import Testing

@testable import DittoSwift

@Suite("What an application may rely on", .timeLimit(.minutes(5)))
struct GuaranteeTests {
    private func count(_ executing: any DittoQueryExecuting) async throws -> Int {
        let result = try await executing.execute(query: "SELECT COUNT(*) AS n FROM c", arguments: [:])
        return result.items.first?.value["n"] as? Int ?? -1
    }

    @Test("twenty open readers see one state each, however often they ask, and no writer waits for them")
    func readers() async throws {
        try await withDitto { ditto in
            try await ditto.store.execute(query: "INSERT INTO c DOCUMENTS ({'_id': 0})")
            let open = Collected<Int>()
            let written = Collected<Int>()
            try await withThrowingTaskGroup(of: Void.self) { group in
                for reader in 0..<20 {
                    group.addTask {
                        try await ditto.store.transaction(isReadOnly: true) { transaction in
                            let before = try await count(transaction)
                            open.add(reader)
                            // Stays open until the writer is through.
                            while written.all.count < 50 {
                                #expect(try await count(transaction) == before)
                                try await Task.sleep(for: .milliseconds(2))
                            }
                            #expect(try await count(transaction) == before)
                        }
                    }
                }
                #expect(await eventually { open.all.count == 20 })
                for number in 1...50 {
                    try await ditto.store.execute(query: "INSERT INTO c DOCUMENTS ({'_id': \(number)})")
                    written.add(number)
                }
                try await group.waitForAll()
            }
            #expect(try await count(ditto.store) == 51)
        }
    }

    @Test("items that are kept across callbacks pin no snapshot: the log of changes is used again")
    func keptItems() async throws {
        try await withDitto { ditto in
            let text = String(repeating: "x", count: 20_000)
            func write(_ times: Int) async throws {
                for number in 0..<times {
                    try await ditto.store.execute(
                        query: "INSERT INTO c DOCUMENTS (:d) ON ID CONFLICT DO UPDATE",
                        arguments: ["d": ["_id": number % 10, "text": "\(number) \(text)"] as [String: Any?]])
                }
            }
            let log = ditto.absolutePersistenceDirectory.path
            func logBytes() -> Int {
                ditto.diskUsage.item.childItems.flatMap(\.childItems).filter { $0.path.hasSuffix("-wal") }
                    .reduce(0) { $0 + $1.sizeInBytes }
            }
            try await write(10)
            let kept = Collected<DittoQueryResult>()
            let observer = try ditto.store.registerObserver(query: "SELECT * FROM c ORDER BY _id") {
                kept.add($0)
            }
            _ = await kept.wait { !$0.isEmpty }
            try await ditto.store.execute(query: "INSERT INTO c DOCUMENTS ({'_id': 'new'})")
            let told = await kept.wait { $0.last?.items.count == 11 }.map(\.items.count)
            #expect(told.first == 10 && told.last == 11, "\(told)")
            // A query that is under way pins one too, which is not what is meant here.
            observer.cancel()
            try await write(500)
            // Ten million bytes went through it; SQLite begins it anew every four or so.
            #expect(logBytes() > 0, "\(log)")
            #expect(logBytes() < 8_000_000)
            #expect((kept.all.first?.items.first?.value["text"] as? String)?.hasPrefix("0 ") == true)
            // What would pin one: an open transaction that reads.
            try await ditto.store.transaction(isReadOnly: true) { transaction in
                _ = try await transaction.execute(query: "SELECT * FROM c")
                for number in 0..<500 {
                    let text = "\(number) \(text)"
                    try await Task.detached {
                        _ = try await ditto.store.execute(
                            query: "INSERT INTO c DOCUMENTS (:d) ON ID CONFLICT DO UPDATE",
                            arguments: ["d": ["_id": number % 10, "text": text] as [String: Any?]])
                    }.value
                }
            }
            #expect(logBytes() > 8_000_000)
        }
    }

    @Test("observers on queues of their own are told in parallel; a slow one holds up nobody and no writer")
    func parallelObservers() async throws {
        try await withDitto { ditto in
            let gate = DispatchSemaphore(value: 0)
            let slow = Collected<Int>()
            let quick = Collected<Int>()
            try ditto.store.registerObserver(
                query: "SELECT * FROM c", deliverOn: DispatchQueue(label: "slow")
            ) { result in
                slow.add(result.items.count)
                if result.items.count == 1 { gate.wait() }
            }
            try ditto.store.registerObserver(
                query: "SELECT * FROM c", deliverOn: DispatchQueue(label: "quick")
            ) { quick.add($0.items.count) }
            _ = await slow.wait { $0.count == 1 }
            try await ditto.store.execute(query: "INSERT INTO c DOCUMENTS ({'_id': 1})")
            _ = await slow.wait { $0.count == 2 }
            // The slow one is in its handler now.
            for number in 2...20 {
                try await ditto.store.execute(query: "INSERT INTO c DOCUMENTS ({'_id': \(number)})")
            }
            #expect(await quick.wait { $0.last == 20 }.last == 20)
            #expect(slow.all == [0, 1])
            gate.signal()
            #expect(await slow.wait { $0.count == 3 } == [0, 1, 20])
        }
    }

    @Test("several instances live side by side, each with a directory and documents of its own")
    func sideBySide() async throws {
        try await withTemporaryDirectory { directory in
            let names = ["a", "b", "c"]
            var instances: [Ditto] = []
            for name in names {
                instances.append(
                    try await Ditto.openAlone(config: .local(directory.appendingPathComponent(name))))
            }
            for (number, ditto) in instances.enumerated() {
                for document in 0...number {
                    try await ditto.store.execute(query: "INSERT INTO c DOCUMENTS ({'_id': \(document)})")
                }
            }
            for (number, ditto) in instances.enumerated() {
                #expect(try await count(ditto.store) == number + 1)
                await ditto.close()
            }
        }
    }

    @Test("a directory that was copied or restored writes as a new actor; one that was not keeps its own")
    func copies() async throws {
        try await withTemporaryDirectory { directory in
            let original = directory.appendingPathComponent("original")
            let copy = directory.appendingPathComponent("copy")
            func actor(_ folder: URL, _ id: Int) async throws -> UInt64 {
                let ditto = try await Ditto.openAlone(config: .local(folder))
                try await ditto.store.execute(query: "INSERT INTO c DOCUMENTS ({'_id': \(id)})")
                let actor = try ditto.store.engine.replica().actor.rawValue
                await ditto.close()
                return actor
            }
            let first = try await actor(original, 1)
            #expect(try await actor(original, 2) == first)
            try FileManager.default.copyItem(at: original, to: copy)
            let second = try await actor(copy, 3)
            #expect(second != first)
            #expect(try await actor(original, 4) == first)
            // Restored over the original.
            try FileManager.default.removeItem(at: original)
            try FileManager.default.copyItem(at: copy, to: original)
            let third = try await actor(original, 5)
            #expect(third != first && third != second)
            #expect(try await actor(original, 6) == third)
        }
    }

    @Test("a document of 6 MiB is refused alone: the transaction goes on, and so does the store")
    func largeDocument() async throws {
        try await withDitto { ditto in
            let text = String(repeating: "x", count: 6 * 1_048_576)
            try await ditto.store.transaction { transaction in
                try await transaction.execute(query: "INSERT INTO c DOCUMENTS ({'_id': 1})")
                do {
                    try await transaction.execute(
                        query: "INSERT INTO c DOCUMENTS (:d)",
                        arguments: ["d": ["_id": 2, "t": text] as [String: Any?]])
                    Issue.record("6 MiB were taken")
                } catch DittoSwiftError.validationError(.sizeLimitExceeded(let message)) {
                    #expect(message.hasPrefix("STORE-"))
                    #expect(message.count < 300)
                }
                try await transaction.execute(query: "INSERT INTO c DOCUMENTS ({'_id': 3})")
            }
            #expect(try await count(ditto.store) == 2)
        }
    }

    @Test("a document is 5 MiB at most, to the byte of its encoding")
    func versionAndLimits() async throws {
        #expect(Ditto.version.split(separator: ".").count == 3)
        #expect(Ditto.defaultRootDirectory.path == FileManager.default.currentDirectoryPath)
        try await withDitto { ditto in
            func insert(_ count: Int) async -> Bool {
                let document = ["t": String(repeating: "x", count: count)]
                return
                    (try? await ditto.store.execute(
                        query: "INSERT INTO c DOCUMENTS (:d)", arguments: ["d": document])) != nil
            }
            #expect(await insert(5 * 1_048_576 - 1_000))
            #expect(await !insert(5 * 1_048_576))
        }
    }
}
