import Foundation
import TestSupport
import Testing

@testable import DittoSwift

@Suite("Transport configuration")
struct TransportConfigTests {
    @Test("an instance comes with the peers nearby on, beside a server too; the application turns them off")
    func ofNewInstances() async throws {
        try await withTemporaryDirectory { directory in
            let connects: [DittoConfigConnect] = [.smallPeersOnly(), .server(url: "http://127.0.0.1:1")]
            for (number, connect) in connects.enumerated() {
                let ditto = try await Ditto.open(
                    config: DittoConfig(
                        databaseID: "nearby", connect: connect,
                        persistenceDirectory: directory.appendingPathComponent("\(number)")))
                var expected = DittoTransportConfig()
                expected.peerToPeer.lan.isEnabled = true
                #expect(ditto.transportConfig == expected)
                func lan() async throws -> Any? {
                    try await ditto.store.execute(
                        query: "SELECT is_enabled FROM system:transports_info WHERE _id = 'lan'"
                    ).items.first?.value["is_enabled"] ?? nil
                }
                #expect(try await lan() as? Bool == true)
                ditto.transportConfig = DittoTransportConfig()
                #expect(try await lan() as? Bool == false)
                await ditto.close()
            }
        }
    }

    @Test("a configuration of one's own is off until it is turned on, with the documented numbers")
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
