import HTTPTypes
import Logging
import NIOCore
import NIOHTTP1

/// Keeps the rules that all requests of a connection share on the wire; stands right after the HTTP decoder.
///
/// - *Answers*: with `Connection: close` where the connection ends after it, as for HTTP/1.0 without
///   keep-alive. Each answer carries the request's `X-Request-ID`.
/// - *Early answers*: a client may still be sending its body when its answer is there, and many read nothing
///   before they have sent all. So the gate reads on and drops the body's rest, for `Limits.lingerTime` at
///   most and until the client is silent for `Limits.lingerSilence`. If the body ends in time, the connection
///   goes on, unless that answer was its last. Closing at once would reset the connection, and the answer
///   would be lost with it.
/// - *Heads*: one that is malformed, too large or too slow is answered here, since no route sees it. The
///   answer waits for those of earlier requests.
/// - *Bodies*: one that is malformed, too slow or shorter than announced is an error of the body for whoever
///   reads it, who answers it.
/// - *`Expect: 100-continue`*: 100 is sent when somebody wants the body (`BodyWanted`), not before: a refusal
///   needs no body.
///
/// All state belongs to the event loop. Invariant: `unanswered` has one entry for each head that was passed
/// on and whose answer has not ended; only the last of them can have a body that is still arriving.
final class RequestGate: ChannelDuplexHandler, RemovableChannelHandler {
    typealias InboundIn = HTTPServerRequestPart
    typealias InboundOut = HTTPServerRequestPart
    typealias OutboundIn = HTTPServerResponsePart
    typealias OutboundOut = HTTPServerResponsePart

    /// An outbound event: the route begins to read the body of the request that is being answered.
    struct BodyWanted: Sendable {}

    /// An outbound event: tells when the client leaves before the request that is being answered has its
    /// answer.
    struct Watched: Sendable {
        let whenGone: @Sendable () -> Void

        init(_ whenGone: @escaping @Sendable () -> Void) { self.whenGone = whenGone }
    }

    /// A request without its whole answer.
    private struct Unanswered {
        var id: String
        var isOld: Bool
        var keepsAlive: Bool
        var expectsContinue: Bool
        /// Told when the client leaves.
        var watched: (@Sendable () -> Void)?
    }

    private enum Reading {
        case nothing
        case head(since: NIODeadline, hasLine: Bool)
        case body(since: NIODeadline, bytes: Int)
        /// The body's error was passed on; nothing that follows has a meaning.
        case brokenBody
    }

    /// The answer to the first request in `unanswered`, and whether the connection ends after it.
    private enum Answering {
        /// No answer is under way, and the last one was not the connection's last.
        case nothing
        case writing(isLast: Bool)
        /// The connection's last answer was written; its bytes have not left yet.
        case lastWritten
        case lastLeft

        var isUnderWay: Bool { if case .writing = self { true } else { false } }

        var isLast: Bool {
            switch self {
            case .nothing, .writing(isLast: false): false
            case .writing(isLast: true), .lastWritten, .lastLeft: true
            }
        }
    }

    private enum Phase {
        /// Requests are read and answered.
        case open
        /// No further request is read; the error is answered after those before it.
        case failed(ServiceError)
        /// The answer was written. The rest of its request is dropped until the deadline.
        case lingering(until: NIODeadline)
        /// The connection closes as soon as the last answer has left.
        case closing
    }

    private let forwarding: ForwardingWatch?
    private let drain: HostDrain?
    private let logger: Logger
    private var context: ChannelHandlerContext?
    private var unanswered = CircularBuffer<Unanswered>()
    private var reading = Reading.nothing
    /// Bytes of a head's first line that have arrived, while it has not ended.
    private var lineBytes = 0
    private var phase = Phase.open
    private var answering = Answering.nothing
    private var isInputClosed = false
    /// True while the channel wants to read. Silence counts only then: else it is ours.
    private var isReadWanted = false
    private var lastByteAt = NIODeadline.uptimeNanoseconds(0)
    private var timer: (at: NIODeadline, task: Scheduled<Void>)?

    /// - Parameters:
    ///   - forwarding: sees the head of every request, upgrades included.
    ///   - drain: while it drains, each answer is its connection's last.
    init(logger: Logger, forwarding: ForwardingWatch? = nil, drain: HostDrain? = nil) {
        self.logger = logger
        self.forwarding = forwarding
        self.drain = drain
    }

    func handlerAdded(context: ChannelHandlerContext) { self.context = context }

    func handlerRemoved(context: ChannelHandlerContext) {
        timer?.task.cancel()
        self.context = nil
    }

    func channelInactive(context: ChannelHandlerContext) {
        timer?.task.cancel()
        timer = nil
        clientLeft()
        context.fireChannelInactive()
    }

    /// Tells those who compute an answer that nobody wants.
    private func clientLeft() {
        isInputClosed = true
        for index in unanswered.indices {
            unanswered[index].watched?()
            unanswered[index].watched = nil
        }
    }
}

// MARK: What arrives

extension RequestGate {
    /// Called with bytes before they are decoded, by `HeadWatch`.
    func willDecode(_ bytes: ByteBuffer) {
        guard let context else { return }
        lastByteAt = context.eventLoop.now
        guard case .open = phase else { return }
        switch reading {
        case .nothing:
            // Some clients send a line break after a body.
            guard !bytes.readableBytesView.allSatisfy({ $0 == 0x0D || $0 == 0x0A }) else { return }
            lineBytes = 0
            reading = .head(since: lastByteAt, hasLine: endsLine(bytes))
        case .head(let since, false):
            reading = .head(since: since, hasLine: endsLine(bytes))
        default: break
        }
    }

    /// Returns whether the first line of a head ends in these bytes, and is as short as it must be.
    private func endsLine(_ bytes: ByteBuffer) -> Bool {
        let view = bytes.readableBytesView
        guard let end = view.firstIndex(of: 0x0A) else {
            lineBytes += view.count
            return false
        }
        return lineBytes + view.distance(from: view.startIndex, to: end) <= Limits.headLineBytes
    }

    func channelRead(context: ChannelHandlerContext, data: NIOAny) {
        let part = unwrapInboundIn(data)
        guard case .open = phase else {
            if case .lingering = phase, case .end = part { dropped(context, data) }
            return
        }
        if case .brokenBody = reading { return }
        switch part {
        case .head(var head):
            if let problem = HeadProblem.of(head) { return fail(context, problem) }
            forwarding?.saw(head.headers, from: context.channel.remoteAddress)
            let id = RequestID.taken(from: head.headers.first(name: RequestID.name)) ?? RequestID.made()
            head.headers.replaceOrAdd(name: RequestID.name, value: id)
            reading = .body(since: context.eventLoop.now, bytes: 0)
            let expects = head.headers[canonicalForm: "expect"].contains { $0.lowercased() == "100-continue" }
            unanswered.append(
                Unanswered(
                    id: id, isOld: head.isOld, keepsAlive: head.isKeepAlive,
                    expectsContinue: expects && !head.isOld))
            context.fireChannelRead(wrapInboundOut(.head(head)))
        case .body(let bytes):
            if case .body(let since, let before) = reading {
                reading = .body(since: since, bytes: before + bytes.readableBytes)
            }
            context.fireChannelRead(data)
        case .end:
            reading = .nothing
            context.fireChannelRead(data)
        }
    }

    func channelReadComplete(context: ChannelHandlerContext) {
        isReadWanted = false
        context.fireChannelReadComplete()
        // Nobody else reads any more.
        if case .lingering = phase { context.read() }
        schedule(context)
    }

    func read(context: ChannelHandlerContext) {
        isReadWanted = true
        context.read()
    }

    func userInboundEventTriggered(context: ChannelHandlerContext, event: Any) {
        switch event {
        case ChannelEvent.inputClosed:
            clientLeft()
            if case .lingering = phase { closeWhenLeft(context) }
        case is ChannelShouldQuiesceEvent:
            if case .lingering = phase { closeWhenLeft(context) }
        default: break
        }
        context.fireUserInboundEventTriggered(event)
    }

    func errorCaught(context: ChannelHandlerContext, error: any Error) {
        if error is ByteToMessageDecoderError.PayloadTooLargeError {
            // Bytes after an upgrade that is still being decided; nobody answers it any more.
            guard case .open = phase else { return }
            unanswered.removeAll()
            return fail(
                context, ServiceError(.badRequest, "too much was sent before the upgrade was answered"))
        }
        guard let error = error as? HTTPParserError else { return context.fireErrorCaught(error) }
        guard case .open = phase else { return }
        switch reading {
        case .brokenBody: break
        case .body: breakBody(context, HeadProblem.of(error, hasLine: true, isInBody: true))
        case .head(_, let hasLine):
            fail(context, HeadProblem.of(error, hasLine: hasLine, isInBody: false))
        case .nothing: fail(context, HeadProblem.of(error, hasLine: true, isInBody: false))
        }
    }

    /// The rest of an answered request has come.
    private func dropped(_ context: ChannelHandlerContext, _ end: NIOAny) {
        guard !answering.isLast else { return closeWhenLeft(context) }
        timer?.task.cancel()
        timer = nil
        (phase, reading) = (.open, .nothing)
        // Whoever reads requests waits for it.
        context.fireChannelRead(end)
    }

    private func breakBody(_ context: ChannelHandlerContext, _ problem: ServiceError) {
        reading = .brokenBody
        context.fireErrorCaught(problem)
    }
}

// MARK: What leaves

extension RequestGate {
    func write(context: ChannelHandlerContext, data: NIOAny, promise: EventLoopPromise<Void>?) {
        switch unwrapOutboundIn(data) {
        case .head(var head):
            guard head.status.code >= 200, let request = unanswered.first else {
                return context.write(data, promise: promise)
            }
            let isLast = isLast(head, to: request)
            answering = .writing(isLast: isLast)
            frame(&head, for: request, isLast: isLast)
            context.write(wrapOutboundOut(.head(head)), promise: promise)
        case .body: context.write(data, promise: promise)
        case .end: end(context, data, promise)
        }
    }

    private var isBodyArriving: Bool {
        switch reading {
        case .body, .brokenBody: true
        case .nothing, .head: false
        }
    }

    private func isLast(_ head: HTTPResponseHead, to request: Unanswered) -> Bool {
        if !request.keepsAlive || isInputClosed { return true }
        // A client that waits for leave, and got none, sends something else next, or nothing.
        if request.expectsContinue { return true }
        if case .brokenBody = reading { return true }
        if unanswered.count == 1, drain?.isDraining == true { return true }
        // HTTP/1.0 knows no chunks: where the length is unknown, the connection's end is the body's.
        return request.isOld && !head.headers.contains(name: "content-length")
    }

    private func frame(_ head: inout HTTPResponseHead, for request: Unanswered, isLast: Bool) {
        head.headers.replaceOrAdd(name: RequestID.name, value: request.id)
        if request.isOld { head.version = .http1_0 }
        if isLast {
            head.headers.replaceOrAdd(name: "connection", value: "close")
        } else if request.isOld {
            head.headers.replaceOrAdd(name: "connection", value: "keep-alive")
        }
    }

    private func end(_ context: ChannelHandlerContext, _ data: NIOAny, _ promise: EventLoopPromise<Void>?) {
        let isLast = answering.isLast
        answering = isLast ? .lastWritten : .nothing
        if !unanswered.isEmpty { unanswered.removeFirst() }
        // With further requests behind it, this one's body has arrived.
        let hasRest = unanswered.isEmpty && isBodyArriving && !isInputClosed
        if hasRest { phase = .lingering(until: context.eventLoop.now + TimeAmount(Limits.lingerTime)) }
        if isLast {
            let left = promise ?? context.eventLoop.makePromise()
            left.futureResult.assumeIsolated().whenComplete { [weak self] _ in self?.answerLeft() }
            context.writeAndFlush(data, promise: left)
        } else {
            context.write(data, promise: promise)
        }
        if hasRest {
            lastByteAt = context.eventLoop.now
            context.read()
            schedule(context)
        } else if isLast {
            closeWhenLeft(context)
        } else if case .failed(let problem) = phase, unanswered.isEmpty {
            answer(context, problem)
        }
    }

    private func answerLeft() {
        answering = .lastLeft
        guard let context else { return }
        if case .lingering = phase {
            // Tells a client that reads to the end that there is no more, and goes on reading.
            context.close(mode: .output, promise: nil)
        } else {
            closeWhenLeft(context)
        }
    }

    private func closeWhenLeft(_ context: ChannelHandlerContext) {
        phase = .closing
        timer?.task.cancel()
        timer = nil
        switch answering {
        case .nothing, .writing(isLast: false), .lastLeft: context.close(promise: nil)
        case .writing(isLast: true), .lastWritten: break
        }
    }

    /// Takes no further request and answers what is wrong, after the answers before it.
    private func fail(_ context: ChannelHandlerContext, _ problem: ServiceError) {
        phase = .failed(problem)
        if unanswered.isEmpty { answer(context, problem) }
    }

    private func answer(_ context: ChannelHandlerContext, _ problem: ServiceError) {
        let id = RequestID.made()
        logger.info(
            "request refused",
            metadata: [
                "request": "\(id)", "status": "\(problem.httpStatus.code)", "code": "\(problem.publicCode)",
            ])
        let body = ErrorAnswer.json(code: problem.publicCode, message: problem.publicMessage)
        let head = HTTPResponseHead(
            version: .http1_1, status: HTTPResponseStatus(statusCode: problem.httpStatus.code),
            headers: [
                "Content-Type": "application/json", "Content-Length": "\(body.count)",
                RequestID.name: id, "Connection": "close",
            ])
        context.write(wrapOutboundOut(.head(head)), promise: nil)
        context.write(wrapOutboundOut(.body(.byteBuffer(ByteBuffer(bytes: body)))), promise: nil)
        answering = .writing(isLast: true)
        reading = .body(since: context.eventLoop.now, bytes: 0)
        end(context, wrapOutboundOut(.end(nil)), nil)
    }

    func triggerUserOutboundEvent(
        context: ChannelHandlerContext, event: Any, promise: EventLoopPromise<Void>?
    ) {
        if let event = event as? Watched {
            promise?.succeed()
            guard !unanswered.isEmpty, !isInputClosed else { return event.whenGone() }
            unanswered[unanswered.startIndex].watched = event.whenGone
            return
        }
        guard event is BodyWanted else {
            return context.triggerUserOutboundEvent(event, promise: promise)
        }
        promise?.succeed()
        guard !unanswered.isEmpty, unanswered[unanswered.startIndex].expectsContinue, !answering.isUnderWay
        else {
            return
        }
        unanswered[unanswered.startIndex].expectsContinue = false
        // A client that did not wait needs no leave.
        guard case .body(_, 0) = reading else { return }
        let head = HTTPResponseHead(version: .http1_1, status: .continue)
        context.writeAndFlush(wrapOutboundOut(.head(head)), promise: nil)
    }

    func close(context: ChannelHandlerContext, mode: CloseMode, promise: EventLoopPromise<Void>?) {
        switch (mode, phase) {
        case (.input, _): context.close(mode: mode, promise: promise)
        case (_, .lingering), (_, .closing):
            // The gate closes, when it is time. Whoever asks does not wait longer than that.
            context.channel.closeFuture.cascade(to: promise)
        case (.output, _) where answering.isUnderWay: context.close(mode: mode, promise: promise)
        default: context.close(mode: .all, promise: promise)
        }
    }
}

// MARK: Time

extension RequestGate {
    /// Sets the timer for what is being waited for, if for anything.
    private func schedule(_ context: ChannelHandlerContext) {
        guard let deadline else { return }
        if let timer {
            guard deadline < timer.at else { return }
            timer.task.cancel()
        }
        let task = context.eventLoop.assumeIsolated().scheduleTask(deadline: deadline) { [weak self] in
            self?.timer = nil
            self?.check()
        }
        timer = (deadline, task)
    }

    private var deadline: NIODeadline? {
        switch (phase, reading) {
        case (.lingering(let until), _): min(until, lastByteAt + TimeAmount(Limits.lingerSilence))
        case (.open, .head(let since, _)): since + TimeAmount(Limits.headTime)
        case (.open, .body(let since, let bytes)):
            min(
                lastByteAt + TimeAmount(Limits.bodySilence),
                since + TimeAmount(Limits.bodySilence)
                    + .seconds(Int64(bytes / Limits.bodyBytesPerSecond)))
        default: nil
        }
    }

    private func check() {
        guard let context, let deadline else { return }
        let now = context.eventLoop.now
        guard now >= deadline else { return schedule(context) }
        switch (phase, reading) {
        case (.lingering, _): closeWhenLeft(context)
        case (_, .head):
            fail(
                context,
                ServiceError(
                    .requestTimeout,
                    "the head of the request took longer than \(Limits.headTime.components.seconds) s"))
        case (_, .body(_, let bytes)):
            guard isReadWanted else {
                // We did not read, so nobody was slow. The measure begins again.
                reading = .body(since: now, bytes: 0)
                lastByteAt = now
                return schedule(context)
            }
            breakBody(
                context, ServiceError(.requestTimeout, "the body stopped arriving after \(bytes) bytes"))
        default: break
        }
    }
}

extension HTTPRequestHead {
    /// True for HTTP/1.0, which has no chunks, no leave to wait for, and closes unless asked.
    var isOld: Bool { version.minor == 0 }
}

/// Stands before the HTTP decoder and tells the gate when bytes of a head arrive: the decoder is silent about
/// a head until it is whole.
final class HeadWatch: ChannelInboundHandler, RemovableChannelHandler {
    typealias InboundIn = ByteBuffer

    private let gate: RequestGate

    init(gate: RequestGate) { self.gate = gate }

    func channelRead(context: ChannelHandlerContext, data: NIOAny) {
        gate.willDecode(unwrapInboundIn(data))
        context.fireChannelRead(data)
    }
}
