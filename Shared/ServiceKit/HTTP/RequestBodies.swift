import Hummingbird
import Machine
import NIOCore

extension Request {
    /// The same request, whose body is asked for when a client waits for leave to send it (`Expect:
    /// 100-continue`).
    ///
    /// A packed body stays packed: whoever reads it unpacks it (`wholeBody`, `received`, `unpacked`), once it
    /// is known who pays for that.
    func prepared(_ context: ServiceContext) -> Request {
        guard head.headerFields[.expect] != nil else { return self }
        let awaited = AwaitedBody(body: body, want: { context.wantBody() })
        return Request(head: head, body: RequestBody(asyncSequence: awaited))
    }

    /// True for a body in gzip, false for a plain one.
    /// - Throws: `SRV-0415` for another encoding.
    var isPacked: Bool {
        get throws {
            let encodings = (headers[.contentEncoding] ?? "").split(separator: ",")
                .map { $0.filter { $0 != " " && $0 != "\t" }.lowercased() }.filter { $0 != "identity" }
            guard let first = encodings.first else { return false }
            guard encodings.count == 1, ["gzip", "x-gzip"].contains(first) else {
                throw ServiceError(.encodingUnknown, "a body may have Content-Encoding: gzip, and no other")
            }
            return true
        }
    }

    /// The same request with its body unpacked, piece by piece as it is read: for bodies of a file's size, of
    /// a client that has logged in.
    /// - Throws: `SRV-0415`.
    public func unpacked() throws -> Request {
        guard try isPacked else { return self }
        var head = head
        // The length is the packed one, which says nothing about the body that a route sees.
        head.headerFields[.contentEncoding] = nil
        head.headerFields[.contentLength] = nil
        return Request(head: head, body: RequestBody(asyncSequence: UnpackedBody(packed: body)))
    }
}

extension Inflater {
    /// Unpacks a whole body in steps.
    /// - Parameter step: called before each of them with the bytes that there will be.
    /// - Throws: `SRV-0400`; `SRV-0413` beyond the limit; the errors of `step`.
    static func unpack(
        _ packed: ByteBuffer, limitBytes: Int, _ step: (_ bytes: Int) throws -> Void = { _ in }
    ) throws -> ByteBuffer {
        let inflater = Inflater()
        var (rest, plain) = (packed, ByteBuffer())
        do {
            // A member may be empty, so many bytes of input may have no output: they are steps too.
            while let piece = rest.readSlice(length: min(rest.readableBytes, Limits.gzipStepBytes)),
                piece.readableBytes > 0
            {
                try step(plain.readableBytes)
                inflater.feed(piece)
                while let more = try inflater.next() {
                    let bytes = plain.readableBytes + more.readableBytes
                    guard bytes <= limitBytes else { throw ServiceError.bodyTooLarge(limitBytes) }
                    try step(bytes)
                    plain.writeImmutableBuffer(more)
                }
            }
            try inflater.finish()
        } catch is Malformed {
            throw ServiceError.noGzip
        }
        return plain
    }
}

extension ServiceError {
    /// A body beyond a route's limit, as sent or unpacked.
    static func bodyTooLarge(_ limitBytes: Int) -> ServiceError {
        ServiceError(.bodyTooLarge, "the body is larger than \(limitBytes) bytes")
    }

    fileprivate static var noGzip: ServiceError {
        ServiceError(.badRequest, "the body is not valid gzip, although Content-Encoding says so")
    }
}

/// Says so when its first bytes are wanted.
private struct AwaitedBody: AsyncSequence, Sendable {
    typealias Element = ByteBuffer
    let body: RequestBody
    let want: @Sendable () -> Void

    struct AsyncIterator: AsyncIteratorProtocol {
        var rest: RequestBody.AsyncIterator
        var want: (@Sendable () -> Void)?

        mutating func next() async throws -> ByteBuffer? {
            want?()
            want = nil
            return try await rest.next()
        }
    }

    func makeAsyncIterator() -> AsyncIterator { AsyncIterator(rest: body.makeAsyncIterator(), want: want) }
}

/// A gzip body, unpacked as it is read: never more in memory than one piece of it and one step. The steps of
/// all such bodies take turns on one thread, which serves nobody else. One that unpacks to many times its
/// bytes was made to cost processor and disk: it is refused beyond a part that anybody may have.
private struct UnpackedBody: AsyncSequence, Sendable {
    typealias Element = ByteBuffer
    private static let unpacker = BlockingExecutor(label: "gunzip", isSerial: true)

    let packed: RequestBody

    struct AsyncIterator: AsyncIteratorProtocol {
        var rest: RequestBody.AsyncIterator
        let inflater = Inflater()
        var packedBytes = 0
        var plainBytes = 0

        mutating func next() async throws -> ByteBuffer? {
            guard let piece = try await unpacked() else { return nil }
            plainBytes += piece.readableBytes
            guard plainBytes <= Swift.max(Limits.unpackedBytes, Limits.unpackedRatio * packedBytes) else {
                throw ServiceError(
                    .bodyTooLarge,
                    "the body unpacks to more than \(Limits.unpackedRatio) times its bytes; send it as it is")
            }
            return piece
        }

        private mutating func unpacked() async throws -> ByteBuffer? {
            let inflater = inflater
            do {
                while true {
                    if let piece = try await unpacker.run({ try inflater.next() }) { return piece }
                    guard let more = try await rest.next() else {
                        try inflater.finish()
                        return nil
                    }
                    packedBytes += more.readableBytes
                    inflater.feed(more)
                }
            } catch is Inflater.Malformed {
                throw ServiceError.noGzip
            }
        }
    }

    func makeAsyncIterator() -> AsyncIterator { AsyncIterator(rest: packed.makeAsyncIterator()) }
}
