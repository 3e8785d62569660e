import CRDT
import Dispatch
import Logging
import OperationLog

/// The thread of one database's worker, with its session while there is one.
///
/// Unlike a lane for reading it never retries: the session is lost with its connection, and the lead with
/// the session.
final class WorkerLane: @unchecked Sendable {
    // Unchecked: `session` is touched on the serial `queue` only.
    private let queue = DispatchQueue(label: "mimeo.projection")
    /// For timers, because the thread may be waiting for the server.
    private let timers = DispatchQueue(label: "mimeo.projection.time")
    private let open: @Sendable () throws -> ProjectionSession
    private var session: ProjectionSession?

    init(open: @escaping @Sendable () throws -> ProjectionSession) { self.open = open }

    /// Runs `body` with the session, opening a new one if needed. A session whose `body` fails is closed:
    /// the next one establishes its lead and its state again.
    func run<Result: Sendable>(
        _ body: @escaping @Sendable (ProjectionSession) throws -> Result
    ) async throws -> Result {
        try await withCheckedThrowingContinuation { continuation in
            queue.async {
                continuation.resume(
                    with: Swift.Result {
                        let session = try self.session ?? self.open()
                        self.session = session
                        do {
                            return try body(session)
                        } catch {
                            self.end()
                            throw ProjectionError.translated(error)
                        }
                    })
            }
        }
    }

    /// Closes the session, and with it the lead.
    func drop() async {
        await withCheckedContinuation { continuation in
            queue.async {
                self.end()
                continuation.resume()
            }
        }
    }

    private func end() {
        session?.resign()
        session = nil
    }

    /// Runs `body` after some time, unless the returned item is cancelled before.
    func after(_ time: Duration, _ body: @escaping @Sendable () -> Void) -> DispatchWorkItem {
        let item = DispatchWorkItem(block: body)
        timers.asyncAfter(deadline: .now() + .microseconds(time.wholeMicroseconds), execute: item)
        return item
    }

    /// Waits without blocking a thread.
    func pause(for time: Duration) async {
        await withCheckedContinuation { continuation in
            timers.asyncAfter(deadline: .now() + .microseconds(time.wholeMicroseconds)) {
                continuation.resume()
            }
        }
    }
}
