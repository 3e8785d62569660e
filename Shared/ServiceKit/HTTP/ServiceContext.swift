import Hummingbird
import Logging
import NIOCore

/// The context of a request, as its route handler sees it.
public struct ServiceContext: RequestContext {
    /// Hummingbird's own part: logger, path parameters, matched route.
    public var coreContext: CoreRequestContextStorage
    /// Address of the client, or of the proxy if it came through one.
    public let remoteAddress: SocketAddress?
    private let channel: any Channel

    /// Called by Hummingbird for each request.
    public init(source: ApplicationRequestContextSource) {
        coreContext = CoreRequestContextStorage(source: source)
        remoteAddress = source.channel.remoteAddress
        channel = source.channel
    }

    /// Calls `body` once if the client closes its connection before the request is answered, or has closed
    /// it already. A client that closes only its own direction counts as gone too: hardly one does that
    /// before it has its answer.
    public func whenClientLeaves(_ body: @escaping @Sendable () -> Void) {
        channel.pipeline.triggerUserOutboundEvent(RequestGate.Watched(body), promise: nil)
    }

    /// Runs one write of a stream. A client that reads nothing for `Limits.writeStall` is cut off: the write
    /// fails then, and nobody waits for the client any longer.
    public func writing(_ body: () async throws -> Void) async throws {
        let channel = channel
        let end = channel.eventLoop.scheduleTask(in: .nanoseconds(Limits.writeStall.nanoseconds)) {
            channel.close(mode: .all, promise: nil)
        }
        defer { end.cancel() }
        try await body()
    }

    /// Writes a piece of a long body, and returns when the connection has room for the next one.
    ///
    /// A writer takes pieces for as long as the connection's thread has not said that it is full, which under
    /// load are many: a hundred clients that read nothing would cost megabytes each. So this asks the thread
    /// after each piece, and a client that reads nothing costs one.
    public func write(_ piece: ByteBuffer, to writer: inout any ResponseBodyWriter) async throws {
        try await writer.write(piece)
        let channel = channel
        guard try await !channel.eventLoop.submit({ channel.isWritable }).get() else { return }
        // Nothing, which waits as long as a piece would.
        try await writer.write(ByteBuffer())
    }

    /// Lets a client that waits for leave send its body (`RequestGate`).
    func wantBody() { channel.pipeline.triggerUserOutboundEvent(RequestGate.BodyWanted(), promise: nil) }
}

extension Request {
    /// Reads the whole body, one of CBOR as JSON: a small one, which is unpacked and read where it arrives.
    /// - Throws: `SRV-0413` when it is larger than the limit, as sent or unpacked; the bytes read so far are
    ///   discarded. `SRV-0415`.
    public func wholeBody(limitBytes: Int) async throws -> ByteBuffer {
        let isPacked = try isPacked
        if let length = headers[.contentLength].flatMap({ Int($0) }), length > limitBytes {
            throw ServiceError.bodyTooLarge(limitBytes)
        }
        do {
            let sent = try await body.collect(upTo: limitBytes)
            return try asJSON(isPacked ? Inflater.unpack(sent, limitBytes: limitBytes) : sent)
        } catch is NIOTooManyBytesError {
            throw ServiceError.bodyTooLarge(limitBytes)
        }
    }
}

extension Request {
    /// The client's address: the connection's, or with a trusted proxy the last one in `X-Forwarded-For`.
    public func source(_ context: ServiceContext, trustsProxy: Bool) -> String {
        let named = headers.filter { $0.name.canonicalName == ProxyFields.forwardedFor }.last?.value
        if trustsProxy, let last = named?.split(separator: ",").last {
            return String(last.filter { $0 != " " })
        }
        return context.remoteAddress?.ipAddress ?? "unknown"
    }
}

extension Request {
    /// For a route that takes nothing: no body, or an object without members.
    /// - Throws: `SRV-0400`, naming a member that is there, and `SRV-0413`.
    public func requireNoMembers() async throws {
        do {
            let body = try await wholeBody(limitBytes: Limits.briefBodyBytes)
            _ = try RequestObject(body.readableBytesView, known: [], mayBeEmpty: true)
        } catch let error as RequestObject.Malformed {
            throw ServiceError(.badRequest, error.message)
        }
    }
}

extension Response {
    /// A 200, or another status, with a JSON body.
    public static func json(
        _ body: some Sequence<UInt8>, status: HTTPResponse.Status = .ok, headers: HTTPFields = [:]
    ) -> Response {
        var headers = headers
        headers[.contentType] = "application/json"
        return Response(
            status: status, headers: headers, body: ResponseBody(byteBuffer: ByteBuffer(bytes: Array(body))))
    }
}
