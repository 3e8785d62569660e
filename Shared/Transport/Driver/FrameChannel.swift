import Machine
import Synchronization

/// A duplex channel of whole frames without a task of its own: it delivers arriving frames by a callback, and
/// accepts frames to send.
public protocol FrameChannel: Sendable {
    /// Starts delivering arriving messages: one at a time, the next one after `taken` was called.
    func begin(_ arrived: @escaping @Sendable (FrameArrival) -> Void)

    /// Sends one frame after the earlier ones, without waiting; reports whether it was sent, once that is
    /// known.
    func post(_ frame: [UInt8], whenSent: @escaping @Sendable (Bool) -> Void)

    /// Runs a short piece of work where posting is cheapest: at once, or soon on the sending thread.
    func nearby(_ work: @escaping @Sendable () -> Void)

    /// Sends the posted frames, waiting a bounded time for a stuck receiver, and closes with a code of RFC
    /// 6455 section 7.4 and a reason. Nothing arrives any more.
    func end(code: UInt16, reason: String) async
}

extension FrameChannel {
    /// Runs the work at once.
    public func nearby(_ work: @escaping @Sendable () -> Void) { work() }
}

/// An arrival on a channel.
public enum FrameArrival: Sendable {
    /// A frame; call `taken` once, when the next one may come.
    case frame([UInt8], taken: @Sendable () -> Void)
    /// The other side has closed, or the connection is lost. Nothing follows.
    case ended
}

/// A channel over a connection that is read and written by tasks: one that waits for frames, and one that
/// writes. Pipes within a process are such connections.
public final class TaskedChannel: FrameChannel {
    private typealias Posted = (frame: [UInt8], whenSent: @Sendable (Bool) -> Void)

    private let send: @Sendable ([UInt8]) async throws -> Void
    private let receive: @Sendable () async throws -> [UInt8]?
    private let close: @Sendable (UInt16, String) -> Void
    private let posted: AsyncStream<Posted>
    private let output: AsyncStream<Posted>.Continuation
    private let tasks = Mutex<(reader: Task<Void, Never>, writer: Task<Void, Never>)?>(nil)

    /// - Parameters:
    ///   - send: sends one frame; waits while the other side does not accept more.
    ///   - receive: the next frame; nil when the other side has closed.
    ///   - close: closes with a code of RFC 6455 section 7.4 and a reason.
    public init(
        send: @escaping @Sendable ([UInt8]) async throws -> Void,
        receive: @escaping @Sendable () async throws -> [UInt8]?,
        close: @escaping @Sendable (_ code: UInt16, _ reason: String) -> Void
    ) {
        self.send = send
        self.receive = receive
        self.close = close
        (posted, output) = AsyncStream.makeStream(of: Posted.self)
    }

    /// See `FrameChannel`.
    public func begin(_ arrived: @escaping @Sendable (FrameArrival) -> Void) {
        let reader = Task { [receive] in
            // Why it ended is the session's to say.
            while let frame = try? await receive() {
                let taken = PendingAnswer<Void>()
                arrived(.frame(frame) { taken.give(()) })
                await taken.value()
            }
            arrived(.ended)
        }
        let writer = Task { [send, posted] in
            var isLost = false
            for await (frame, whenSent) in posted {
                if !isLost { isLost = (try? await send(frame)) == nil }
                whenSent(!isLost)
            }
        }
        tasks.withLock { $0 = (reader, writer) }
    }

    /// See `FrameChannel`.
    public func post(_ frame: [UInt8], whenSent: @escaping @Sendable (Bool) -> Void) {
        // After the end nobody writes it, and whoever waits for it must know.
        if case .terminated = output.yield((frame, whenSent)) { whenSent(false) }
    }

    /// See `FrameChannel`.
    public func end(code: UInt16, reason: String) async {
        output.finish()
        guard let (reader, writer) = tasks.withLock({ $0 }) else { return }
        let limit = Alarm(after: Limits.lastFramesTimeout) { writer.cancel() }
        await writer.value
        limit.cancel()
        close(code, reason)
        reader.cancel()
        await reader.value
    }
}
