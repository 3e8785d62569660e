// The end of documents (rules 7, 12 to 15): what a deletion leaves, what reaping leaves of that, and what a
// store that returns after the reaping keeps of its own writes.

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

    /// True if the vector names seeds without any content here: overwritten, deleted, or reaped before the
    /// other content was written. Then an equal vector does not mean equal content (rule 7).
    public var hasLostSeeds: Bool {
        let seeds = vector.seeds
        return !seeds.isEmpty && MapNode.join(root, vector, MapNode(), seeds) == root
    }

    /// The part of this document that a returning store keeps after the document was reaped elsewhere.
    /// Writes that the frontier covers are dropped; everything else survives, as after a delete with a
    /// concurrent update (rules 13, 14).
    ///
    /// `frontier` is the log's frontier joined with the vector of the document's remains after reaping. The
    /// log counts actors, and no actor wrote the seeds: without that vector they would come back.
    ///
    /// `own` holds the store's own deltas of this document, in their order; those that the frontier covers
    /// are skipped. They are needed because a counter keeps one running total: they tell which of the
    /// store's increments the others have not seen. A counter that a third store incremented unseen keeps
    /// its growth since the baseline, because nothing here tells more about its parts.
    ///
    /// `rest` is the other side's copy of the document. Its content stays, unless this document has removed
    /// it. The frontier covers its vector.
    public func gone(
        frontier: VersionVector, replaying own: [Delta], keeping rest: Document = Document()
    ) -> Document {
        let back = Return(frontier: frontier, own: own)
        // Not `merge`: what the frontier covers and the rest does not show was removed.
        var tree = MapNode.join(root, vector, rest.root, frontier)
        tree.restartCounters(
            back, replaying: back.replay(until: .max), keeping: rest.root,
            lowering: mayRemove(from: frontier) ? root : nil)
        return Document(vector: vector.union(frontier), root: tree)
    }

    /// The rest of this document after a teller has named parts of it as gone: writes and removals whose
    /// tombstone was reaped (rule 13). Stamps that `gone` covers and that `teller`, the teller's state, does
    /// not show are dropped. Entries of the vector that `gone` covers are cut down to the teller's, and not
    /// further: they may say of an earlier stamp that it was removed. Seeds stay named (rule 7).
    ///
    /// The result is not merged with the teller's state yet.
    public func without(_ gone: VersionVector, keeping teller: Document = Document()) -> Document {
        var tree = MapNode.join(root, vector.union(teller.vector), teller.root, gone)
        tree.restartCounters(
            Return(frontier: gone, own: []), keeping: teller.root,
            lowering: mayRemove(from: teller.vector.union(gone)) ? root : nil)
        let left = vector.entries.compactMap { entry -> VersionVector.Entry? in
            guard entry.time > 0, entry.time <= gone[entry.actor] ?? 0 else { return entry }
            return teller.vector[entry.actor].map {
                VersionVector.Entry(actor: entry.actor, time: min($0, entry.time))
            }
        }
        return Document(vector: VersionVector(ascending: left).union(gone.seeds), root: tree)
    }

    /// Returns whether this shows a write that `left`, which `without` made of it, does not show. Removals
    /// without a note, in either of them, make no difference.
    public func shows(moreThan left: Document) -> Bool { root.shows(moreThan: left.root) }

    /// True if this has writes that `known` does not cover: there may be removals among them that only this
    /// document has seen.
    private func mayRemove(from known: VersionVector) -> Bool {
        vector.entries.contains { $0.time > known[$0.actor] ?? 0 }
    }

    /// The document reduced to the writes of these actors. `own` holds their deltas of this document, in
    /// their order. The other writes are forgotten, not removed: they may come back.
    public func only(of actors: Set<ActorID>, replaying own: [Delta]) -> Document {
        let others = VersionVector(vector.entries.filter { !actors.contains($0.actor) })
        return Document(
            vector: VersionVector(vector.entries.filter { actors.contains($0.actor) }),
            root: gone(frontier: others, replaying: own).root)
    }
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

/// The data from which a returning store rebuilds its counters.
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

    /// Applies the unseen deltas up to a time to an empty tree.
    func replay(until time: Timestamp) -> MapNode {
        var tree = MapNode()
        for delta in unseen where delta.stamp.time <= time {
            tree.apply(delta.root, observed: Observed(base: delta.base, own: nil), stamp: delta.stamp)
        }
        return tree
    }

    /// An entry as it continues once everything under the frontier is gone. `replayed` is the same actor's
    /// entry, built from its unseen increments alone.
    func entry(_ entry: CounterNode.Entry, _ replayed: CounterNode.Entry?, at path: [String])
        -> CounterNode.Entry?
    {
        if frontier.covers(entry.stamp) { return nil }
        guard actors.contains(entry.actor), let replayed else { return sinceBaseline(entry) }
        var result = CounterNode.Entry(actor: entry.actor, point: replayed.point)
        guard let baseline = entry.baseline,
            !frontier.covers(Stamp(time: baseline.time, actor: entry.actor))
        else { return result }
        // The baselines that others observed for this store's increments count from the old total. A
        // difference of totals would round for doubles, so the baseline is replayed.
        result.baseline =
            baseline.time == replayed.point.time
            ? replayed.point
            : replay(until: baseline.time)[path[...]]?.counter?[entry.actor]?.point
        result.baseline?.since = nil
        result.settle()
        return result
    }

    /// A third store's entry. The part of it that was removed under the frontier is not in the total that
    /// the others have started again. As a baseline it would be subtracted from that total.
    private func sinceBaseline(_ entry: CounterNode.Entry) -> CounterNode.Entry {
        guard let baseline = entry.baseline,
            frontier.covers(Stamp(time: baseline.time, actor: entry.actor))
        else { return entry }
        return CounterNode.Entry(
            actor: entry.actor, point: CounterNode.Point(time: entry.point.time, total: entry.growth))
    }
}

extension MapNode {
    /// Lets counters go on without what the frontier covers.
    /// - Parameters:
    ///   - replay: the tree of the unseen increments alone; nil where nobody's are known.
    ///   - path: the place of this map.
    ///   - kept: the tree of somebody who still has a part of what the frontier covers: an entry that is the
    ///     same there, or of which nothing else is left, goes on as it is there.
    ///   - mine: the tree of this document before it was joined with that; nil if it has seen no removal of
    ///     what is kept.
    fileprivate mutating func restartCounters(
        _ back: Return, replaying replay: MapNode? = nil, at path: [String] = [], keeping kept: MapNode?,
        lowering mine: MapNode?
    ) {
        for index in fields.indices {
            let below = path + [fields[index].key]
            let replayed = replay?[fields[index].key]
            let there = kept?[fields[index].key]
            let here = mine?[fields[index].key]
            fields[index].slot.map?.restartCounters(
                back, replaying: replayed?.map, at: below, keeping: there?.map, lowering: here?.map)
            if fields[index].slot.map?.isEmpty == true { fields[index].slot.map = nil }
            guard var counter = fields[index].slot.counter else { continue }
            counter.entries = counter.entries.compactMap { entry in
                if let own = there?.counter?[entry.actor],
                    own.point == entry.point || back.frontier.covers(entry.stamp)
                {
                    return here?.counter?[entry.actor].map { own.lowered(like: $0, back.frontier) } ?? own
                }
                return back.entry(entry, replayed?.counter?[entry.actor], at: below)
            }
            fields[index].slot.counter = counter.isEmpty ? nil : counter
        }
        fields.removeAll { $0.slot.isEmpty }
    }
}

extension CounterNode.Entry {
    /// The entry with the removals that a copy has seen of it. A baseline within the total counts only where
    /// the totals are certainly of one sum: one that began again after a reaping says nothing of an older
    /// baseline.
    fileprivate func lowered(like copy: Self, _ frontier: VersionVector) -> Self {
        guard let seen = copy.baseline, baseline.map({ $0.time < seen.time }) ?? true else { return self }
        var result = self
        if seen.time == point.time {
            result.baseline = CounterNode.Point(time: point.time, total: point.total)
        } else if seen.time < point.time,
            copy.point == point || !frontier.covers(Stamp(time: seen.time, actor: actor))
        {
            result.baseline = seen
        }
        result.settle()
        return result
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
