import CRDT
import DQL
import Dispatch
import Machine
import Replica
import Synchronization

/// One open transaction. Statements come from a task of any pace and run one after another on the thread
/// that holds the store's lock.
///
/// Invariants: every command is answered exactly once; nothing is executed after the end; a statement that
/// threw has written nothing. The store may restart the whole transaction under a new actor (rule 10). Then
/// the statements that succeeded run again, with the same ids and the same time, before any command is
/// answered.
final class TransactionSession: Sendable {
    /// A statement to run.
    struct Step: Sendable {
        /// One statement; of several the last one gives the answer.
        let requests: [StatementRequest]
        let ids: GeneratedIDs
        let answer: @Sendable (Result<DittoQueryResult, any Error>) -> Void

        var last: StatementRequest { requests[requests.count - 1] }
        var isReadOnly: Bool { requests.allSatisfy(\.statement.isReadOnly) }

        func run(in transaction: WriteTransaction) throws -> StatementOutcome {
            ids.rewind()
            for request in requests.dropLast() { _ = try request.run(in: transaction, ids.generate) }
            return try last.run(in: transaction, ids.generate)
        }
    }

    /// Learns of the end.
    private typealias Ending = @Sendable (Result<Void, any Error>) -> Void

    private enum Command: Sendable {
        case run(Step)
        case end(DittoTransactionCompletionAction, Ending?)
    }

    private struct Mailbox {
        var commands: [Command] = []
        var isOpen = true
    }

    private let engine: Engine
    private let isReadOnly: Bool
    private let mailbox = Mutex(Mailbox())
    private let arrived = DispatchSemaphore(value: 0)
    private let commit = CommitNumber()

    init(_ engine: Engine, isReadOnly: Bool) {
        self.engine = engine
        self.isReadOnly = isReadOnly
    }

    /// True while statements are accepted.
    var isOpen: Bool { mailbox.withLock { $0.isOpen } }

    /// Runs one statement. Throws its errors, `DQL`'s read-only error, and `SDK-0206` after the end.
    func execute(_ text: String, _ arguments: ObjectValue) async throws -> DittoQueryResult {
        let request = try request(text, arguments, .configured)
        let answer = PendingAnswer<Result<DittoQueryResult, any Error>>()
        put([request]) { answer.give($0) }
        return try await answer.get()
    }

    /// As `execute`, but blocks the calling thread. Several statements take effect together or not at all;
    /// the last one gives the result.
    func executeBlocking(
        _ statements: [(text: String, arguments: ObjectValue)], _ dialect: Dialect
    ) throws -> DittoQueryResult {
        let requests = try statements.map { try request($0.text, $0.arguments, dialect) }
        let answer = PendingAnswer<Result<DittoQueryResult, any Error>>()
        put(requests) { answer.give($0) }
        return try answer.wait().get()
    }

    private func request(
        _ text: String, _ arguments: ObjectValue, _ dialect: Dialect
    ) throws -> StatementRequest {
        let statement = try engine.settings.prepare(text)
        guard !statement.isSystem else {
            throw SDKError(
                .statementNotTransactional, "system parameters are not part of a transaction: use the store")
        }
        guard statement.isReadOnly || !isReadOnly else {
            throw SDKError(.transactionReadOnly, "the transaction is read-only, the statement writes")
        }
        return try engine.request(statement, arguments, nil, dialect)
    }

    private func put(
        _ requests: [StatementRequest],
        _ answer: @escaping @Sendable (Result<DittoQueryResult, any Error>) -> Void
    ) {
        let step = Step(requests: requests, ids: GeneratedIDs(engine.environment), answer: answer)
        if !put(.run(step), isLast: false) { answer(.failure(Self.ended)) }
    }

    /// Ends the transaction; returns when a commit is durable.
    func end(_ action: DittoTransactionCompletionAction) async throws {
        let answer = PendingAnswer<Result<Void, any Error>>()
        end(action) { answer.give($0) }
        try await answer.get()
    }

    /// As `end`, but blocks the calling thread.
    func endBlocking(_ action: DittoTransactionCompletionAction) throws {
        let answer = PendingAnswer<Result<Void, any Error>>()
        end(action) { answer.give($0) }
        try answer.wait().get()
    }

    private func end(_ action: DittoTransactionCompletionAction, _ ending: @escaping Ending) {
        if !put(.end(action, ending), isLast: true) { ending(.failure(Self.ended)) }
    }

    /// Rolls back a transaction that nobody is going to end.
    func abandon() {
        mailbox.withLock { mailbox in
            mailbox.isOpen = false
            mailbox.commands.append(.end(.rollback, nil))
        }
        arrived.signal()
    }

    /// Runs the transaction on the calling thread, which waits for its commands. Calls `began` once it has
    /// the lock or snapshot it needs.
    func run(on replica: PeerReplica, began: () -> Void) throws {
        if isReadOnly {
            try runReading(replica, began)
        } else {
            try runWriting(replica, began)
        }
    }

    private func runReading(_ replica: PeerReplica, _ began: () -> Void) throws {
        let ending = try replica.read { transaction in
            // The first read takes the snapshot.
            _ = try transaction.head()
            began()
            while true {
                switch next() {
                case .run(let step):
                    let outcome = Result {
                        try step.last.read(from: transaction, transaction.collectionNames)
                    }
                    step.answer(outcome.map { DittoQueryResult($0, commit: commit) })
                case .end(_, let ending): return ending
                }
            }
        }
        ending?(.success(()))
    }

    private func runWriting(_ replica: PeerReplica, _ began: () -> Void) throws {
        var done: [Step] = []
        var pending: Command?
        var ending: Ending?
        var hasBegun = false
        let limits = engine.documentLimits
        let outcome = Result {
            try replica.write(limits: limits) { transaction in
                if !hasBegun {
                    hasBegun = true
                    began()
                }
                for step in done { _ = try step.run(in: transaction) }
                while true {
                    let command = pending ?? next()
                    pending = command
                    switch command {
                    case .run(let step):
                        let result = Result { try transaction.atomically { try step.run(in: transaction) } }
                        if transaction.needsNewActor { _ = try result.get() }
                        if case .success = result, !step.isReadOnly { done.append(step) }
                        step.answer(result.map { DittoQueryResult($0, commit: commit) })
                        pending = nil
                    case .end(let action, let isTold):
                        ending = isTold
                        if action == .rollback { throw RolledBack() }
                        return
                    }
                }
            }
        }
        // A transaction that the store did not begin gets no statements, and no end to wait for.
        if !hasBegun { _ = try outcome.get() }
        finish(outcome, pending, ending)
    }

    /// Answers the caller that waits for the end.
    private func finish(
        _ outcome: Result<PeerReplica.WriteResult<Void>, any Error>, _ pending: Command?, _ ending: Ending?
    ) {
        switch outcome {
        case .success(let written):
            commit.set(written.commit)
            ending?(.success(()))
        case .failure(is RolledBack): ending?(.success(()))
        case .failure(let error):
            guard let ending else {
                // The store failed during a statement: the closure's later statements get the error.
                if case .run(let step) = pending { step.answer(.failure(error)) }
                return failFromNowOn(error)
            }
            ending(.failure(error))
        }
    }

    private func failFromNowOn(_ error: any Error) {
        while true {
            switch next() {
            case .run(let step): step.answer(.failure(error))
            case .end(.rollback, let ending): return ending?(.success(())) ?? ()
            case .end(.commit, let ending): return ending?(.failure(error)) ?? ()
            }
        }
    }

    /// Returns false once the transaction has ended.
    private func put(_ command: Command, isLast: Bool) -> Bool {
        let isTaken = mailbox.withLock { mailbox in
            guard mailbox.isOpen else { return false }
            mailbox.isOpen = !isLast
            mailbox.commands.append(command)
            return true
        }
        if isTaken { arrived.signal() }
        return isTaken
    }

    private func next() -> Command {
        arrived.wait()
        return mailbox.withLock { $0.commands.removeFirst() }
    }

    private static let ended = SDKError(.transactionEnded, "the transaction has ended")

    private struct RolledBack: Error {}
}

/// The ids that a statement has generated, so that a second run uses the same ones.
final class GeneratedIDs: Sendable {
    private struct Made {
        var ids: [DocumentID] = []
        var next = 0
    }

    private let environment: Environment
    private let made = Mutex(Made())

    init(_ environment: Environment) { self.environment = environment }

    func rewind() { made.withLock { $0.next = 0 } }

    func generate() -> DocumentID {
        made.withLock { made in
            if made.next == made.ids.count { made.ids.append(environment.generateDocumentID()) }
            defer { made.next += 1 }
            return made.ids[made.next]
        }
    }
}

/// The number of a transaction's commit, for its results. Set at the commit.
final class CommitNumber: Sendable {
    private let number: Mutex<UInt64?>

    init(_ number: UInt64? = nil) { self.number = Mutex(number) }

    var value: UInt64? { number.withLock { $0 } }
    func set(_ value: UInt64) { number.withLock { $0 = value } }
}
