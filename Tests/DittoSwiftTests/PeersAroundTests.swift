import CRDT
import Foundation
import Identity
import Mimeo
import TestSupport
import Testing

@testable import DittoSwift

@Suite("The peers around one", .timeLimit(.minutes(5)))
struct PeersAroundTests {
    /// Three peers in a chain, a, b and c: b dials both others.
    private func withChain(
        key: String?, _ body: (_ a: Ditto, _ b: Ditto, _ c: Ditto) async throws -> Void
    ) async throws {
        try await withTemporaryDirectory { directory in
            var peers: [Ditto] = []
            for name in ["a", "b", "c"] {
                let ditto = try await Ditto.open(
                    config: DittoConfig(
                        databaseID: "boats", connect: .smallPeersOnly(privateKey: key),
                        persistenceDirectory: directory.appendingPathComponent(name)))
                try await ditto.store.execute(query: "ALTER SYSTEM SET presence_debounce_interval = 5")
                ditto.deviceName = "device \(name)"
                peers.append(ditto)
            }
            let (a, b, c) = (peers[0], peers[1], peers[2])
            for ditto in [a, c] {
                ditto.updateTransportConfig { config in
                    config.listen.tcp.isEnabled = true
                    config.listen.tcp.interfaceIP = "127.0.0.1"
                    config.listen.tcp.port = 0
                }
                try ditto.sync.start()
                #expect(await eventually { ditto.sync.linkReport?.listening.isEmpty == false })
            }
            let ports = [a, c].map { $0.sync.linkReport?.listening.first?.port ?? 0 }
            b.updateTransportConfig { config in
                config.connect.tcpServers = Set(ports.map { "127.0.0.1:\($0)" })
                config.connect.retryInterval = 0.1
            }
            try await body(a, b, c)
            for ditto in peers { await ditto.close() }
        }
    }

    @Test(
        "everybody in a chain sees everybody, with names and metadata, and the same connections",
        arguments: [true, false])
    func chain(isSecure: Bool) async throws {
        try await withChain(key: isSecure ? PeerKey().pem : nil) { a, b, c in
            try c.presence.setPeerMetadata(["role": "bar", "seats": 4])
            try b.sync.start()
            let all = [a, b, c]
            for ditto in all {
                #expect(await eventually { ditto.presence.graph.remotePeers.count == 2 })
            }
            #expect(
                await eventually {
                    Set(all.map(\.presence.graph.allConnectionsByID)).count == 1
                        && a.presence.graph.allConnectionsByID.count == 2
                })
            let far = try #require(
                a.presence.graph.remotePeers.first { $0.peerKey == c.presence.graph.localPeer.peerKey })
            #expect(far.deviceName == "device c")
            #expect(far.os == .current && far.dittoSDKVersion == Ditto.version && far.isCompatible == true)
            #expect(far.peerMetadata["role"] as? String == "bar" && far.peerMetadata["seats"] as? Int == 4)
            #expect(far.connections.count == 1 && !far.isConnectedToDittoServer)
            // Nearest first.
            #expect(a.presence.graph.remotePeers.map(\.deviceName) == ["device b", "device c"])
            let graphs = Collected<DittoPresenceGraph>()
            let observer = a.presence.observe { graphs.add($0) }
            c.deviceName = "renamed"
            try c.presence.setPeerMetadataJSONData(Data(#"{"role":"kitchen"}"#.utf8))
            let told = await graphs.wait { graphs in
                graphs.last?.remotePeers.contains {
                    $0.deviceName == "renamed" && $0.peerMetadata["role"] as? String == "kitchen"
                } == true
            }
            #expect(told.last?.remotePeers.count == 2)
            c.sync.stop()
            #expect(await graphs.wait { $0.last?.remotePeers.count == 1 }.last?.remotePeers.count == 1)
            // It listens at another port now, which b has to be told.
            try c.sync.start()
            #expect(await eventually { c.sync.linkReport?.listening.isEmpty == false })
            let port = c.sync.linkReport?.listening.first?.port ?? 0
            b.updateTransportConfig { $0.connect.tcpServers.insert("127.0.0.1:\(port)") }
            #expect(await eventually { a.presence.graph.remotePeers.count == 2 })
            observer.stop()
        }
    }

    @Test("the connection request handler sees the metadata of who asks, at both sides")
    func handler() async throws {
        try await withChain(key: PeerKey().pem) { a, b, c in
            let asked = Collected<String>()
            func note(_ name: String) -> DittoConnectionRequestHandler {
                { request in
                    asked.add("\(name): \(String(decoding: request.peerMetadataJSONData, as: UTF8.self))")
                    return .allow
                }
            }
            try a.presence.setPeerMetadata(["is": "a"])
            try b.presence.setPeerMetadata(["is": "b"])
            a.presence.connectionRequestHandler = note("a")
            b.presence.connectionRequestHandler = note("b")
            try b.sync.start()
            let all = await asked.wait { $0.count >= 3 }
            #expect(Set(all).isSuperset(of: [#"a: {"is":"b"}"#, #"b: {"is":"a"}"#, "b: {}"]))
        }
    }

    @Test("without multihop a peer sees its neighbours alone")
    func neighbours() async throws {
        try await withChain(key: nil) { a, b, c in
            for ditto in [a, b, c] {
                try await ditto.store.execute(query: "ALTER SYSTEM SET presence_use_multihop = false")
            }
            try b.sync.start()
            #expect(await eventually { b.presence.graph.remotePeers.count == 2 })
            #expect(await eventually { a.presence.graph.remotePeers.first?.deviceName == "device b" })
            #expect(a.presence.graph.remotePeers.count == 1)
            #expect(c.presence.graph.remotePeers.count == 1)
        }
    }

    @Test("data_sync_info has the local commit up to which a linked peer has everything it subscribes to")
    func taken() async throws {
        try await withChain(key: PeerKey().pem) { a, b, _ in
            try b.sync.registerSubscription(query: "SELECT * FROM boats")
            try b.sync.start()
            for number in 1...3 {
                try await a.store.execute(query: "INSERT INTO boats DOCUMENTS ({'_id': 'boat \(number)'})")
            }
            // A collection that b does not want counts too: it wants nothing of it.
            try await a.store.execute(query: "INSERT INTO cars DOCUMENTS ({'_id': 'car'})")
            let last = try a.sync.commits().last
            func row(_ ditto: Ditto, _ other: Ditto) async throws -> [String: Any?]? {
                let rows = try await ditto.store.execute(
                    query: "SELECT * FROM system:data_sync_info WHERE _id = "
                        + "'\(other.presence.graph.localPeer.peerKey)'")
                return rows.items.first?.value["documents"] as? [String: Any?]
            }
            #expect(
                try await eventually {
                    try await row(a, b)?["synced_up_to_local_commit_id"] as? Int == Int(last)
                })
            #expect(try await row(b, a)?["last_update_received_time"] as? Int ?? 0 > 1_600_000_000_000)
            // a subscribes to nothing, and says nothing of b's commits.
            #expect(try await row(b, a)?["synced_up_to_local_commit_id"] == nil)
        }
    }

    @Test("the graph's JSON has the names of both generations, and reads back as the same graph")
    func json() async throws {
        try await withChain(key: nil) { a, b, c in
            try c.presence.setPeerMetadata(["n": 1])
            try b.sync.start()
            #expect(await eventually { a.presence.graph.remotePeers.last?.peerMetadata["n"] != nil })
            let graph = a.presence.graph
            let data = try JSONEncoder().encode(graph)
            #expect(try JSONDecoder().decode(DittoPresenceGraph.self, from: data) == graph)
            let peer = try #require(try JSONText.parse(Array(data))["remotePeers"]?.arrayValue?.last)
            for (older, newer) in [
                ("peerKeyString", "peerKey"), ("osV2", "os"),
                ("isConnectedToDittoCloud", "isConnectedToDittoServer"),
            ] {
                #expect(peer[older] != nil && peer[older] == peer[newer])
            }
            #expect(peer["dittoSdkVersion"]?.stringValue == Ditto.version)
            let connection = try #require(peer["connections"]?.arrayValue?.first)
            #expect(connection["peer1"] == connection["peerKeyString1"] && connection["peer1"] != nil)
            #expect(connection["connectionType"] == "AccessPoint")
        }
    }

    @Test("two linked peers of a server know of each other that they are connected with it")
    func server() async throws {
        try await withTemporaryDirectory { directory in
            let data = directory.appendingPathComponent("server").path
            try await EmbeddedServer.run(data: data) { server in
                let ditto = try await Ditto.open(
                    config: DittoConfig(
                        databaseID: server.databaseID, connect: .server(url: server.url),
                        persistenceDirectory: directory.appendingPathComponent("a")))
                ditto.auth?.expirationHandler = { ditto, _ in
                    _ = try? await ditto.auth?.login(token: server.token, provider: .development)
                }
                let other = try await Ditto.open(
                    config: DittoConfig(
                        databaseID: server.databaseID, connect: .server(url: server.url),
                        persistenceDirectory: directory.appendingPathComponent("b")))
                other.auth?.expirationHandler = ditto.auth?.expirationHandler
                other.updateTransportConfig { config in
                    config.listen.tcp.isEnabled = true
                    config.listen.tcp.interfaceIP = "127.0.0.1"
                    config.listen.tcp.port = 0
                }
                try other.sync.start()
                #expect(await eventually { other.sync.linkReport?.listening.isEmpty == false })
                let port = other.sync.linkReport?.listening.first?.port ?? 0
                ditto.updateTransportConfig { config in
                    config.connect.tcpServers = ["127.0.0.1:\(port)"]
                    config.connect.retryInterval = 0.1
                }
                ditto.deviceName = "gateway"
                try ditto.sync.start()
                // Linked, and both with the server: each knows that of the other.
                for peer in [ditto, other] {
                    #expect(
                        await eventually {
                            peer.presence.graph.remotePeers.first?.isConnectedToDittoServer == true
                        })
                }
                #expect(other.presence.graph.remotePeers.first?.deviceName == "gateway")
                other.sync.stop()
                #expect(await eventually { ditto.presence.graph.remotePeers.isEmpty })
                await other.close()
                await ditto.close()
            }
        }
    }
}
