import CRDT

/// The hashes of a log. All are 64 bits and detect accidents, not forgers (who would own the log anyway).
///
/// - content hash: `hash64(bytes, seed: 0)`, kept in the frontier and compared by peers (rule 9).
/// - digest of an entry: `hash64` of actor, sequence, timestamp and content hash, each as 8 big-endian bytes.
/// - chain: h(0) = `hash64(log id, seed: 0)`, h(n) = h(n-1) rotated left by 29 bits, XOR digest(n).
///
/// The expensive part does not depend on the predecessor, so it is computed before any lock is taken. The
/// part under the lock is so small that a database server can do it in its own statement, without a round
/// trip to the client (rule 22). A difference in one entry stays in every later hash, moved by the
/// rotation. The header is covered too, so a flipped bit in a stored column is found like one in the
/// operation.
public enum ChainHash {
    /// The hash of an operation's bytes alone.
    public static func content(_ bytes: [UInt8]) -> UInt64 { hash64(bytes, seed: 0) }

    /// The hash before the first operation of a log.
    public static func start(_ logID: LogID) -> UInt64 { hash64(logID.bytes, seed: 0) }

    /// The contribution of an operation to the chain.
    public static func digest(
        actor: ActorID, sequence: SequenceNumber, timestamp: Timestamp, contentHash: UInt64
    ) -> UInt64 {
        let words = (
            actor.rawValue.bigEndian, sequence.rawValue.bigEndian, timestamp.bigEndian, contentHash.bigEndian
        )
        return withUnsafeBytes(of: words) { hash64($0, seed: 0) }
    }

    /// The chain hash after an entry of this digest.
    public static func next(after previous: UInt64, digest: UInt64) -> UInt64 {
        ((previous << 29) | (previous >> 35)) ^ digest
    }
}
