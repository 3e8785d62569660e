import CRDT
import Dispatch
import Logging
import Machine
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
        try await PendingAnswer.of(queue) {
            let session = try self.session ?? self.open()
            self.session = session
            do {
                return try body(session)
            } catch {
                self.end()
                throw ProjectionError.translated(error)
            }
        }
    }

    /// Closes the session, and with it the lead.
    func drop() async {
        await PendingAnswer.of(queue) { self.end() }
    }

    private func end() {
        session?.resign()
        session = nil
    }

    /// Waits without blocking a thread. Ends at once when the task is cancelled.
    func pause(for time: Duration) async {
        let end = PendingAnswer<Void>()
        timers.asyncAfter(deadline: .now() + .microseconds(time.wholeMicroseconds)) { end.give(()) }
        await withTaskCancellationHandler {
            await end.value()
        } onCancel: {
            end.give(())
        }
    }
}
