import CRDT
import LogFakes
import OperationLog
import Synchronization

/// A log that passes everything on, except what a test wants to go wrong.
final class TamperedLog: PassingOnLog, @unchecked Sendable {
    // Unchecked as its base is: what it adds is guarded by a lock.
    private struct Tampering {
        var outcomes: [AppendOutcome] = []
        var appendFailure: OperationLogErrorCode?
        var readFailure: OperationLogErrorCode?
        var holdsReads = false
        var requests: [AppendRequest] = []
        var largestAppend = 0
    }
    private let tampering = Mutex(Tampering())

    /// Outcomes that the next appends get instead of being stored, one each.
    func answerAppends(with outcomes: [AppendOutcome]) { tampering.withLock { $0.outcomes = outcomes } }
    func failAppends(_ code: OperationLogErrorCode?) { tampering.withLock { $0.appendFailure = code } }
    func failReads(_ code: OperationLogErrorCode?) { tampering.withLock { $0.readFailure = code } }
    /// Lets reads wait for as long as it is true.
    func holdReads(_ holds: Bool) { tampering.withLock { $0.holdsReads = holds } }
    /// Everything that was to be appended.
    var requests: [AppendRequest] { tampering.withLock { $0.requests } }

    /// The most operations that one call was to append.
    var largestAppend: Int { tampering.withLock { $0.largestAppend } }

    override func append(_ requests: [AppendRequest], to database: DatabaseID) async throws -> [AppendOutcome]
    {
        let (outcome, failure) = tampering.withLock { state in
            state.requests += requests
            state.largestAppend = max(state.largestAppend, requests.count)
            return (state.outcomes.isEmpty ? nil : state.outcomes.removeFirst(), state.appendFailure)
        }
        if let failure { throw OperationLogError(failure, "tampered with") }
        if let outcome { return [outcome] }
        return try await super.append(requests, to: database)
    }

    override func read(_ database: DatabaseID, after offset: Offset, limit: ReadLimit) async throws
        -> [LogEntry]
    {
        while tampering.withLock({ $0.holdsReads }) { try await Task.sleep(for: .milliseconds(5)) }
        if let failure = tampering.withLock({ $0.readFailure }) {
            throw OperationLogError(failure, "tampered with")
        }
        return try await super.read(database, after: offset, limit: limit)
    }
}
