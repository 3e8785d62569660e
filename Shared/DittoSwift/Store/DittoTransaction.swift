import CRDT
import DQL
import Foundation
import Synchronization

/// The end of a transaction.
public enum DittoTransactionCompletionAction: Sendable, Equatable {
    /// All its writes become visible and durable in one step.
    case commit
    /// All its writes are discarded.
    case rollback
}

/// Information about a transaction.
public struct DittoTransactionInfo: Sendable, Equatable {
    /// Its name in the log; unique.
    public let id: String
    /// The application's name for it.
    public let hint: String?
    /// True if it only reads.
    public let isReadOnly: Bool
}

/// Statements that see one state of the store and take effect as a whole or not at all.
///
/// Passed to the closure of `DittoStore.transaction`. It cannot be used after the closure has returned.
public final class DittoTransaction: DittoQueryExecuting, Sendable {
    /// Information about it.
    public let info: DittoTransactionInfo
    /// The store it belongs to.
    public let store: DittoStore
    let session: TransactionSession
    /// The transaction of another store inside which this one was begun.
    private let outer: DittoTransaction?

    /// The innermost transaction of the current task.
    @TaskLocal static var current: DittoTransaction?

    init(_ info: DittoTransactionInfo, _ store: DittoStore, _ session: TransactionSession) {
        self.info = info
        self.store = store
        self.session = session
        outer = Self.current
    }

    /// Executes one statement in the transaction. A statement that throws has written nothing, and the
    /// transaction can continue.
    /// - Throws: as `DittoStore.execute`; `storeError(.transactionReadOnly)` for a statement that writes in
    ///   a read-only transaction; `storeError(.backendError)` once the transaction has ended.
    @discardableResult
    public func execute(query: String, arguments: [String: Any?]? = [:]) async throws -> DittoQueryResult {
        do {
            return try await session.execute(query, try Arguments.object(arguments))
        } catch {
            throw DittoSwiftError.translated(error)
        }
    }

    /// Refuses a call that would wait forever for the current task's own transaction.
    /// - Throws: `SDK-0205` when the task is inside an open transaction of this store.
    static func checkNotInside(_ store: DittoStore, _ what: String) throws(SDKError) {
        var inside = current
        while let transaction = inside {
            guard transaction.store !== store || !transaction.session.isOpen else {
                throw SDKError(
                    .transactionNested,
                    "\(what) inside transaction \(transaction.info.id) would wait for it forever: use the"
                        + " transaction's own execute")
            }
            inside = transaction.outer
        }
    }
}

extension DittoStore {
    /// Runs a closure in a transaction and ends it with the returned action, `.commit` or `.rollback`.
    ///
    /// Transactions that write run one after another. Read-only ones run at the same time as everything
    /// else, on the state at their beginning. An error that leaves the closure rolls back and is rethrown;
    /// an error that the closure catches does not.
    /// - Parameters:
    ///   - hint: a name for it in the log.
    ///   - isReadOnly: true if it only reads.
    ///   - scope: the closure.
    /// - Throws: the errors of the closure; `storeError(.backendError)` when it cannot begin within
    ///   `sqlite3_begin_txn_timeout_secs` or cannot be committed; `storeError(.queryNotSupported)` inside
    ///   another transaction.
    @discardableResult
    @_disfavoredOverload  // or a closure that returns nothing would be taken for one that forgot to
    public nonisolated(nonsending) func transaction(
        hint: String? = nil, isReadOnly: Bool = false,
        with scope:
            nonisolated(nonsending) @escaping (DittoTransaction) async throws ->
            DittoTransactionCompletionAction
    ) async throws -> DittoTransactionCompletionAction {
        try await transaction(hint, isReadOnly, scope) { $0 }
    }

    /// As above, for a closure that returns another type; it always commits.
    @discardableResult
    public nonisolated(nonsending) func transaction<T>(
        hint: String? = nil, isReadOnly: Bool = false,
        with scope: nonisolated(nonsending) @escaping (DittoTransaction) async throws -> T
    ) async throws -> T {
        try await transaction(hint, isReadOnly, scope) { $0 as? DittoTransactionCompletionAction ?? .commit }
    }

    private nonisolated(nonsending) func transaction<T>(
        _ hint: String?, _ isReadOnly: Bool,
        _ scope: nonisolated(nonsending) (DittoTransaction) async throws -> T,
        _ ending: (T) -> DittoTransactionCompletionAction
    ) async throws -> T {
        do {
            try DittoTransaction.checkNotInside(self, "a transaction")
            let info = DittoTransactionInfo(id: UUID().uuidString, hint: hint, isReadOnly: isReadOnly)
            let session = try await engine.begin(info)
            let transaction = DittoTransaction(info, self, session)
            let value: T
            do {
                value = try await DittoTransaction.$current.withValue(transaction) {
                    try await scope(transaction)
                }
            } catch {
                try? await session.end(.rollback)
                throw error
            }
            try await session.end(ending(value))
            return value
        } catch {
            throw DittoSwiftError.translated(error)
        }
    }
}
