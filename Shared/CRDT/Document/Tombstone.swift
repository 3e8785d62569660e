// The end of documents (rules 7, 12 to 15): what a deletion leaves, what reaping leaves of that, and what a
// store that returns after the reaping keeps of its own.

extension Document {
    /// Whether the document was written once and is not live: what a deletion leaves. What is left of it
    /// is its vector and the baselines of its counters.
    public var isTombstone: Bool { !isLive && !vector.isEmpty }

    /// When a tombstone was written last, by the writers' clocks; nil for anything else.
    public var deletedAt: Timestamp? { isTombstone ? vector.greatestTime : nil }

    /// Whether a tombstone is older than the time-to-live, by its last writer's clock. A clock that
    /// was ahead keeps it longer; nothing makes it go early.
    public func hasOutlived(_ timeToLive: Duration, wallMilliseconds: UInt64) -> Bool {
        guard let deletedAt else { return false }
        let age = Duration.milliseconds(
            Int64(clamping: wallMilliseconds) - Int64(clamping: HybridClock.milliseconds(of: deletedAt)))
        return age > timeToLive
    }

    /// What reaping leaves of a tombstone: nothing, or, where a seed had been written, the seeds' part of the
    /// vector, so that no seed returns after its deletion (rule 7). Only for tombstones: a precondition.
    ///
    /// The baselines of counters go too. So, as after an eviction (rule 10), a store must not write here
    /// again with an actor that this vector held: where the tombstone is kept, the actor's old baseline
    /// would be taken from a total that began anew.
    public func reaped() -> Document? {
        precondition(!isLive, "only tombstones are reaped")
        return Document(restOf: vector)
    }

    /// The rest of seeds that a vector names, of a document that is gone; nil where it names none.
    public init?(restOf vector: VersionVector) {
        let seeds = vector.seeds
        guard !seeds.isEmpty else { return nil }
        self.init(vector: seeds, root: MapNode())
    }

    /// Whether the vector names seeds of which nothing is here: overwritten, deleted, or reaped before the
    /// rest was written. Where it is so, an equal vector does not mean equal content (rule 7).
    public var hasLostSeeds: Bool {
        let seeds = vector.seeds
        return !seeds.isEmpty && MapNode.join(root, vector, MapNode(), seeds) == root
    }

    /// What a store keeps of a document that was reaped elsewhere while it was away: what the frontier covers
    /// is dropped, everything else survives as a delete against a concurrent update leaves it (rules 13, 14).
    ///
    /// `frontier` is the log's, joined with the vector of what reaping left of this document there: a log
    /// counts actors, and no actor wrote the seeds. Without it they would come back.
    ///
    /// `own` are the store's own deltas of this document, in their order; those that the frontier covers are
    /// skipped. They tell what of the store's counters the others have not seen: a counter keeps one running
    /// total. Of counters that a third store incremented unseen what grew since its baseline stays, because
    /// nothing here tells more of its parts.
    public func gone(frontier: VersionVector, replaying own: [Delta]) -> Document {
        let back = Return(frontier: frontier, own: own)
        // Not `merge`: an empty tree under the frontier says that all it covers was removed.
        var tree = MapNode.join(root, vector, MapNode(), frontier)
        tree.restartCounters(back, back.replay(until: .max), [])
        return Document(vector: vector.union(frontier), root: tree)
    }

    /// What is left where all goes but what these actors wrote, whose deltas of this document `own` are, in
    /// their order. Of the rest nothing is remembered: it may come back.
    public func only(of actors: Set<ActorID>, replaying own: [Delta]) -> Document {
        let others = VersionVector(vector.entries.filter { !actors.contains($0.actor) })
        return Document(
            vector: VersionVector(vector.entries.filter { actors.contains($0.actor) }),
            root: gone(frontier: others, replaying: own).root)
    }
}

extension DocumentReader {
    /// Whether it is what reaping leaves of a document that began with seeds (rule 7): dead, and its vector
    /// names the seeds only. Then an equal vector does not mean equal content: the seeds may live elsewhere.
    public func isRestOfSeeds() throws(CRDTError) -> Bool {
        guard !isLive else { return false }
        let entries = try vector().entries
        return !entries.isEmpty && entries.allSatisfy { $0.time == 0 }
    }
}

/// What a store that returns has to know of each counter.
private struct Return {
    let frontier: VersionVector
    /// The store's own deltas that the frontier does not cover, in their order.
    let unseen: [Delta]
    let actors: Set<ActorID>

    init(frontier: VersionVector, own: [Delta]) {
        self.frontier = frontier
        unseen = own.filter { !frontier.covers($0.stamp) }
        actors = Set(unseen.map(\.stamp.actor))
    }

    /// What the unseen deltas up to a time make of an empty tree.
    func replay(until time: Timestamp) -> MapNode {
        var tree = MapNode()
        for delta in unseen where delta.stamp.time <= time {
            tree.apply(delta.root, observed: Observed(base: delta.base, own: nil), stamp: delta.stamp)
        }
        return tree
    }

    /// An entry as it goes on where everything under the frontier is gone; `replayed` is the same actor's
    /// entry made of its unseen increments alone.
    func entry(_ entry: CounterNode.Entry, _ replayed: CounterNode.Entry?, at path: [String])
        -> CounterNode.Entry?
    {
        if frontier.covers(entry.stamp) { return nil }
        guard actors.contains(entry.actor), let replayed else { return sinceBaseline(entry) }
        var result = CounterNode.Entry(actor: entry.actor, point: replayed.point)
        guard let baseline = entry.baseline,
            !frontier.covers(Stamp(time: baseline.time, actor: entry.actor))
        else { return result }
        // What others observed of this store's increments counted from the old total. A difference of totals
        // would round where they are doubles.
        result.baseline =
            baseline.time == replayed.point.time
            ? replayed.point
            : replay(until: baseline.time)[path[...]]?.counter?[entry.actor]?.point
        return result
    }

    /// A third store's entry. What was removed of it under the frontier is no part of the total that the
    /// others have begun anew: kept as a baseline, it would be taken from that one.
    private func sinceBaseline(_ entry: CounterNode.Entry) -> CounterNode.Entry {
        guard let baseline = entry.baseline,
            frontier.covers(Stamp(time: baseline.time, actor: entry.actor))
        else { return entry }
        let grown = CounterSum.difference(entry.point.total, baseline.total)
        return CounterNode.Entry(
            actor: entry.actor, point: CounterNode.Point(time: entry.point.time, total: grown))
    }
}

extension MapNode {
    fileprivate mutating func restartCounters(_ back: Return, _ replay: MapNode?, _ path: [String]) {
        for index in fields.indices {
            let below = path + [fields[index].key]
            let replayed = replay?[fields[index].key]
            fields[index].slot.map?.restartCounters(back, replayed?.map, below)
            if fields[index].slot.map?.isEmpty == true { fields[index].slot.map = nil }
            guard var counter = fields[index].slot.counter else { continue }
            counter.entries = counter.entries.compactMap { entry in
                back.entry(entry, replayed?.counter?[entry.actor], at: below)
            }
            fields[index].slot.counter = counter.isEmpty ? nil : counter
        }
        fields.removeAll { $0.slot.isEmpty }
    }
}
