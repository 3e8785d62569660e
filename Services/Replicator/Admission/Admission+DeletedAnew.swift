import CRDT
import Exchange
import OperationLog
import Replica
import ServiceKit
import Sync

/// Deletes documents anew that were deleted and reaped, and that somebody still shows (rule 14).
extension Admission {
    /// Writes the deletion of documents again: one entry for a page of them, under a stamp of its own.
    ///
    /// - Parameter lost: the documents, each with the entries that are lost. Entries that the document here
    ///   covers by now are passed over, so that two who show the same cause one entry.
    func deleteAnew(_ lost: [DocumentVersion]) async throws {
        var rest = try Self.joined(lost)[...]
        var failures = 0
        while !rest.isEmpty {
            guard failures < Limits.appendAttempts else {
                throw SyncError(.unavailable, "the log is too busy to delete documents again")
            }
            let lease = try await writer.lease().lease
            // Writes of the actor's earlier holder are folded too.
            try await materializer.advance()
            let known = try await log.frontier(of: [lease.actor], in: database)[lease.actor]
            let draft = try await draft(of: rest, as: lease.actor, after: known?.timestamp ?? 0)
            if draft.changes.isEmpty {
                rest = rest.dropFirst(draft.count)
                continue
            }
            let operation = Operation(
                actor: lease.actor, sequence: (known?.sequence ?? 0).next, timestamp: draft.time,
                changes: draft.changes)
            let request = AppendRequest(operation, under: lease, condition: draft.condition)
            switch try await log.append([request], to: database).first {
            case .appended(let offset)?:
                noteAppended(through: offset)
                rest = rest.dropFirst(draft.count)
            case .conflict(.leaseLost)?:
                failures += 1
                await writer.lose(lease)
            default:
                // Somebody was faster: another session of this process, or a writer of one of the documents.
                failures += 1
            }
        }
        try await materializer.advance()
    }

    /// The same with each document once, as an entry has it: several writes may rest on one, each on other
    /// parts.
    private static func joined(_ lost: [DocumentVersion]) throws -> [DocumentVersion] {
        var vectors: [DocumentKey: VersionVector] = [:]
        var order: [DocumentKey] = []
        for item in lost {
            if vectors[item.key] == nil { order.append(item.key) }
            vectors[item.key, default: VersionVector()].formUnion(try VersionVector(decoding: item.vector))
        }
        return order.map { DocumentVersion(key: $0, vector: (vectors[$0] ?? VersionVector()).encoded()) }
    }

    /// The next entry: the changes of the first `count` documents, on condition that nobody touches those
    /// that it changes.
    private struct Draft: Sendable {
        var changes: [Operation.Change] = []
        var count = 0
        var time: Timestamp
        var condition: AppendCondition?
    }

    private func draft(
        of lost: ArraySlice<DocumentVersion>, as actor: ActorID, after time: Timestamp
    ) async throws -> Draft {
        let replica = materializer.replica
        let now = environment.wallMilliseconds() << 16
        return try await materializer.executor.run {
            try replica.read { transaction in
                let latest = try transaction.latestTimestamp()
                var draft = Draft(time: max(now, max(time, latest) + 1))
                var parts = LostParts(transaction)
                var reads: [Touch] = []
                var size = 0
                for item in lost.prefix(Limits.deletedAnewDocuments) {
                    let stored = try transaction.state(of: item.key)
                    guard size == 0 || size + (stored?.count ?? 0) < Limits.stateOperationBytes else { break }
                    draft.count += 1
                    let document = try stored.map { try Document(decoding: $0) } ?? Document()
                    guard let more = try parts.of(VersionVector(decoding: item.vector), here: document) else {
                        continue
                    }
                    let stamp = Stamp(time: draft.time, actor: actor)
                    let state = document.raised(to: more, by: stamp).encoded()
                    size += state.count
                    reads.append(.document(item.key.collection, item.key.id))
                    draft.changes.append(
                        Operation.Change(
                            collection: item.key.collection, id: item.key.id,
                            delta: StateChange.encode(state)))
                }
                // An operation names each collection once in a row.
                draft.changes.sort { $0.collection < $1.collection }
                draft.condition = AppendCondition(readAt: try transaction.foldedThrough(), reads: reads)
                return draft
            }
        }
    }
}
