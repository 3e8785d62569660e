import Attachments
import CRDT
import Foundation
import Identity
import TestSupport
import Testing

@testable import DittoSwift

@Suite("Attachments over links", .timeLimit(.minutes(5)))
struct LinkedAttachmentTests {
    private let key = PeerKey().pem

    private func open(_ directory: URL, _ name: String) async throws -> Ditto {
        let ditto = try await Ditto.openAlone(
            config: DittoConfig(
                databaseID: "boats", connect: .smallPeersOnly(privateKey: key),
                persistenceDirectory: directory.appendingPathComponent(name)))
        try ditto.sync.registerSubscription(query: "SELECT * FROM boats")
        return ditto
    }

    /// Opens peers, each of which dials the one before it.
    private func withChain(
        _ names: [String], _ body: (URL, [Ditto]) async throws -> Void
    ) async throws {
        try await withTemporaryDirectory { directory in
            var peers: [Ditto] = []
            var port = 0
            for name in names {
                let peer = try await open(directory, name)
                peer.updateTransportConfig { config in
                    config.listen.tcp.isEnabled = true
                    config.listen.tcp.interfaceIP = "127.0.0.1"
                    config.listen.tcp.port = 0
                    config.connect.retryInterval = 0.1
                    if port > 0 { config.connect.tcpServers = ["127.0.0.1:\(port)"] }
                }
                try peer.sync.start()
                #expect(await eventually { peer.sync.linkReport?.listening.isEmpty == false })
                port = peer.sync.linkReport?.listening.first?.port ?? 0
                peers.append(peer)
            }
            try await body(directory, peers)
            for peer in peers.reversed() { await peer.close() }
        }
    }

    private func bytes(_ count: Int) -> Data {
        var dice = SplitMix64(seed: 21)
        return Data(dice.bytes(count: count))
    }

    private func insert(_ attachment: DittoAttachment, _ ditto: Ditto, into collection: String = "boats")
        async throws
    {
        try await ditto.store.execute(
            query: "INSERT INTO COLLECTION \(collection) (photo ATTACHMENT) DOCUMENTS (:boat)",
            arguments: ["boat": ["_id": "1", "photo": attachment] as [String: Any?]])
    }

    private func token(_ ditto: Ditto, _ collection: String = "boats") async throws -> [String: Any?]? {
        let items = try await ditto.store.execute(
            query: "SELECT * FROM COLLECTION \(collection) (photo ATTACHMENT)"
        ).items
        return items.first?.value["photo"] as? [String: Any?]
    }

    private func fetch(_ token: [String: Any?], _ ditto: Ditto) throws -> Collected<Data?> {
        let came = Collected<Data?>()
        try ditto.store.fetchAttachment(token: token) { event in
            switch event {
            case .progress: break
            case .completed(let attachment): came.add(try? attachment.data())
            case .deleted: came.add(nil)
            }
        }
        return came
    }

    @Test("a blob made offline at one end of a chain reaches the other end, without a server")
    func chain() async throws {
        try await withChain(["a", "b", "c"]) { _, peers in
            let data = bytes(1_700_000)
            let made = try await peers[0].store.newAttachment(data: data)
            try await insert(made, peers[0])
            #expect(try await eventually { try await token(peers[2]) != nil })
            let came = try fetch(try #require(try await token(peers[2])), peers[2])
            #expect(await came.wait { !$0.isEmpty } == [data])
        }
    }

    @Test("a received part is gone on with")
    func resumed() async throws {
        try await withChain(["a", "b"]) { directory, peers in
            let data = bytes(2_500_000)
            let made = try await peers[0].store.newAttachment(data: data)
            try await insert(made, peers[0])
            #expect(try await eventually { try await token(peers[1]) != nil })
            do {
                let store = try BlobStore(
                    folder: directory.appendingPathComponent("b/ditto_attachments").path)
                let part = try DownloadFile(store, BlobID(made.id), length: 2_500_000)
                _ = try part.append(Array(data.prefix(2_000_000)))
            }
            let progress = Collected<UInt64>()
            let came = Collected<Data?>()
            try peers[1].store.fetchAttachment(token: try #require(try await token(peers[1]))) { event in
                if case .progress(let bytes, _) = event { progress.add(bytes) }
                if case .completed(let attachment) = event { came.add(try? attachment.data()) }
            }
            #expect(await came.wait { !$0.isEmpty } == [data])
            #expect(progress.all.allSatisfy { $0 > 2_000_000 })
        }
    }

    @Test(
        "a source with a turned bit is told and left, and the honest one beside it delivers",
        arguments: [LyingPeer.Lie.bytes, .bytesAndHashes])
    func lying(lie: LyingPeer.Lie) async throws {
        try await withChain(["a"]) { directory, peers in
            let data = bytes(2_500_000)
            let made = try await peers[0].store.newAttachment(data: data)
            try await insert(made, peers[0])
            let shared = try PeerKey(pem: key)
            try await LyingPeer.run(
                directory.appendingPathComponent("liar"), "boats", shared, [UInt8](data), lie
            ) { liar in
                let b = try await open(directory, "b")
                let honest = try #require(peers[0].sync.linkReport?.listening.first?.port)
                // The liar's link is the older one, so it is asked first.
                var addresses = ["127.0.0.1:\(liar.port)"]
                for links in 1...2 {
                    let dialed = Set(addresses)
                    b.updateTransportConfig { config in
                        config.connect.retryInterval = 0.1
                        config.connect.tcpServers = dialed
                    }
                    if links == 1 { try b.sync.start() }
                    #expect(await eventually { b.sync.linkReport?.links.count == links })
                    addresses.append("127.0.0.1:\(honest)")
                }
                #expect(try await eventually { try await token(b) != nil })
                let (problems, came) = (Collected<DittoAttachmentFetchProblem>(), Collected<Data?>())
                try b.store.fetchAttachment(token: try #require(try await token(b))) { problem in
                    problems.add(problem)
                } onFetchEvent: { event in
                    if case .completed(let attachment) = event { came.add(try? attachment.data()) }
                    if case .deleted = event { came.add(nil) }
                }
                #expect(await came.wait { !$0.isEmpty } == [data])
                #expect(problems.all.map(\.kind) == [.wrongBytes])
                #expect(problems.all.first?.description.contains(liar.key) == true)
                #expect(liar.answered > 0)
                await b.close()
            }
        }
    }

    @Test("a fetch ends when the document at another peer loses the token of what nobody has")
    func tokenLost() async throws {
        try await withChain(["a", "b"]) { _, peers in
            let token: [String: Any?] = [
                "id": String(repeating: "C", count: 42) + "A", "len": 5, "metadata": [String: Any?](),
            ]
            try await peers[0].store.execute(
                query: "INSERT INTO COLLECTION boats (photo ATTACHMENT) DOCUMENTS (:boat)",
                arguments: ["boat": ["_id": "1", "photo": token] as [String: Any?]])
            #expect(try await eventually { try await self.token(peers[1]) != nil })
            let came = try fetch(token, peers[1])
            try await Task.sleep(for: .seconds(1))
            #expect(came.all.isEmpty)
            try await peers[0].store.execute(
                query: "UPDATE COLLECTION boats (photo ATTACHMENT) UNSET photo WHERE _id = '1'")
            #expect(await came.wait { !$0.isEmpty } == [nil])
            #expect(peers[1].store.attachmentFetchers.isEmpty)
        }
    }

    @Test("an attachment of a collection that is withheld is not there for a peer that knows its id")
    func withheld() async throws {
        try await withChain(["a", "b"]) { _, peers in
            try await peers[0].store.execute(
                query: "ALTER SYSTEM SET USER_COLLECTION_SYNC_SCOPES = {'secret': 'LocalPeerOnly'}")
            let made = try await peers[0].store.newAttachment(data: bytes(5_000))
            try await insert(made, peers[0], into: "secret")
            #expect(await eventually { !peers[1].sync.linkReport!.links.isEmpty })
            let came = try fetch(["id": made.id, "len": made.len], peers[1])
            // Long enough for some questions.
            try await Task.sleep(for: .seconds(2))
            #expect(came.all.isEmpty)
            // Named in a document that syncs, it comes.
            try await insert(made, peers[0])
            #expect(await came.wait { !$0.isEmpty } == [bytes(5_000)])
        }
    }
}
