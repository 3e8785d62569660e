import AsyncHTTPClient
import AttachmentStore
import Crypto
import Foundation
import Identity
import NIOCore
import NIOPosix
import Testing

@Suite("Resumable uploads by tus", .timeLimit(.minutes(5)))
struct ResumableUploadTests {
    private static let path = "/api/v5/attachments/uploads"
    private static let piece = "application/offset+octet-stream"
    private let bytes = (0..<300_000).map { UInt8(truncatingIfNeeded: $0 &* 11 &+ $0 / 256) }

    private func id(_ bytes: [UInt8]) -> String { Base64URL.encode(SHA256.hash(data: bytes)) }

    private func begin(
        _ client: StoreClient, _ headers: [String: String], _ body: [UInt8]? = nil
    ) async throws -> Answer {
        try await client.send(
            "POST", Self.path, headers.merging(["Tus-Resumable": "1.0.0"]) { given, _ in given },
            body.map { .bytes($0) })
    }

    private func append(
        _ client: StoreClient, _ place: String, _ offset: Int, _ bytes: [UInt8],
        _ headers: [String: String] = [:]
    ) async throws -> Answer {
        let usual = [
            "Tus-Resumable": "1.0.0", "Content-Type": Self.piece, "Upload-Offset": "\(offset)",
        ]
        return try await client.send(
            "PATCH", place, headers.merging(usual) { given, _ in given }, .bytes(bytes))
    }

    private func look(_ client: StoreClient, _ place: String) async throws -> Answer {
        try await client.send("HEAD", place, ["Tus-Resumable": "1.0.0"])
    }

    @Test("a file in pieces becomes an attachment, and its state is told at each step")
    func pieces() async throws {
        let fixture = try StoreFixture()
        try await fixture.serving { client async throws in
            let about = try await client.with(token: nil).send("OPTIONS", Self.path)
            #expect(about.status == 204 && about.headers["tus-version"] == "1.0.0")
            #expect(about.headers["tus-max-size"] == "5000000")
            let extensions = Set((about.headers["tus-extension"] ?? "").split(separator: ","))
            #expect(extensions.isSuperset(of: ["creation", "checksum", "expiration", "termination"]))
            let begun = try await begin(
                client, ["Upload-Length": "300000", "Upload-Metadata": "name YQ==,empty"])
            #expect(begun.status == 201 && begun.headers["tus-resumable"] == "1.0.0")
            let place = try #require(begun.headers["location"])
            #expect(begun.headers["upload-expires"]?.hasSuffix(" GMT") == true)
            for start in stride(from: 0, to: 300_000, by: 100_000) {
                let state = try await look(client, place)
                #expect(state.status == 200 && state.headers["upload-offset"] == "\(start)")
                #expect(state.headers["upload-length"] == "300000")
                #expect(state.headers["upload-metadata"] == "name YQ==,empty")
                #expect(state.headers["cache-control"] == "no-store")
                let answer = try await append(
                    client, place, start, Array(bytes[start..<start + 100_000]))
                #expect(answer.status == 204)
                #expect(answer.headers["upload-offset"] == "\(start + 100_000)")
            }
            #expect(try await client.get(id(bytes)).body == bytes)
            let end = try await look(client, place)
            #expect(end.headers["mimeo-attachment-id"] == id(bytes))
            #expect(end.headers["upload-offset"] == "300000")
            #expect(try await append(client, place, 300_000, [1]).code == "BLOB-0109")
        }
    }

    @Test("a first piece may come with the beginning, a length later, and nothing at all is a file too")
    func beginnings() async throws {
        try await StoreFixture().serving { client async throws in
            let whole = try await begin(
                client, ["Upload-Length": "3", "Content-Type": Self.piece], [1, 2, 3])
            #expect(whole.status == 201 && whole.headers["mimeo-attachment-id"] == id([1, 2, 3]))
            let empty = try await begin(client, ["Upload-Length": "0"])
            #expect(empty.headers["mimeo-attachment-id"] == id([]))
            #expect(try await client.get(id([])).body == [])
            let open = try await begin(client, ["Upload-Defer-Length": "1"])
            let place = try #require(open.headers["location"])
            #expect(try await append(client, place, 0, [4, 5]).headers["upload-offset"] == "2")
            #expect(try await look(client, place).headers["upload-defer-length"] == "1")
            let last = try await append(client, place, 2, [6], ["Upload-Length": "3"])
            #expect(last.headers["mimeo-attachment-id"] == id([4, 5, 6]))
            // By POST alone.
            let other = try await begin(client, ["Upload-Length": "1"])
            let posted = try await client.send(
                "POST", other.headers["location"] ?? "",
                [
                    "Tus-Resumable": "1.0.0", "X-HTTP-Method-Override": "PATCH", "Upload-Offset": "0",
                    "Content-Type": Self.piece,
                ], .bytes([9]))
            #expect(posted.status == 204 && posted.headers["mimeo-attachment-id"] == id([9]))
        }
    }

    @Test("lies about version, length, offset, type, checksum and id are refused, each with its code")
    func refused() async throws {
        try await StoreFixture().serving { client async throws in
            #expect(try await client.send("POST", Self.path, ["Upload-Length": "1"]).code == "ATT-0202")
            let beginnings: [([String: String], String)] = [
                ([:], "ATT-0201"), (["Upload-Length": "-1"], "ATT-0201"),
                (["Upload-Length": "1e3"], "ATT-0201"), (["Upload-Length": "5000001"], "BLOB-0103"),
                (["Upload-Length": "99999999999999999999"], "ATT-0201"),
                (["Upload-Length": "1", "Upload-Defer-Length": "1"], "ATT-0201"),
                (["Upload-Length": "1", "Upload-Metadata": "name !"], "ATT-0201"),
                (["Upload-Length": "1", "Upload-Metadata": "a YQ==,a YQ=="], "ATT-0201"),
                (["Upload-Length": "1", "Upload-Metadata": "id YQ=="], "BLOB-0101"),
            ]
            for (headers, code) in beginnings {
                #expect(try await begin(client, headers).code == code, "\(headers)")
            }
            let begun = try await begin(client, ["Upload-Length": "5"])
            let place = try #require(begun.headers["location"])
            let sha1 = "sha1 \(Data(Insecure.SHA1.hash(data: [7, 7])).base64EncodedString())"
            let pieces: [(Int, [UInt8], [String: String], Int, String)] = [
                (1, [1], [:], 409, "BLOB-0109"), (0, [1, 2, 3, 4, 5, 6], [:], 413, "BLOB-0103"),
                (0, [1], ["Content-Type": "text/plain"], 415, "ATT-0203"),
                (0, [1, 2], ["Upload-Checksum": sha1], 460, "ATT-0204"),
                (0, [1], ["Upload-Checksum": "md5 YQ=="], 400, "ATT-0201"),
                (0, [1], ["Upload-Length": "6"], 409, "BLOB-0109"),
            ]
            for (offset, bytes, headers, status, code) in pieces {
                let answer = try await append(client, place, offset, bytes, headers)
                #expect(answer.status == status && answer.code == code, "\(headers) \(bytes)")
                #expect(answer.headers["tus-resumable"] == "1.0.0")
                #expect(try await look(client, place).headers["upload-offset"] == "0")
            }
            #expect(
                try await append(client, place, 0, [7, 7], ["Upload-Checksum": sha1]).status == 204)
            // Streamed without a length: nothing of a piece that is too long counts.
            let stream = AsyncStream<ByteBuffer> { continuation in
                continuation.yield(ByteBuffer(bytes: [1, 2, 3, 4]))
                continuation.finish()
            }
            let long = try await client.send(
                "PATCH", place,
                ["Tus-Resumable": "1.0.0", "Content-Type": Self.piece, "Upload-Offset": "2"],
                .stream(stream, length: .unknown))
            #expect(long.status == 413)
            #expect(try await look(client, place).headers["upload-offset"] == "2")
            let announced = Data(id([1]).utf8).base64EncodedString()
            let lie = try await begin(
                client, ["Upload-Length": "1", "Upload-Metadata": "id \(announced)"])
            let answer = try await append(client, lie.headers["location"] ?? "", 0, [2])
            #expect(answer.status == 400 && answer.code == "BLOB-0104")
            #expect(try await look(client, lie.headers["location"] ?? "").status == 404)
        }
    }

    @Test("an upload is there for the credential that began it and for nobody else, until it is deleted")
    func owners() async throws {
        let fixture = try StoreFixture()
        let (eve, boats) = (fixture.token(user: "eve"), fixture.token(key: fixture.otherKey))
        let reader = fixture.token(.readOnly)
        try await fixture.serving { client async throws in
            let begun = try await begin(client, ["Upload-Length": "5"])
            let place = try #require(begun.headers["location"])
            for token in [eve, boats] {
                #expect(try await append(client.with(token: token), place, 0, [1]).code == "BLOB-0106")
            }
            #expect(try await append(client.with(token: reader), place, 0, [1]).code == "AUTH-0203")
            #expect(try await append(client.with(token: nil), place, 0, [1]).status == 401)
            for wrong in ["..%2f..%2flog.sqlite", "x", String(repeating: "0", count: 48)] {
                #expect(try await append(client, "\(Self.path)/\(wrong)", 0, [1]).code == "BLOB-0106")
            }
            let gone = try await client.send("DELETE", place, ["Tus-Resumable": "1.0.0"])
            #expect(gone.status == 204)
            #expect(try await look(client, place).status == 404)
        }
        #expect(fixture.files == [])
    }

    @Test("a connection that breaks costs nothing that arrived; a new one does not wait for the lost one")
    func broken() async throws {
        let fixture = try StoreFixture()
        let bytes = bytes
        let place = try await fixture.serving { client async throws -> String in
            let begun = try await begin(client, ["Upload-Length": "300000"])
            let place = try #require(begun.headers["location"])
            let channel = try await ClientBootstrap(group: MultiThreadedEventLoopGroup.singleton)
                .connect(host: client.address.host, port: client.address.port).get()
            let head = """
                PATCH \(place) HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer \(client.token ?? "")\r\n\
                Tus-Resumable: 1.0.0\r\nContent-Type: \(Self.piece)\r\nUpload-Offset: 0\r\n\
                Content-Length: 300000\r\n\r\n
                """
            try await channel.writeAndFlush(ByteBuffer(bytes: Array(head.utf8) + bytes[..<100_000]))
            // The server has written it, and still waits for the rest. A question would end the request.
            let limit = ContinuousClock.now + .seconds(30)
            while fixture.greatestFile < 100_000, ContinuousClock.now < limit {
                try await Task.sleep(for: .milliseconds(5))
            }
            let offset = Int(try await look(client, place).headers["upload-offset"] ?? "")
            #expect(offset == 100_000)
            try await channel.close()
            return place
        }
        // After a restart it goes on.
        try await StoreFixture(at: fixture).serving { client async throws in
            #expect(try await look(client, place).headers["upload-offset"] == "100000")
            let answer = try await append(client, place, 100_000, Array(bytes[100_000...]))
            #expect(answer.headers["mimeo-attachment-id"] == id(bytes))
            #expect(try await client.get(id(bytes)).body == bytes)
        }
    }
}
