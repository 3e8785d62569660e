import TestSupport
import Testing

@testable import DittoSwift

@Suite("The store")
struct StoreTests {
    private func reason(_ ditto: Ditto, _ query: String, _ arguments: [String: Any?]? = nil) async -> String?
    {
        do {
            try await ditto.store.execute(query: query, arguments: arguments)
            return nil
        } catch {
            return storeReason(error)
        }
    }

    @Test("what is inserted is selected, updated, deleted")
    func lifeOfADocument() async throws {
        try await withDitto { ditto in
            let inserted = try await ditto.store.execute(
                query: "INSERT INTO cars DOCUMENTS (:car)",
                arguments: ["car": ["_id": "123", "color": "red", "mileage": 3000, "engine": ["l": 1.0]]])
            #expect(inserted.mutatedDocumentIDs().map(\.stringValue) == ["123"])
            #expect(inserted.commitID == 1)
            #expect(inserted.items.isEmpty)
            let updated = try await ditto.store.execute(
                query: "UPDATE cars SET color = :color, mileage = :mileage WHERE _id = :id",
                arguments: ["color": "blue", "mileage": 3001, "id": "123"])
            #expect(updated.commitID == 2)
            let selected = try await ditto.store.execute(query: "SELECT * FROM cars")
            #expect(selected.commitID == nil)
            #expect(selected.mutatedDocumentIDs().isEmpty)
            let car = try #require(selected.items.first?.value)
            #expect(car["color"] as? String == "blue")
            #expect(car["mileage"] as? Int == 3001)
            #expect((car["engine"] as? [String: Any?])?["l"] as? Double == 1)
            try await ditto.store.execute(query: "DELETE FROM cars WHERE _id = '123'")
            #expect(try await ditto.store.execute(query: "SELECT * FROM cars").items.isEmpty)
        }
    }

    @Test("a document without an id gets one")
    func generatedID() async throws {
        try await withDitto { ditto in
            let result = try await ditto.store.execute(query: "INSERT INTO c DOCUMENTS ({'a': 1})")
            #expect(UUID(uuidString: result.mutatedDocumentIDs().first?.stringValue ?? "") != nil)
        }
    }

    @Test("errors are of the documented cases, and begin with our code and the place")
    func errors() async throws {
        try await withDitto { ditto in
            #expect(await reason(ditto, "SELEKT") == "queryInvalid")
            #expect(await reason(ditto, "SELECT * FROM c WHERE a = :a") == "queryArgumentsInvalid")
            #expect(await reason(ditto, "SELECT :a FROM c", ["a": { 1 }]) == "queryArgumentsInvalid")
            #expect(await reason(ditto, "SELECT * FROM c, d") == "queryNotSupported")
            #expect(await reason(ditto, "INSERT INTO c DOCUMENTS ({'_id': 1.5})") == "documentIDInvalid")
            try await ditto.store.execute(query: "INSERT INTO c DOCUMENTS ({'_id': 1})")
            #expect(await reason(ditto, "INSERT INTO c DOCUMENTS ({'_id': 1})") == "queryError")
            await #expect { try await ditto.store.execute(query: "SELECT *\nFROM") } throws: { error in
                error.localizedDescription.hasPrefix("DQL-0107 at 2:5: ")
            }
        }
    }

    @Test("a document above the limit is refused, one above the soft limit is warned about")
    func sizes() async throws {
        try await withDitto { ditto in
            let insert = "INSERT INTO c DOCUMENTS (:d)"
            await #expect {
                try await ditto.store.execute(
                    query: insert, arguments: ["d": ["t": String(repeating: "x", count: 6_000_000)]])
            } throws: { error in
                if case DittoSwiftError.validationError(.sizeLimitExceeded) = error { true } else { false }
            }
            let large = try await ditto.store.run(
                insert, arguments: try Arguments.object(["d": ["t": String(repeating: "x", count: 300_000)]]))
            #expect(large.warnings.map(\.code) == ["SDK-W101"])
        }
    }

    @Test("a directory is open once; closing frees it")
    func lock() async throws {
        try await withTemporaryDirectory { directory in
            let first = try await Ditto.openAlone(config: .local(directory))
            await #expect { try await Ditto.openAlone(config: .local(directory)) } throws: { error in
                if case DittoSwiftError.storeError(.persistenceDirectoryLocked) = error {
                    true
                } else {
                    false
                }
            }
            try await first.store.execute(query: "INSERT INTO c DOCUMENTS ({'_id': 1})")
            await first.close()
            let second = try await Ditto.openAlone(config: .local(directory))
            #expect(try await second.store.execute(query: "SELECT * FROM c").items.count == 1)
            await second.close()
        }
    }

    @Test("after closing everything throws")
    func useAfterClose() async throws {
        try await withDitto { ditto in
            await ditto.close()
            #expect(await reason(ditto, "SELECT * FROM c") == "backendError")
            #expect(await reason(ditto, "DELETE FROM c") == "backendError")
            #expect { try ditto.store.registerObserver(query: "SELECT * FROM c") { _ in } } throws: { error in
                error.localizedDescription.hasPrefix("SDK-0402: ")
            }
            #expect(throws: DittoSwiftError.self) {
                try ditto.sync.registerSubscription(query: "SELECT * FROM c")
            }
            #expect(throws: DittoSwiftError.self) { try ditto.sync.start() }
        }
    }

    @Test("an instance that nobody refers to any more frees its directory")
    func dropped() async throws {
        try await withTemporaryDirectory { directory in
            do {
                let ditto = try await Ditto.openAlone(config: .local(directory))
                try await ditto.store.execute(query: "INSERT INTO c DOCUMENTS ({'_id': 1})")
            }
            // It closes behind the last reference's back.
            var reopened: Ditto?
            #expect(
                await eventually {
                    reopened = try? await Ditto.openAlone(config: .local(directory))
                    return reopened != nil
                })
            let again = try #require(reopened)
            #expect(try await again.store.execute(query: "SELECT * FROM c").items.count == 1)
            await again.close()
        }
    }

    @Test("a subscription is a plain SELECT; sync starts without a server")
    func subscriptions() async throws {
        try await withDitto { ditto in
            let subscription = try ditto.sync.registerSubscription(
                query: "SELECT * FROM c WHERE a = :a", arguments: ["a": 1])
            #expect(ditto.sync.subscriptions == [subscription])
            #expect(subscription.queryString == "SELECT * FROM c WHERE a = :a")
            #expect(subscription.queryArguments?["a"] as? Int == 1)
            #expect(!subscription.isCancelled)
            subscription.cancel()
            #expect(subscription.isCancelled)
            #expect(ditto.sync.subscriptions.isEmpty)
            #expect { try ditto.sync.registerSubscription(query: "SELECT * FROM c LIMIT 1") } throws: {
                storeReason($0) == "queryNotSupported"
            }
            try ditto.sync.start()
            #expect(ditto.sync.isActive && ditto.sync.status.text == "connecting")
            ditto.sync.stop()
            #expect(!ditto.sync.isActive)
            #expect(ditto.auth == nil)
        }
    }
}
