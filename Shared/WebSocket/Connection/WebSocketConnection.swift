import NIOCore
import NIOWebSocket
import Synchronization

/// A WebSocket as a channel of binary messages, for either side.
///
/// Invariants: messages arrive whole and in order, with at most one reader (`receive`, `inbound`, or the
/// callback of `begin`). Any number of tasks send, each message in one frame. Back-pressure reaches the
/// peer in both directions: `send` waits while the socket does not accept more, and the socket is not read
/// while much waits for the reader. Nothing is sent after a close frame. An open connection has no task of
/// its own: frames are handled on the event loop, in `WebSocketHandler`. `incoming` is never held across
/// another lock or a wait.
public final class WebSocketConnection: Sendable {
    /// The side of the connection: clients mask their frames.
    public enum Role: Sendable {
        /// The side that dialled.
        case client
        /// The side that accepted.
        case server
    }

    let role: Role
    private let channel: any Channel
    private let maximumMessageBytes: Int
    private let closeTimeout: TimeAmount
    /// Where a server writes whole frames: in front of what makes them.
    private let output: NIOLoopBound<ChannelHandlerContext>
    private let incoming = Mutex(WebSocketIncoming())
    /// Bytes that `send` has handed to the event loop without waiting for them to leave.
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

    /// Runs `body` with the connection and closes it afterwards: with 1000 when `body` returns, with 1011
    /// when it throws, unless it is closed already. Waits for the peer's answer, at most `closeTimeout`.
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
    public var receivedClose: WebSocketClose? { incoming.withLock { $0.receivedClose } }

    /// Whether it ended because the link broke: neither side has closed, or only because it was too long
    /// without an answer. Not so where this side has closed on a peer that breaks the rules.
    public var isLost: Bool {
        incoming.withLock { incoming in
            if case .failed(let error) = incoming.end, error.code != .connectionLost { return false }
            return incoming.receivedClose.map { $0 == .unanswered } ?? true
        }
    }

    /// What ended it outside of the session, in words: the peer's close, or the rule that it has broken; nil
    /// where the link broke.
    public var farewell: String? {
        incoming.withLock { incoming in
            if case .failed(let error) = incoming.end, error.code != .connectionLost {
                return error.description
            }
            return incoming.receivedClose.map { "the other side has closed: \($0.code) \($0.reason)" }
        }
    }

    // MARK: Receiving

    /// The next message, or nil when the peer, or this side, has closed.
    /// - Throws: `WS-0202` when the connection ended without a close frame; `WS-0203`, `WS-0204`, `WS-0205`
    ///   when the peer broke the rules, after telling it so.
    public func receive() async throws -> [UInt8]? {
        let isFirst = incoming.withLock { incoming in
            defer { incoming.isReading = true }
            return !incoming.isReading
        }
        precondition(isFirst, "one task reads a WebSocket")
        defer { incoming.withLock { $0.isReading = false } }
        return try await withTaskCancellationHandler {
            try await withCheckedThrowingContinuation { continuation in
                incoming.withLock { $0.taker = .once(continuation) }
                hand()
                if Task.isCancelled { stopReceiving() }
            }
        } onCancel: {
            stopReceiving()
        }
    }

    private func stopReceiving() {
        let waiting = incoming.withLock { incoming -> CheckedContinuation<[UInt8]?, any Error>? in
            guard case .once(let continuation) = incoming.taker else { return nil }
            incoming.taker = .none
            return continuation
        }
        waiting?.resume(throwing: CancellationError())
    }

    /// Hands over what waits, if somebody takes it. Who takes a message may ask for the next one at once:
    /// that is seen here, by whoever is at it, and takes no room on the stack.
    private func hand() {
        var goesOn = incoming.withLock { incoming in
            defer { incoming.isHanding = true }
            return !incoming.isHanding
        }
        while goesOn {
            let (deed, isFree) = incoming.withLock { incoming -> ((() -> Void)?, Bool) in
                let deed = self.deed(&incoming)
                let isFree = incoming.isHeldBack && !incoming.isFull
                if isFree { incoming.isHeldBack = false }
                // From here on who comes hands over.
                incoming.isHanding = deed != nil || isFree
                return (deed, isFree)
            }
            if isFree { channel.read() }
            deed?()
            goesOn = deed != nil || isFree
        }
    }

    /// What is to be done for whoever takes, outside of the lock.
    private func deed(_ incoming: inout WebSocketIncoming) -> (() -> Void)? {
        switch incoming.taker {
        case .none: return nil
        case .discarding:
            incoming.messages = .empty
            incoming.bytes = 0
            return nil
        case .once(let continuation):
            if let message = Self.next(&incoming) {
                incoming.taker = .none
                return { continuation.resume(returning: message) }
            }
            guard let end = incoming.end else { return nil }
            incoming.taker = .none
            return {
                switch end {
                case .closed: continuation.resume(returning: nil)
                case .failed(let error): continuation.resume(throwing: error)
                }
            }
        case .line(let arrived, isBusy: false):
            if let message = Self.next(&incoming) {
                incoming.taker = .line(arrived, isBusy: true)
                return { arrived(.message(message) { self.taken() }) }
            }
            guard incoming.end != nil else { return nil }
            incoming.taker = .discarding
            return { arrived(.ended) }
        case .line: return nil
        }
    }

    private static func next(_ incoming: inout WebSocketIncoming) -> [UInt8]? {
        guard !incoming.messages.isEmpty else { return nil }
        let message = incoming.messages.removeFirst()
        incoming.bytes -= message.count
        // What waits for nothing keeps no room.
        if incoming.messages.isEmpty, incoming.messages.capacity > 2 { incoming.messages = .empty }
        return message
    }

    private func taken() {
        incoming.withLock { incoming in
            if case .line(let arrived, isBusy: true) = incoming.taker {
                incoming.taker = .line(arrived, isBusy: false)
            }
        }
        hand()
    }

    // MARK: What the event loop tells

    /// Whether messages wait that nobody has taken.
    var isUnread: Bool { incoming.withLock { !$0.messages.isEmpty } }

    /// Whether the socket is not to be read now: `hand` has it read again.
    func holdsBack() -> Bool {
        incoming.withLock { incoming in
            incoming.isHeldBack = incoming.isFull
            return incoming.isHeldBack
        }
    }

    func arrived(_ message: [UInt8]) {
        incoming.withLock { incoming in
            incoming.messages.append(message)
            incoming.bytes += message.count
        }
        hand()
    }

    /// The peer has closed.
    func heard(_ reason: WebSocketClose) {
        incoming.withLock { incoming in
            incoming.receivedClose = reason
            incoming.end = incoming.end ?? .closed
        }
        answered()
        close(reason.code == WebSocketClose.noStatus.code ? .noStatus : WebSocketClose(code: reason.code))
        hand()
    }

    /// The peer will say nothing any more: behind our own last word the channel is closed.
    func answered() {
        let isSaid = incoming.withLock { incoming in
            incoming.isAnswered = true
            return incoming.isCloseWritten
        }
        if isSaid { channel.close(promise: nil) }
    }

    /// The peer has broken the rules: it is told so, and nothing that it says counts any more.
    func broken(_ error: WebSocketError) {
        incoming.withLock { $0.end = $0.end ?? .failed(error) }
        switch error.code {
        case .messageTooLarge: close(.messageTooLarge)
        case .textMessage: close(.unacceptableData)
        default: close(.protocolError)
        }
        hand()
    }

    /// The peer has not answered for too long. It is told so without waiting, should it still listen.
    func unanswered() {
        incoming.withLock { $0.end = $0.end ?? .failed(Self.lost) }
        close(.unanswered)
        channel.close(promise: nil)
    }

    /// The channel is no more.
    func gone() {
        incoming.withLock { incoming in
            let isClosed = incoming.sentClose != nil || incoming.receivedClose != nil
            incoming.end = incoming.end ?? (isClosed ? .closed : .failed(Self.lost))
        }
        hand()
    }

    // MARK: Sending

    /// Sends one binary message; waits while the socket does not accept more.
    /// - Throws: `WS-0203` for a message over the limit, `WS-0201` when the connection is closed,
    ///   `CancellationError`.
    public func send(_ message: [UInt8]) async throws {
        try check(message)
        // The channel learns of what it has to write when its loop gets to it: until then this counts.
        guard !channel.isWritable || unwritten.load(ordering: .relaxed) > Limits.unwrittenBytes else {
            unwritten.add(message.count, ordering: .relaxed)
            return channel.writeAndFlush(frame(message)).whenComplete { [self] _ in
                unwritten.subtract(message.count, ordering: .relaxed)
            }
        }
        let sent = Mutex<CheckedContinuation<Void, any Error>?>(nil)
        let promise = channel.eventLoop.makePromise(of: Void.self)
        promise.futureResult.whenComplete { [closed] result in
            let waiting = sent.withLock { $0.take() }
            switch result {
            case .success: waiting?.resume()
            case .failure: waiting?.resume(throwing: closed)
            }
        }
        try await withTaskCancellationHandler {
            try await withCheckedThrowingContinuation { continuation in
                sent.withLock { $0 = continuation }
                channel.writeAndFlush(frame(message), promise: promise)
                if Task.isCancelled { sent.withLock { $0.take() }?.resume(throwing: CancellationError()) }
            }
        } onCancel: {
            sent.withLock { $0.take() }?.resume(throwing: CancellationError())
        }
    }

    private func check(_ message: [UInt8]) throws(WebSocketError) {
        guard message.count <= maximumMessageBytes else {
            throw WebSocketError(.messageTooLarge, "a message is larger than \(maximumMessageBytes) bytes")
        }
        let isOpen = incoming.withLock { $0.sentClose == nil && $0.receivedClose == nil }
        guard isOpen, channel.isActive else { throw closed }
    }

    private func frame(_ message: [UInt8]) -> WebSocketFrame {
        WebSocketFrame(fin: true, opcode: .binary, maskKey: mask, data: ByteBuffer(bytes: message))
    }

    // MARK: Closing

    /// Sends a close frame. Does not wait; the first call counts, later ones are no-ops.
    public func close(_ close: WebSocketClose) {
        let isFirst = incoming.withLock { incoming in
            guard incoming.sentClose == nil else { return false }
            incoming.sentClose = close
            return true
        }
        guard isFirst else { return }
        let closing = channel.writeAndFlush(WebSocketFrame.close(close, maskKey: mask))
        incoming.withLock { $0.closing = closing }
        closing.whenComplete { [self] _ in
            let isAnswered = incoming.withLock { incoming in
                incoming.isCloseWritten = true
                return incoming.isAnswered
            }
            if isAnswered { channel.close(promise: nil) }
        }
    }

    /// Sends a close frame and accepts nothing any more; the channel is closed when the other side has
    /// answered, or after `closeTimeout`.
    public func finish(_ reason: WebSocketClose) { finish(reason, within: closeTimeout) }

    private func finish(_ reason: WebSocketClose, within time: TimeAmount) {
        close(reason)
        let waiting = incoming.withLock { incoming in
            defer { incoming.taker = .discarding }
            return incoming.taker
        }
        switch waiting {
        case .once(let continuation): continuation.resume(returning: nil)
        case .line(let arrived, isBusy: _): arrived(.ended)
        default: break
        }
        hand()
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

/// What arrives on a WebSocket that is read without a task.
public enum WebSocketArrival: Sendable {
    /// A message; `taken` is called once, when the next one may come.
    case message([UInt8], taken: @Sendable () -> Void)
    /// The peer has closed, or the connection is lost. Nothing arrives afterwards.
    case ended
}

// A connection without a task of its own: it hands over what arrives, and takes what is to leave.
extension WebSocketConnection {
    /// Begins to hand over what arrives: one message at a time, the next one after `taken` was called.
    public func handOver(to arrived: @escaping @Sendable (WebSocketArrival) -> Void) {
        incoming.withLock { $0.taker = .line(arrived, isBusy: false) }
        hand()
    }

    /// Sends one message after those before, without waiting; says whether it has left, when that is known.
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

    /// Runs the work on the event loop: frames posted there are written without another hop, and the loops
    /// share the work for many sessions that are told of one change.
    public func nearby(_ work: @escaping @Sendable () -> Void) { channel.eventLoop.execute(work) }

    /// Lets what was posted leave, for at most `patience`, and closes. Nothing arrives any more.
    public func end(_ reason: WebSocketClose, within patience: Duration) async {
        let patience = TimeAmount(patience)
        finish(reason, within: closeTimeout + patience)
        let limit = channel.eventLoop.scheduleTask(in: patience) { [channel] in channel.close(promise: nil) }
        try? await incoming.withLock { $0.closing }?.get()
        limit.cancel()
    }
}
