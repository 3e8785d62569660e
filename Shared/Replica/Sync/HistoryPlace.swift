import CRDT

/// How far an own actor is acknowledged: what remains of operations that the store does not keep any more,
/// and the comparison of its history with the server's (rule 9).
struct HistoryPlace: Sendable, Equatable {
    /// How a history stands to the server's.
    enum State: Sendable, Equatable {
        /// The server takes what follows.
        case open
        /// The server refused an operation, or lost some that are not kept here: it takes no more of it.
        case closed
        /// The server has operations of it that are not this store's.
        case forked
    }

    let actor: ActorID
    /// The last acknowledged operation's sequence, 0 for none; its timestamp and its checksum.
    let sequence: UInt64
    let timestamp: Timestamp
    let hash: UInt64

    /// How the history stands, and up to which sequence the server has, or once had, this store's operations.
    /// - Parameter bytes: the own operation of a sequence beyond this place, as far as there is one.
    func compare(
        sequence head: UInt64, hash headHash: UInt64, bytes: (UInt64) throws -> [UInt8]?
    ) rethrows -> (state: State, admitted: UInt64) {
        guard head >= sequence else { return (.closed, sequence) }
        guard head > sequence else {
            return (head == 0 || hash == headHash ? .open : .forked, sequence)
        }
        let own = try bytes(head)
        if let own, own.withUnsafeBytes({ hash64($0, seed: 0) }) == headHash { return (.open, head) }
        var previous: Timestamp? = timestamp
        if head > sequence + 1 {
            previous = try bytes(head - 1).flatMap { try? OperationHeader.peek($0).timestamp }
        }
        let isRefusal = previous.map {
            RefusalRecord.hash(actor: actor, sequence: head, after: $0) == headHash
        }
        return isRefusal ?? false ? (.closed, head - 1) : (.forked, sequence)
    }
}
