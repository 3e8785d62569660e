import CRDT
import Dispatch
import Synchronization

/// A call on a thread that may block, until another thread ends it. It is ended once and waited for once.
final class BlockedCall<Value: Sendable>: Sendable {
    private let bell = DispatchSemaphore(value: 0)
    private let outcome = Mutex<Result<Value, any Error>?>(nil)

    /// Gives the caller its result.
    func end(_ result: Result<Value, any Error>) {
        outcome.withLock { $0 = result }
        bell.signal()
    }

    /// Returns the result once the call is ended.
    func wait() throws -> Value {
        bell.wait()
        guard let outcome = outcome.withLock({ $0 }) else {
            preconditionFailure("a call was ended without a result")
        }
        return try outcome.get()
    }
}

extension OperationLog {
    /// Waits for `append`, which runs elsewhere.
    public func appendBlocking(
        _ requests: [AppendRequest], to database: DatabaseID
    ) throws -> [AppendOutcome] {
        let call = BlockedCall<[AppendOutcome]>()
        Task {
            do {
                call.end(.success(try await append(requests, to: database)))
            } catch {
                call.end(.failure(error))
            }
        }
        return try call.wait()
    }
}
