import Foundation
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
                let ditto = try await Ditto.open(config: .local(directory.appendingPathComponent(name)))
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
            let ditto = try await Ditto.open(config: .local(directory))
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
                let ditto = try await Ditto.open(
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

@Suite("Transport configuration")
struct TransportConfigTests {
    @Test("everything is off until it is turned on, with the documented numbers")
    func defaults() {
        var config = DittoTransportConfig()
        #expect(config.connect.tcpServers.isEmpty && config.connect.webSocketURLs.isEmpty)
        #expect(config.connect.retryInterval == 5)
        #expect(config.listen.tcp.port == 4040 && config.listen.http.port == 80)
        #expect(config.listen.tcp.interfaceIP == "[::]" && !config.listen.tcp.isEnabled)
        #expect(config.listen.http.webSocketSync && !config.listen.http.isEnabled)
        #expect(config.global == DittoGlobalConfig() && config.global.syncGroup == 0)
        #expect(config.peerToPeer == DittoPeerToPeer() && !config.peerToPeer.lan.isEnabled)
        config.enableAllPeerToPeer()
        let nearby = config.peerToPeer
        #expect(nearby.bluetoothLE.isEnabled && nearby.awdl.enabled && nearby.wifiAware.isEnabled)
        #expect(nearby.lan.isEnabled && nearby.lan.isMdnsEnabled && nearby.lan.isMulticastEnabled)
        config.setAllPeerToPeer(enabled: false)
        #expect(config == DittoTransportConfig())
    }

    @Test("it is kept, also changed in place, and a way that is not there says why")
    func conditions() async throws {
        try await withDitto { ditto in
            ditto.transportConfig.peerToPeer.lan.isEnabled.toggle()
            ditto.updateTransportConfig { config in
                config.peerToPeer.bluetoothLE.isEnabled = true
                config.peerToPeer.awdl.isEnabled = true
                config.connect.websocketURLs = ["wss://example.com"]
            }
            #expect(ditto.transportConfig.peerToPeer.lan.isEnabled)
            #expect(ditto.transportConfig.connect.webSocketURLs == ["wss://example.com"])
            let data = try JSONEncoder().encode(ditto.transportConfig)
            #expect(try JSONDecoder().decode(DittoTransportConfig.self, from: data) == ditto.transportConfig)
            let rows = try await ditto.store.execute(
                query: "SELECT * FROM system:transports_info WHERE is_enabled ORDER BY _id")
            #expect(
                rows.items.map { $0.jsonString() } == [
                    #"{"_id":"awdl","condition":"WifiDisabled","is_enabled":true}"#,
                    #"{"_id":"bluetooth_le","condition":"NoBleHardware","is_enabled":true}"#,
                    #"{"_id":"lan","condition":"Unknown","is_enabled":true}"#,
                    #"{"_id":"tcp","condition":"Unknown","is_enabled":true}"#,
                    #"{"_id":"websocket","condition":"Unknown","is_enabled":true}"#,
                ])
            #expect(DittoTransportCondition.TemporarilyUnavailable.rawValue == 12)
            #expect("\(DittoConditionSource.Mdns)" == "Mdns")
        }
    }
}

@Suite("What a small peer tells about itself")
struct SmallPeerReportTests {
    @Test("it reaches the server as a document, with metadata, subscriptions and collections; or not at all")
    func published() async throws {
        try await withTemporaryDirectory { directory in
            let data = directory.appendingPathComponent("server").path
            try await EmbeddedServer.run(data: data) { server in
                func open(_ name: String) async throws -> Ditto {
                    let ditto = try await Ditto.open(
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
                // Said anew, told anew.
                try till.smallPeerInfo.setMetadata(["shop": "east"])
                #expect(
                    try await eventually {
                        (try await told(by: till)?["metadata"] as? [String: Any?])?["shop"] as? String
                            == "east"
                    })
                let known = try await quiet.store.execute(query: "SELECT * FROM __small_peer_info").items
                #expect(known.isEmpty)
                for ditto in [office, quiet, till] { await ditto.close() }
            }
        }
    }
}
