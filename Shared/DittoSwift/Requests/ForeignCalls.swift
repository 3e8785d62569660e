import CRDT
import DQL
import Dispatch
import Foundation
import Machine

/// The calls of other languages (MimeoC): they block their thread, and pass values in place of dictionaries.
extension DittoStore {
    /// Executes one statement. A SELECT runs on the calling thread, so that nothing waits for another one.
    /// - Parameter beforeWriting: called before a statement that waits for the writer; may throw.
    package func executeBlocking(
        _ statement: String, _ arguments: ObjectValue, beforeWriting: () throws -> Void
    ) throws -> DittoQueryResult {
        let prepared = try engine.settings.prepare(statement)
        let isPlain = prepared.isReadOnly && !prepared.isSystem && !prepared.provisions
        guard isPlain, !engine.isAboutReports(prepared) else {
            if !prepared.isReadOnly { try beforeWriting() }
            let outcome = try Self.waiting { [engine] in try await engine.execute(statement, arguments) }
            return DittoQueryResult(outcome)
        }
        return DittoQueryResult(try engine.readBlocking(statement, arguments, .configured))
    }

    /// Returns whether a statement writes nothing. Throws if it cannot be parsed.
    package func onlyReads(_ statement: String) throws -> Bool {
        try engine.settings.prepare(statement).isReadOnly
    }

    /// Observes a SELECT. The next result comes after `signalNext` was called.
    package func observe(
        _ query: String, _ arguments: ObjectValue, on queue: DispatchQueue,
        handler: @escaping @Sendable (DittoQueryResult, @escaping DittoSignalNext) -> Void
    ) throws(Failure) -> DittoStoreObserver {
        do {
            return try register(query, arguments, GivenArguments(nil), queue, .configured, handler)
        } catch {
            throw Failure(error)
        }
    }

    /// Begins a transaction, which lasts until `OpenTransaction.end`.
    package func beginBlocking(isReadOnly: Bool) throws(Failure) -> OpenTransaction {
        do {
            let info = DittoTransactionInfo(id: UUID().uuidString, hint: nil, isReadOnly: isReadOnly)
            return OpenTransaction(try engine.beginBlocking(info))
        } catch {
            throw Failure(error)
        }
    }

    /// Fetches an attachment by its token as a value.
    package func fetchAttachment(
        token: Value, on queue: DispatchQueue,
        handler: @escaping @Sendable (DittoAttachmentFetchEvent) -> Void
    ) throws(Failure) -> DittoAttachmentFetcher {
        do {
            let members = token.objectValue.map(\.plain) ?? [:]
            return try fetchAttachment(token: members, deliverOn: queue, onFetchEvent: handler)
        } catch {
            throw Failure(foreign: error)
        }
    }

    /// Runs a task and blocks the calling thread, which must not be one of the cooperative pool.
    package static func waiting<Result: Sendable>(
        _ body: @escaping @Sendable () async throws -> Result
    ) throws -> Result {
        let answer = PendingAnswer<Swift.Result<Result, any Error>>()
        Task.detached {
            do {
                answer.give(.success(try await body()))
            } catch {
                answer.give(.failure(error))
            }
        }
        return try answer.wait().get()
    }
}

extension DittoSync {
    /// Subscribes with arguments as values.
    package func subscribe(
        _ query: String, _ arguments: ObjectValue
    ) throws(Failure) -> DittoSyncSubscription {
        do {
            return try registerSubscription(query, arguments, GivenArguments(nil))
        } catch {
            throw Failure(error)
        }
    }
}

/// A transaction without a closure: whoever began it ends it. Any thread may use it, one after another.
package final class OpenTransaction: Sendable {
    private let session: TransactionSession

    init(_ session: TransactionSession) { self.session = session }

    /// Executes one statement in it. A statement that throws has written nothing.
    package func execute(
        _ statement: String, _ arguments: ObjectValue
    ) throws(Failure) -> DittoQueryResult {
        do {
            return try session.executeBlocking([(text: statement, arguments: arguments)], .configured)
        } catch {
            throw Failure(error)
        }
    }

    /// Commits or rolls back; returns when a commit is durable. Throws `SDK-0206` after the end.
    package func end(_ action: DittoTransactionCompletionAction) throws(Failure) {
        do {
            try session.endBlocking(action)
        } catch {
            throw Failure(error)
        }
    }
}

extension DittoAttachment {
    /// Its token, for an argument of a statement: the mark makes it an ATTACHMENT without a declared type.
    package var markedToken: Value { token.marked }
}

extension DittoQueryResult {
    /// The documents that a statement wrote, as values.
    package var mutatedValues: [Value] { mutatedDocumentIDs().map(\.content) }
}

extension Failure {
    /// Any error, also one that was made public already: its message begins with its code.
    package init(foreign error: any Error) {
        guard let made = error as? DittoSwiftError else {
            self.init(error)
            return
        }
        let text = made.errorDescription ?? "\(made)"
        // `DQL-0105 at 1:8: message`
        guard let gap = text.firstRange(of: ": "),
            case let code = text[..<gap.lowerBound].prefix(while: { $0 != " " }),
            code.contains("-")
        else {
            self.init(remote: SDKErrorCode.unexpected.rawValue, text)
            return
        }
        self.init(remote: String(code), String(text[gap.upperBound...]))
    }
}
