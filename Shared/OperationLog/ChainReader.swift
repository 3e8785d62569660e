import CRDT

/// Takes entries as a driver reads them and refuses any that does not follow its predecessor. Every driver
/// reads through this.
package struct ChainReader {
    private let database: DatabaseID
    private let limit: ReadLimit
    private var hash: UInt64
    private var bytes = 0
    private var isFull = false
    private var entries: [LogEntry] = []
    /// The offset of the entry that must come next.
    package private(set) var expected: Offset

    /// A reading that begins after `offset`, where the chain hash is `hash`.
    package init(database: DatabaseID, after offset: Offset, hash: UInt64, limit: ReadLimit) {
        self.database = database
        self.limit = limit
        self.hash = hash
        expected = offset.next
    }

    /// Takes the next entry.
    /// - Returns: whether there is room for another.
    /// - Throws: `LOG-0401` with the first offset that is missing or does not verify.
    package mutating func take(_ entry: LogEntry) throws(OperationLogError) -> Bool {
        guard entry.offset == expected else { throw missing }
        let digest = ChainHash.digest(
            actor: entry.actor, sequence: entry.sequence, timestamp: entry.timestamp,
            contentHash: ChainHash.content(entry.bytes))
        hash = ChainHash.next(after: hash, digest: digest)
        guard entry.hash == hash else {
            throw OperationLogError(
                .corrupt, "the entry does not follow its predecessor", database: database, offset: expected)
        }
        bytes += entry.bytes.count
        isFull = bytes >= limit.bytes
        guard bytes <= limit.bytes || entries.isEmpty else { return false }
        entries.append(entry)
        expected = expected.next
        return !isFull
    }

    /// The entries taken; they must reach `through` unless the byte limit came first.
    /// - Throws: `LOG-0401` when an entry is missing at the end.
    package func finish(through: Offset) throws(OperationLogError) -> [LogEntry] {
        guard isFull || expected > through else { throw missing }
        return entries
    }

    private var missing: OperationLogError {
        OperationLogError(.corrupt, "the entry is missing", database: database, offset: expected)
    }
}
