/// The checksums of consecutive operations of one actor.
public struct OperationHashes: Sendable, Equatable {
    /// The actor.
    public let actor: ActorID
    /// The sequence of the first operation.
    public let first: SequenceNumber
    /// `hash64` of each operation's bytes.
    public let hashes: [UInt64]

    /// Checksums of the operations from sequence `first` on.
    public init(actor: ActorID, first: SequenceNumber, hashes: [UInt64]) {
        self.actor = actor
        self.first = first
        self.hashes = hashes
    }

    /// The checksum of one operation; nil when it is not in this range.
    public subscript(sequence: SequenceNumber) -> UInt64? {
        guard sequence >= first else { return nil }
        let place = sequence.rawValue - first.rawValue
        return place < UInt64(hashes.count) ? hashes[Int(place)] : nil
    }
}
