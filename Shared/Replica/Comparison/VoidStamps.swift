import CRDT
import Exchange

extension ReadTransaction {
    /// The void stamps of a document that is held elsewhere with the vector `held`: writes of a closed actor
    /// after its last admitted operation, unless a state has brought them (decision 0083). Nil for none.
    public func void(of key: DocumentKey, held: VersionVector) throws -> VersionVector? {
        var ours: VersionVector?
        var void = VersionVector()
        for entry in held.entries where entry.time > 0 {
            guard let last = try lastAdmitted(ofClosed: entry.actor), entry.time > last else { continue }
            if ours == nil { ours = try state(of: key)?.withUnsafeBytes { try DocumentReader($0).vector() } }
            let seen = max(last, ours?[entry.actor] ?? 0)
            if entry.time > seen { void.insert(Stamp(time: seen, actor: entry.actor)) }
        }
        return void.isEmpty ? nil : void
    }

    /// The time of an actor's last admitted operation, if the log has refused a later one; nil for any other
    /// actor. The record of a refusal is its actor's last entry.
    private func lastAdmitted(ofClosed actor: ActorID) throws -> Timestamp? {
        guard let progress = try frontier(of: [actor]).first,
            let last = try hashes(
                of: actor, after: progress.sequence.previous, through: progress.sequence)[progress.sequence],
            last
                == RefusalRecord.hash(
                    actor: actor, sequence: progress.sequence, after: progress.timestamp)
        else { return nil }
        return progress.timestamp
    }
}

extension VersionVector {
    /// Returns whether a document with this vector holds a void stamp.
    func isQuarantined(by void: VersionVector) -> Bool {
        void.entries.contains { self[$0.actor] ?? 0 > $0.time }
    }

    /// The entries that are not of void stamps.
    public func without(void: VersionVector) -> VersionVector {
        VersionVector(entries.filter { entry in void[entry.actor].map { entry.time <= $0 } ?? true })
    }
}
