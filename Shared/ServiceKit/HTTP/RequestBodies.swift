import Hummingbird
import NIOCore

extension Request {
    /// The same request with its body as a route should read it: unpacked, and asked for when a client waits
    /// for leave to send it (`Expect: 100-continue`).
    ///
    /// An encoding that nobody knows is an error of the body, so that a route answers it in its own form, and
    /// only to whoever may call it.
    func prepared(_ context: ServiceContext) -> Request {
        var head = head
        var body = body
        if head.headerFields[.expect] != nil {
            body = RequestBody(asyncSequence: AwaitedBody(body: body, want: { context.wantBody() }))
        }
        let encodings = (head.headerFields[.contentEncoding] ?? "").split(separator: ",")
            .map { $0.filter { $0 != " " && $0 != "\t" }.lowercased() }.filter { $0 != "identity" }
        guard !encodings.isEmpty else { return Request(head: head, body: body) }
        // The length is the packed one, which says nothing about the body that a route sees.
        head.headerFields[.contentEncoding] = nil
        head.headerFields[.contentLength] = nil
        let isGzip = ["gzip", "x-gzip"].contains(encodings[0]) && encodings.count == 1
        let plain = UnpackedBody(packed: body)
        return Request(
            head: head,
            body: isGzip ? RequestBody(asyncSequence: plain) : RequestBody(asyncSequence: UnknownBody()))
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

/// A gzip body, unpacked as it is read: never more in memory than one piece of it and one step. One that
/// unpacks to many times its bytes was made to cost processor and disk: it is refused beyond a part that
/// anybody may have.
private struct UnpackedBody: AsyncSequence, Sendable {
    typealias Element = ByteBuffer
    let packed: RequestBody

    struct AsyncIterator: AsyncIteratorProtocol {
        var rest: RequestBody.AsyncIterator
        let inflater = Inflater()
        var packedBytes = 0
        var plainBytes = 0

        mutating func next() async throws -> ByteBuffer? {
            // A small input may have a thousand steps: each lets others come in between.
            await Task.yield()
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
            do {
                while true {
                    if let piece = try inflater.next() { return piece }
                    guard let more = try await rest.next() else {
                        try inflater.finish()
                        return nil
                    }
                    packedBytes += more.readableBytes
                    inflater.feed(more)
                }
            } catch is Inflater.Malformed {
                throw ServiceError(
                    .badRequest, "the body is not valid gzip, although Content-Encoding says so")
            }
        }
    }

    func makeAsyncIterator() -> AsyncIterator { AsyncIterator(rest: packed.makeAsyncIterator()) }
}

/// A body in an encoding that nobody here knows.
private struct UnknownBody: AsyncSequence, Sendable {
    typealias Element = ByteBuffer

    struct AsyncIterator: AsyncIteratorProtocol {
        func next() async throws -> ByteBuffer? {
            throw ServiceError(.encodingUnknown, "a body may have Content-Encoding: gzip, and no other")
        }
    }

    func makeAsyncIterator() -> AsyncIterator { AsyncIterator() }
}
