import CRDT
import DQL
import Logging
import OperationLog
import Replica
import ServiceKit

extension Housekeeper {
    /// Removes erased documents from the log: deletes those that are live, reaps their tombstones, and, if
    /// `isLast`, writes a snapshot and truncates everything before it, since earlier entries have their
    /// contents.
    /// - Returns: the offset through which the log was truncated; nil if it was not.
    /// - Throws: `LOG-0302` while another process does the housekeeping.
    func erase(_ erased: ErasedDocuments, isLast: Bool) async throws -> Offset? {
        guard let lease = try await log.lease(Self.purpose, of: 1, for: options.lease, in: database) else {
            throw OperationLogError(
                .busy, "another process does the housekeeping; try again", database: database)
        }
        do {
            let offset = try await erase(erased, isLast: isLast, lease)
            try await log.release(lease, retiring: false, in: database)
            return offset
        } catch {
            try? await log.release(lease, retiring: false, in: database)
            throw error
        }
    }

    private func erase(_ erased: ErasedDocuments, isLast: Bool, _ lease: ActorLease) async throws -> Offset? {
        try await materializer.advance()
        try await delete(erased)
        // A writer's clock may be ahead by what admission allows.
        let now = wallMilliseconds() + Limits.erasureClockMilliseconds
        _ = try await reap(olderThan: .zero, at: now, lease, withRemains: true) {
            erased.contains($0.collection, $0.id)
        }
        guard isLast else { return nil }
        let target = await materializer.position.offset
        guard target > 0 else { return 0 }
        guard let snapshot = try await write(lease), snapshot.position.offset >= target else { return nil }
        let replica = materializer.replica
        let floor = try await materializer.executor.run { try replica.reapFloor() }
        try await log.truncate(database, through: target, keepingHashesAfter: floor)
        try await log.scrub()
        return target
    }

    /// Deletes the live ones, some at a time. As an actor of its own: reaping retires every actor that has
    /// written the documents, and the housekeeping's must live on.
    private func delete(_ erased: ErasedDocuments) async throws {
        while let found = try await live(erased) {
            guard let lease = try await log.lease("erasure", of: 1, for: options.lease, in: database) else {
                throw OperationLogError(.busy, "another process erases; try again", database: database)
            }
            do {
                try await delete(found.keys, readAt: found.readAt, lease)
                try await log.release(lease, retiring: true, in: database)
            } catch {
                try? await log.release(lease, retiring: true, in: database)
                throw error
            }
            try await materializer.advance()
        }
    }

    /// One operation that deletes documents. It is refused if somebody wrote one meanwhile: then the caller
    /// finds it live again.
    private func delete(_ keys: [DocumentKey], readAt: Offset, _ lease: ActorLease) async throws {
        let sequence =
            (try await log.frontier(of: [lease.actor], in: database)[lease.actor]?.sequence ?? 0).next
        let replica = materializer.replica
        let operation = try await materializer.executor.run {
            try replica.draft(as: lease.actor, sequence: sequence) { transaction in
                for key in keys {
                    try transaction.edit(key.collection, key.id) { $0.delete() }
                }
            }.operation
        }
        guard let operation else { return }
        let condition = AppendCondition(
            readAt: readAt, reads: keys.map { .document($0.collection, $0.id) })
        _ = try await log.append([AppendRequest(operation, under: lease, condition: condition)], to: database)
    }

    /// Some of the erased documents that are live; nil if there is none.
    private func live(_ erased: ErasedDocuments) async throws -> (keys: [DocumentKey], readAt: Offset)? {
        let replica = materializer.replica
        return try await materializer.executor.run {
            try replica.read { transaction in
                var keys: [DocumentKey] = []
                for collection in try transaction.collectionNames()
                where keys.count < Limits.reapedDocuments {
                    try transaction.scan(collection) { record in
                        if erased.contains(collection, record.id) {
                            keys.append(DocumentKey(collection: collection, id: record.id))
                        }
                        return keys.count < Limits.reapedDocuments
                    }
                }
                return keys.isEmpty ? nil : (keys, try transaction.foldedThrough())
            }
        }
    }
}
