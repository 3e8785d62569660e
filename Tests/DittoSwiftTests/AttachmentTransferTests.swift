import AsyncHTTPClient
import Attachments
import CRDT
import Foundation
import Logging
import Mimeo
import TestSupport
import Testing

@testable import DittoSwift

@Suite("Transfers of attachments", .timeLimit(.minutes(5)))
struct AttachmentTransferTests {
    private func bytes(_ count: Int, seed: UInt64 = 7) -> Data {
        var dice = SplitMix64(seed: seed)
        return Data(dice.bytes(count: count))
    }

    private func open(_ server: EmbeddedServer, _ directory: URL, _ name: String) async throws -> Ditto {
        let ditto = try await Ditto.openAlone(
            config: DittoConfig(
                databaseID: server.databaseID, connect: .server(url: server.url),
                persistenceDirectory: directory.appendingPathComponent(name)))
        ditto.auth?.expirationHandler = { ditto, _ in
            _ = try? await ditto.auth?.login(token: server.token, provider: .development)
        }
        return ditto
    }

    private func insert(_ attachment: DittoAttachment, _ ditto: Ditto, id: String) async throws {
        try await ditto.store.execute(
            query: "INSERT INTO COLLECTION cars (photo ATTACHMENT) DOCUMENTS (:car)",
            arguments: ["car": ["_id": id, "photo": attachment] as [String: Any?]])
    }

    @Test("an upload goes by tus, and a download goes on from the part that an earlier run left")
    func resumed() async throws {
        try await withTemporaryDirectory { directory in
            let data = bytes(2_500_000)
            try await EmbeddedServer.run(data: directory.appendingPathComponent("server").path) { server in
                let a = try await open(server, directory, "a")
                let made = try await a.store.newAttachment(data: data, metadata: ["name": "x"])
                #expect(try made.data() == data && made.metadata == ["name": "x"])
                try a.sync.start()
                let outgoing = directory.appendingPathComponent("a/ditto_attachments/outgoing").path
                #expect(
                    await eventually {
                        (try? FileManager.default.contentsOfDirectory(atPath: outgoing))?.isEmpty ?? false
                    })
                let uploads = directory.appendingPathComponent(
                    "server/attachments/\(server.databaseID)/uploads")
                #expect(try FileManager.default.contentsOfDirectory(atPath: uploads.path).count == 1)
                // The part that the other device has already.
                let folder = directory.appendingPathComponent("b/ditto_attachments").path
                do {
                    let store = try BlobStore(folder: folder)
                    let part = try DownloadFile(store, BlobID(made.id), length: 2_500_000)
                    _ = try part.append(Array(data.prefix(2_000_000)))
                }
                let b = try await open(server, directory, "b")
                try b.sync.start()
                let (came, progress) = (Collected<DittoAttachment>(), Collected<UInt64>())
                let token: [String: Any?] = ["id": made.id, "len": made.len]
                try b.store.fetchAttachment(token: token) { event in
                    switch event {
                    case .progress(let bytes, _): progress.add(bytes)
                    case .completed(let attachment): came.add(attachment)
                    case .deleted: Issue.record("deleted")
                    }
                }
                let attachment = try #require(await came.wait { !$0.isEmpty }.first)
                #expect(try attachment.data() == data)
                #expect(progress.all.allSatisfy { $0 > 2_000_000 })
                await a.close()
                await b.close()
            }
        }
    }

    @Test("documents bring their attachments along where the parameter says so")
    func automatic() async throws {
        try await withTemporaryDirectory { directory in
            try await EmbeddedServer.run(data: directory.appendingPathComponent("server").path) { server in
                let (a, b) = (
                    try await open(server, directory, "a"), try await open(server, directory, "b")
                )
                try await b.store.execute(query: "ALTER SYSTEM SET attachments_auto_fetch = true")
                try b.sync.registerSubscription(query: "SELECT * FROM cars")
                for ditto in [a, b] { try ditto.sync.start() }
                let made = try await a.store.newAttachment(data: bytes(100_000))
                try await insert(made, a, id: "1")
                let path = directory.appendingPathComponent(
                    "b/ditto_attachments/\(made.id.prefix(2))/\(made.id)")
                #expect(await eventually { FileManager.default.fileExists(atPath: path.path) })
                #expect(b.store.attachmentFetchers.isEmpty)
                await a.close()
                await b.close()
            }
        }
    }

    @Test("an attachment that the server has collected is deleted for whoever fetches it")
    func collectedByServer() async throws {
        try await withTemporaryDirectory { directory in
            let data = directory.appendingPathComponent("server").path
            try await EmbeddedServer.run(data: data) { server in
                let (a, b) = (
                    try await open(server, directory, "a"), try await open(server, directory, "b")
                )
                let made = try await a.store.newAttachment(data: bytes(50_000))
                for ditto in [a, b] { try ditto.sync.start() }
                let outgoing = directory.appendingPathComponent("a/ditto_attachments/outgoing").path
                #expect(
                    await eventually {
                        (try? FileManager.default.contentsOfDirectory(atPath: outgoing))?.isEmpty ?? false
                    })
                // No document mentions it, so an operator's collection takes it.
                let admin = try String(contentsOfFile: data + "/auth/admin.token", encoding: .utf8)
                let path = "admin/attachment-store/databases/\(server.databaseID)/collections?graceHours=0"
                var request = HTTPClientRequest(url: "\(server.url)/\(path)")
                request.method = .POST
                let bearer = "Bearer " + admin.trimmingCharacters(in: .whitespacesAndNewlines)
                request.headers.add(name: "Authorization", value: bearer)
                let answer = try await HTTPClient.shared.execute(request, timeout: .seconds(60))
                let report = String(buffer: try await answer.body.collect(upTo: 10_000))
                #expect(report.contains("\"removed\":1,"), "\(report)")
                let came = Collected<String>()
                try b.store.fetchAttachment(token: ["id": made.id, "len": made.len]) { came.add("\($0)") }
                #expect(await came.wait { !$0.isEmpty } == ["deleted"])
                #expect(await eventually { b.store.attachmentFetchers.isEmpty })
                await a.close()
                await b.close()
            }
        }
    }

    @Test("a fetch ends when the document, deleted elsewhere, no longer names what nobody has")
    func documentDeleted() async throws {
        try await withTemporaryDirectory { directory in
            try await EmbeddedServer.run(data: directory.appendingPathComponent("server").path) { server in
                let (a, b) = (
                    try await open(server, directory, "a"), try await open(server, directory, "b")
                )
                try b.sync.registerSubscription(query: "SELECT * FROM cars")
                for ditto in [a, b] { try ditto.sync.start() }
                // Its file never comes: another device has made it, and is lost.
                let id = String(repeating: "B", count: 42) + "A"
                let token: [String: Any?] = ["id": id, "len": 70_000, "metadata": [String: Any?]()]
                try await a.store.execute(
                    query: "INSERT INTO COLLECTION cars (photo ATTACHMENT) DOCUMENTS (:car)",
                    arguments: ["car": ["_id": "1", "photo": token] as [String: Any?]])
                #expect(
                    try await eventually {
                        try await b.store.execute(query: "SELECT * FROM cars").items.count == 1
                    })
                // A part came from somewhere before.
                let folder = directory.appendingPathComponent("b/ditto_attachments").path
                do {
                    let part = try DownloadFile(BlobStore(folder: folder), BlobID(id), length: 70_000)
                    _ = try part.append([1, 2, 3])
                }
                let came = Collected<String>()
                try b.store.fetchAttachment(token: token) { came.add("\($0)") }
                try await Task.sleep(for: .seconds(1))
                #expect(came.all.isEmpty)
                try await a.store.execute(query: "DELETE FROM cars WHERE _id = '1'")
                #expect(await came.wait { !$0.isEmpty } == ["deleted"])
                #expect(try FileManager.default.contentsOfDirectory(atPath: folder + "/downloads").isEmpty)
                await a.close()
                await b.close()
            }
        }
    }

    @Test("without any source the fetcher is told within its patience, and not ended")
    func silent() async throws {
        try await withTemporaryDirectory { directory in
            let folder = AttachmentFolder(directory: directory.path)
            let transfers = AttachmentTransfers(
                folder, server: nil, authenticator: nil, logger: Logger(label: "test"),
                patience: .milliseconds(50), isConnected: { false })
            let id = try BlobID(String(repeating: "A", count: 43))
            let token = try #require(AttachmentToken(id: id.text, length: 5))
            let problems = Collected<DittoAttachmentFetchProblem>()
            let fetcher = DittoAttachmentFetcher(
                id, DittoAttachment(token, folder), transfers, DittoStore.defaultDeliveryQueue,
                { Issue.record("\($0)") }, { problems.add($0) })
            transfers.add(fetcher)
            let told = await problems.wait { $0.count > 1 }
            #expect(told.allSatisfy { $0.kind == .noSource })
            #expect(fetcher.problem?.kind == .noSource)
            await transfers.shutDownAndWait()
            #expect(transfers.fetchers.isEmpty)
        }
    }

    @Test("marks of uploads that a kill left unfinished are gone with the next opening, whole ones stay")
    func unfinishedMarks() throws {
        try withTemporaryDirectory { directory in
            let outgoing = directory.appendingPathComponent("ditto_attachments/outgoing").path
            let first = AttachmentFolder(directory: directory.path)
            let kept = try first.take(Data([1]), []).id
            #expect(try FileManager.default.contentsOfDirectory(atPath: outgoing) == [kept])
            for name in ["\(kept).new", ".dat.nosync4711.AbCdEf"] {
                try Data([2]).write(to: URL(fileURLWithPath: "\(outgoing)/\(name)"))
            }
            let second = AttachmentFolder(directory: directory.path)
            _ = try second.store()
            #expect(try FileManager.default.contentsOfDirectory(atPath: outgoing) == [kept])
            #expect(second.waiting.map(\.text) == [kept])
        }
    }

    @Test("a device keeps what its documents mention and what the application holds, and removes the rest")
    func collected() async throws {
        try await withTemporaryDirectory { directory in
            let ditto = try await Ditto.openAlone(config: .local(directory.appendingPathComponent("store")))
            let store = ditto.store
            let mentioned = try await store.newAttachment(data: Data([1])).id
            try await insert(try await store.newAttachment(data: Data([1])), ditto, id: "1")
            let held = try await store.newAttachment(data: Data([2]))
            let lost = try await store.newAttachment(data: Data([3])).id
            let folder = directory.appendingPathComponent("store/ditto_attachments")
            func isThere(_ id: String) -> Bool {
                FileManager.default.fileExists(atPath: folder.path + "/\(id.prefix(2))/\(id)")
            }
            let keeper = AttachmentKeeper(
                store.engine, try #require(store.transfers.current), logger: Logger(label: "test"))
            let now = Int64(Date().timeIntervalSince1970) + 1
            // What the server does not have yet stays too.
            await keeper.collect(nowSeconds: now, graceSeconds: 0)
            #expect(isThere(lost))
            try FileManager.default.removeItem(at: folder.appendingPathComponent("outgoing"))
            await keeper.collect(nowSeconds: now, graceSeconds: 1_000)
            #expect(isThere(lost))
            await keeper.collect(nowSeconds: now, graceSeconds: 0)
            #expect(!isThere(lost) && isThere(mentioned) && isThere(held.id))
            #expect(try held.data() == Data([2]))
            await ditto.close()
        }
    }
}
