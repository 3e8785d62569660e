import CRDT
import DQL
import Foundation
import Synchronization

/// How a transaction ends.
public enum DittoTransactionCompletionAction: Sendable, Equatable {
    /// Everything it wrote becomes visible and durable, in one step.
    case commit
    /// Nothing of it ever was.
    case rollback
}

/// What is known of a transaction.
public struct DittoTransactionInfo: Sendable, Equatable {
    /// Names it in the log; unique.
    public let id: String
    /// What the application called it.
    public let hint: String?
    /// Whether it reads only.
    public let isReadOnly: Bool
}

/// Statements that see one state of the store and happen as a whole or not at all.
///
/// Given to the closure of `DittoStore.transaction`, and of no use after it has returned.
public final class DittoTransaction: DittoQueryExecuting, Sendable {
    /// What is known of it.
    public let info: DittoTransactionInfo
    /// The store it belongs to.
    public let store: DittoStore
    let session: TransactionSession
    /// The transaction of another store that this one was begun in.
    private let outer: DittoTransaction?

    /// The transaction that the current task is in.
    @TaskLocal static var current: DittoTransaction?

    init(_ info: DittoTransactionInfo, _ store: DittoStore, _ session: TransactionSession) {
        self.info = info
        self.store = store
        self.session = session
        outer = Self.current
    }

    /// Executes one statement in the transaction. One that throws has written nothing, and the transaction
    /// can go on.
    /// - Throws: as `DittoStore.execute`; `storeError(.transactionReadOnly)` for a statement that writes in a
    ///   transaction that reads; `storeError(.backendError)` once the transaction has ended.
    @discardableResult
    public func execute(query: String, arguments: [String: Any?]? = [:]) async throws -> DittoQueryResult {
        do {
            return try await session.execute(query, try Arguments.object(arguments))
        } catch {
            throw DittoSwiftError.translated(error)
        }
    }

    /// Refuses what would wait for the current task's own transaction for ever.
    /// - Throws: `SDK-0205` when the task is inside an open transaction of this store.
    static func checkNotInside(_ store: DittoStore, _ what: String) throws(SDKError) {
        var inside = current
        while let transaction = inside {
            guard transaction.store !== store || !transaction.session.isOpen else {
                throw SDKError(
                    .transactionNested,
                    "\(what) inside transaction \(transaction.info.id) would wait for it for ever: use the"
                        + " transaction's own execute")
            }
            inside = transaction.outer
        }
    }
}

extension DittoStore {
    /// Runs a closure in a transaction, which ends as the closure says: by `.commit` or `.rollback`.
    ///
    /// Transactions that write come one after the other; those that read run beside everything else, on the
    /// state they found. An error that the closure throws rolls back and is thrown on; one that it catches
    /// does not.
    /// - Parameters:
    ///   - hint: a name for it in the log.
    ///   - isReadOnly: whether it only reads.
    ///   - scope: what happens in it.
    /// - Throws: what the closure throws; `storeError(.backendError)` when it cannot begin within
    ///   `sqlite3_begin_txn_timeout_secs`, or when it cannot be committed;
    ///   `storeError(.queryNotSupported)` inside another transaction.
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

    /// As above, for a closure that returns something else: that commits.
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
