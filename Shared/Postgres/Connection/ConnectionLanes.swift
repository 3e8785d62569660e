import Dispatch
import Machine
import OperationLog
import Synchronization

/// A few connections for reading. Each lane is a serial queue with a connection of its own, opened at its
/// first use and again after it was lost. Work goes to the lane with the shortest queue.
///
/// Invariants: a lane's connection is touched on its queue only. At most `waitingReads` pieces of work
/// wait.
final class ConnectionLanes: Sendable {
    /// The connection of one lane.
    private final class Lane: @unchecked Sendable {
        // Unchecked: `connection` is touched on the serial `queue` only.
        let queue: DispatchQueue
        var connection: Connection?

        init(number: Int) { queue = DispatchQueue(label: "mimeo.postgres.read-\(number)") }
    }

    /// The connection used by running work, so that it can be hung up.
    private final class Line: Sendable {
        private struct State {
            var connection: AnswerWatch.Entry?
            var isHungUp = false
        }

        private let state = Mutex(State())

        func take(_ connection: AnswerWatch.Entry) throws(CancellationError) {
            let isHungUp = state.withLock { state in
                if !state.isHungUp { state.connection = connection }
                return state.isHungUp
            }
            if isHungUp { throw CancellationError() }
        }

        /// Protects the connection's next user from a hang-up.
        func leave() { state.withLock { $0.connection = nil } }

        func hangUp() {
            state.withLock { state in
                state.isHungUp = true
                if let connection = state.connection { AnswerWatch.shared.hangUp(connection) }
            }
        }
    }

    private struct State {
        var waiting: [Int]
        var isClosed = false
    }

    private let url: String
    private let patience: Duration
    private let fence: ServerFence?
    private let lanes: [Lane]
    private let state: Mutex<State>

    /// Lanes to this server, which has `patience` to answer. Opens nothing yet.
    init(
        url: String, count: Int = PostgresLimits.readLanes,
        patience: Duration = PostgresLimits.answerTimeout, fence: ServerFence? = nil
    ) {
        self.url = url
        self.patience = patience
        self.fence = fence
        lanes = (0..<count).map(Lane.init)
        state = Mutex(State(waiting: Array(repeating: 0, count: count)))
    }

    /// Runs `body` with a connection on a thread that may block. A connection that was lost while idle is
    /// opened again.
    /// - Parameter isRepeatable: true to run `body` a second time when its connection is lost. Reads have
    ///   no effect, so repeating them is safe; a change may have been made and only its answer lost.
    /// - Throws: the errors of `body`; `LOG-0305` when too many wait, `LOG-0306` when closed, `LOG-0309`
    ///   when the server cannot be reached.
    func run<Result: Sendable>(
        isRepeatable: Bool = true, _ body: @escaping @Sendable (Connection) throws -> Result
    ) async throws -> Result {
        let number = try enter()
        defer { state.withLock { $0.waiting[number] -= 1 } }
        let lane = lanes[number]
        return try await PendingAnswer.of(lane.queue) { [self] in try attempt(lane, isRepeatable, body) }
    }

    /// Like `run` with repeatable work, on the calling thread, which may block.
    func runHere<Result>(_ body: (Connection) throws -> Result) throws -> Result {
        let number = try enter()
        defer { state.withLock { $0.waiting[number] -= 1 } }
        let lane = lanes[number]
        return try lane.queue.sync { try attempt(lane, true, body) }
    }

    /// Like `run`, for long work that may be interrupted: when the calling task is cancelled, its
    /// connection is hung up. The server may still complete the current statement.
    /// - Throws: `CancellationError` then.
    func runWhileWanted<Result: Sendable>(
        _ body: @escaping @Sendable (Connection) throws -> Result
    ) async throws -> Result {
        let line = Line()
        do {
            return try await withTaskCancellationHandler {
                try await run(isRepeatable: false) { connection in
                    try line.take(connection.watch)
                    defer { line.leave() }
                    return try body(connection)
                }
            } onCancel: {
                line.hangUp()
            }
        } catch {
            try Task.checkCancellation()
            throw error
        }
    }

    /// Refuses new work, and closes the connections when the accepted work has ended.
    func close() async {
        state.withLock { $0.isClosed = true }
        for lane in lanes {
            await PendingAnswer.of(lane.queue) { lane.connection = nil }
        }
    }

    private func enter() throws(OperationLogError) -> Int {
        let outcome = state.withLock { state -> Swift.Result<Int, OperationLogError> in
            guard !state.isClosed else { return .failure(OperationLogError(.closed, "the log was closed")) }
            let shortest = state.waiting.indices.min { state.waiting[$0] < state.waiting[$1] } ?? 0
            guard state.waiting.reduce(0, +) < PostgresLimits.waitingReads else {
                return .failure(OperationLogError(.overloaded, "too many reads wait for PostgreSQL"))
            }
            state.waiting[shortest] += 1
            return .success(shortest)
        }
        return try outcome.get()
    }

    private func attempt<Result>(
        _ lane: Lane, _ isRepeatable: Bool, _ body: (Connection) throws -> Result
    ) throws -> Result {
        // A server that restarted while the connection was idle must not make the outcome unknown.
        if let known = lane.connection, !isRepeatable, !known.isAlive { lane.connection = nil }
        let isFresh = lane.connection == nil
        let connection = try connection(of: lane)
        do {
            return try body(connection)
        } catch let error as PostgresError where error.isConnectionLost {
            lane.connection = nil
            guard isRepeatable, !isFresh else { throw error }
            return try body(try self.connection(of: lane))
        }
    }

    /// An error here means that nothing was sent, so nothing was changed.
    private func connection(of lane: Lane) throws(OperationLogError) -> Connection {
        if let connection = lane.connection, fence?.isCurrent(connection) ?? true { return connection }
        lane.connection = nil
        do {
            let connection = try Connection(url: url, patience: patience)
            try fence?.admit(connection)
            lane.connection = connection
            return connection
        } catch let error as OperationLogError {
            throw error
        } catch {
            throw OperationLogError(.unreachable, "PostgreSQL cannot be reached: \(error)")
        }
    }
}
