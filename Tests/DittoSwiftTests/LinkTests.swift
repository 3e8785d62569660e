import CRDT
import Foundation
import Identity
import TestSupport
import Testing

@testable import DittoSwift

@Suite("Small peers that link", .timeLimit(.minutes(5)))
struct LinkTests {
    private let key = PeerKey().pem

    private func open(
        _ directory: URL, _ name: String, key: String?, database: String = "boats"
    ) async throws -> Ditto {
        let ditto = try await Ditto.openAlone(
            config: DittoConfig(
                databaseID: database, connect: .smallPeersOnly(privateKey: key),
                persistenceDirectory: directory.appendingPathComponent(name)))
        try await ditto.store.execute(query: "ALTER SYSTEM SET presence_debounce_interval = 5")
        return ditto
    }

    /// Opens two peers; the first listens, and the port is the second's to dial.
    private func withPair(
        key: String?, _ body: (_ here: Ditto, _ there: Ditto, _ port: Int) async throws -> Void
    ) async throws {
        try await withTemporaryDirectory { directory in
            let here = try await open(directory, "here", key: key)
            let there = try await open(directory, "there", key: key)
            here.updateTransportConfig { config in
                config.listen.tcp.isEnabled = true
                config.listen.tcp.interfaceIP = "127.0.0.1"
                config.listen.tcp.port = 0
            }
            try here.sync.start()
            #expect(await eventually { here.sync.linkReport?.listening.isEmpty == false })
            try await body(here, there, here.sync.linkReport?.listening.first?.port ?? 0)
            await there.close()
            await here.close()
        }
    }

    private func link(_ ditto: Ditto, to port: Int) {
        ditto.updateTransportConfig { config in
            config.connect.tcpServers = ["127.0.0.1:\(port)"]
            config.connect.retryInterval = 0.1
        }
    }

    @Test("documents cross a link both ways, with a shared key and in the clear", arguments: [true, false])
    func sync(isSecure: Bool) async throws {
        try await withPair(key: isSecure ? key : nil) { here, there, port in
            for ditto in [here, there] {
                try ditto.sync.registerSubscription(query: "SELECT * FROM boats")
            }
            link(there, to: port)
            try there.sync.start()
            try await here.store.execute(query: "INSERT INTO boats DOCUMENTS ({'_id': 'a', 'by': 'here'})")
            try await there.store.execute(query: "INSERT INTO boats DOCUMENTS ({'_id': 'b', 'by': 'there'})")
            for ditto in [here, there] {
                #expect(
                    try await eventually {
                        try await ditto.store.execute(query: "SELECT * FROM boats").items.count == 2
                    })
            }
            let rows = try await there.store.execute(query: "SELECT * FROM system:data_sync_info")
            let row = try #require(rows.items.first?.value)
            #expect(row["_id"] as? String == here.presence.graph.localPeer.peerKey)
            #expect(row["is_ditto_server"] as? Bool == false)
            #expect(
                (row["documents"] as? [String: Any?])?["sync_session_status"] as? String == "Connected")
        }
    }

    @Test("the graph has the linked peer and the connection, the same at both sides, and loses them again")
    func graph() async throws {
        try await withPair(key: key) { here, there, port in
            let graphs = Collected<DittoPresenceGraph>()
            let observer = here.presence.observe { graphs.add($0) }
            link(there, to: port)
            try there.sync.start()
            #expect(await eventually { here.presence.graph.remotePeers.count == 1 })
            #expect(await eventually { there.presence.graph.remotePeers.count == 1 })
            let (mine, theirs) = (here.presence.graph, there.presence.graph)
            #expect(mine.remotePeers.map(\.peerKey) == [theirs.localPeer.peerKey])
            #expect(mine.allConnectionsByID == theirs.allConnectionsByID)
            let connection = try #require(mine.localPeer.connections.first)
            #expect(connection.type == .accessPoint && connection.peer1 < connection.peer2)
            #expect(connection.id == "\(connection.peer1)<->\(connection.peer2):AccessPoint")
            #expect(await graphs.wait { $0.last?.remotePeers.count == 1 }.last?.remotePeers.count == 1)
            let rows = try await here.store.execute(
                query: "SELECT * FROM system:transports_info WHERE _id = 'tcp'")
            #expect(rows.items.first?.value["condition"] as? String == "Ok")
            there.updateTransportConfig { $0.connect.tcpServers = [] }
            #expect(await eventually { here.presence.graph.remotePeers.isEmpty })
            observer.stop()
        }
    }

    @Test("the connection request handler of either side decides, and sees who asks")
    func handler() async throws {
        try await withPair(key: key) { here, there, port in
            let asked = Collected<String>()
            let isWelcome = Collected<Bool>()
            here.presence.connectionRequestHandler = { request in
                asked.add("\(request.peerKeyString) \(request.connectionType.rawValue)")
                return isWelcome.all.isEmpty ? .deny : .allow
            }
            link(there, to: port)
            try there.sync.start()
            let name = there.presence.graph.localPeer.peerKey
            #expect(await asked.wait { !$0.isEmpty }.first == "\(name) AccessPoint")
            #expect(
                await eventually {
                    there.sync.linkReport?.failures.first?.reason.hasPrefix("SYNC-0601") == true
                })
            #expect(here.presence.graph.remotePeers.isEmpty)
            isWelcome.add(true)
            there.updateTransportConfig { $0.connect.tcpServers = [] }
            #expect(await eventually { there.sync.linkReport?.failures.isEmpty == true })
            link(there, to: port)
            #expect(await eventually { there.presence.graph.remotePeers.count == 1 })
        }
    }

    @Test("another sync group gets no link, and a parameter names a peer as the configuration does")
    func parameters() async throws {
        try await withPair(key: nil) { here, there, port in
            there.updateTransportConfig { config in
                config.global.syncGroup = 9
                config.connect.retryInterval = 0.1
            }
            try there.sync.start()
            try await there.store.execute(
                query: "ALTER SYSTEM SET transports_discovered_peers = "
                    + "[{'address': 'tcp://127.0.0.1:\(port)', 'type': 'force'}]")
            #expect(
                await eventually {
                    there.sync.linkReport?.failures.first?.reason.hasPrefix("SYNC-0602") == true
                })
            there.updateTransportConfig { $0.global.syncGroup = 0 }
            #expect(await eventually { there.presence.graph.remotePeers.count == 1 })
            try await there.store.execute(query: "ALTER SYSTEM SET transports_discovered_peers = []")
            #expect(await eventually { there.presence.graph.remotePeers.isEmpty })
        }
    }

    @Test("a port that is taken, and a text that is no address, are conditions with their reason")
    func conditions() async throws {
        try await withPair(key: nil) { here, there, port in
            there.updateTransportConfig { config in
                config.connect.tcpServers = ["nowhere"]
                config.listen.tcp.isEnabled = true
                config.listen.tcp.interfaceIP = "127.0.0.1"
                config.listen.tcp.port = UInt16(port)
            }
            try there.sync.start()
            func row(_ id: String) async throws -> [String: Any?]? {
                try await there.store.execute(
                    query: "SELECT * FROM system:transports_info WHERE _id = :id", arguments: ["id": id]
                ).items.first?.value
            }
            #expect(
                try await eventually { try await row("tcp")?["condition"] as? String == "TcpListenFailure" })
            there.updateTransportConfig { $0.listen.tcp.isEnabled = false }
            #expect(
                try await eventually {
                    (try await row("tcp")?["last_error"] as? String)?.contains("'nowhere'") == true
                })
        }
    }
}
