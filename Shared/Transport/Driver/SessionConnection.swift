import Synchronization

/// A duplex channel of whole frames that needs no task of its own, the form preferred by a session's pump:
/// it delivers arriving frames by a callback, and accepts frames to send.
public protocol SessionLine: Sendable {
    /// Starts delivering arriving messages: one at a time, the next one after `taken` was called.
    func begin(_ arrived: @escaping @Sendable (SessionArrival) -> Void)

    /// Sends one frame after the earlier ones, without waiting; reports whether it was sent, once that is
    /// known.
    func post(_ frame: [UInt8], whenSent: @escaping @Sendable (Bool) -> Void)

    /// Runs a short piece of work where posting is cheapest: at once, or soon on the sending thread.
    func nearby(_ work: @escaping @Sendable () -> Void)

    /// Sends the posted frames, waiting a bounded time for a stuck receiver, and closes with a code of RFC
    /// 6455 section 7.4 and a reason. Nothing arrives any more.
    func end(code: UInt16, reason: String) async
}

extension SessionLine {
    /// Runs the work at once.
    public func nearby(_ work: @escaping @Sendable () -> Void) { work() }
}

/// An arrival on a line.
public enum SessionArrival: Sendable {
    /// A frame; call `taken` once, when the next one may come.
    case frame([UInt8], taken: @Sendable () -> Void)
    /// The other side has closed, or the connection is lost. Nothing follows.
    case ended
}

/// A duplex channel of whole frames that is read and written by tasks.
public protocol SessionConnection: Sendable {
    /// Sends one frame; waits while the other side does not accept more.
    func send(_ frame: [UInt8]) async throws

    /// The next frame; nil when the other side has closed.
    func receive() async throws -> [UInt8]?

    /// Closes with a code of RFC 6455 section 7.4 and a reason; the first call counts.
    func close(code: UInt16, reason: String)
}

/// A connection as a line: a task that reads, and one that writes.
final class TaskedLine: SessionLine {
    private typealias Posted = (frame: [UInt8], whenSent: @Sendable (Bool) -> Void)

    private let connection: any SessionConnection
    private let posted: AsyncStream<Posted>
    private let output: AsyncStream<Posted>.Continuation
    private let tasks = Mutex<(reader: Task<Void, Never>, writer: Task<Void, Never>)?>(nil)

    init(_ connection: any SessionConnection) {
        self.connection = connection
        (posted, output) = AsyncStream.makeStream(of: Posted.self)
    }

    func begin(_ arrived: @escaping @Sendable (SessionArrival) -> Void) {
        let reader = Task { [connection] in
            // Why it ended is the session's to say.
            while let frame = try? await connection.receive() {
                await withCheckedContinuation { taken in
                    arrived(.frame(frame) { taken.resume() })
                }
            }
            arrived(.ended)
        }
        let writer = Task { [connection, posted] in
            var isLost = false
            for await (frame, whenSent) in posted {
                if !isLost { isLost = (try? await connection.send(frame)) == nil }
                whenSent(!isLost)
            }
        }
        tasks.withLock { $0 = (reader, writer) }
    }

    func post(_ frame: [UInt8], whenSent: @escaping @Sendable (Bool) -> Void) {
        output.yield((frame, whenSent))
    }

    func end(code: UInt16, reason: String) async {
        output.finish()
        guard let (reader, writer) = tasks.withLock({ $0 }) else { return }
        let limit = Task {
            try await Task.sleep(for: Limits.lastFramesTimeout)
            writer.cancel()
        }
        await writer.value
        limit.cancel()
        connection.close(code: code, reason: reason)
        reader.cancel()
        await reader.value
    }
}
