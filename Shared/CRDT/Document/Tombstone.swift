// The end of documents (rules 7, 12 to 15): what a deletion leaves, what reaping leaves of that, and how a
// deletion is written again.

extension Document {
    /// True if the document was written once and is not live: the state after a deletion. It still has its
    /// vector and the baselines of its counters.
    public var isTombstone: Bool { !isLive && !vector.isEmpty }

    /// The time of a tombstone's last write, by the writers' clocks; nil for anything else.
    public var deletedAt: Timestamp? { isTombstone ? vector.greatestTime : nil }

    /// Returns whether a tombstone is older than the time-to-live, by its last writer's clock. A clock that
    /// was ahead keeps it longer; nothing makes it expire early.
    public func hasOutlived(_ timeToLive: Duration, wallMilliseconds: UInt64) -> Bool {
        guard let deletedAt else { return false }
        let age = Duration.milliseconds(
            Int64(clamping: wallMilliseconds) - Int64(clamping: HybridClock.milliseconds(of: deletedAt)))
        return age > timeToLive
    }

    /// True for a tombstone that a store may forget whole: nothing of it is needed but its vector, of which
    /// the frontier tells as much. The remains of counters are subtracted from totals that somebody
    /// continues, and seeds come again under the same stamp.
    public var isForgettable: Bool { isTombstone && root.isEmpty && !vector.holdsSeed }

    /// The document under a vector that names more, and a stamp that says so: whatever `lost` covers and this
    /// does not show was removed, and that removal has a name of its own again (rule 14).
    ///
    /// `stamp` is new, and later than everything here.
    public func raised(to lost: VersionVector, by stamp: Stamp) -> Document {
        var vector = vector.union(lost)
        vector.insert(stamp)
        return Document(vector: vector, root: root)
    }

    /// The remains of a tombstone after reaping: nil, or, if a seed had been written, the seeds' part of the
    /// vector, so that no seed returns after its deletion (rule 7). Precondition: the document is a
    /// tombstone.
    ///
    /// The baselines of counters are dropped too. So, as after an eviction (rule 10), a store must not write
    /// here again with an actor that this vector held: where the tombstone is kept, the actor's old baseline
    /// would be subtracted from a total that started again from zero.
    public func reaped() -> Document? {
        precondition(!isLive, "only tombstones are reaped")
        return Document(restOf: vector)
    }

    /// A document that is gone, reduced to the seeds that its vector names; nil when it names none.
    public init?(restOf vector: VersionVector) {
        let seeds = vector.seeds
        guard !seeds.isEmpty else { return nil }
        self.init(vector: seeds, root: MapNode())
    }

    /// True for what an old log left of a reaped document that began with seeds: not live, and its vector
    /// names only the seeds.
    public var isRestOfSeeds: Bool {
        !isLive && !vector.isEmpty && vector.entries.allSatisfy { $0.time == 0 }
    }

    /// Returns whether this shows a write that `left` does not show. Removals, in either of them, make no
    /// difference.
    public func shows(moreThan left: Document) -> Bool { root.shows(moreThan: left.root) }
}

extension DocumentReader {
    /// True if this is the remains of a reaped document that began with seeds (rule 7): not live, and its
    /// vector names only the seeds. Then an equal vector does not mean equal content: the seeds may live
    /// elsewhere.
    public func isRestOfSeeds() throws(CRDTError) -> Bool {
        guard !isLive else { return false }
        let entries = try vector().entries
        return !entries.isEmpty && entries.allSatisfy { $0.time == 0 }
    }
}

extension MapNode {
    fileprivate func shows(moreThan left: MapNode?) -> Bool {
        if presence.contains(where: { !(left?.presence.contains($0) ?? false) }) { return true }
        return fields.contains { $0.slot.shows(moreThan: left?[$0.key]) }
    }
}

extension Slot {
    fileprivate func shows(moreThan left: Slot?) -> Bool {
        if register.shows(moreThan: left?.register) || attachment.shows(moreThan: left?.attachment) {
            return true
        }
        if map?.shows(moreThan: left?.map) ?? false { return true }
        guard let counter else { return false }
        if counter.restarts.shows(moreThan: left?.counter?.restarts) { return true }
        return counter.entries.contains { entry in
            guard entry.survives else { return false }
            guard let there = left?.counter?[entry.actor]?.point else { return true }
            return there.time < entry.point.time
                || there.time == entry.point.time && there.total != entry.point.total
        }
    }
}

extension Leaves {
    fileprivate func shows(moreThan left: Leaves?) -> Bool {
        contains { leaf in !(left?.contains { $0.stamp == leaf.stamp } ?? false) }
    }
}
