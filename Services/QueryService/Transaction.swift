import CRDT
import DQL
import Identity
import Machine
import ServiceKit
import Synchronization

/// The progress of a transaction's statements. A draft may run several times; the last run counts. `state`
/// has the lock.
final class TransactionProgress: Sendable {
    private struct State {
        var running: Int?
        var results: [StatementResult] = []
    }

    private let state = Mutex(State())

    /// The index of the statement that is prepared or runs; nil between them.
    var running: Int? {
        get { state.withLock { $0.running } }
        set { state.withLock { $0.running = newValue } }
    }

    /// The results of the last run.
    var results: [StatementResult] {
        get { state.withLock { $0.results } }
        set { state.withLock { $0.results = newValue } }
    }
}

/// The error of one statement of a transaction, of which nothing was written.
struct TransactionFailure: Error {
    /// The statement's place, from 0.
    let index: Int
    let error: any Error
}

extension WriteLane.Job {
    /// The first statement, or the only one.
    var statement: PreparedStatement { steps[0].statement }
    /// True if no statement writes.
    var isReadOnly: Bool { !changesIndexes && steps.allSatisfy(\.statement.isReadOnly) }
    /// True if it creates or drops indexes, in a store that has them. A transaction does not.
    var changesIndexes: Bool { keepsIndexes && transaction == nil && statement.changesIndexes }

    /// Executes the statements in turn, each on what those before it leave.
    /// - Parameter isDone: whether the statement at a place is left out, as one that changes nothing.
    /// - Returns: the result; of a transaction the rows and ids of all.
    func execute(
        in writer: any DocumentWriter, _ options: ExecutionOptions,
        leavingOut isDone: (Int) -> Bool = { _ in false }
    ) throws -> StatementResult {
        guard let transaction else {
            return isDone(0) ? StatementResult() : try execute(steps[0], in: writer, options)
        }
        var (results, all) = ([StatementResult](), StatementResult())
        for (index, step) in steps.enumerated() {
            transaction.running = index
            let result = isDone(index) ? StatementResult() : try execute(step, in: writer, options)
            all.rows += result.rows
            all.mutatedDocumentIDs += result.mutatedDocumentIDs
            results.append(result)
        }
        transaction.running = nil
        transaction.results = results
        return all
    }

    private func execute(
        _ step: Step, in writer: any DocumentWriter, _ options: ExecutionOptions
    ) throws -> StatementResult {
        if changesIndexes {
            return try step.statement.changeIndexes(in: writer, step.arguments, options)
        }
        return try step.statement.execute(
            in: rights.coversWhole(step.statement) ? writer : GrantedWriter(base: writer, rights: rights),
            arguments: step.arguments, options: options,
            idGenerator: { Environment.system.generateDocumentID() })
    }

    /// The answers of a transaction's statements; nil for a single statement. Warnings about documents are
    /// the last one's.
    func results(_ warnings: [AnswerWarning]) -> [ExecuteAnswer]? {
        guard let results = transaction?.results else { return nil }
        return zip(steps, results).enumerated().map { index, pair in
            let (step, result) = pair
            return ExecuteAnswer(
                transactionID: 0, queryType: step.statement.kind, items: result.rows,
                mutatedDocumentIDs: result.mutatedDocumentIDs.map(\.value),
                warnings: result.warnings.map { AnswerWarning($0) }
                    + (index == results.count - 1 ? warnings : []))
        }
    }
}
