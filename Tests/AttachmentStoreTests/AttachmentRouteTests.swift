import AsyncHTTPClient
import AttachmentStore
import Attachments
import Crypto
import Foundation
import Identity
import NIOCore
import Testing

@Suite("Attachments over HTTP")
struct AttachmentRouteTests {
    private static let file = #"Content-Disposition: form-data; name="x"; filename="a.bin""#
    private static let formType = "multipart/form-data; boundary=b"

    private func id(_ bytes: [UInt8]) -> String { Base64URL.encode(SHA256.hash(data: bytes)) }

    @Test("bytes go up, raw or in a form, and come down again", arguments: [0, 1, 3, 1_000_000, 4_999_999])
    func roundTrip(size: Int) async throws {
        let bytes = (0..<size).map { UInt8(truncatingIfNeeded: $0 &* 7 &+ $0 / 251) }
        let expected = Answer.Stored(id: id(bytes), len: Int64(size))
        try await StoreFixture().serving { client async throws in
            #expect(try await client.upload(.bytes(bytes)).stored == expected)
            let parts = form((#"Content-Disposition: form-data; name="note""#, [1, 2]), (Self.file, bytes))
            #expect(
                try await client.upload(.bytes(parts), type: Self.formType, version: "v4").stored == expected)
            let answer = try await client.get(expected.id)
            #expect(answer.status == 200)
            #expect(answer.body == bytes)
            #expect(answer.headers["etag"] == "\"\(expected.id)\"")
            #expect(answer.headers["accept-ranges"] == "bytes")
        }
    }

    @Test("one range of an attachment is a 206, one outside a 416, several or nonsense the whole")
    func ranges() async throws {
        let bytes = (0..<600_000).map { UInt8(truncatingIfNeeded: $0 / 3) }
        let id = id(bytes)
        try await StoreFixture().serving { client async throws in
            _ = try await client.upload(.bytes(bytes))
            let cases: [(String, Range<Int>)] = [
                ("bytes=0-0", 0..<1), ("bytes=10-19", 10..<20), ("bytes=300000-", 300_000..<600_000),
                ("bytes=-5", 599_995..<600_000), ("bytes=-9999999", 0..<600_000),
                ("bytes=599999-9999999", 599_999..<600_000), ("BYTES=1-2", 1..<3),
            ]
            for (range, expected) in cases {
                let answer = try await client.get(id, ["Range": range])
                #expect(answer.status == 206, "\(range)")
                #expect(answer.body == Array(bytes[expected]), "\(range)")
                let described = "bytes \(expected.lowerBound)-\(expected.upperBound - 1)/600000"
                #expect(answer.headers["content-range"] == described)
            }
            for range in ["bytes=600000-", "bytes=700000-800000", "bytes=-0"] {
                let answer = try await client.get(id, ["Range": range])
                #expect(answer.status == 416, "\(range)")
                #expect(answer.code == "ATT-0104")
                #expect(answer.headers["content-range"] == "bytes */600000")
            }
            for range in ["bytes=0-1,5-6", "bytes=5-2", "bytes=", "bytes=-", "lines=0-1", "bytes=a-b"] {
                #expect(try await client.get(id, ["Range": range]).status == 200, "\(range)")
            }
        }
    }

    @Test("an attachment that is known already is not sent again, and a range of another version not either")
    func conditions() async throws {
        try await StoreFixture().serving { client async throws in
            let id = try await client.upload(.bytes([1, 2, 3])).stored?.id ?? ""
            #expect(try await client.get(id, ["If-None-Match": "\"\(id)\""]).status == 304)
            #expect(try await client.get(id, ["If-None-Match": "\"other\""]).status == 200)
            #expect(try await client.get(id, ["Range": "bytes=1-", "If-Range": "\"\(id)\""]).body == [2, 3])
            #expect(
                try await client.get(id, ["Range": "bytes=1-", "If-Range": "\"other\""]).body == [1, 2, 3])
            let head = try await client.get(id, method: "HEAD")
            #expect(head.status == 200)
            #expect(head.headers["content-length"] == "3")
            #expect(head.body == [])
        }
    }

    @Test("without a token nothing goes up or down, and a grant is needed for each way")
    func rights() async throws {
        let fixture = try StoreFixture()
        let readOnly = fixture.token(.readOnly)
        let writeOnly = fixture.token(Grant(write: .everything))
        try await fixture.serving { client async throws in
            let id = try await client.upload(.bytes([7])).stored?.id ?? ""
            #expect(try await client.with(token: nil).upload(.bytes([8])).code == "AUTH-0109")
            #expect(try await client.with(token: nil).get(id).status == 401)
            let refusedUpload = try await client.with(token: readOnly).upload(.bytes([8]))
            #expect(refusedUpload.status == 403)
            #expect(refusedUpload.code == "AUTH-0203")
            #expect(try await client.with(token: readOnly).get(id).status == 200)
            #expect(try await client.with(token: writeOnly).get(id).code == "AUTH-0203")
            #expect(try await client.with(token: writeOnly).upload(.bytes([7])).status == 200)
        }
        #expect(fixture.files.count == 1)
    }

    @Test("an id learned in one database opens nothing in another")
    func isolation() async throws {
        let fixture = try StoreFixture()
        let other = fixture.token(key: fixture.otherKey)
        try await fixture.serving { client async throws in
            let id = try await client.upload(.bytes([7])).stored?.id ?? ""
            let answer = try await client.with(token: other).get(id)
            #expect(answer.status == 404)
            #expect(answer.code == "BLOB-0102")
        }
    }

    @Test("an id that is none is a 400, an unknown one a 404")
    func ids() async throws {
        try await StoreFixture().serving { client async throws in
            for id in ["short", "..%2f..%2fauth", String(repeating: "A", count: 44)] {
                #expect(try await client.get(id).code == "BLOB-0101", "\(id)")
            }
            #expect(try await client.get(String(repeating: "A", count: 43)).status == 404)
        }
    }

    @Test(
        "an attachment over the limit is a 413, announced or streamed, raw or in a form, and leaves nothing")
    func tooLarge() async throws {
        let fixture = try StoreFixture(maximumBytes: 1000)
        try await fixture.serving { client async throws in
            let bytes = [UInt8](repeating: 1, count: 1001)
            let stream = AsyncStream<ByteBuffer> { continuation in
                continuation.yield(ByteBuffer(bytes: bytes))
                continuation.finish()
            }
            #expect(try await client.upload(.bytes(bytes)).code == "BLOB-0103")
            let streamed = try await client.upload(.stream(stream, length: .unknown))
            #expect(streamed.status == 413)
            #expect(
                try await client.upload(.bytes(form((Self.file, bytes))), type: Self.formType).status == 413)
            #expect(
                try await client.upload(
                    .bytes(form((Self.file, Array(bytes.dropLast())))), type: Self.formType
                ).status == 200)
        }
        #expect(fixture.files.count == 1)
    }

    @Test("a form that breaks off, has no file or two, or no boundary is a 400 and leaves nothing")
    func malformedForms() async throws {
        let fixture = try StoreFixture()
        let whole = form((Self.file, [UInt8](repeating: 3, count: 100_000)))
        let two = form((Self.file, [1]), (Self.file, [2]))
        let cases: [([UInt8], String, String)] = [
            (Array(whole.dropLast(10)), Self.formType, "ATT-0101"),
            (whole, "multipart/form-data", "ATT-0101"),
            (whole, "multipart/form-data; boundary=\(String(repeating: "x", count: 71))", "ATT-0101"),
            (whole, "multipart/form-data; boundary=c", "ATT-0101"),
            (form((#"Content-Disposition: form-data; name="note""#, [1])), Self.formType, "ATT-0102"),
            (two, Self.formType, "ATT-0102"),
            ([], Self.formType, "ATT-0101"),
            (
                form((#"Content-Disposition: form-data; name="n""#, [UInt8](repeating: 1, count: 70_000))),
                Self.formType, "ATT-0101"
            ),
            (Array("--b\r\n\(String(repeating: "h", count: 9000))".utf8), Self.formType, "ATT-0101"),
        ]
        try await fixture.serving { client async throws in
            for (body, type, code) in cases {
                let answer = try await client.upload(.bytes(body), type: type)
                #expect(answer.status == 400)
                #expect(answer.code == code, "\(type) \(body.count)")
            }
        }
        #expect(fixture.files == [])
    }

    @Test("the store says how it is")
    func health() async throws {
        #expect(try await StoreFixture().part.health() == .ok)
    }
}
