import Foundation
import Identity
import Mimeo
import TestSupport
import Testing

@testable import DittoSwift

@Suite("Presence", .timeLimit(.minutes(5)))
struct PresenceTests {
    @Test("without a server the graph is this peer alone, by a key that is its own and stays")
    func alone() async throws {
        try await withTemporaryDirectory { directory in
            var keys: [String] = []
            for name in ["a", "a", "b"] {
                let ditto = try await Ditto.openAlone(config: .local(directory.appendingPathComponent(name)))
                let peer = ditto.presence.graph.localPeer
                #expect(peer.deviceName == ditto.deviceName)
                #expect(peer.os == .current)
                #expect(peer.dittoSDKVersion == Ditto.version)
                #expect(!peer.isConnectedToDittoServer && peer.connections.isEmpty)
                #expect(ditto.presence.graph.remotePeers.isEmpty)
                #expect(ditto.presence.graph.allConnectionsByID.isEmpty)
                keys.append(peer.peerKey)
                await ditto.close()
            }
            #expect(keys[0] == keys[1])
            #expect(keys[0] != keys[2])
        }
    }

    @Test("stopping an observer waits for the call that is under way, and no other comes")
    func stopping() async throws {
        try await withTemporaryDirectory { directory in
            let ditto = try await Ditto.openAlone(config: .local(directory))
            let (begun, goOn) = (DispatchSemaphore(value: 0), DispatchSemaphore(value: 0))
            let calls = Collected<Int>()
            let observer = ditto.presence.observe { _ in
                begun.signal()
                goOn.wait()
                calls.add(1)
            }
            let seen = await withCheckedContinuation { continuation in
                Thread.detachNewThread {
                    begun.wait()
                    Thread.detachNewThread {
                        // Long enough for a stop that does not wait to return before.
                        Thread.sleep(forTimeInterval: 0.05)
                        goOn.signal()
                    }
                    observer.stop()
                    continuation.resume(returning: calls.all.count)
                }
            }
            #expect(seen == 1)
            await ditto.close()
        }
    }

    @Test("an observer is told the graph at once, and of changes of name, metadata and of the connection")
    func changes() async throws {
        try await withTemporaryDirectory { directory in
            let data = directory.appendingPathComponent("server").path
            try await EmbeddedServer.run(data: data) { server in
                let ditto = try await Ditto.openAlone(
                    config: DittoConfig(
                        databaseID: server.databaseID, connect: .server(url: server.url),
                        persistenceDirectory: directory.appendingPathComponent("a")))
                try await ditto.store.execute(query: "ALTER SYSTEM SET presence_debounce_interval = 5")
                ditto.auth?.expirationHandler = { ditto, _ in
                    _ = try? await ditto.auth?.login(token: server.token, provider: .development)
                }
                let graphs = Collected<DittoPresenceGraph>()
                let observer = ditto.presence.observe { graphs.add($0) }
                #expect(await graphs.wait { $0.count == 1 }.last?.localPeer.isConnectedToDittoServer == false)
                ditto.deviceName = "till"
                #expect(
                    await graphs.wait { $0.last?.localPeer.deviceName == "till" }.last?.localPeer.deviceName
                        == "till")
                try ditto.presence.setPeerMetadata(["role": "bar", "seats": 4, "list": [1, nil, 2.5]])
                let told = await graphs.wait { $0.last?.localPeer.peerMetadata["seats"] != nil }.last
                #expect(told?.localPeer.peerMetadata["seats"] as? Int == 4)
                try ditto.sync.start()
                #expect(await graphs.wait { $0.last?.localPeer.isConnectedToDittoServer == true }.count >= 4)
                #expect(graphs.all.last?.localPeer.isConnectedToDittoCloud == true)
                let rows = try await ditto.store.execute(query: "SELECT * FROM system:transports_info")
                #expect(
                    rows.items.first { $0.value["_id"] as? String == "websocket" }?.value["condition"]
                        as? String == "Ok")
                await ditto.sync.stopAndWait()
                #expect(await eventually { graphs.all.last?.localPeer.isConnectedToDittoServer == false })
                // Nothing that was told twice in a row, and nothing after its end.
                #expect(zip(graphs.all, graphs.all.dropFirst()).allSatisfy { $0 != $1 })
                observer.stop()
                let count = graphs.all.count
                let others = Collected<DittoPresenceGraph>()
                let other = ditto.presence.observe { others.add($0) }
                ditto.deviceName = "other"
                #expect(await others.wait { $0.last?.localPeer.deviceName == "other" }.count >= 1)
                #expect(graphs.all.count == count)
                other.stop()
                await ditto.close()
            }
        }
    }

    @Test("metadata is JSON of 4,096 bytes at most, and refused by the case an application catches")
    func metadata() async throws {
        try await withDitto { ditto in
            let presence = ditto.presence
            try presence.setPeerMetadataJSONData(Data(#"{"b": [true, null], "a": 1}"#.utf8))
            #expect(presence.peerMetadataJSONData == Data(#"{"a":1,"b":[true,null]}"#.utf8))
            // {"t":""} is eight bytes.
            let fits = String(repeating: "x", count: 4_096 - 8)
            try presence.setPeerMetadata(["t": fits])
            func reason(_ body: () throws -> Void) -> String? {
                do {
                    try body()
                    return nil
                } catch DittoSwiftError.validationError(let reason) {
                    return Mirror(reflecting: reason).children.first?.label
                } catch {
                    return "\(error)"
                }
            }
            #expect(reason { try presence.setPeerMetadata(["t": fits + "x"]) } == "sizeLimitExceeded")
            #expect(reason { try presence.setPeerMetadata(["t": Data()]) } == "notJSONCompatible")
            #expect(reason { try presence.setPeerMetadataJSONData(Data("{".utf8)) } == "invalidJSON")
            #expect(reason { try presence.setPeerMetadataJSONData(Data("[]".utf8)) } == "notADictionary")
            #expect(presence.peerMetadata["t"] as? String == fits)
        }
    }

    @Test("a graph as JSON has the keys that viewers read, older and newer, and is read again")
    func json() async throws {
        try await withDitto { ditto in
            try ditto.presence.setPeerMetadata(["n": 1, "deep": ["list": [1.5, "x", true, nil]]])
            var graph = ditto.presence.graph
            let connection = try JSONDecoder().decode(
                DittoConnection.self,
                from: Data(
                    """
                    {"id": "1", "connectionType": "AccessPoint", "peerKeyString1": "a", "peerKeyString2": "b"}
                    """.utf8))
            #expect(connection.peer1 == "a" && connection.peerKeyString2 == "b")
            graph.localPeer.connections = [connection]
            var other = graph.localPeer
            other.peerKeyString = "b"
            other.osV2 = .unknown(os: "Generic")
            graph.remotePeers = [other]
            #expect(graph.allConnectionsByID == ["1": connection])
            let data = try JSONEncoder().encode(graph)
            #expect(try JSONDecoder().decode(DittoPresenceGraph.self, from: data) == graph)
            let json = try #require(try JSONSerialization.jsonObject(with: data) as? [String: Any])
            let local = try #require(json["localPeer"] as? [String: Any])
            for key in ["peerKey", "peerKeyString"] {
                #expect(local[key] as? String == graph.localPeer.peerKey)
            }
            for key in ["os", "osV2"] { #expect(local[key] as? String == "\(DittoPeerOS.current)") }
            for key in ["isConnectedToDittoServer", "isConnectedToDittoCloud"] {
                #expect(local[key] as? Bool == false)
            }
            let links = try #require(local["connections"] as? [[String: Any]])
            for (key, value) in [("peer1", "a"), ("peerKeyString1", "a"), ("peer2", "b")] {
                #expect(links.first?[key] as? String == value)
            }
            #expect(links.first?["connectionType"] as? String == "AccessPoint")
            #expect(local["dittoSdkVersion"] as? String == Ditto.version)
            #expect((local["peerMetadata"] as? [String: Any])?["n"] as? Int == 1)
            // As older versions wrote it.
            let older = try JSONDecoder().decode(
                DittoPeer.self,
                from: Data(
                    #"{"peerKeyString": "k", "isConnectedToDittoCloud": true, "osV2": "iOS"}"#.utf8))
            #expect(older.peerKey == "k" && older.isConnectedToDittoServer && older.os == .iOS)
        }
    }
}

@Suite("The peers around one", .timeLimit(.minutes(5)))
struct PeersAroundTests {
    /// Three peers in a chain, a, b and c: b dials both others.
    private func withChain(
        key: String?, _ body: (_ a: Ditto, _ b: Ditto, _ c: Ditto) async throws -> Void
    ) async throws {
        try await withTemporaryDirectory { directory in
            var peers: [Ditto] = []
            for name in ["a", "b", "c"] {
                let ditto = try await Ditto.openAlone(
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

    @Test("two linked peers of a server know of each other that they are connected with it")
    func server() async throws {
        try await withTemporaryDirectory { directory in
            let data = directory.appendingPathComponent("server").path
            try await EmbeddedServer.run(data: data) { server in
                let ditto = try await Ditto.openAlone(
                    config: DittoConfig(
                        databaseID: server.databaseID, connect: .server(url: server.url),
                        persistenceDirectory: directory.appendingPathComponent("a")))
                ditto.auth?.expirationHandler = { ditto, _ in
                    _ = try? await ditto.auth?.login(token: server.token, provider: .development)
                }
                let other = try await Ditto.openAlone(
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
