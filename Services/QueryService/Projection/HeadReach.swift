import CRDT
import OperationLog
import ServiceKit
import Synchronization

/// Brings a store to the head of its log, for statements that have to see everything that was written before
/// them. The fold is theirs together, and goes on without one whose time is over.
final class HeadReach: Sendable {
    static let lagging = QueryError(.unavailable, "the projection lags behind the log")

    private let database: DatabaseID
    private let log: any OperationLog
    private let store: any ProjectionStore
    private let bounds: QueryServicePart.Bounds
    private let statementTime: Duration
    /// Statements that wait for a fold, or have given up one that goes on and would answer them.
    private let folds = Atomic<Int>(0)

    init(
        _ database: DatabaseID, _ log: any OperationLog, _ store: any ProjectionStore,
        _ bounds: QueryServicePart.Bounds, statementTime: Duration
    ) {
        self.database = database
        self.log = log
        self.store = store
        self.bounds = bounds
        self.statementTime = statementTime
    }

    /// Waits until the store has reached the log's present head, and an offset.
    /// - Parameter evaluation: a statement, which waits for as long as it may take.
    /// - Returns: the greater of the two offsets.
    func head(
        for evaluation: Evaluation? = nil, after minimum: Offset? = nil,
        orElse failure: QueryError = lagging
    ) async throws -> Offset {
        let head = try await log.head(of: database)
        // Also if the position is ahead of the head: the fold detects a log that was reset.
        let offset = max(minimum ?? 0, head.offset)
        if await store.position != head { try await fold(for: evaluation) }
        guard await store.wait(for: offset, timeout: bounds.transactionWait) else {
            throw failure
        }
        return offset
    }

    /// Folds through the log's head.
    /// - Throws: `QUERY-0304` when a statement's time is over, and while very many wait or have given up; the
    ///   errors of the fold.
    private func fold(for evaluation: Evaluation?) async throws {
        let store = store
        guard let evaluation else { return try await store.advance() }
        guard folds.add(1, ordering: .relaxed).newValue <= bounds.waitingForFold else {
            folds.subtract(1, ordering: .relaxed)
            throw Self.lagging
        }
        let work = { @Sendable [self] in
            defer { folds.subtract(1, ordering: .relaxed) }
            try await store.advance()
        }
        guard try await !evaluation.waits(for: work) else { return }
        if case .timeout? = evaluation.end { throw Self.lagging }
        throw QueryError.ended(evaluation.end, after: statementTime)
    }
}
