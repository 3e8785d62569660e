import Machine
import NIOCore
import NIOWebSocket
import Synchronization

/// A WebSocket as a channel of binary messages, for either side.
///
/// Invariants: messages arrive whole and in order, with at most one reader (`receive`, `inbound`, or the
/// callback of `handOver`). Any number of tasks send, each message in one frame. Back-pressure works in both
/// directions: `send` waits while the socket does not accept more, and the socket is not read while too much
/// waits for the reader. Nothing is sent after a close frame. An open connection has no task of its own:
/// `WebSocketHandler` handles frames on the event loop.
///
/// This is the face, and does what its two machines decide: `DeliveryMachine` about messages and their
/// reader, `ClosingMachine` about the close frames. Their lock is never held across another lock or a wait.
public final class WebSocketConnection: Sendable {
    /// The side of the connection: clients mask their frames.
    public enum Role: Sendable {
        /// The side that dialled.
        case client
        /// The side that accepted.
        case server
    }

    /// The reader of messages.
    private enum Reader {
        /// `receive`, which waits for one message.
        case once(PendingAnswer<Result<[UInt8]?, any Error>>)
        /// The callback of `handOver`.
        case line(@Sendable (WebSocketArrival) -> Void)

        /// Tells it that nothing comes any more.
        func end(_ end: End) {
            switch (self, end) {
            case (.once(let answer), .closed): answer.give(.success(nil))
            case (.once(let answer), .failed(let error)): answer.give(.failure(error))
            case (.line(let arrived), _): arrived(.ended)
            }
        }
    }

    /// The end of the connection, as its reader gets it.
    private enum End {
        case closed
        case failed(WebSocketError)

        /// The rule that the other side broke; nil for another end.
        var brokenRule: WebSocketError? {
            if case .failed(let error) = self, error.code != .connectionLost { error } else { nil }
        }
    }

    private struct State {
        var delivery = DeliveryMachine<Reader, End>(
            limit: .init(messages: Limits.unreadMessages, bytes: Limits.unreadBytes))
        var closing = ClosingMachine()
    }

    let role: Role
    private let channel: any Channel
    private let maximumMessageBytes: Int
    private let closeTimeout: TimeAmount
    /// The place in the pipeline where a server writes bytes that are framed already: past the encoder.
    private let output: NIOLoopBound<ChannelHandlerContext>
    private let state = Mutex(State())
    /// Bytes that `send` has handed to the event loop and that have not left, without a task that waits.
    private let unwritten = Atomic<Int>(0)

    private init(
        _ channel: any Channel, _ role: Role, _ configuration: WebSocketConfiguration,
        _ output: ChannelHandlerContext
    ) {
        self.channel = channel
        self.output = NIOLoopBound(output, eventLoop: channel.eventLoop)
        self.role = role
        maximumMessageBytes = configuration.maximumMessageBytes
        closeTimeout = TimeAmount(configuration.closeTimeout)
    }

    /// Takes over an upgraded channel, which must not be used elsewhere. The caller must close the
    /// connection.
    public static func open(
        over channel: any Channel, role: Role,
        configuration: WebSocketConfiguration = WebSocketConfiguration()
    ) async throws -> WebSocketConnection {
        do {
            return try await channel.eventLoop.submit {
                try openNow(over: channel, role: role, configuration: configuration)
            }.get()
        } catch {
            channel.close(promise: nil)
            throw error
        }
    }

    /// The same on the channel's event loop.
    static func openNow(
        over channel: any Channel, role: Role, configuration: WebSocketConfiguration
    ) throws -> WebSocketConnection {
        let pipeline = channel.pipeline.syncOperations
        let connection = WebSocketConnection(
            channel, role, configuration, try pipeline.context(handlerType: WebSocketFrameEncoder.self))
        let decoder = try pipeline.handler(type: ByteToMessageHandler<WebSocketFrameDecoder>.self)
        let bytes = FrameLengthCheck()
        try pipeline.addHandler(bytes, position: .before(decoder))
        try pipeline.addHandler(WebSocketHandler(connection, configuration, behind: bytes))
        if let pending = try? pipeline.context(handlerType: PendingBytesHandler.self) {
            pipeline.removeHandler(context: pending, promise: nil)
        }
        return connection
    }

    /// Runs `body` with the connection and closes it afterwards, unless it is closed already: with 1000 when
    /// `body` returns, with 1011 when it throws. Waits for the peer's answer, at most `closeTimeout`.
    /// - Parameter channel: an upgraded channel, which must not be used elsewhere.
    public static func run<Result: Sendable>(
        over channel: any Channel, role: Role,
        configuration: WebSocketConfiguration = WebSocketConfiguration(),
        _ body: @Sendable (WebSocketConnection) async throws -> Result
    ) async throws -> Result {
        try await open(over: channel, role: role, configuration: configuration).run(body)
    }

    func run<Result: Sendable>(
        _ body: @Sendable (WebSocketConnection) async throws -> Result
    ) async throws -> Result {
        do {
            let result = try await body(self)
            await leave(.normal)
            return result
        } catch {
            await leave(.internalError)
            throw error
        }
    }

    /// The messages of the peer until it closes. One loop at a time; it must keep taking messages, or the
    /// peer is blocked.
    public var inbound: Messages { Messages(connection: self) }

    /// The peer's close reason, once it has closed.
    public var receivedClose: WebSocketClose? { state.withLock { $0.closing.received } }

    /// True if the connection was lost: neither side has closed, or the peer has closed only because our
    /// pings went unanswered. False if this side has closed because the peer broke the protocol.
    public var isLost: Bool {
        state.withLock { state in
            if state.delivery.end?.brokenRule != nil { return false }
            return state.closing.received.map { $0 == .unanswered } ?? true
        }
    }

    /// The end of the connection as a text for a person: the peer's close, or the rule that the peer broke;
    /// nil if the connection was lost.
    public var farewell: String? {
        state.withLock { state in
            state.delivery.end?.brokenRule?.description
                ?? state.closing.received.map { "the other side has closed: \($0.code) \($0.reason)" }
        }
    }

    // MARK: Receiving

    /// Returns the next message, or nil when either side has closed.
    /// - Throws: `WS-0202` when the connection ended without a close frame; `WS-0203`, `WS-0204`, `WS-0205`
    ///   when the peer broke the protocol, after it was sent a close frame.
    public func receive() async throws -> [UInt8]? {
        let answer = PendingAnswer<Result<[UInt8]?, any Error>>()
        state.withLock { $0.delivery.ask(.once(answer)) }
        deliver()
        return try await withTaskCancellationHandler {
            try await answer.get()
        } onCancel: {
            stopReceiving()
        }
    }

    private func stopReceiving() {
        let reader = state.withLock { $0.delivery.stopAsking() }
        if case .once(let answer)? = reader { answer.give(.failure(CancellationError())) }
    }

    /// Does what the delivery has to do, unless another thread does. A reader may ask for the next message
    /// while it gets one: the loop of the thread that is already here sees that.
    private func deliver() {
        guard state.withLock({ $0.delivery.beginDelivering() }) else { return }
        while let delivery = state.withLock({ $0.delivery.next() }) {
            switch delivery {
            case .message(let message, .once(let answer)): answer.give(.success(message))
            case .message(let message, .line(let arrived)): arrived(.message(message) { self.taken() })
            case .end(let end, let reader): reader.end(end)
            case .resumeReading: channel.read()
            }
        }
    }

    private func taken() {
        state.withLock { $0.delivery.taken() }
        deliver()
    }

    // MARK: Events of the event loop

    /// True if messages wait for the reader.
    var isUnread: Bool { state.withLock { $0.delivery.isUnread } }

    /// Returns whether the socket must not be read now, because too much waits. `deliver` resumes reading.
    func pausesReading() -> Bool { state.withLock { $0.delivery.pausesReading() } }

    func arrived(_ message: [UInt8]) {
        state.withLock { $0.delivery.arrived(message) }
        deliver()
    }

    /// The peer has closed.
    func heard(_ reason: WebSocketClose) {
        state.withLock { state in
            state.closing.heard(reason)
            state.delivery.ends(.closed)
        }
        answered()
        close(reason.code == WebSocketClose.noStatus.code ? .noStatus : WebSocketClose(code: reason.code))
        deliver()
    }

    /// The peer will send nothing any more: the channel is closed once our close frame has left.
    func answered() {
        if state.withLock({ $0.closing.fellSilent() }) { channel.close(promise: nil) }
    }

    /// The peer has broken the protocol: closes with the code for that. Later frames are ignored.
    func broken(_ error: WebSocketError) {
        state.withLock { $0.delivery.ends(.failed(error)) }
        switch error.code {
        case .messageTooLarge: close(.messageTooLarge)
        case .textMessage: close(.unacceptableData)
        default: close(.protocolError)
        }
        deliver()
    }

    /// The peer has not answered for too long: sends a close frame, in case it still listens, and closes the
    /// channel without waiting.
    func unanswered() {
        state.withLock { $0.delivery.ends(.failed(Self.lost)) }
        close(.unanswered)
        channel.close(promise: nil)
    }

    /// The channel is closed.
    func gone() {
        state.withLock { $0.delivery.ends($0.closing.isOpen ? .failed(Self.lost) : .closed) }
        deliver()
    }

    // MARK: Sending

    /// Sends one binary message; waits while the socket does not accept more.
    /// - Throws: `WS-0203` for a message over the limit, `WS-0201` when the connection is closed,
    ///   `CancellationError`.
    public func send(_ message: [UInt8]) async throws {
        try check(message)
        // `isWritable` changes only when the event loop gets to the write; until then `unwritten` bounds it.
        guard !channel.isWritable || unwritten.load(ordering: .relaxed) > Limits.unwrittenBytes else {
            unwritten.add(message.count, ordering: .relaxed)
            return channel.writeAndFlush(frame(message)).whenComplete { [self] _ in
                unwritten.subtract(message.count, ordering: .relaxed)
            }
        }
        let sent = PendingAnswer<Result<Void, any Error>>()
        channel.writeAndFlush(frame(message)).whenComplete { [closed] result in
            sent.give(result.mapError { _ in closed })
        }
        try await sent.getUnlessCancelled()
    }

    private func check(_ message: [UInt8]) throws(WebSocketError) {
        guard message.count <= maximumMessageBytes else {
            throw WebSocketError(.messageTooLarge, "a message is larger than \(maximumMessageBytes) bytes")
        }
        guard state.withLock({ $0.closing.isOpen }), channel.isActive else { throw closed }
    }

    private func frame(_ message: [UInt8]) -> WebSocketFrame {
        WebSocketFrame(fin: true, opcode: .binary, maskKey: mask, data: ByteBuffer(bytes: message))
    }

    // MARK: Closing

    /// Sends a close frame. Does not wait; the first call counts, later ones are no-ops.
    public func close(_ close: WebSocketClose) {
        let left = channel.eventLoop.makePromise(of: Void.self)
        guard state.withLock({ $0.closing.close(left.futureResult) }) else { return left.succeed(()) }
        left.futureResult.whenComplete { [self] _ in
            if state.withLock({ $0.closing.left() }) { channel.close(promise: nil) }
        }
        channel.writeAndFlush(WebSocketFrame.close(close, maskKey: mask), promise: left)
    }

    /// Sends a close frame and drops messages that still come. The channel is closed when the peer has
    /// answered, or after `closeTimeout`.
    public func finish(_ reason: WebSocketClose) { finish(reason, within: closeTimeout) }

    private func finish(_ reason: WebSocketClose, within time: TimeAmount) {
        close(reason)
        state.withLock({ $0.delivery.discard() })?.end(.closed)
        deliver()
        let timeout = channel.eventLoop.scheduleTask(in: time) { [channel] in channel.close(promise: nil) }
        channel.closeFuture.whenComplete { _ in timeout.cancel() }
    }

    private func leave(_ reason: WebSocketClose) async {
        finish(reason)
        let channel = channel
        await withTaskCancellationHandler {
            try? await channel.closeFuture.get()
        } onCancel: {
            channel.close(promise: nil)
        }
    }

    private var mask: WebSocketMaskingKey? { role == .client ? .random() : nil }

    private var closed: WebSocketError { WebSocketError(.closed, "the connection is closed") }

    private static var lost: WebSocketError { WebSocketError(.connectionLost, "the connection was lost") }

    /// The messages of a connection.
    public struct Messages: AsyncSequence, Sendable {
        /// One binary message.
        public typealias Element = [UInt8]
        fileprivate let connection: WebSocketConnection

        /// Reads one message after the other.
        public struct AsyncIterator: AsyncIteratorProtocol {
            fileprivate let connection: WebSocketConnection

            /// See `WebSocketConnection.receive()`.
            public mutating func next() async throws -> [UInt8]? { try await connection.receive() }
        }

        /// The iterator; the messages are taken from the connection, so two iterators share them.
        public func makeAsyncIterator() -> AsyncIterator { AsyncIterator(connection: connection) }
    }
}

/// An event on a WebSocket that is read without a task.
public enum WebSocketArrival: Sendable {
    /// A message; `taken` is called once, when the next one may come.
    case message([UInt8], taken: @Sendable () -> Void)
    /// The peer has closed, or the connection is lost. Nothing arrives afterwards.
    case ended
}

// Reading and sending without a task.
extension WebSocketConnection {
    /// Begins to hand over messages: one at a time, the next one after `taken` was called.
    public func handOver(to arrived: @escaping @Sendable (WebSocketArrival) -> Void) {
        state.withLock { $0.delivery.begin(.line(arrived)) }
        deliver()
    }

    /// Sends one message after the earlier ones, without waiting. Calls `whenSent` with true once it has
    /// left, with false if it cannot leave.
    public func post(_ frame: [UInt8], whenSent: @escaping @Sendable (Bool) -> Void) {
        guard (try? check(frame)) != nil else { return whenSent(false) }
        written(frame).whenComplete { result in
            if case .success = result { whenSent(true) } else { whenSent(false) }
        }
    }

    private func written(_ message: [UInt8]) -> EventLoopFuture<Void> {
        guard role == .server, channel.eventLoop.inEventLoop else {
            return channel.writeAndFlush(frame(message))
        }
        let promise = channel.eventLoop.makePromise(of: Void.self)
        let bytes = FramedMessage.bytes(of: message, channel.allocator)
        output.value.writeAndFlush(NIOAny(bytes), promise: promise)
        return promise.futureResult
    }

    /// Runs the work on the event loop. Frames posted there are written without another hop, and when one
    /// change goes to many sessions, the loops share the work.
    public func nearby(_ work: @escaping @Sendable () -> Void) { channel.eventLoop.execute(work) }

    /// Closes after the posted messages have left, or after `patience`. Nothing is handed over any more.
    public func end(_ reason: WebSocketClose, within patience: Duration) async {
        let patience = TimeAmount(patience)
        finish(reason, within: closeTimeout + patience)
        let limit = channel.eventLoop.scheduleTask(in: patience) { [channel] in channel.close(promise: nil) }
        try? await state.withLock { $0.closing.leaving }?.get()
        limit.cancel()
    }
}
