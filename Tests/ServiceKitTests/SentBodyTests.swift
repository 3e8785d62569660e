import CRDT
import DQL
import HTTPTypes
import Hummingbird
import NIOCore
import Testing

@testable import ServiceKit

@Suite("The body of a request, from the wire to its statement")
struct SentBodyTests {
    private let pool = EvaluationPool()

    private func request(_ body: [UInt8], _ encoding: String?) -> Request {
        var headers: HTTPFields = [.contentLength: "\(body.count)"]
        headers[.contentEncoding] = encoding
        return Request(
            head: HTTPRequest(
                method: .post, scheme: nil, authority: nil, path: "/", headerFields: headers),
            body: RequestBody(buffer: ByteBuffer(bytes: body)))
    }

    private func sent(_ body: [UInt8], _ encoding: String? = "gzip", limit: Int = 1 << 20) async throws
        -> SentBody
    {
        try await request(body, encoding).received(limitBytes: limit, for: Account("ada", in: "cars"))
    }

    @Test("a packed one is unpacked in a turn of its statement, which charges its credential")
    func unpacked() async throws {
        let text = String(repeating: "0", count: 500_000)
        let evaluation = try pool.statement("", of: "ada", in: "cars")
        defer { pool.finish(evaluation) }
        let body = try await sent(GzipTests.packed(text)).unpacked(in: evaluation)
        #expect(String(buffer: body.bytes) == text)
        #expect(evaluation.computed > .zero)
        let plain = try pool.statement("", of: "ada", in: "cars")
        defer { pool.finish(plain) }
        #expect(try await sent(Array(text.utf8), nil).unpacked(in: plain).bytes == body.bytes)
        #expect(plain.computed == .zero)
    }

    @Test("it ends with its statement, and at the limit of its route")
    func ends() async throws {
        let packed = GzipTests.packed(String(repeating: "0", count: 500_000))
        let gone = try pool.statement("", of: "ada", in: "cars")
        defer { pool.finish(gone) }
        gone.end(.abandoned)
        let ended = await #expect(throws: DQLError.self) {
            try await sent(packed).unpacked(in: gone)
        }
        #expect(ended?.code == .cancelled)
        let evaluation = try pool.statement("", of: "ada", in: "cars")
        defer { pool.finish(evaluation) }
        let large = await #expect(throws: ServiceError.self) {
            try await sent(packed, limit: 499_999).unpacked(in: evaluation)
        }
        #expect(large?.code == .bodyTooLarge)
        let unread = await #expect(throws: ServiceError.self) {
            _ = try await sent(packed, limit: packed.count - 1)
        }
        #expect(unread?.code == .bodyTooLarge)
    }

    @Test("a file's is unpacked as it is read, and has no length before")
    func streamed() async throws {
        let text = (0..<50_000).map { "row \($0)\n" }.joined()
        let request = try request(GzipTests.packed(text), "identity, gzip").unpacked()
        #expect(request.headers[.contentLength] == nil && request.headers[.contentEncoding] == nil)
        var (read, pieces) = (ByteBuffer(), 0)
        for try await piece in request.body {
            read.writeImmutableBuffer(piece)
            pieces += 1
        }
        #expect(String(buffer: read) == text)
        #expect(pieces >= text.utf8.count / Limits.gzipStepBytes)
        #expect(throws: ServiceError.self) { try self.request([], "br").unpacked() }
    }
}
