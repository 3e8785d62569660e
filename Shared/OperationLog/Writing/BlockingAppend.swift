import CRDT
import Machine

extension OperationLog {
    /// Waits for `append`, which runs elsewhere.
    public func appendBlocking(
        _ requests: [AppendRequest], to database: DatabaseID
    ) throws -> [AppendOutcome] {
        let answer = PendingAnswer<Result<[AppendOutcome], any Error>>()
        Task {
            do {
                answer.give(.success(try await append(requests, to: database)))
            } catch {
                answer.give(.failure(error))
            }
        }
        return try answer.wait().get()
    }
}
