/// The checksums of consecutive operations of one actor.
public struct OperationHashes: Sendable, Equatable {
    /// The actor.
    public let actor: ActorID
    /// The sequence of the first operation.
    public let first: UInt64
    /// `hash64` of each operation's bytes.
    public let hashes: [UInt64]

    /// Checksums of the operations from sequence `first` on.
    public init(actor: ActorID, first: UInt64, hashes: [UInt64]) {
        self.actor = actor
        self.first = first
        self.hashes = hashes
    }

    /// The checksum of one operation; nil when it is not in this range.
    public subscript(sequence: UInt64) -> UInt64? {
        guard sequence >= first, sequence - first < UInt64(hashes.count) else { return nil }
        return hashes[Int(sequence - first)]
    }
}
