import CRDT
import Dispatch
import Logging
import OperationLog

/// The thread of one database's worker, with its session while there is one.
///
/// Unlike a lane for reading it never tries twice: with the connection the session is gone, and with that the
/// lead.
final class WorkerLane: @unchecked Sendable {
    // Unchecked: `session` is touched on the serial `queue` only.
    private let queue = DispatchQueue(label: "mimeo.projection")
    /// For what is only a matter of time: the thread may be waiting for the server.
    private let timers = DispatchQueue(label: "mimeo.projection.time")
    private let open: @Sendable () throws -> ProjectionSession
    private var session: ProjectionSession?

    init(open: @escaping @Sendable () throws -> ProjectionSession) { self.open = open }

    /// Runs `body` with the session, a new one if need be. One that fails in `body` is closed: what it leads
    /// and what it remembers is then found out anew.
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

    /// Runs `body` after some time, unless what this returns is cancelled before.
    func after(_ time: Duration, _ body: @escaping @Sendable () -> Void) -> DispatchWorkItem {
        let item = DispatchWorkItem(block: body)
        timers.asyncAfter(deadline: .now() + .microseconds(time.wholeMicroseconds), execute: item)
        return item
    }

    /// Lets some time pass without holding a thread.
    func pause(for time: Duration) async {
        await withCheckedContinuation { continuation in
            timers.asyncAfter(deadline: .now() + .microseconds(time.wholeMicroseconds)) {
                continuation.resume()
            }
        }
    }
}
