import CRDT

/// The log's replacement for a refused operation (rule 20, decision 0005): an operation of the same actor
/// and sequence without changes.
///
/// It consumes the sequence, so the refused operation can never enter the log by another way, and it is the
/// last of its actor: finding it at an actor's frontier shows that the actor is closed. Its bytes follow
/// from data known to both sides, so a peer recognizes it by the frontier's hash alone.
public enum RefusalRecord {
    /// The record for an actor's operation at a sequence; `previous` is the timestamp of the previous
    /// operation, 0 for the first, so that a frontier's time neither retreats nor follows a refused clock.
    public static func operation(actor: ActorID, sequence: SequenceNumber, after previous: Timestamp)
        -> Operation
    {
        Operation(actor: actor, sequence: sequence, timestamp: previous, changes: [])
    }

    /// The checksum that a frontier has of it.
    static func hash(actor: ActorID, sequence: SequenceNumber, after previous: Timestamp) -> UInt64 {
        operation(actor: actor, sequence: sequence, after: previous).encoded()
            .withUnsafeBytes { hash64($0, seed: 0) }
    }
}
