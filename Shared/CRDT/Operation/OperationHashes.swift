/// The checksums of consecutive operations of one actor.
public struct OperationHashes: Sendable, Equatable {
    /// The actor.
    public let actor: ActorID
    /// The sequence of the first.
    public let first: SequenceNumber
    /// `hash64` of each operation's bytes.
    public let hashes: [UInt64]

    /// Checksums from a sequence on.
    public init(actor: ActorID, first: SequenceNumber, hashes: [UInt64]) {
        self.actor = actor
        self.first = first
        self.hashes = hashes
    }

    /// The checksum of one operation; nil for one that is not among them.
    public subscript(sequence: SequenceNumber) -> UInt64? {
        guard sequence >= first else { return nil }
        let place = sequence.rawValue - first.rawValue
        return place < UInt64(hashes.count) ? hashes[Int(place)] : nil
    }
}
