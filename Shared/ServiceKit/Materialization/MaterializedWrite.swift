import Exchange
import Machine
import OperationLog
import Replica
import Tracing

extension Materializer {
    /// A write's own result, and the operations that it has folded.
    public typealias Written<Result> = (result: Result, folded: [FoldedOperation])

    /// Runs a write that appends to the log and folds what it has appended, in its turn among the folds.
    /// Returns after the position has moved and all listeners have been told.
    /// - Parameter body: gets the replica and its position, on a thread that may block.
    /// - Throws: the errors of `body`; `ReplicaError.closed` after `close`.
    public func write<Result: Sendable>(
        _ body: @escaping @Sendable (Materialization, LogPosition) throws -> Written<Result>
    ) async throws -> Result {
        // A fold before it may be yielding to appends.
        throttle.beginWait()
        defer { throttle.endWait() }
        let answer = PendingAnswer<Swift.Result<Result, any Error>>()
        let previous = folding
        folding = Task {
            _ = try? await previous?.value
            do {
                answer.give(.success(try await self.perform(body)))
            } catch {
                answer.give(.failure(error))
            }
        }
        return try await answer.get()
    }

    private func perform<Result: Sendable>(
        _ body: @escaping @Sendable (Materialization, LogPosition) throws -> Written<Result>
    ) async throws -> Result {
        guard !isClosed else { throw ReplicaError(.closed, "the materialization was closed") }
        let (replica, position) = (replica, position)
        let written = try await withSpan("write") { span in
            span.attributes["mimeo.database"] = database.text
            let context = span.context
            return try await executor.run {
                // The thread is no task's: the spans of what it does belong to this one all the same.
                try ServiceContextModule.ServiceContext.$current.withValue(context) {
                    try body(replica, position)
                }
            }
        }
        guard !written.folded.isEmpty else { return written.result }
        failure = nil
        own.note(written.folded)
        await tell(written.folded)
        return written.result
    }
}

/// The last positions that writes of this process have folded before the log told of them. A wake-up that
/// brings only such entries needs no look at the log.
struct OwnPositions {
    private var positions: [LogPosition] = []

    mutating func note(_ folded: [FoldedOperation]) {
        guard let last = folded.last else { return }
        positions.append(last.position)
        if positions.count > Limits.ownPositions { positions.removeFirst() }
    }

    /// Returns whether the entries end at such a position: then they, and those before them, are folded.
    func endAt(_ entries: [LogEntry]) -> Bool {
        guard let last = entries.last else { return false }
        return positions.contains { $0.offset == last.offset && $0.hash == last.hash }
    }
}
