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

    /// The server has refused the first forbidden operation of the actor: the others are set aside with it.
    /// - Returns: whether they are to be read.
    mutating func collects(after refusal: Refusal) -> Bool {
        guard case .waiting(refusal.actor) = self,
            refusal.error.code == SyncErrorCode.writeNotGranted.rawValue
        else { return false }
        self = .collecting(refusal.actor, through: refusal.sequence, forbidden: [refusal])
        return true
    }

    /// The operations that are sent: those before the first that is forbidden. Where links have taken that
    /// one elsewhere it is sent too: only what the server has refused is void for others (decision 0083).
    static func sent(
        of operations: [(sequence: SequenceNumber, bytes: [UInt8])], _ forbidden: [Refusal], hasLinks: Bool
    ) -> [(sequence: SequenceNumber, bytes: [UInt8])] {
        guard let first = forbidden.first?.sequence else { return operations }
        return operations.filter { hasLinks ? $0.sequence <= first : $0.sequence < first }
    }

    /// The refusals that hold under the present rules: a newer token may have come. The server's own, the
    /// first one of an actor that it has closed, holds under any.
    static func holding(
        _ forbidden: [Refusal], isClosed: Bool, _ mayWrite: Session.WriteRules?
    ) -> [Refusal] {
        let closing = isClosed ? forbidden.first?.sequence : nil
        return forbidden.filter { refusal in
            refusal.sequence == closing
                || mayWrite.map { mayWrite in refusal.documents.contains { !mayWrite($0) } } ?? false
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
