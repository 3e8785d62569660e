import DittoSwift
import Foundation
import Mimeo
import TestSupport
import Testing

@Suite("The samples of the guides")
struct SampleTests {
    @Test("an application connects to a server with either form of the guide, and syncs")
    func serverConnection() async throws {
        try await withTemporaryDirectory { directory in
            let data = directory.appendingPathComponent("server").path
            try await EmbeddedServer.run(data: data) { server in
                let first = ServerApplication()
                try await first.connect(
                    databaseID: server.databaseID, url: server.url, token: server.token,
                    persistenceDirectory: directory.appendingPathComponent("a"))
                let second = ServerApplication()
                try await second.connectAsPlayground(
                    databaseID: server.databaseID, url: server.url, token: server.token,
                    root: directory.appendingPathComponent("b"))
                let a = try #require(first.ditto)
                let b = try #require(second.ditto)
                for ditto in [a, b] { ditto.transportConfig = DittoTransportConfig() }
                let outcomes = Outcomes()
                let subscription = try StoreSamples.subscribe(b)
                let observer = try StoreSamples.observe(b, outcomes)
                try await a.store.execute(query: "INSERT INTO cars DOCUMENTS ({'_id': '1', 'color': 'blue'})")
                #expect(await eventually { outcomes.all == ["0 blue", "1 blue"] })
                #expect(first.outcomes.all == ["successful"])
                #expect(second.outcomes.all == ["successful"])
                #expect(b.store.observers == [observer])
                observer.cancel()
                subscription.cancel()
                #expect(b.store.observers.isEmpty)
                await a.close()
                await b.close()
            }
        }
    }

    @Test("the handler of the lifecycle samples is asked with 0 when a login is needed")
    func lifecycle() async throws {
        try await withTemporaryDirectory { directory in
            let data = directory.appendingPathComponent("server").path
            try await EmbeddedServer.run(data: data) { server in
                let ditto = try await Ditto.openAlone(
                    config: DittoConfig(
                        databaseID: server.databaseID, connect: .server(url: server.url),
                        persistenceDirectory: directory.appendingPathComponent("a")))
                let application = ServerApplication()
                application.conditional(ditto)
                try ditto.sync.start()
                #expect(await eventually { application.outcomes.all.first == "required" })
                application.lifecycle(ditto, myJWT: "jwt")
                #expect(await eventually { application.outcomes.all.contains("failed") })
                await ditto.close()
            }
        }
    }

    @Test("documents are created, read, updated and evicted")
    func crud() async throws {
        try await withTemporaryDirectory { directory in
            let ditto = try #require(await Directories.openAsync(local(directory)))
            let values = try await StoreSamples.crud(ditto)
            #expect(values.count == 1)
            #expect(values.first?["color"] as? String == "blue")
            #expect(values.first?["mileage"] as? Int == 3001)
            #expect(try await ditto.store.execute(query: "SELECT * FROM cars").items.isEmpty)
            await ditto.close()
        }
    }

    @Test("the differ tells what came, changed and went")
    func differ() async throws {
        try await withTemporaryDirectory { directory in
            let ditto = try #require(Directories.openSync(local(directory)))
            let outcomes = Outcomes()
            let observer = try StoreSamples.diff(ditto, outcomes)
            try await ditto.store.execute(query: "INSERT INTO cars DOCUMENTS ({'_id': 'a'})")
            #expect(await eventually { outcomes.all.last == "inserted a" })
            try await ditto.store.execute(query: "UPDATE cars SET color = 'red' WHERE _id = 'a'")
            #expect(await eventually { outcomes.all.last == "updated a" })
            try await ditto.store.execute(query: "DELETE FROM cars")
            #expect(await eventually { outcomes.all.last == "deleted a" })
            observer.cancel()
            await ditto.close()
        }
    }

    @Test("a view is told what came, changed, moved and went")
    func views() async throws {
        try await withTemporaryDirectory { directory in
            let ditto = try #require(Directories.openSync(local(directory)))
            let view = CollectionView()
            let observer = try StoreSamples.updateViews(ditto, TableView(), view)
            for change in [
                "INSERT INTO cars DOCUMENTS ({'_id': 'a', 'place': 1}), ({'_id': 'b', 'place': 2})",
                "UPDATE cars SET place = 3 WHERE _id = 'a'", "DELETE FROM cars WHERE _id = 'b'",
            ] {
                let before = view.outcomes.all.count
                try await ditto.store.execute(query: change)
                #expect(await eventually { view.outcomes.all.count > before })
            }
            #expect(await eventually { view.outcomes.all.last == "-0" })
            let all = view.outcomes.all
            #expect(all.prefix(2) == ["+0", "+1"])
            // 'a' is last now: it was changed, and one of the two has moved.
            #expect(all.contains("~1"))
            #expect(all.contains("1>0") || all.contains("0>1"))
            observer.cancel()
            await ditto.close()
        }
    }

    @Test("the current API, signature by signature, does what its names say")
    func surface() async throws {
        try await withTemporaryDirectory { directory in
            let ditto = try await Ditto.openAlone(config: local(directory))
            let application = SurfaceApplication(ditto)
            #expect(try application.instance() == ["none", "0", "false", "true"])
            application.authentication()
            #expect(try await application.documents() == [#"{"_id":"a","n":2}"#, "a", "a"])
            #expect(try await application.transactions() == ["rollback", "0"])
            #expect(try application.registrations() == ["3", "2", "true"])
            #expect(try application.presence().suffix(3) == ["0", "true", "4"])
            #expect(application.transports() == ["true", "NoBleHardware", "Bluetooth", "true"])
            let file = directory.appendingPathComponent("file")
            try Data([1, 2, 3]).write(to: file)
            #expect(try await application.attachments(path: file.path) == ["3", "3", "x", "1"])
            let services = try await Turns.logger.run { () throws -> [String] in
                let level = DittoLogger.minimumLogLevel
                defer { DittoLogger.minimumLogLevel = level }
                return try application.services()
            }
            #expect(services == ["false", "1", "5"])
            #expect(ditto.store.observePublisher(query: "q") == "q")
            #expect(SurfaceApplication.name(DittoError.unsupportedError(message: "x")) == "x")
            await ditto.close()
        }
    }

    @Test("the guide's configurations are what it says, and failures are the cases it names")
    func configurations() async throws {
        #expect(
            Directories.all().map(\.persistenceDirectory?.relativePath) == [
                nil, "/app/sandbox/ditto", "/data/DittoData", "MyApp/Data", nil,
            ])
        #expect(Directories.modified().databaseID == "38d4b612-e6ea-42f2-ae3e-f4cba92c918d")
        try await withTemporaryDirectory { directory in
            let config = local(directory)
            #expect(await Directories.failure(config) == "opened")
            let ditto = try await Ditto.open(config: config)
            #expect(await Directories.failure(config) == "locked")
            await ditto.close()
            var invalid = config
            invalid.connect = .server(url: "REPLACE_ME_WITH_YOUR_URL")
            #expect(await Directories.failure(invalid) == "invalid")
        }
    }

    private func local(_ directory: URL) -> DittoConfig {
        var config = DittoConfig.default
        config.persistenceDirectory = directory
        return config
    }

    /// Returns whether the condition came true within thirty seconds.
    private func eventually(_ condition: () -> Bool) async -> Bool {
        let deadline = Date().addingTimeInterval(30)
        while !condition(), Date() < deadline { try? await Task.sleep(nanoseconds: 10_000_000) }
        return condition()
    }
}
