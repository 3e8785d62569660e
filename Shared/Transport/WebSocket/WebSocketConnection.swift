import NIOCore
import NIOWebSocket
import Synchronization

/// A WebSocket as a pipe of binary messages, for either side.
///
/// Invariants: messages arrive whole and in order; at most one task reads (`receive` or `inbound`); any
/// number of tasks send, each message in one frame. Back-pressure reaches the peer in both directions:
/// `send` waits while the socket does not take more, and the socket is not read while nobody receives.
/// Once a close frame has gone out nothing else does. `state` guards the phase and the close reasons;
/// `source` and `assembler` belong to the one reading task, which `state.isReading` enforces.
public final class WebSocketConnection: Sendable {
    /// Which side of the connection this is: clients mask what they send.
    public enum Role: Sendable {
        /// The side that dialled.
        case client
        /// The side that accepted.
        case server
    }

    private struct State {
        var isReading = false
        var sentClose: WebSocketClose?
        var receivedClose: WebSocketClose?
    }

    private typealias Inbound = NIOAsyncChannelInboundStream<WebSocketFrame>

    /// Safe although unchecked: only the task that has set `state.isReading` touches it.
    private final class Source: @unchecked Sendable {
        var iterator: Inbound.AsyncIterator
        var assembler: MessageAssembler

        init(_ iterator: Inbound.AsyncIterator, _ assembler: MessageAssembler) {
            self.iterator = iterator
            self.assembler = assembler
        }

        func next() async throws -> WebSocketFrame? { try await iterator.next() }
    }

    private let channel: any Channel
    private let outbound: NIOAsyncChannelOutboundWriter<WebSocketFrame>
    private let role: Role
    private let configuration: WebSocketConfiguration
    private let source: Source
    private let unread: UnreadFrames
    private let state = Mutex(State())

    private init(
        channel: any Channel, inbound: Inbound, outbound: NIOAsyncChannelOutboundWriter<WebSocketFrame>,
        role: Role,
        configuration: WebSocketConfiguration, unread: UnreadFrames
    ) {
        self.channel = channel
        self.outbound = outbound
        self.role = role
        self.configuration = configuration
        self.unread = unread
        source = Source(
            inbound.makeAsyncIterator(), MessageAssembler(maximumBytes: configuration.maximumMessageBytes))
    }

    /// Runs `body` with the connection and closes it afterwards: with 1000 when `body` returns, with 1011
    /// when it throws, unless it is closed already. The peer's answer is waited for, at most `closeTimeout`.
    /// - Parameter channel: an upgraded channel, which must not be used elsewhere.
    public static func run<Result: Sendable>(
        over channel: NIOAsyncChannel<WebSocketFrame, WebSocketFrame>, role: Role,
        configuration: WebSocketConfiguration = WebSocketConfiguration(),
        _ body: @Sendable (WebSocketConnection) async throws -> Result
    ) async throws -> Result {
        let unread = UnreadFrames()
        let underlying = channel.channel
        try? await underlying.eventLoop.submit {
            let operations = underlying.pipeline.syncOperations
            let decoder = try operations.handler(type: ByteToMessageHandler<WebSocketFrameDecoder>.self)
            try operations.addHandler(
                WebSocketControlHandler(role: role, configuration: configuration, unread: unread),
                position: .after(decoder))
        }.get()
        return try await channel.executeThenClose { inbound, outbound in
            let connection = WebSocketConnection(
                channel: underlying, inbound: inbound, outbound: outbound, role: role,
                configuration: configuration, unread: unread)
            do {
                let result = try await body(connection)
                connection.close(.normal)
                await connection.drain()
                return result
            } catch {
                connection.close(.internalError)
                await connection.drain()
                throw error
            }
        }
    }

    /// The messages of the peer until it closes. One loop at a time; it must go on taking messages, or the
    /// peer is held back.
    public var inbound: Messages { Messages(connection: self) }

    /// The next message, or nil when the peer, or this side, has closed.
    /// - Throws: `WS-0202` when the connection ended without a close frame; `WS-0203`, `WS-0204`, `WS-0205`
    ///   when the peer broke the rules, after it has been told so.
    public func receive() async throws -> [UInt8]? {
        let isFirst = state.withLock { state in
            defer { state.isReading = true }
            return !state.isReading
        }
        precondition(isFirst, "one task reads a WebSocket")
        defer { state.withLock { $0.isReading = false } }
        do {
            while let frame = try await nextFrame() {
                if let message = try handle(frame) { return message }
                if receivedClose != nil { return nil }
            }
        } catch let error as WebSocketError {
            close(Self.close(for: error))
            throw error
        } catch is CancellationError {
            throw CancellationError()
        } catch {
            throw lost
        }
        if state.withLock({ $0.sentClose != nil || $0.receivedClose != nil }) { return nil }
        try Task.checkCancellation()
        throw lost
    }

    /// Sends one binary message; waits while the socket does not take more.
    /// - Throws: `WS-0203` for a message over the limit, `WS-0201` when the connection is closed,
    ///   `CancellationError`.
    public func send(_ message: [UInt8]) async throws {
        guard message.count <= configuration.maximumMessageBytes else {
            throw WebSocketError(
                .messageTooLarge, "a message is larger than \(configuration.maximumMessageBytes) bytes")
        }
        guard state.withLock({ $0.sentClose == nil && $0.receivedClose == nil }) else { throw closed }
        do {
            try await outbound.write(
                WebSocketFrame(fin: true, opcode: .binary, maskKey: mask, data: ByteBuffer(bytes: message)))
        } catch is CancellationError {
            throw CancellationError()
        } catch {
            throw closed
        }
    }

    /// Says goodbye. Does not wait; the first call counts, later ones change nothing.
    public func close(_ close: WebSocketClose) {
        let isFirst = state.withLock { state in
            guard state.sentClose == nil else { return false }
            state.sentClose = close
            return true
        }
        guard isFirst else { return }
        channel.writeAndFlush(WebSocketFrame.close(close, maskKey: mask), promise: nil)
    }

    /// Why the peer closed, once it has.
    public var receivedClose: WebSocketClose? { state.withLock { $0.receivedClose } }

    private func nextFrame() async throws -> WebSocketFrame? {
        do {
            let frame = try await source.next()
            if frame != nil { unread.remove() }
            return frame
        } catch let error as NIOWebSocketError {
            throw Self.violation(error)
        }
    }

    /// The message a frame completes, or nil.
    private func handle(_ frame: WebSocketFrame) throws(WebSocketError) -> [UInt8]? {
        guard frame.reservedBits.isEmpty, (frame.maskKey != nil) == (role == .server) else {
            throw WebSocketError(.protocolViolation, "a frame has reserved bits or the wrong masking")
        }
        switch frame.opcode {
        case .binary, .continuation:
            return try source.assembler.add(frame)
        case .text:
            throw WebSocketError(.textMessage, "only binary messages are spoken here")
        case .connectionClose:
            guard frame.fin, let reason = frame.closeReason else {
                throw WebSocketError(.protocolViolation, "a malformed close frame")
            }
            state.withLock { $0.receivedClose = reason }
            close(reason.code == WebSocketClose.noStatus.code ? .noStatus : WebSocketClose(code: reason.code))
            return nil
        case .ping where frame.fin:
            // One that was on its way before the control handler stood in the pipeline.
            channel.writeAndFlush(
                WebSocketFrame(fin: true, opcode: .pong, maskKey: mask, data: frame.unmaskedData),
                promise: nil)
            return nil
        case .pong where frame.fin:
            return nil
        default:
            throw WebSocketError(.protocolViolation, "a frame of an unknown kind")
        }
    }

    /// Waits for the peer's close frame, or for the end, or for `closeTimeout`.
    private func drain() async {
        guard receivedClose == nil else { return }
        let channel = channel
        let timeout = channel.eventLoop.scheduleTask(in: TimeAmount(configuration.closeTimeout)) {
            channel.close(promise: nil)
        }
        defer { timeout.cancel() }
        // A decoder that has failed passes nothing on any more, so the end is what is waited for then.
        while let frame = try? await source.next() {
            if frame.opcode == .connectionClose { return }
        }
        if !Task.isCancelled { try? await channel.closeFuture.get() }
    }

    private static func violation(_ error: NIOWebSocketError) -> WebSocketError {
        switch error {
        case .invalidFrameLength: WebSocketError(.messageTooLarge, "a frame is larger than the limit")
        default: WebSocketError(.protocolViolation, "the peer's frames are malformed")
        }
    }

    private static func close(for error: WebSocketError) -> WebSocketClose {
        switch error.code {
        case .messageTooLarge: .messageTooLarge
        case .textMessage: .unacceptableData
        default: .protocolError
        }
    }

    private var mask: WebSocketMaskingKey? { role == .client ? .random() : nil }

    private var closed: WebSocketError { WebSocketError(.closed, "the connection is closed") }

    private var lost: WebSocketError { WebSocketError(.connectionLost, "the connection was lost") }

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

extension WebSocketConnection: SessionConnection {
    /// See `SessionConnection`.
    public func close(code: UInt16, reason: String) { close(WebSocketClose(code: code, reason: reason)) }
}
