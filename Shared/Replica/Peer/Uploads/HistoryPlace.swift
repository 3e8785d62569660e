import CRDT
import Exchange

/// How far an own actor is acknowledged: what remains of operations that the store does not keep any more,
/// and the comparison of its history with the server's (rule 9).
struct HistoryPlace: Sendable, Equatable {
    let actor: ActorID
    /// The last acknowledged operation's sequence, 0 for none; its timestamp and its checksum.
    let sequence: SequenceNumber
    let timestamp: Timestamp
    let hash: UInt64

    /// How the history stands to the server's.
    /// - Parameters:
    ///   - last: the sequence of the last own operation.
    ///   - isCurrent: whether the store writes as this actor. Later writes of another actor do not matter to
    ///     one that will not write again.
    ///   - server: what the server says of earlier operations than its last.
    ///   - bytes: the own operation of a sequence beyond this place.
    func compare(
        sequence head: SequenceNumber, hash headHash: UInt64, last: SequenceNumber, isCurrent: Bool,
        server: OperationHashes?, bytes: (SequenceNumber) throws -> [UInt8]?
    ) rethrows -> HistoryComparison {
        func found(
            _ state: HistoryComparison.State, _ admitted: SequenceNumber, isExact: Bool = true
        ) -> HistoryComparison {
            HistoryComparison(actor: actor, admitted: admitted, state: state, isExact: isExact)
        }
        guard head >= sequence else { return found(.closed, sequence) }
        guard head > sequence else {
            let isSame = head == 0 || hash == headHash
            return found(isSame ? .open : .forked, sequence)
        }
        if try bytes(head).map({ hash64($0) }) == headHash { return found(.open, head) }
        var previous: Timestamp? = timestamp
        if head > sequence.next {
            previous = try bytes(head.previous).flatMap { try? OperationHeader.peek($0).timestamp }
        }
        let isRefusal = previous.map {
            RefusalRecord.hash(actor: actor, sequence: head, after: $0) == headHash
        }
        if isRefusal ?? false { return found(.closed, head.previous) }
        // Histories that agree at one operation agree on all before it, so the last one tells.
        var point = min(head.previous, max(last, sequence))
        while point > sequence {
            if let known = server?[point], try bytes(point).map({ hash64($0) }) == known { break }
            point = point.previous
        }
        let isExact = point.next == head || point >= last || server?[point.next] != nil
        let isWhole = point >= last && !isCurrent
        return found(isWhole ? .open : .forked, point, isExact: isExact)
    }
}
