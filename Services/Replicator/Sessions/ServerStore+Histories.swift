import CRDT
import Exchange
import OperationLog
import Replica
import Sync

/// Checksums of a peer's own operations, beside the log's last one (rule 9).
extension ServerStore {
    /// The checksums of operations that the log has of a peer's actors behind what the peer knows to be
    /// acknowledged: where its greeting and the frontier do not show equal histories, it finds out by them
    /// up to where they are equal.
    func hashes(
        for history: OwnHistory, _ known: [ActorID: FrontierEntry]
    ) async throws -> [OperationHashes] {
        let acknowledged = Dictionary(
            history.acknowledged.map { ($0.actor, $0.sequence) }, uniquingKeysWith: max)
        var asked: [(actor: ActorID, after: SequenceNumber, through: SequenceNumber)] = []
        for head in history.heads {
            guard let entry = known[head.actor] else { continue }
            let after = acknowledged[head.actor] ?? 0
            let through = min(entry.sequence, head.sequence)
            let isSame = head.sequence == entry.sequence && head.hash == entry.hash
            if after < through, !isSame { asked.append((head.actor, after, through)) }
        }
        guard !asked.isEmpty else { return [] }
        try await hub.materializer.advance()
        let replica = hub.materializer.replica
        return try await hub.materializer.executor.run { [asked] in
            try replica.read { transaction in
                var left = Sync.Limits.greetingHashes
                var found: [OperationHashes] = []
                for item in asked where left > 0 {
                    let count = min(item.after.distance(to: item.through), left)
                    let first = item.through.advanced(by: -count)
                    let part = try transaction.hashes(of: item.actor, after: first, through: item.through)
                    left -= part.hashes.count
                    if !part.hashes.isEmpty { found.append(part) }
                }
                return found
            }
        }
    }
}
