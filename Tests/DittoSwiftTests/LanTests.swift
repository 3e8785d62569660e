import Foundation
import TestSupport
import Testing

@testable import DittoSwift

@Suite("Small peers that find each other", .timeLimit(.minutes(3)))
struct LanTests {
    /// Two instances of a database that nobody else has, without any address.
    private func withPair(
        opened open: (DittoConfig) async throws -> Ditto = { try await Ditto.openAlone(config: $0) },
        _ body: (_ here: Ditto, _ there: Ditto) async throws -> Void
    ) async throws {
        try await withTemporaryDirectory { directory in
            let database = UUID().uuidString
            var opened: [Ditto] = []
            for name in ["here", "there"] {
                opened.append(
                    try await open(
                        DittoConfig(
                            databaseID: database, connect: .smallPeersOnly(privateKey: nil),
                            persistenceDirectory: directory.appendingPathComponent(name))))
            }
            try await body(opened[0], opened[1])
            for ditto in opened { await ditto.close() }
        }
    }

    private func lan(_ ditto: Ditto) async throws -> [String: Any?]? {
        try await ditto.store.execute(query: "SELECT * FROM system:transports_info WHERE _id = 'lan'")
            .items.first?.value
    }

    @Test("an insert on one reaches an observer on the other, though nobody has configured any transport")
    func twoPeers() async throws {
        try await withPair(opened: { try await Ditto.open(config: $0) }) { here, there in
            for ditto in [here, there] {
                try ditto.sync.registerSubscription(query: "SELECT * FROM boats")
                try ditto.sync.start()
            }
            let seen = Collected<Int>()
            let observer = try there.store.registerObserver(query: "SELECT * FROM boats") {
                seen.add($0.items.count)
            }
            let began = ContinuousClock.now
            try await here.store.execute(query: "INSERT INTO boats DOCUMENTS ({'_id': 'a'})")
            #expect(await seen.wait { $0.last == 1 }.last == 1)
            print(
                "    measured: an insert was seen by a peer just found after \(ContinuousClock.now - began)")
            #expect(try await eventually { try await lan(there)?["condition"] as? String == "Ok" })
            observer.cancel()
        }
    }

    @Test("nobody is found before sync is started, and links end when the network is turned off")
    func turnedOff() async throws {
        try await withPair { here, there in
            for ditto in [here, there] {
                ditto.updateTransportConfig { $0.peerToPeer.lan.isEnabled = true }
                try await ditto.store.execute(
                    query: "ALTER SYSTEM SET multicast_discovery_interval_secs = 100")
            }
            try here.sync.start()
            #expect(await eventually { here.sync.linkReport?.listening.count == 1 })
            #expect(there.sync.linkReport?.listening.isEmpty == true)
            try there.sync.start()
            #expect(await eventually { here.presence.graph.remotePeers.count == 1 })
            there.updateTransportConfig { $0.setAllPeerToPeer(enabled: false) }
            #expect(await eventually { here.presence.graph.remotePeers.isEmpty })
            #expect(await eventually { there.sync.linkReport?.listening.isEmpty == true })
            #expect(there.sync.linkReport?.found.isEmpty == true)
            there.updateTransportConfig { $0.peerToPeer.lan.isEnabled = true }
            #expect(await eventually { here.presence.graph.remotePeers.count == 1 })
        }
    }

    @Test(
        "a copied store is told SYNC-0606: as a failure of the address, and as the last error of TCP and LAN")
    func copy() async throws {
        try await withTemporaryDirectory { directory in
            let database = UUID().uuidString
            func open(_ name: String) async throws -> Ditto {
                let ditto = try await Ditto.openAlone(
                    config: DittoConfig(
                        databaseID: database, connect: .smallPeersOnly(privateKey: nil),
                        persistenceDirectory: directory.appendingPathComponent(name)))
                ditto.updateTransportConfig { $0.peerToPeer.lan.isEnabled = true }
                return ditto
            }
            // A first start, which makes the key.
            let first = try await open("first")
            try first.sync.start()
            #expect(await eventually { first.sync.linkReport?.listening.count == 1 })
            await first.close()
            try FileManager.default.copyItem(
                at: directory.appendingPathComponent("first"), to: directory.appendingPathComponent("copy"))
            var peers: [Ditto] = []
            for name in ["first", "copy"] { peers.append(try await open(name)) }
            for ditto in peers { try ditto.sync.start() }
            for ditto in peers {
                #expect(
                    await eventually {
                        ditto.sync.linkReport?.failures.contains { $0.reason.hasPrefix("SYNC-0606") } == true
                    })
                for name in ["tcp", "lan"] {
                    #expect(
                        try await eventually {
                            try await lastError(ditto, name)?.contains("SYNC-0606") == true
                        })
                }
                #expect(ditto.sync.linkReport?.links.isEmpty == true)
            }
            for ditto in peers { await ditto.close() }
        }
    }

    private func lastError(_ ditto: Ditto, _ name: String) async throws -> String? {
        try await ditto.store.execute(query: "SELECT * FROM system:transports_info WHERE _id = '\(name)'")
            .items.first?.value["last_error"] as? String
    }

    @Test("a candidate is dialed without a network to find it on, and counts as one of the outgoing links")
    func candidates() async throws {
        try await withPair { here, there in
            here.updateTransportConfig { config in
                config.listen.tcp.isEnabled = true
                config.listen.tcp.interfaceIP = "127.0.0.1"
                config.listen.tcp.port = 0
            }
            try here.sync.start()
            #expect(await eventually { here.sync.linkReport?.listening.isEmpty == false })
            let port = here.sync.linkReport?.listening.first?.port ?? 0
            try there.sync.start()
            try await there.store.execute(
                query: "ALTER SYSTEM SET transports_discovered_peers = "
                    + "[{'address': 'tcp://127.0.0.1:\(port)', 'type': 'candidate'}]")
            #expect(await eventually { here.presence.graph.remotePeers.count == 1 })
            try await there.store.execute(query: "ALTER SYSTEM SET mesh_chooser_max_wlan_clients = 0")
            #expect(await eventually { here.presence.graph.remotePeers.isEmpty })
            try await there.store.execute(query: "ALTER SYSTEM SET mesh_chooser_max_wlan_clients = 1")
            #expect(await eventually { here.presence.graph.remotePeers.count == 1 })
        }
    }

    @Test("the port for a network's peers is a parameter; one that is taken is the condition of TCP")
    func port() async throws {
        try await withPair { here, there in
            for ditto in [here, there] {
                ditto.updateTransportConfig { $0.peerToPeer.lan.isEnabled = true }
                try ditto.sync.start()
            }
            #expect(await eventually { here.sync.linkReport?.listening.count == 1 })
            let port = here.sync.linkReport?.listening.first?.port ?? 0
            try await there.store.execute(
                query: "ALTER SYSTEM SET tcp_server_bind_mdns_server_port = \(port)")
            #expect(
                try await eventually {
                    try await there.store.execute(
                        query: "SELECT * FROM system:transports_info WHERE _id = 'tcp'"
                    ).items.first?.value["condition"] as? String == "TcpListenFailure"
                })
        }
    }
}
