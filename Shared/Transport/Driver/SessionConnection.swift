import Synchronization

/// A pipe of whole frames to the other side that needs no task of its own, as a session's pump likes it
/// best: it hands over what arrives, and takes what is to leave.
public protocol SessionLine: Sendable {
    /// Begins to hand over what arrives: one message at a time, the next one after `taken` was called.
    func begin(_ arrived: @escaping @Sendable (SessionArrival) -> Void)

    /// Sends one frame behind those before, without waiting; says whether it has left, when that is known.
    func post(_ frame: [UInt8], whenSent: @escaping @Sendable (Bool) -> Void)

    /// Does a short piece of work where posting costs least: here and now, or soon on the thread that sends.
    func nearby(_ work: @escaping @Sendable () -> Void)

    /// Lets what was posted leave, but no longer than a stuck receiver deserves, and closes with a code of
    /// RFC 6455 section 7.4 and a reason. Nothing arrives any more.
    func end(code: UInt16, reason: String) async
}

extension SessionLine {
    /// Here and now.
    public func nearby(_ work: @escaping @Sendable () -> Void) { work() }
}

/// What arrives on a line.
public enum SessionArrival: Sendable {
    /// A frame; `taken` is called once, when the next one may come.
    case frame([UInt8], taken: @Sendable () -> Void)
    /// The other side has closed, or the connection is lost. Nothing comes behind it.
    case ended
}

/// A pipe of whole frames to the other side that is read and written by tasks.
public protocol SessionConnection: Sendable {
    /// Sends one frame; waits while the other side does not take more.
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
