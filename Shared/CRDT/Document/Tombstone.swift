// The end of documents (rules 7, 12 to 15): what a deletion leaves, what reaping leaves of that, and what a
// store that returns after the reaping keeps of its own.

extension Document {
    /// Whether the document was written once and is not live: what a deletion leaves. What is left of it
    /// is its vector and the baselines of its counters.
    public var isTombstone: Bool { !isLive && !vector.isEmpty }

    /// When a tombstone was written last, by the writers' clocks; nil for anything else.
    public var deletedAt: Timestamp? { isTombstone ? vector.greatestTime : nil }

    /// What reaping leaves of a tombstone: nothing, or, where a seed had been written, the seeds' part of the
    /// vector, so that no seed returns after its deletion (rule 7). Only for tombstones: a precondition.
    public func reaped() -> Document? {
        precondition(!isLive, "only tombstones are reaped")
        let seeds = vector.entries.filter { $0.time == 0 }
        return seeds.isEmpty ? nil : Document(vector: VersionVector(ascending: seeds), root: MapNode())
    }

    /// What a store keeps of a document that was reaped elsewhere while it was away: what the frontier covers
    /// is dropped, everything else survives as a delete against a concurrent update leaves it (rules 13, 14).
    ///
    /// `own` are the store's own deltas of this document, in their order; those that the frontier covers are
    /// skipped. They tell what of the store's counters the others have not seen: a counter keeps one running
    /// total. Of counters that a third store incremented unseen the whole total stays, because nothing here
    /// tells its parts.
    public func gone(frontier: VersionVector, replaying own: [Delta]) -> Document {
        var replay = MapNode()
        var actors = Set<ActorID>()
        for delta in own where !frontier.covers(delta.stamp) {
            replay.apply(delta.root, observed: Observed(base: delta.base, own: nil), stamp: delta.stamp)
            actors.insert(delta.stamp.actor)
        }
        // Not `merge`: an empty tree under the frontier says that all it covers was removed.
        var tree = MapNode.join(root, vector, MapNode(), frontier)
        tree.restartCounters(Return(frontier: frontier, actors: actors), replay)
        return Document(vector: vector.union(frontier), root: tree)
    }
}

/// What a store that returns has to know of each counter.
private struct Return {
    let frontier: VersionVector
    /// The store's own actors.
    let actors: Set<ActorID>

    /// An entry as it goes on where everything under the frontier is gone; `replayed` is the same actor's
    /// entry made of its unseen increments alone.
    func entry(_ entry: CounterNode.Entry, _ replayed: CounterNode.Entry?) -> CounterNode.Entry? {
        if frontier.covers(entry.stamp) { return nil }
        guard actors.contains(entry.actor), let replayed else { return entry }
        var result = CounterNode.Entry(actor: entry.actor, point: replayed.point)
        guard let baseline = entry.baseline,
            !frontier.covers(Stamp(time: baseline.time, actor: entry.actor))
        else { return result }
        if baseline.time == replayed.baseline?.time {
            result.baseline = replayed.baseline
        } else {
            // What others observed of this store's increments counts from the old total.
            let since = CounterSum.difference(entry.point.total, baseline.total)
            result.baseline = CounterNode.Point(
                time: baseline.time, total: CounterSum.difference(replayed.point.total, since))
        }
        return result
    }
}

extension MapNode {
    fileprivate mutating func restartCounters(_ back: Return, _ replay: MapNode?) {
        for index in fields.indices {
            let replayed = replay?[fields[index].key]
            fields[index].slot.map?.restartCounters(back, replayed?.map)
            if fields[index].slot.map?.isEmpty == true { fields[index].slot.map = nil }
            guard var counter = fields[index].slot.counter else { continue }
            counter.entries = counter.entries.compactMap { entry in
                back.entry(entry, replayed?.counter?[entry.actor])
            }
            fields[index].slot.counter = counter.isEmpty ? nil : counter
        }
        fields.removeAll { $0.slot.isEmpty }
    }
}
