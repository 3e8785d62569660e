import CRDT
import Foundation
import TestSupport
import Testing

@testable import DittoSwift

@Suite("A directory of another database")
struct OtherDatabaseTests {
    private func config(_ database: String, _ directory: URL, server: Bool = false) -> DittoConfig {
        DittoConfig(
            databaseID: database,
            connect: server ? .server(url: "http://127.0.0.1:1") : .smallPeersOnly(),
            persistenceDirectory: directory)
    }

    private func make(_ database: String, _ directory: URL) async throws {
        let ditto = try await Ditto.openAlone(config: config(database, directory))
        try await ditto.store.execute(query: "INSERT INTO c DOCUMENTS ({'_id': 'a'})")
        await ditto.close()
    }

    private func count(_ database: String, _ directory: URL) async throws -> Int {
        let ditto = try await Ditto.openAlone(config: config(database, directory))
        let count = try await ditto.store.execute(query: "SELECT * FROM c").items.count
        await ditto.close()
        return count
    }

    /// The text of the error of an opening; nil if it opens.
    private func refusal(_ config: DittoConfig) async -> String? {
        do {
            await (try Ditto.open(config: config)).close()
            return nil
        } catch {
            return error.localizedDescription
        }
    }

    @Test("it does not open, with a server or without, and the error has both ids and the two ways on")
    func refused() async throws {
        try await withTemporaryDirectory { directory in
            try await make("boats", directory)
            for hasServer in [true, false] {
                let text = try #require(await refusal(config("cars", directory, server: hasServer)))
                #expect(text.hasPrefix("STORE-0106: "))
                #expect(text.contains("database boats") && text.contains("opened for cars"))
                #expect(text.contains("another directory") && text.contains("emptyPersistenceDirectory"))
            }
            #expect { try Ditto.openSync(config: config("cars", directory)) } throws: {
                storeReason($0) == "backendError"
            }
            #expect(try await count("boats", directory) == 1)
        }
    }

    @Test("a store of before takes the id of its first opening, unless its session shows another one")
    func before() async throws {
        try await withTemporaryDirectory { directory in
            for (name, session) in [("plain", nil), ("with a session", "boats")] as [(String, String?)] {
                let folder = directory.appendingPathComponent(name)
                // The command line looks into a store without an id, so it keeps none.
                let ditto = try await Ditto.open(store: folder)
                try await ditto.store.execute(query: "INSERT INTO c DOCUMENTS ({'_id': 'a'})")
                await ditto.close()
                if let session {
                    try IdentityFiles(directory: folder.path).save(
                        StoredSession(
                            databaseID: session, login: URL(fileURLWithPath: "/"), accessToken: "",
                            userID: "", startedAt: 0, expiresAt: 0))
                    #expect(await refusal(config("cars", folder))?.hasPrefix("STORE-0106") == true)
                }
                #expect(try await count("boats", folder) == 1)
                #expect(await refusal(config("cars", folder))?.hasPrefix("STORE-0106") == true)
            }
        }
    }

    @Test("a copy of a directory is of the same database")
    func copy() async throws {
        try await withTemporaryDirectory { directory in
            let (original, copy) = (
                directory.appendingPathComponent("original"), directory.appendingPathComponent("copy")
            )
            try await make("F232511C-256B-4B69-8D28-90283BF715D2", original)
            try FileManager.default.copyItem(at: original, to: copy)
            #expect(await refusal(config("cars", copy))?.hasPrefix("STORE-0106") == true)
            #expect(try await count("f232511c-256b-4b69-8d28-90283bf715d2", copy) == 1)
        }
    }

    @Test("emptying removes all that the SDK keeps and nothing else, and can be repeated")
    func emptied() async throws {
        try await withTemporaryDirectory { directory in
            let folder = directory.appendingPathComponent("store")
            try await make("boats", folder)
            let ditto = try await Ditto.openAlone(config: config("boats", folder))
            try await ditto.store.execute(
                query: "ALTER SYSTEM SET document_size_soft_limit_bytes = 1000 PERSIST")
            let key = ditto.presence.graph.localPeer.peerKey
            await ditto.close()
            let own = folder.appendingPathComponent("notes.txt")
            try Data("mine".utf8).write(to: own)
            for _ in 0..<2 { try Ditto.emptyPersistenceDirectory(folder) }
            let left = try FileManager.default.contentsOfDirectory(atPath: folder.path).sorted()
            #expect(left == ["lock", "notes.txt"])
            #expect(try await count("cars", folder) == 0)
            let next = try await Ditto.openAlone(config: config("cars", folder))
            #expect(next.presence.graph.localPeer.peerKey != key)
            await next.close()
            // A directory that holds no store is left alone.
            let empty = directory.appendingPathComponent("empty")
            try FileManager.default.createDirectory(at: empty, withIntermediateDirectories: true)
            try Ditto.emptyPersistenceDirectory(empty)
            try Ditto.emptyPersistenceDirectory(directory.appendingPathComponent("missing"))
            #expect(try FileManager.default.contentsOfDirectory(atPath: empty.path).isEmpty)
        }
    }
}
