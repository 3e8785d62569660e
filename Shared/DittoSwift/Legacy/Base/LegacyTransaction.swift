import CRDT
import DQL
import Foundation
import Synchronization

/// An open transaction of the 4.x API: each call blocks its thread until the store has answered.
///
/// The closure of the application runs on the caller's thread, while a thread of the store holds the writer
/// (`TransactionSession`). So nothing of the application runs twice, and nothing waits for the main queue.
final class LegacyTransaction: Sendable {
    /// The kind of an operation on one document.
    enum Action: Sendable { case inserted, updated, evicted, removed }

    /// One operation of the transaction.
    struct Operation: Sendable {
        let action: Action
        let id: DittoDocumentID
        let collection: String
    }

    let store: DittoStore
    private let session: TransactionSession
    private let done = Mutex<[Operation]>([])

    init(_ store: DittoStore, _ session: TransactionSession) {
        self.store = store
        self.session = session
    }

    /// Runs one statement. A statement that throws has written nothing.
    @discardableResult
    func run(_ statement: String, _ arguments: ObjectValue = ObjectValue()) throws -> DittoQueryResult {
        try run([(text: statement, arguments: arguments)])
    }

    /// Runs statements as one: all take effect or none. The last one gives the result.
    func run(_ statements: [(text: String, arguments: ObjectValue)]) throws -> DittoQueryResult {
        try session.executeBlocking(statements, .legacy)
    }

    /// Notes an operation for the result of `store.write`.
    func note(_ action: Action, _ ids: [DittoDocumentID], _ collection: CollectionName) {
        done.withLock { done in
            done += ids.map { Operation(action: action, id: $0, collection: collection.text) }
        }
    }

    /// The operations so far, in order.
    var operations: [Operation] { done.withLock { $0 } }
}

extension DittoStore {
    /// Runs a closure in a transaction of the 4.x API, on the calling thread, and commits. An error rolls it
    /// back.
    /// - Throws: `SDK-0205` inside another transaction of this store, which it would wait for forever.
    func writing<Result>(_ call: String, _ body: (LegacyTransaction) throws -> Result) throws -> Result {
        try DittoTransaction.checkNotInside(self, call)
        let info = DittoTransactionInfo(id: UUID().uuidString, hint: call, isReadOnly: false)
        let session = try engine.beginBlocking(info)
        let value: Result
        do {
            value = try DittoTransaction.$current.withValue(DittoTransaction(info, self, session)) {
                try body(LegacyTransaction(self, session))
            }
        } catch {
            try? session.endBlocking(.rollback)
            throw error
        }
        try session.endBlocking(.commit)
        return value
    }
}
