import CRDT
import OperationLog
import Replica

extension Materializer {
    /// Changes documents of a reserved database: drafts an operation on the documents as of the log's head,
    /// appends it and folds it. The body may run several times, each time on the log's state then.
    /// - Parameter collections: the collections that the body reads; it runs again when somebody has touched
    ///   one meanwhile.
    /// - Throws: the errors of the body and of the log.
    func append(
        by writer: LeasedActor, reading collections: [CollectionName] = [],
        _ body: @escaping @Sendable (WriteTransaction) throws -> Void
    ) async throws {
        for _ in 0..<Limits.systemWriteAttempts {
            let lease = try await writer.lease().lease
            let sequence =
                (try await log.frontier(of: [lease.actor], in: database)[lease.actor]?.sequence ?? 0).next
            try await advance()
            let (replica, readAt) = (replica, position.offset)
            let operation = try await executor.run {
                try replica.draft(as: lease.actor, sequence: sequence) { try body($0) }.operation
            }
            guard let operation else { return }
            let condition =
                collections.isEmpty
                ? nil : AppendCondition(readAt: readAt, reads: collections.map { .collection($0) })
            let request = AppendRequest(operation, under: lease, condition: condition)
            switch try await log.append([request], to: database).first {
            case .appended?:
                try await advance()
                return
            case .conflict(.condition)?: continue
            default: await writer.lose(lease)
            }
        }
        throw OperationLogError(
            .busy, "others are writing the database; try again shortly", database: database)
    }
}
