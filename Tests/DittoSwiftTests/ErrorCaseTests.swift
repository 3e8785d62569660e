import Foundation
import Mimeo
import TestSupport
import Testing

@testable import DittoSwift

/// Each case that something of ours can cause, by the case an application would catch.
@Suite("Errors by their cases")
struct ErrorCaseTests {
    /// `storeError.queryInvalid` for the error of a body, and the code its message begins with.
    private func caught(_ body: () async throws -> Void) async -> (name: String, code: String)? {
        do {
            try await body()
            return nil
        } catch let error as DittoSwiftError {
            let family = Mirror(reflecting: error).children.first
            let reason = family.flatMap { pair in
                Mirror(reflecting: pair.value).children.first.map(\.value).flatMap {
                    Mirror(reflecting: $0).children.first?.label
                }
            }
            let name = [family?.label, reason].compactMap { $0 }.joined(separator: ".")
            return (name, String(error.localizedDescription.prefix { $0 != ":" && $0 != " " }))
        } catch {
            return ("\(type(of: error))", "")
        }
    }

    private func name(_ body: () async throws -> Void) async -> String? { await caught(body)?.name }

    @Test("errors of statements and their arguments have the original's cases")
    func statements() async throws {
        try await withDitto { ditto in
            let store = ditto.store
            func run(_ query: String, _ arguments: [String: Any?] = [:]) async -> String? {
                await name { try await store.execute(query: query, arguments: arguments) }
            }
            try await store.execute(query: "INSERT INTO c DOCUMENTS ({'_id': 1})")
            #expect(await run("SELEKT * FROM c") == "storeError.queryInvalid")
            #expect(await run("SELECT unknown_function(a) FROM c") == "storeError.queryInvalid")
            #expect(await run("SELECT * FROM c WHERE a = :a") == "storeError.queryArgumentsInvalid")
            #expect(await run("SELECT :a FROM c", ["a": { 1 }]) == "storeError.queryArgumentsInvalid")
            #expect(await run("SELECT :a FROM c", ["a": UInt64.max]) == "storeError.queryArgumentsInvalid")
            #expect(await run("INSERT INTO c DOCUMENTS (:a)", ["a": 5]) == "storeError.queryError")
            #expect(await run("INSERT INTO c DOCUMENTS ({'_id': 1})") == "storeError.queryError")
            #expect(await run("INSERT INTO c DOCUMENTS ({'_id': 1.5})") == "storeError.documentIDInvalid")
            #expect(await run("INSERT INTO c DOCUMENTS ({'_id': null})") == "storeError.documentIDInvalid")
            #expect(await run("SELECT * FROM c JOIN d ON d.a = c.a") == "storeError.queryNotSupported")
            // The store stays usable.
            #expect(await run("SELECT * FROM c") == nil)
        }
    }

    @Test("errors of observers, subscriptions and transactions have the original's cases")
    func registrations() async throws {
        try await withDitto { ditto in
            let store = ditto.store
            #expect(
                await name { try store.registerObserver(query: "EVICT FROM c") { _ in } }
                    == "storeError.queryNotSupported")
            #expect(
                await name { try ditto.sync.registerSubscription(query: "SELECT * FROM c ORDER BY a") }
                    == "storeError.queryNotSupported")
            #expect(
                await name {
                    try await store.transaction(isReadOnly: true) { transaction in
                        _ = try await transaction.execute(query: "DELETE FROM c")
                    }
                } == "storeError.transactionReadOnly")
            #expect(
                await name {
                    try await store.transaction { _ in
                        _ = try await store.execute(query: "SELECT 1")
                    }
                }
                    == "storeError.queryNotSupported")
            #expect(
                await name {
                    try await store.transaction { _ in try await store.transaction { _ in } }
                }
                    == "storeError.queryNotSupported")
            await ditto.close()
            #expect(await name { try ditto.sync.start() } == "storeError.backendError")
            #expect(
                await name { try await store.execute(query: "SELECT * FROM c") } == "storeError.backendError")
            #expect(await name { try await store.transaction { _ in } } == "storeError.backendError")
            #expect(
                await name { try store.registerObserver(query: "SELECT * FROM c") { _ in } }
                    == "storeError.backendError")
        }
    }

    @Test("errors of sizes and depths have the original's cases")
    func values() async throws {
        try await withDitto { ditto in
            let large = ["t": String(repeating: "x", count: 6 * 1_048_576)]
            #expect(
                await name {
                    try await ditto.store.execute(
                        query: "INSERT INTO c DOCUMENTS (:d)", arguments: ["d": large])
                } == "validationError.sizeLimitExceeded")
            var deep: Any = 1
            for _ in 0..<200 { deep = [deep] }
            let nested = ["t": deep]
            #expect(
                await name {
                    try await ditto.store.execute(
                        query: "INSERT INTO c DOCUMENTS (:d)", arguments: ["d": nested])
                } == "storeError.queryArgumentsInvalid")
            #expect(
                await name { try ditto.smallPeerInfo.setMetadata(["a": deep]) }
                    == "validationError.depthLimitExceeded")
            #expect(
                await name { try ditto.smallPeerInfo.setMetadata(["a": { 1 }]) }
                    == "validationError.notJSONCompatible")
            #expect(
                await name { try ditto.smallPeerInfo.setMetadataJSONString("{") }
                    == "validationError.invalidJSON")
            #expect(
                await name { try ditto.smallPeerInfo.setMetadataJSONString("1") }
                    == "validationError.notADictionary")
        }
    }

    @Test("errors of configurations and directories have the original's cases")
    func opening() async throws {
        try await withTemporaryDirectory { directory in
            func open(_ change: (inout DittoConfig) -> Void) async -> String? {
                var config = DittoConfig.local(directory.appendingPathComponent("store"))
                change(&config)
                return await name { await (try Ditto.openAlone(config: config)).close() }
            }
            let invalid = "validationError.invalidDittoConfig"
            #expect(await open { $0.databaseID = "" } == invalid)
            #expect(await open { $0.databaseID = "a/b" } == invalid)
            #expect(await open { $0.connect = .server(url: "ftp://host") } == invalid)
            #expect(await open { $0.connect = .smallPeersOnly(privateKey: "no key") } == invalid)
            #expect(await open { $0.persistenceDirectory = URL(string: "https://host/a") } == invalid)
            let file = directory.appendingPathComponent("file")
            try Data("text".utf8).write(to: file)
            #expect(await open { $0.persistenceDirectory = file } == invalid)
            #expect(await open { $0.persistenceDirectory = file.appendingPathComponent("below") } == invalid)
            // A directory with something else in place of the store: told, and left as it is.
            let other = directory.appendingPathComponent("other")
            try FileManager.default.createDirectory(at: other, withIntermediateDirectories: true)
            let ditto = try await Ditto.openAlone(config: .local(other))
            await ditto.close()
            let stored = try #require(
                try FileManager.default.contentsOfDirectory(atPath: other.path).first {
                    $0.hasSuffix(".sqlite")
                })
            let text = Data(repeating: 0x41, count: 8_192)
            try text.write(to: other.appendingPathComponent(stored))
            #expect(await open { $0.persistenceDirectory = other } == "storeError.backendError")
            #expect(try Data(contentsOf: other.appendingPathComponent(stored)) == text)
            // And what is right opens.
            #expect(await open { _ in } == nil)
        }
    }

    @Test("a directory that this process has open already is refused with the original's case")
    func locked() async throws {
        try await withTemporaryDirectory { directory in
            let ditto = try await Ditto.openAlone(config: .local(directory))
            let start = ContinuousClock.now
            #expect(
                await name { _ = try await Ditto.openAlone(config: .local(directory)) }
                    == "storeError.persistenceDirectoryLocked")
            #expect(ContinuousClock.now - start >= .milliseconds(750))
            await ditto.close()
        }
    }

    @Test("a configuration that cannot be read is refused with the original's case")
    func decoding() async throws {
        #expect(await name { _ = try DittoConfig(cborData: Data([0xFF])) } == "validationError.invalidCBOR")
        #expect(await name { _ = try DittoConfig(jsonData: Data("{".utf8)) } == "validationError.invalidJSON")
        for text in [
            "[]", "{}", #"{"database_id": 5}"#, #"{"database_id": "a", "connect": {"type": "moon"}}"#,
        ] {
            #expect(
                await name { _ = try DittoConfig(jsonData: Data(text.utf8)) }
                    == "validationError.invalidDittoConfig", "\(text)")
        }
    }

    @Test("errors of logins have the original's cases")
    func authentication() async throws {
        try await withTemporaryDirectory { directory in
            let data = directory.appendingPathComponent("server").path
            try await EmbeddedServer.run(data: data) { server in
                var config = DittoConfig.local(directory.appendingPathComponent("store"))
                config.databaseID = server.databaseID
                config.connect = .server(url: server.url)
                let ditto = try await Ditto.openAlone(config: config)
                #expect(
                    await name { try ditto.sync.start() } == "authenticationError.expirationHandlerMissing")
                #expect(
                    await name { try await ditto.auth?.login(token: "wrong", provider: .development) }
                        == "authenticationError.failedToAuthenticate")
                #expect(
                    await name { try await ditto.auth?.login(token: "wrong", provider: "unknown") }
                        == "authenticationError.failedToAuthenticate")
                await ditto.close()
            }
        }
    }

    @Test("a case carries a message that begins with our stable code")
    func codes() async throws {
        try await withDitto { ditto in
            let found = await caught { try await ditto.store.execute(query: "SELEKT") }
            #expect(found?.code.wholeMatch(of: /[A-Z]+-\d{4}/) != nil)
        }
    }
}
