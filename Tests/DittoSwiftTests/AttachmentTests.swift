import Attachments
import Foundation
import Mimeo
import Synchronization
import TestSupport
import Testing

@testable import DittoSwift

@Suite("Attachments", .timeLimit(.minutes(5)))
struct AttachmentTests {
    /// A file of so many bytes, no two places of which look alike.
    private func file(_ directory: URL, _ count: Int, seed: UInt64 = 1) throws -> (url: URL, data: Data) {
        var dice = SplitMix64(seed: seed)
        let words = (0..<(count / 8 + 1)).map { _ in dice.next() }
        let data = words.withUnsafeBytes { Data($0.prefix(count)) }
        let url = directory.appendingPathComponent("file-\(seed)-\(count)")
        try data.write(to: url)
        return (url, data)
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

    /// The kind of an error about attachments, and our code.
    private func failure(_ body: () async throws -> Void) async -> [String] {
        do {
            try await body()
            return []
        } catch {
            let code = error.localizedDescription.prefix { $0 != ":" }
            if case DittoSwiftError.ioError(let reason) = error {
                return [Mirror(reflecting: reason).children.first?.label ?? "", String(code)]
            }
            return [storeReason(error) ?? "\(error)", String(code)]
        }
    }

    @Test("a file becomes an attachment, its token stands in a document, and it is fetched where it is")
    func local() async throws {
        try await withTemporaryDirectory { directory in
            let (url, data) = try file(directory, 600_000)
            let ditto = try await Ditto.openAlone(config: .local(directory.appendingPathComponent("store")))
            let made = try await ditto.store.newAttachment(path: url.path, metadata: ["name": "x.bin"])
            #expect(made.len == 600_000 && made.metadata == ["name": "x.bin"])
            #expect(try made.data() == data && made.getData() == data)
            // A copy: the file may go.
            try FileManager.default.removeItem(at: url)
            try await ditto.store.execute(
                query: "INSERT INTO cars DOCUMENTS (:car)",
                arguments: ["car": ["_id": 1, "photo": made] as [String: Any?]])
            let car = try await ditto.store.execute(query: "SELECT * FROM cars").items.first?.value
            let token = try #require(car?["photo"] as? [String: Any?])
            #expect(token["id"] as? String == made.id && token["len"] as? Int == 600_000)
            // It is an ATTACHMENT, not an object that looks like one.
            let kept = try await ditto.store.execute(
                query: "SELECT * FROM COLLECTION cars (photo ATTACHMENT) WHERE photo IS NOT MISSING")
            #expect(kept.items.count == 1)
            let events = Collected<DittoAttachmentFetchEvent>()
            let fetcher = try ditto.store.fetchAttachment(token: token) { events.add($0) }
            let all = await events.wait { !$0.isEmpty }
            guard case .completed(let fetched)? = all.first else {
                Issue.record("\(all)")
                return
            }
            #expect(fetched == made && fetched.hashValue == made.hashValue)
            #expect(await eventually { ditto.store.attachmentFetchers.isEmpty })
            fetcher.stop()
            let copy = directory.appendingPathComponent("copy").path
            try fetched.copy(toPath: copy)
            #expect(FileManager.default.contents(atPath: copy) == data)
            #expect(await failure { try fetched.copy(toPath: copy) } == ["alreadyExists", "SDK-0705"])
            let nowhere = directory.appendingPathComponent("none/copy").path
            #expect(await failure { try fetched.copy(toPath: nowhere) } == ["notFound", "SDK-0708"])
            // The kernel lets nobody create a file there, not even root.
            let forbidden = "/sys/copy"
            #expect(
                await failure { try fetched.copy(toPath: forbidden) } == ["permissionDenied", "SDK-0709"])
            #expect(await failure { try fetched.copy(toPath: "/dev/full/x") } == ["notFound", "SDK-0708"])
            await ditto.close()
        }
    }

    @Test("what is no file and what is no token is refused by the case an application catches")
    func refused() async throws {
        try await withTemporaryDirectory { directory in
            let ditto = try await Ditto.openAlone(config: .local(directory.appendingPathComponent("store")))
            let store = ditto.store
            let none = directory.appendingPathComponent("none").path
            #expect(
                await failure { _ = try await store.newAttachment(path: none) }
                    == ["attachmentFileNotFound", "SDK-0701"])
            #expect(
                await failure { _ = try await store.newAttachment(path: directory.path) }
                    == ["failedToCreateAttachment", "SDK-0703"])
            // Pipes and devices, whose bytes may never come or never end.
            let pipe = directory.appendingPathComponent("pipe").path
            #expect(mkfifo(pipe, 0o600) == 0)
            for path in [pipe, "/dev/zero"] {
                #expect(
                    await failure { _ = try await store.newAttachment(path: path) }
                        == ["failedToCreateAttachment", "SDK-0703"])
            }
            // Root may read everything, so the kernel's answer stands here itself.
            let forbidden = Failure(SourceFile.failure(EACCES, "/x")).publicError
            #expect(
                await failure { throw forbidden } == ["attachmentFilePermissionDenied", "SDK-0702"])
            let tokens: [[String: Any?]] = [[:], ["id": 1, "len": 2], ["id": "x"], ["a": Date()]]
            for token in tokens {
                #expect(
                    await failure { try store.fetchAttachment(token: token) { _ in } }.first?.hasSuffix(
                        "Invalid")
                        == true, "\(token)")
            }
            #expect(
                await failure { try store.fetchAttachment(token: ["id": "../x", "len": 2]) { _ in } }
                    == ["attachmentTokenInvalid", "BLOB-0101"])
            #expect(store.attachmentFetchers.isEmpty)
            // Of an attachment that is here no more.
            let (url, _) = try file(directory, 10)
            let made = try await store.newAttachment(path: url.path)
            try FileManager.default.removeItem(
                at: directory.appendingPathComponent("store/ditto_attachments/\(made.id.prefix(2))"))
            #expect(await failure { _ = try made.data() } == ["attachmentNotFound", "BLOB-0102"])
            // One whose bytes the disk has turned, and one that the disk does not give.
            let turned = try await store.newAttachment(data: Data([1, 2]))
            let folder = directory.appendingPathComponent("store/ditto_attachments")
            func place(_ made: DittoAttachment) -> URL {
                folder.appendingPathComponent("\(made.id.prefix(2))/\(made.id)")
            }
            try Data([2, 1]).write(to: place(turned))
            #expect(await failure { _ = try turned.data() } == ["failedToFetchAttachment", "BLOB-0202"])
            let unreadable = try await store.newAttachment(data: Data([3]))
            try FileManager.default.removeItem(at: place(unreadable))
            try FileManager.default.createDirectory(
                at: place(unreadable), withIntermediateDirectories: false)
            let copy = directory.appendingPathComponent("copy").path
            #expect(
                await failure { try unreadable.copy(toPath: copy) } == [
                    "failedToFetchAttachment", "BLOB-0201",
                ])
            #expect(!FileManager.default.fileExists(atPath: copy))
            await ditto.close()
            #expect(
                await failure { _ = try await store.newAttachment(path: url.path) }
                    == ["backendError", "SDK-0402"])
        }
    }

    @Test("a file that changes while it is copied is refused, and leaves nothing", arguments: [true, false])
    func changing(grows: Bool) async throws {
        try await withTemporaryDirectory { directory in
            let ditto = try await Ditto.openAlone(config: .local(directory.appendingPathComponent("store")))
            let (url, data) = try file(directory, 12_000_000)
            let isOver = Atomic(false)
            let writer = Thread {
                let handle = try? FileHandle(forUpdating: url)
                while !isOver.load(ordering: .relaxed) {
                    if grows { _ = try? handle?.seekToEnd() } else { try? handle?.seek(toOffset: 0) }
                    try? handle?.write(contentsOf: Data([UInt8.random(in: 0...255)]))
                    usleep(500)
                }
            }
            writer.start()
            let found = await failure { _ = try await ditto.store.newAttachment(path: url.path) }
            isOver.store(true, ordering: .relaxed)
            while !writer.isFinished { try await Task.sleep(for: .milliseconds(1)) }
            #expect(found == ["failedToCreateAttachment", "SDK-0707"])
            let folder = directory.appendingPathComponent("store/ditto_attachments")
            let left = try FileManager.default.subpathsOfDirectory(atPath: folder.path)
            #expect(left == ["incoming"])
            // When nobody writes any more, it is taken as it is.
            let made = try await ditto.store.newAttachment(path: url.path)
            #expect(try made.data() == Data(contentsOf: url) && made.len >= data.count)
            await ditto.close()
        }
    }

    @Test(
        "an attachment that was made offline reaches another peer over the server, whole, with its progress")
    func overTheServer() async throws {
        try await withTemporaryDirectory { directory in
            let (url, data) = try file(directory, 3_000_000)
            try await EmbeddedServer.run(data: directory.appendingPathComponent("server").path) { server in
                // Made, and the application ended, before there was a connection.
                let first = try await open(server, directory, "a")
                let made = try await first.store.newAttachment(path: url.path, metadata: ["name": "x"])
                try await first.store.execute(
                    query: "INSERT INTO cars DOCUMENTS (:car)",
                    arguments: ["car": ["_id": 1, "photo": made] as [String: Any?]])
                await first.close()
                let b = try await open(server, directory, "b")
                try b.sync.registerSubscription(query: "SELECT * FROM cars")
                try b.sync.start()
                let a = try await open(server, directory, "a")
                try a.sync.start()
                let outgoing = directory.appendingPathComponent("a/ditto_attachments/outgoing").path
                #expect(
                    try await eventually {
                        try await b.store.execute(query: "SELECT * FROM cars").items.count == 1
                    })
                let car = try await b.store.execute(query: "SELECT * FROM cars").items.first?.value
                let token = try #require(car?["photo"] as? [String: Any?])
                let progress = Collected<[UInt64]>()
                let came = Collected<DittoAttachment>()
                try b.store.fetchAttachment(token: token) { event in
                    switch event {
                    case .progress(let bytes, let total): progress.add([bytes, total])
                    case .completed(let attachment): came.add(attachment)
                    case .deleted: Issue.record("deleted")
                    }
                }
                let attachment = try #require(await came.wait { !$0.isEmpty }.first)
                #expect(try attachment.data() == data)
                #expect(attachment.metadata == ["name": "x"] && attachment.id == made.id)
                #expect(progress.all.last == [3_000_000, 3_000_000])
                #expect(progress.all.allSatisfy { $0[1] == 3_000_000 })
                #expect(progress.all.map { $0[0] } == progress.all.map { $0[0] }.sorted())
                #expect(
                    await eventually {
                        (try? FileManager.default.contentsOfDirectory(atPath: outgoing))?.isEmpty ?? false
                    })
                // What was fetched is here, and nobody sends it back.
                #expect(b.store.attachmentFetchers.isEmpty)
                #expect(
                    !FileManager.default.fileExists(
                        atPath: directory.appendingPathComponent("b/ditto_attachments/outgoing").path))
                await a.close()
                await b.close()
            }
        }
    }

    @Test("an attachment that cannot be sent holds up no other")
    func unsendable() async throws {
        try await withTemporaryDirectory { directory in
            try await EmbeddedServer.run(data: directory.appendingPathComponent("server").path) { server in
                let ditto = try await open(server, directory, "a")
                var made: [DittoAttachment] = []
                for seed in 1...3 as ClosedRange<UInt64> {
                    let (url, _) = try file(directory, 1_000, seed: seed)
                    made.append(try await ditto.store.newAttachment(path: url.path))
                }
                let folder = directory.appendingPathComponent("a/ditto_attachments")
                let first = try #require(made.map(\.id).min())
                try FileManager.default.removeItem(at: folder.appendingPathComponent("\(first.prefix(2))"))
                try ditto.sync.start()
                let outgoing = folder.appendingPathComponent("outgoing").path
                #expect(
                    await eventually {
                        (try? FileManager.default.contentsOfDirectory(atPath: outgoing))?.isEmpty ?? false
                    })
                await ditto.close()
            }
        }
    }

    @Test("a fetcher waits for what nobody has yet; stopped, it is told nothing more")
    func waiting() async throws {
        try await withTemporaryDirectory { directory in
            let (url, data) = try file(directory, 100_000)
            try await EmbeddedServer.run(data: directory.appendingPathComponent("server").path) { server in
                let (a, b) = (
                    try await open(server, directory, "a"), try await open(server, directory, "b")
                )
                for ditto in [a, b] { try ditto.sync.start() }
                let probe = try await Ditto.openAlone(
                    config: .local(directory.appendingPathComponent("probe")))
                let known = try await probe.store.newAttachment(path: url.path)
                await probe.close()
                let token: [String: Any?] = ["id": known.id, "len": known.len, "metadata": [String: Any?]()]
                let (kept, stopped) = (Collected<String>(), Collected<String>())
                try b.store.fetchAttachment(token: token) { kept.add("\($0)") }
                let fetcher = try b.store.fetchAttachment(token: token) { stopped.add("\($0)") }
                #expect(b.store.attachmentFetchers.count == 2)
                fetcher.stop()
                #expect(b.store.attachmentFetchers.count == 1)
                _ = try await a.store.newAttachment(path: url.path)
                #expect(await kept.wait { $0.last?.hasPrefix("completed") ?? false }.count >= 1)
                let last = try await b.store.newAttachment(path: url.path)
                #expect(try last.data() == data)
                #expect(stopped.all.isEmpty)
                await a.close()
                await b.close()
            }
        }
    }
}
