import Foundation
import Mimeo
import TestSupport
import Testing

@testable import DittoSwift

@Suite("What a small peer tells about itself")
struct SmallPeerReportTests {
    @Test(
        "a statement that asks for the report of this peer finds it, without a connection, and may add to it")
    func ownReport() async throws {
        try await withDitto { ditto in
            let key = ditto.presence.graph.localPeer.peerKey
            func reports() async throws -> [[String: Any?]] {
                try await ditto.store.execute(
                    query: "SELECT * FROM __small_peer_info WHERE _id = :peerKey", arguments: ["peerKey": key]
                ).items.map(\.value)
            }
            ditto.smallPeerInfo.isEnabled = false
            #expect(try await reports().isEmpty)
            ditto.smallPeerInfo.isEnabled = true
            try await ditto.store.execute(query: "INSERT INTO cars DOCUMENTS ({'_id': 1}), ({'_id': 2})")
            let changed = try await ditto.store.execute(
                query: "UPDATE __small_peer_info SET logs.requested_at = 7 WHERE _id = :peerKey",
                arguments: ["peerKey": key])
            #expect(changed.mutatedDocumentIDs().map(\.stringValue) == [key])
            let report = try #require(try await reports().first)
            #expect((report["logs"] as? [String: Any?])?["requested_at"] as? Int == 7)
            #expect((report["collections"] as? [String: Any?])?["cars"] as? Int == 2)
            #expect(report["device_name"] as? String == ditto.deviceName)
            #expect(try await reports().count == 1)
            await #expect {
                try await ditto.store.execute(query: "DELETE FROM __small_peer_info")
            } throws: { $0.localizedDescription.hasPrefix("DQL-0218") }
        }
    }

    @Test("an observer or a subscription of reports brings this peer's too")
    func observed() async throws {
        try await withDitto { ditto in
            let seen = Collected<String?>()
            let observer = try ditto.store.registerObserver(query: "SELECT * FROM __small_peer_info") {
                result in
                seen.add(result.items.first?.value["_id"] as? String)
            }
            let key = ditto.presence.graph.localPeer.peerKey
            #expect(await seen.wait { $0.last == key }.last == key)
            observer.cancel()
        }
        try await withDitto { ditto in
            try ditto.sync.registerSubscription(query: "SELECT * FROM __small_peer_info")
            // Read as a whole, so that no statement about reports brings it.
            #expect(
                try await eventually {
                    try await ditto.store.execute(query: "SELECT * FROM system:collections")
                        .items.contains { $0.value["name"] as? String == "__small_peer_info" }
                })
        }
    }

    @Test("it reaches the server as a document, with metadata, subscriptions and collections; or not at all")
    func published() async throws {
        try await withTemporaryDirectory { directory in
            let data = directory.appendingPathComponent("server").path
            try await EmbeddedServer.run(data: data) { server in
                func open(_ name: String) async throws -> Ditto {
                    let ditto = try await Ditto.openAlone(
                        config: DittoConfig(
                            databaseID: server.databaseID, connect: .server(url: server.url),
                            persistenceDirectory: directory.appendingPathComponent(name)))
                    ditto.auth?.expirationHandler = { ditto, _ in
                        _ = try? await ditto.auth?.login(token: server.token, provider: .development)
                    }
                    return ditto
                }
                let (till, quiet, office) = (
                    try await open("till"), try await open("quiet"), try await open("office")
                )
                try await till.store.execute(query: "INSERT INTO cars DOCUMENTS ({'_id': 1}), ({'_id': 2})")
                try till.sync.registerSubscription(query: "SELECT * FROM cars")
                try till.smallPeerInfo.setMetadata(["shop": "north"])
                try quiet.smallPeerInfo.setMetadata(["shop": "south"])
                quiet.smallPeerInfo.syncScope = .localPeerOnly
                try office.sync.registerSubscription(query: "SELECT * FROM __small_peer_info")
                // By the clock, where nothing new is said.
                try await office.store.execute(
                    query: "ALTER SYSTEM SET small_peer_info_publish_interval_secs = 1")
                for ditto in [office, quiet, till] { try ditto.sync.start() }
                func told(by peer: Ditto) async throws -> [String: Any?]? {
                    try await office.store.execute(
                        query: "SELECT * FROM __small_peer_info WHERE _id = :key",
                        arguments: ["key": peer.presence.graph.localPeer.peerKey]
                    ).items.first?.value
                }
                #expect(try await eventually { try await told(by: till) != nil })
                #expect(try await eventually { try await told(by: office) != nil })
                let info = try #require(try await told(by: till))
                #expect(info["device_name"] as? String == till.deviceName)
                #expect((info["metadata"] as? [String: Any?])?["shop"] as? String == "north")
                #expect((info["local_subscriptions"] as? [Any?])?.first as? String == "SELECT * FROM cars")
                #expect((info["collections"] as? [String: Any?])?["cars"] as? Int == 2)
                #expect((info["sdk"] as? [String: Any?])?["version"] as? String == Ditto.version)
                // Another peer asks it for something.
                let key = till.presence.graph.localPeer.peerKey
                try till.sync.registerSubscription(
                    query: "SELECT * FROM __small_peer_info WHERE _id = :key", arguments: ["key": key])
                try await office.store.execute(
                    query: "UPDATE __small_peer_info SET logs.requested_at = 7 WHERE _id = :key",
                    arguments: ["key": key])
                func asked(_ ditto: Ditto) async throws -> Int? {
                    let report = try await ditto.store.execute(
                        query: "SELECT * FROM __small_peer_info WHERE _id = :key", arguments: ["key": key]
                    ).items.first?.value
                    return (report?["logs"] as? [String: Any?])?["requested_at"] as? Int
                }
                #expect(try await eventually { try await asked(till) == 7 })
                // Said anew, told anew.
                try till.smallPeerInfo.setMetadata(["shop": "east"])
                #expect(
                    try await eventually {
                        (try await told(by: till)?["metadata"] as? [String: Any?])?["shop"] as? String
                            == "east"
                    })
                #expect(try await asked(office) == 7)
                let known = try await quiet.store.execute(query: "SELECT * FROM __small_peer_info").items
                #expect(known.isEmpty)
                for ditto in [office, quiet, till] { await ditto.close() }
            }
        }
    }
}
