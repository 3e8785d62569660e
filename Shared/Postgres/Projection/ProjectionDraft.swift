import CRDT
import DQL

/// A tentative write to a projection: a statement's writes stay in memory, over a snapshot.
public typealias ProjectionDraft = WriteDraft

extension ProjectionSnapshot: DraftBase {
    /// A chain of drafts on this snapshot.
    func chain(
        as actor: ActorID, sequence: SequenceNumber, wallMilliseconds: @escaping () -> UInt64
    ) -> DraftChain {
        DraftChain(
            on: self, as: actor, sequence: sequence, after: clock, wallMilliseconds: wallMilliseconds,
            refuse: Self.refusal)
    }

    /// A draft on this snapshot, whose errors are the projection's.
    func draft(
        as actor: ActorID, sequence: SequenceNumber, wallMilliseconds: UInt64
    ) -> ProjectionDraft {
        WriteDraft(
            on: self, as: actor, sequence: sequence, after: clock, wallMilliseconds: wallMilliseconds,
            refuse: Self.refusal)
    }

    private static func refusal(_ refusal: DraftRefusal) -> any Error {
        switch refusal {
        case .collectionName(let bytes):
            ProjectionError(
                .invalidCollection,
                "a collection name has 1 to \(CRDT.Limits.collectionNameBytes) bytes, not \(bytes)")
        case .documentTooLarge(let reason): ProjectionError(.documentTooLarge, reason)
        case .transactionTooLarge(let reason): ProjectionError(.transactionTooLarge, reason)
        case .unreadable(let error):
            ProjectionError(.damaged, "a stored document cannot be read: \(error)")
        case .evict: ProjectionError(.storageFailed, "EVICT does not apply to a projection")
        }
    }
}
