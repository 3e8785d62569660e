import CRDT
import DQL
import Dispatch
import Replica

/// The engine's registry of running and past statements, and its statements about indexes.
extension Engine {
    /// Runs a statement that can be inspected and cancelled while it runs, and is kept in the history after
    /// it ended.
    func recorded(
        _ text: String, _ kind: StatementKind,
        _ body: (RequestRegistry.Request) async throws -> StatementOutcome
    ) async throws -> StatementOutcome {
        let running = settings.requests.begin(
            text, kind, milliseconds: environment.wallMilliseconds(), nanoseconds: Self.nanoseconds())
        do {
            let outcome = try await withTaskCancellationHandler {
                try await body(running)
            } onCancel: {
                running.cancel()
            }
            end(running, .completed(max(outcome.kept.count, outcome.mutatedDocumentIDs.count)))
            return outcome
        } catch {
            end(running, .failed(Failure(error).code))
            throw error
        }
    }

    /// Runs a SELECT on the calling thread, which waits for the disk, and records it like others.
    func readBlocking(_ text: String, _ arguments: ObjectValue, _ dialect: Dialect) throws -> StatementOutcome
    {
        let statement = try settings.prepare(text)
        let replica = try replica()
        let running = settings.requests.begin(
            text, statement.kind, milliseconds: environment.wallMilliseconds(),
            nanoseconds: Self.nanoseconds())
        do {
            let outcome = try read(statement, arguments, replica, running, dialect)
            end(running, .completed(outcome.kept.count))
            return outcome
        } catch {
            end(running, .failed(Failure(error).code))
            throw error
        }
    }

    private func end(_ running: RequestRegistry.Request, _ end: RequestRegistry.End) {
        let elapsed = settings.requests.end(running, end, nanoseconds: Self.nanoseconds())
        guard let limit = settings.parameters.slowRequest, .nanoseconds(Int64(clamping: elapsed)) >= limit
        else { return }
        logger.warning(
            "a statement was slow",
            metadata: ["milliseconds": "\(elapsed / 1_000_000)", "request": "\(running.id)"])
    }

    /// Nanoseconds of a monotonic clock.
    static func nanoseconds() -> UInt64 { DispatchTime.now().uptimeNanoseconds }

    /// CREATE INDEX, DROP INDEX, ADVISE AND PROVISION. Call it on a thread that may block.
    func changeIndexes(
        _ statement: PreparedStatement, _ arguments: ObjectValue, _ replica: PeerReplica,
        _ running: RequestRegistry.Request
    ) throws -> StatementOutcome {
        var rows: [KeptRow] = []
        var warnings = statement.warnings
        if let change = statement.indexChange(settings.parameters) {
            if let warning = statement.warning(of: change, among: try replica.indexes()) {
                warnings.append(warning)
            }
            // No timeout here: timeouts are for statements with results, and building an index takes long.
            try replica.change(change) { running.isCancelled ? .cancelled : nil }
        } else {
            rows = [KeptRow(try provision(statement, arguments, replica, running))]
        }
        return StatementOutcome(
            kind: statement.kind, kept: rows, mutatedDocumentIDs: [],
            warnings: warnings.map(StatementWarning.init), commit: replica.head)
    }

    private func provision(
        _ statement: PreparedStatement, _ arguments: ObjectValue, _ replica: PeerReplica,
        _ running: RequestRegistry.Request
    ) throws -> Value {
        let advice = try replica.read { transaction in
            try statement.advice(
                in: transaction, arguments: arguments, options: ExecutionOptions(settings.parameters))
        }
        var created: [String] = []
        var failed: [(name: String, message: String)] = []
        for suggestion in advice.suggestions {
            do {
                try replica.change(.create(suggestion.index, ifNotExists: false)) {
                    running.isCancelled ? .cancelled : nil
                }
                created.append(suggestion.index.name)
            } catch let error as DQLError where error.code == .cancelled && running.isCancelled {
                throw error
            } catch {
                failed.append((suggestion.index.name, Failure(error).message))
            }
        }
        return advice.row(created: created, failed: failed)
    }
}
