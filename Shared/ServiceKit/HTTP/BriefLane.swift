import HTTPTypes
import Logging
import NIOCore
import NIOHTTP1

/// Answers a brief request with the bytes of a JSON text and status 200; nil, having done nothing, for every
/// other answer.
/// - Parameters:
///   - body: the whole body.
///   - answerBytes: the longest answer that this client gets as it is: a longer one would be packed.
public typealias BriefAnswer = (_ body: ByteBuffer, _ answerBytes: Int) -> [UInt8]?

/// Decides by the fields `Authorization` and `Host` whether a request may be answered briefly, before its
/// body has come: a refusal does not wait for that. Nil where it has to go the other way.
public typealias BriefRoute = @Sendable (_ authorization: String, _ host: String?) -> BriefAnswer?

/// The paths whose short requests are answered on the event loop, and what those have in common with all
/// others above the wire (`ObservedResponder`).
struct BriefRoutes: Sendable {
    /// By path. All of them are POST.
    let routes: [String: BriefRoute]
    let cors: CORSPolicy
    let meter: RequestMeter
    /// True if every request has its line in the log.
    let logsAll: Bool

    /// Returns whether requests of a path may be answered here now: each one that has a line in the log, or a
    /// span, goes the other way.
    func mayAnswer(_ path: String, _ logger: Logger) -> Bool {
        !logsAll && !Traces.isOn && logger.logLevel > .debug
            && LogOutput.shared.changed(of: meter.service(of: path)) == nil
    }
}

/// Answers short requests on the event loop: no task, no router, no other thread. Stands between
/// `RequestGate` and the codec of the asynchronous path, which gets the parts of all other requests as they
/// came.
///
/// A request is taken if its path is registered, its body is small and of known length, nothing of the
/// connection is being answered, and no field asks for more (`BriefFields`). After one answer the further
/// requests of the same read go the other way, so one connection holds the loop for one answer. So do those
/// of a client that does not read its answers, whose further ones are waited with there. One request in
/// `Limits.briefRenewal` goes the other way too: the timer of idle connections there sees it.
///
/// All state belongs to the event loop. Invariant: while `taken` is set, the codec has not seen its request.
final class BriefLane: ChannelDuplexHandler, RemovableChannelHandler {
    typealias InboundIn = HTTPServerRequestPart
    typealias InboundOut = HTTPServerRequestPart
    typealias OutboundIn = HTTPServerResponsePart
    typealias OutboundOut = HTTPServerResponsePart

    /// A request of which parts are still to come.
    private struct Taken {
        let head: HTTPRequestHead
        let answerBytes: Int
        let answer: BriefAnswer
        var body = ByteBuffer()
    }

    private let routes: BriefRoutes
    private let logger: Logger
    private var taken: Taken?
    /// Requests that went the other way and have no whole answer yet.
    private var outstanding = 0
    private var hasAnswered = false
    /// The time at which the idle timer was told of the connection last.
    private var renewed = NIODeadline.uptimeNanoseconds(0)
    private var date = HTTPDate()

    init(_ routes: BriefRoutes, logger: Logger) {
        self.routes = routes
        self.logger = logger
    }

    func handlerAdded(context: ChannelHandlerContext) { renewed = context.eventLoop.now }

    func channelRead(context: ChannelHandlerContext, data: NIOAny) {
        switch unwrapInboundIn(data) {
        case .head(let head):
            taken = take(head, context)
            guard taken == nil else { return }
            outstanding += 1
            context.fireChannelRead(data)
        case .body(var bytes):
            guard taken != nil else { return context.fireChannelRead(data) }
            if taken?.body.readableBytes == 0 { taken?.body = bytes } else { taken?.body.writeBuffer(&bytes) }
        case .end:
            guard let request = taken else { return context.fireChannelRead(data) }
            if answer(request, context) {
                taken = nil
            } else {
                passOn(context)
                context.fireChannelRead(data)
            }
        }
    }

    func channelReadComplete(context: ChannelHandlerContext) {
        if hasAnswered {
            hasAnswered = false
            context.flush()
        }
        context.fireChannelReadComplete()
    }

    func write(context: ChannelHandlerContext, data: NIOAny, promise: EventLoopPromise<Void>?) {
        if case .end = unwrapOutboundIn(data) { outstanding -= 1 }
        context.write(data, promise: promise)
    }

    /// The codec hears of the end of a connection or of a body together with the request that is concerned.
    func errorCaught(context: ChannelHandlerContext, error: any Error) {
        passOn(context)
        context.fireErrorCaught(error)
    }

    func userInboundEventTriggered(context: ChannelHandlerContext, event: Any) {
        passOn(context)
        context.fireUserInboundEventTriggered(event)
    }

    /// Hands on what was taken, as it came.
    private func passOn(_ context: ChannelHandlerContext) {
        guard let request = taken else { return }
        taken = nil
        outstanding += 1
        context.fireChannelRead(wrapInboundOut(.head(request.head)))
        if request.body.readableBytes > 0 { context.fireChannelRead(wrapInboundOut(.body(request.body))) }
    }

    private func take(_ head: HTTPRequestHead, _ context: ChannelHandlerContext) -> Taken? {
        guard outstanding == 0, !hasAnswered, context.channel.isWritable, head.method == .POST,
            head.version == .http1_1,
            let route = routes.routes[head.uri], routes.mayAnswer(head.uri, logger),
            let fields = BriefFields(head.headers, routes.cors),
            let answer = route(fields.authorization, fields.host)
        else { return nil }
        let now = context.eventLoop.now
        guard now - renewed < TimeAmount(Limits.briefRenewal) else {
            renewed = now
            return nil
        }
        let most = fields.takesGzip ? Limits.packedAnswerBytes - 1 : Limits.briefBytes
        return Taken(head: head, answerBytes: most, answer: answer)
    }

    /// Answers a request that is there as a whole; returns false for one that has to go the other way.
    private func answer(_ request: Taken, _ context: ChannelHandlerContext) -> Bool {
        let begin = ContinuousClock.now
        guard let bytes = request.answer(request.body, request.answerBytes) else { return false }
        var headers: HTTPHeaders = [
            "Content-Type": "application/json", "Content-Length": "\(bytes.count)", "Date": date.text(),
        ]
        // As on every answer that could have been packed.
        if bytes.count >= Limits.packedAnswerBytes { headers.add(name: "Vary", value: "Accept-Encoding") }
        let head = HTTPResponseHead(version: .http1_1, status: .ok, headers: headers)
        context.write(wrapOutboundOut(.head(head)), promise: nil)
        context.write(wrapOutboundOut(.body(.byteBuffer(ByteBuffer(bytes: bytes)))), promise: nil)
        context.write(wrapOutboundOut(.end(nil)), promise: nil)
        hasAnswered = true
        routes.meter.note(.post, request.head.uri, 200, ContinuousClock.now - begin)
        return true
    }
}

/// The fields of a request that can be answered briefly.
struct BriefFields {
    private(set) var authorization = ""
    private(set) var host: String?
    private(set) var takesGzip = false

    /// Nil for a request that lacks a field, has one twice, or asks with one for more than a plain answer.
    init?(_ fields: HTTPHeaders, _ cors: CORSPolicy) {
        // Each answer names the origins on which it depends.
        guard cors.origins.isEmpty || cors.origins.contains("*") else { return nil }
        var length: Int?
        for (name, value) in fields {
            switch name.lowercased() {
            case "authorization":
                guard authorization.isEmpty else { return nil }
                authorization = value
            case "host":
                guard host == nil else { return nil }
                host = value
            case "content-length":
                guard length == nil else { return nil }
                length = Int(value)
            case "accept-encoding": takesGzip = takesGzip || Self.mayTakeGzip(value)
            case "content-type": guard Self.types.contains(value) else { return nil }
            case "accept": guard Self.accepted.contains(value) else { return nil }
            case "connection": guard value.lowercased() == "keep-alive" else { return nil }
            case _ where Self.others.contains(name.lowercased()): return nil
            default: break
            }
        }
        guard let length, 1...Limits.briefBytes ~= length, !authorization.isEmpty else { return nil }
    }

    /// True also for a client that takes it rarely: its longer answers go the other way, where all of them
    /// are packed or not.
    private static func mayTakeGzip(_ value: String) -> Bool {
        let value = value.lowercased()
        return value.contains("gzip") || value.contains("*")
    }

    private static let types: Set<String> = [
        "application/json", "application/json; charset=utf-8", "application/json;charset=utf-8",
    ]
    private static let accepted: Set<String> = ["application/json", "*/*"]
    /// Fields that change an answer or its way.
    private static let others: Set<String> = [
        "content-encoding", "expect", "idempotency-key", "origin", "traceparent", "transfer-encoding",
        "upgrade", "x-ditto-txn-id", "x-mimeo-console",
    ]
}
