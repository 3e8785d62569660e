import DittoSwift
import Foundation
import Mimeo
import TestSupport
import Testing

/// The manual's page `MovingFrom4x`: its code is that of `MigrationPairs.swift`, and both halves of a pair do
/// the same.
@Suite("Moving from 4.x", .timeLimit(.minutes(5)))
struct MigrationTests {
    private static let root = URL(fileURLWithPath: #filePath).resolvingSymlinksInPath()
        .deletingLastPathComponent().deletingLastPathComponent().deletingLastPathComponent()

    private func text(_ file: String) throws -> String {
        try String(contentsOf: Self.root.appendingPathComponent(file), encoding: .utf8)
    }

    @Test("every piece of the page stands in the pairs, letter by letter")
    func page() throws {
        let pairs = try text("Tests/LegacyTests/MigrationPairs.swift")
        let blocks = try text("Shared/DittoSwift/DittoSwift.docc/MovingFrom4x.md")
            .matches(of: #/```swift\n((?s:.*?))```/#).map { String($0.1) }
        #expect(blocks.count == 26)
        for block in blocks {
            let indented = block.split(separator: "\n").map { "        " + $0 }.joined(separator: "\n")
            #expect(pairs.contains(indented + "\n"), "\(block)")
        }
    }

    /// Runs both halves on stores with the same documents, and compares their results and what is there then.
    private func compare(
        _ old: @escaping (Ditto) async throws -> String, _ new: @escaping (Ditto) async throws -> String
    ) async throws {
        var states: [String] = []
        for half in [old, new] {
            try await withLegacyStore { ditto in
                try await ditto.store.execute(
                    query: """
                        INSERT INTO cars DOCUMENTS ({'_id': 'a', 'make': 'Fiat', 'color': 'red', 'year': 1}),
                            ({'_id': 'r', 'make': 'Jeep', 'color': 'red', 'year': 2020}),
                            ({'_id': 'z', 'make': 'Opel', 'color': 'black', 'year': 1985})
                        """)
                var state = try await half(ditto)
                for name in ["cars", "people", "settings", "stock", "files"] {
                    let items = try await ditto.store.execute(query: "SELECT * FROM \(name) ORDER BY _id")
                        .items
                    state += "\n\(name) " + items.map { $0.jsonString() }.joined(separator: " ")
                }
                states.append(state)
            }
        }
        #expect(states[0] == states[1])
        #expect(states[0].count > 40)
    }

    @Test("both halves of a pair do the same")
    func pairs() async throws {
        try await compare({ try Old.write($0) }, { try await New.write($0) })
        try await compare({ try Old.defaults($0) }, { try await New.defaults($0) })
        try await compare({ try Old.read($0) }, { try await New.read($0) })
        try await compare({ try Old.readOne($0) }, { try await New.readOne($0) })
        try await compare({ try Old.change($0) }, { try await New.change($0) })
        try await compare({ try Old.count($0) }, { try await New.count($0) })
        try await compare({ try Old.remove($0) }, { try await New.remove($0) })
        try await compare({ try Old.transaction($0) }, { try await New.transaction($0) })
        try await compare({ try Old.subscribe($0) }, { try await New.subscribe($0) })
    }

    @Test("observers and attachments do the same")
    func others() async throws {
        try await withLegacyStore { ditto in
            let (old, new) = (Gathered<String>(), Gathered<String>())
            let stops = [
                try Old.observe(ditto) { old.add($0) }, try New.observe(ditto) { new.add($0) },
            ]
            _ = await (old.wait { $0.count == 1 }, new.wait { $0.count == 1 })
            try ditto.store["cars"].upsert(["_id": "a", "color": "red"])
            _ = await (old.wait { $0.count == 2 }, new.wait { $0.count == 2 })
            #expect(old.all == ["first 0", "1 more"] && new.all == old.all)
            for stop in stops { stop() }
            let file = ditto.persistenceDirectory.appendingPathComponent("file")
            try Data("bytes".utf8).write(to: file)
            #expect(try Old.attach(ditto, path: file.path) == 5)
            ditto.store["files"].findAll().remove()
            #expect(try await New.attach(ditto, path: file.path) == 5)
        }
    }

    @Test("both start, sync with each other, and log out")
    func starting() async throws {
        try await withTemporaryDirectory { directory in
            try await EmbeddedServer.run(data: directory.appendingPathComponent("server").path) { server in
                let (id, token, url) = (server.databaseID, server.token, server.url)
                let old = try Old.start(id, token, url, directory.appendingPathComponent("old"))
                let new = try await New.start(id, token, url, directory.appendingPathComponent("new"))
                for ditto in [old, new] { ditto.transportConfig = DittoTransportConfig() }
                let subscription = new.store["cars"].findAll().subscribe()
                try old.store["cars"].upsert(["_id": "a"])
                #expect(await eventually { new.store["cars"].findAll().exec().count == 1 })
                subscription.cancel()
                try Old.logOut(old)
                try await New.logOut(new)
                for ditto in [old, new] {
                    #expect(!ditto.sync.isActive && ditto.auth?.status.isAuthenticated == false)
                    #expect(ditto.store["cars"].findAll().exec().isEmpty)
                    await ditto.close()
                }
            }
        }
    }
}
