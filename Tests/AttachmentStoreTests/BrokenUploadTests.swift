import Attachments
import Foundation
import Hummingbird
import Identity
import NIOCore
import NIOPosix
import ServiceKit
import Testing

@testable import AttachmentStore

@Suite("Broken uploads", .timeLimit(.minutes(5)))
struct BrokenUploadTests {
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
        let route = UploadRoute(store: try BlobStore(folder: "\(fixture.folder)/blobs"), maximumBytes: 1000)
        let head = HTTPRequest(
            method: .post, scheme: nil, authority: nil, path: "/", headerFields: [.contentLength: "10"])
        let request = Request(head: head, body: RequestBody(buffer: ByteBuffer(string: "five!")))
        let error = await #expect(throws: AttachmentStoreError.self) { try await route.respond(to: request) }
        #expect(error?.code == .uploadIncomplete)
        // The file goes with its writer, which the disk's thread may hold a moment longer than this one.
        while !fixture.files.isEmpty { try await Task.sleep(for: .milliseconds(2)) }
    }
}
