import Attachments
import Foundation
import Hummingbird
import Identity
import NIOCore
import NIOPosix
import ServiceKit
import Synchronization
import Testing

@testable import AttachmentStore

@Suite("Broken uploads", .timeLimit(.minutes(5)))
struct BrokenUploadTests {
    private func folderPlace(_ fixture: StoreFixture) throws -> FolderPlace {
        let folder = "\(fixture.folder)/blobs"
        return FolderPlace(arrivals: try BlobStore(folder: folder), folder: folder)
    }

    @Test(
        "a connection that ends in the middle of an upload leaves nothing",
        arguments: [
            "Content-Length: 1000000\r\n\r\nhalf", "Transfer-Encoding: chunked\r\n\r\n4\r\nhalf\r\n",
        ])
    func broken(rest: String) async throws {
        let fixture = try StoreFixture()
        try await fixture.serving { client async throws in
            let head = "POST /api/v5/attachments/upload HTTP/1.1\r\nHost: x\r\n"
            let channel = try await ClientBootstrap(group: MultiThreadedEventLoopGroup.singleton)
                .connect(host: client.address.host, port: client.address.port).get()
            let text = "\(head)Authorization: Bearer \(client.token ?? "")\r\n\(rest)"
            try await channel.writeAndFlush(ByteBuffer(string: text))
            while fixture.files.isEmpty { try await Task.sleep(for: .milliseconds(2)) }
            try await channel.close()
            while !fixture.files.isEmpty { try await Task.sleep(for: .milliseconds(2)) }
            #expect(try await client.upload(.bytes([1])).status == 200)
        }
        #expect(fixture.files.count == 1)
    }

    @Test("a body that ends before its announced length is a 400 and leaves nothing")
    func incomplete() async throws {
        let fixture = try StoreFixture()
        let route = UploadRoute(
            place: try folderPlace(fixture), maximumBytes: 1000, standing: {})
        let head = HTTPRequest(
            method: .post, scheme: nil, authority: nil, path: "/", headerFields: [.contentLength: "10"])
        let request = Request(head: head, body: RequestBody(buffer: ByteBuffer(string: "five!")))
        let error = await #expect(throws: AttachmentStoreError.self) { try await route.respond(to: request) }
        #expect(error?.code == .uploadIncomplete)
        // The file goes with its writer, which the disk's thread may hold a moment longer than this one.
        while !fixture.files.isEmpty { try await Task.sleep(for: .milliseconds(2)) }
    }

    @Test("an upload of somebody who is revoked meanwhile ends, and leaves nothing")
    func revoked() async throws {
        let fixture = try StoreFixture()
        let route = UploadRoute(
            place: try folderPlace(fixture), maximumBytes: 1000,
            standing: { if !fixture.files.isEmpty { throw IdentityError.revoked } })
        let head = HTTPRequest(method: .post, scheme: nil, authority: nil, path: "/")
        let request = Request(head: head, body: RequestBody(buffer: ByteBuffer(string: "bytes")))
        let error = await #expect(throws: IdentityError.self) { try await route.respond(to: request) }
        #expect(error?.code == .revoked)
        while !fixture.files.isEmpty { try await Task.sleep(for: .milliseconds(2)) }
    }

    private func bytes(of response: Response) async throws -> [UInt8] {
        let all = Mutex<[UInt8]>([])
        let sink = Kept { buffer in all.withLock { $0 += Array(buffer.readableBytesView) } }
        try await response.body.write(sink)
        return all.withLock { $0 }
    }

    @Test("a download of somebody who is revoked meanwhile ends after the chunk that is on its way")
    func revokedDownload() async throws {
        let fixture = try StoreFixture()
        let place = try folderPlace(fixture)
        let upload = UploadRoute(place: place, maximumBytes: 10_000_000, standing: {})
        let head = HTTPRequest(method: .post, scheme: nil, authority: nil, path: "/")
        let blob = ByteBuffer(repeating: 7, count: 3 * Attachments.Limits.readChunkBytes)
        let stored = try await upload.respond(to: Request(head: head, body: RequestBody(buffer: blob)))
        #expect(stored.status == .ok)
        let answered = try JSONDecoder().decode(Answer.Stored.self, from: Data(try await bytes(of: stored)))
        let id = try BlobID(answered.id)
        let taken = Mutex(0)
        let route = DownloadRoute(
            place: place, standing: { if taken.withLock({ $0 }) > 0 { throw IdentityError.revoked } })
        let answer = try await route.respond(
            to: Request(head: head, body: RequestBody(buffer: ByteBuffer())), id: id)
        let error = await #expect(throws: IdentityError.self) {
            try await answer.body.write(Kept { buffer in taken.withLock { $0 += buffer.readableBytes } })
        }
        #expect(error?.code == .revoked)
        #expect(taken.withLock { $0 } == Attachments.Limits.readChunkBytes)
    }
}

/// Takes the bytes of an answer.
private struct Kept: ResponseBodyWriter {
    let take: (ByteBuffer) -> Void

    func write(_ buffer: ByteBuffer) async throws { take(buffer) }
    func finish(_ trailingHeaders: HTTPFields?) async throws {}
}
