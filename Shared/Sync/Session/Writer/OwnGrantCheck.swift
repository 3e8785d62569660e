import CRDT
import Exchange

/// Finds own operations that the store's own grant forbids, so that they are not sent: a part of the writer.
///
/// They are refused as the server would refuse them, once everything before them is answered. All of an actor
/// are set aside at once: a repair for each would move all later writes each time.
enum OwnGrantCheck: Sendable {
    case idle
    /// The actor's next operation is forbidden, and earlier ones are not answered.
    case waiting(ActorID)
    /// The actor's operations are read to the end: up to here, with these refusals.
    case collecting(ActorID, through: SequenceNumber, forbidden: [Refusal])

    /// The actor whose next operation is forbidden.
    var actor: ActorID? {
        switch self {
        case .idle: nil
        case .waiting(let actor), .collecting(let actor, _, _): actor
        }
    }

    /// The refusals of operations that the grant forbids, worded as the server words them.
    static func refusals(
        in operations: [(sequence: SequenceNumber, bytes: [UInt8])], _ mayWrite: Session.WriteRules?
    ) -> [Refusal] {
        guard let mayWrite else { return [] }
        return operations.compactMap { item in
            guard let operation = try? Operation(decoding: item.bytes) else { return nil }
            let documents = operation.changes.map { DocumentKey(collection: $0.collection, id: $0.id) }
            guard let outside = documents.first(where: { !mayWrite($0) }) else { return nil }
            let error = SyncError(.writeNotGranted, "no right to write \(outside.collection)")
            return Refusal(
                actor: operation.actor, sequence: operation.sequence, error: error, documents: documents)
        }
    }
}
