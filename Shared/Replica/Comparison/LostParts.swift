import CRDT

/// Tells of a copy of a document that is shown which parts are *lost*: the log had them, and they were
/// deleted and reaped with the document (rule 14).
///
/// Everything before the frontier is in the fold (rule 13). So a stamp that the frontier covers and the
/// document's vector does not was in a tombstone that was reaped.
public struct LostParts {
    private let transaction: ReadTransaction
    /// The frontier of the actors that were asked about; nil for an unknown one.
    private var frontier: [ActorID: Timestamp?] = [:]

    /// Parts that are lost at this transaction's position.
    public init(_ transaction: ReadTransaction) { self.transaction = transaction }

    /// The time through which an actor's operations are folded; nil for none.
    public mutating func frontier(of actor: ActorID) throws -> Timestamp? {
        if let known = frontier[actor] { return known }
        let time = try transaction.frontier(of: [actor]).first?.timestamp
        frontier[actor] = .some(time)
        return time
    }

    /// The lost entries of a vector that is shown of a living document; nil for none.
    ///
    /// An entry beyond the frontier says nothing of the stamps before it: which of them are of this document
    /// is told by the delta or the state that brings it to the log. Until then nothing counts as lost, since
    /// the entries told apart would not be causally closed.
    public mutating func of(_ shown: VersionVector, here ours: VersionVector) throws -> VersionVector? {
        var lost: [VersionVector.Entry] = []
        for entry in shown.entries where !ours.covers(Stamp(time: entry.time, actor: entry.actor)) {
            // (No actor wrote the seeds, so the frontier does not cover them.)
            guard entry.time > 0, let time = try frontier(of: entry.actor), entry.time <= time else {
                return nil
            }
            lost.append(entry)
        }
        return lost.isEmpty ? nil : VersionVector(lost)
    }

    /// The same of a document that is here. An old log may have reaped it down to the names of its seeds
    /// (rule 7): then these are lost, for a holder has the living ones under the very same vector.
    public mutating func of(_ shown: VersionVector, here document: Document) throws -> VersionVector? {
        if let lost = try of(shown, here: document.vector) { return lost }
        return document.isRestOfSeeds && document.vector.covers(shown) ? document.vector : nil
    }

    /// The same of a document that is here, read in place.
    mutating func of(_ shown: VersionVector, here document: DocumentReader) throws -> VersionVector? {
        let ours = try document.vector()
        if let lost = try of(shown, here: ours) { return lost }
        return try ours.covers(shown) && document.isRestOfSeeds() ? ours : nil
    }

    /// The entries that an operation rests on and a document lacks, if all of them are lost; nil otherwise. A
    /// base is causally closed.
    public mutating func of(base: VersionVector, behind known: VersionVector) throws -> VersionVector? {
        try of(base, here: known)
    }

    /// The least vector that covers everything of a shown state that is lost: each entry as far as the
    /// frontier goes. Empty if there cannot be anything.
    public mutating func most(of shown: VersionVector, here ours: VersionVector) throws -> VersionVector {
        var most = VersionVector()
        for entry in shown.entries where entry.time > ours[entry.actor] ?? 0 {
            guard let time = try frontier(of: entry.actor) else { continue }
            let covered = min(time, entry.time)
            if covered > ours[entry.actor] ?? 0 { most.insert(Stamp(time: covered, actor: entry.actor)) }
        }
        return most
    }
}
