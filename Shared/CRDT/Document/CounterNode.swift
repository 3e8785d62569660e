/// A COUNTER (rule 4): for each actor a running total and its *baseline*, the part of it that merged
/// removals had seen.
///
/// An actor that counts on after a removal had seen all of its increments begins a *new sum* if the old total
/// or the increment is a double: the difference of two totals would be rounded at the old one's size.
///
/// Invariants: entries ascend by actor; a baseline is not after its entry; a sum begins at its entry's
/// baseline, or with the actor's first increment. Entries are never dropped, so
/// joining needs no vectors: for each actor it takes the entry and the baseline of the greater time. When
/// two have the same time (dishonest, for a stamp has one content) the greater total wins, so joining stays
/// a lattice.
struct CounterNode: Sendable, Equatable {
    /// An actor's running total as of one of its stamps.
    struct Point: Sendable, Equatable {
        let time: Timestamp
        /// An integer or a double.
        let total: Value
        /// The time of the baseline at which a new sum began, whose total this is; nil where the total counts
        /// from the same beginning as the baseline's.
        var since: Timestamp?

        init(time: Timestamp, total: Value, since: Timestamp? = nil) {
            self.time = time
            self.total = total
            self.since = since
        }
    }

    /// One actor's sum of increments.
    struct Entry: Sendable, Equatable {
        let actor: ActorID
        /// Its last increment.
        var point: Point
        /// The last increment that a removal or RESTART had seen.
        var baseline: Point?

        /// True if an increment survives.
        var survives: Bool { baseline.map { $0.time < point.time } ?? true }
        /// True if removals have seen all of its increments.
        var isSeen: Bool { baseline?.time == point.time }
        /// The growth of its total since the baseline; an integer if there is none.
        var growth: Value {
            if baseline == point { return .int(0) }
            guard point.since == nil else { return point.total }
            return CounterSum.difference(point.total, baseline?.total ?? .int(0))
        }
        var stamp: Stamp { Stamp(time: point.time, actor: actor) }

        /// Forgets where the sum began once the baseline lies within it.
        mutating func settle() {
            if point.since != nil, point.since != baseline?.time { point.since = nil }
        }
    }

    /// The RESTARTs that no later RESTART or removal has observed; the greatest counts.
    var restarts = Leaves()
    var entries: [Entry] = []

    var isEmpty: Bool { restarts.isEmpty && entries.isEmpty }

    /// A counter is visible while a RESTART or an increment survives. The remains of a removed counter stay
    /// as a residue.
    var isVisible: Bool { !restarts.isEmpty || entries.contains(where: { $0.survives }) }

    /// The greatest stamp that survives; nil when the counter is not visible.
    var maxStamp: Stamp? {
        var greatest = restarts.newest
        for entry in entries where entry.survives { greatest = greater(greatest, entry.stamp) }
        return greatest
    }

    /// The greatest surviving RESTART value, or zero, plus each actor's increments since its baseline.
    var value: Value {
        var sum = CounterSum(start: restarts.last?.value)
        for entry in entries { sum.add(entry.growth) }
        return sum.value
    }

    subscript(actor: ActorID) -> Entry? {
        let place = position(of: actor)
        return place < entries.count && entries[place].actor == actor ? entries[place] : nil
    }

    mutating func apply(_ edit: CounterEdit, observed: Observed, stamp: Stamp) {
        if observed.own == stamp, let before = edit.before { rewind(stamp.actor, to: before.point) }
        for baseline in edit.baselines { lower(baseline) }
        if let value = edit.restart {
            restarts.write(Leaves.Leaf(stamp: stamp, value: value), observed: observed)
        } else if edit.clearsRestarts {
            restarts.remove(observed: observed)
        }
        if let amount = edit.amount { add(amount, stamp, beginsSum: edit.beginsSum) }
    }

    /// The entries that a removal has to name: the surviving ones, with `actor`'s own entry as it was before
    /// the removal's transaction.
    func observed(by actor: ActorID, before: CounterEdit.Before?) -> [CounterEdit.Baseline] {
        entries.compactMap { entry in
            guard entry.actor == actor, let before else {
                return entry.survives ? CounterEdit.Baseline(actor: entry.actor, point: entry.point) : nil
            }
            guard let point = before.point, entry.baseline.map({ $0.time < point.time }) ?? true else {
                return nil
            }
            return CounterEdit.Baseline(actor: actor, point: point)
        }
    }

    /// Takes back the increments of the open transaction.
    private mutating func rewind(_ actor: ActorID, to point: Point?) {
        let place = position(of: actor)
        guard place < entries.count, entries[place].actor == actor else { return }
        guard let point else {
            entries.remove(at: place)
            return
        }
        entries[place].point = point
        entries[place].settle()
    }

    /// Sets the baseline that a removal saw. When a base is covered, its entries are here (rule 3). So a
    /// baseline without an entry, or after it, does not concern this state.
    private mutating func lower(_ baseline: CounterEdit.Baseline) {
        let place = position(of: baseline.actor)
        guard place < entries.count, entries[place].actor == baseline.actor else { return }
        let entry = entries[place]
        guard baseline.point.time <= entry.point.time else { return }
        let seen = baseline.point.time == entry.point.time ? entry.point : baseline.point
        entries[place].baseline = Self.join(entry.baseline, Point(time: seen.time, total: seen.total))
        entries[place].settle()
    }

    /// An entry that was not seen as a whole, or is not there, goes on with its sum: the author's observation
    /// does not hold here, because the counter has started again or the edit has moved to another actor.
    private mutating func add(_ amount: Value, _ stamp: Stamp, beginsSum: Bool) {
        let place = position(of: stamp.actor)
        if place < entries.count, entries[place].actor == stamp.actor {
            let entry = entries[place]
            let isNew = beginsSum && entry.isSeen && !CounterSum.areIntegers(entry.point.total, amount)
            entries[place].point = Point(
                time: stamp.time,
                total: CounterSum.total(isNew ? .int(0) : entry.point.total, plus: amount),
                since: isNew ? entry.point.time : entry.point.since)
        } else {
            let point = Point(time: stamp.time, total: CounterSum.total(.int(0), plus: amount))
            entries.insert(Entry(actor: stamp.actor, point: point), at: place)
        }
    }

    private func position(of actor: ActorID) -> Int {
        var low = 0
        var high = entries.count
        while low < high {
            let middle = (low + high) / 2
            if entries[middle].actor < actor { low = middle + 1 } else { high = middle }
        }
        return low
    }
}

extension CounterNode {
    static func join(
        _ left: CounterNode, _ leftVector: VersionVector, _ right: CounterNode, _ rightVector: VersionVector
    ) -> CounterNode {
        var result = CounterNode()
        result.restarts = Leaves.join(left.restarts, leftVector, right.restarts, rightVector)
        var first = 0
        var second = 0
        while first < left.entries.count, second < right.entries.count {
            let (one, other) = (left.entries[first], right.entries[second])
            if one.actor <= other.actor { first += 1 }
            if other.actor <= one.actor { second += 1 }
            if one.actor < other.actor {
                result.entries.append(one)
            } else if other.actor < one.actor {
                result.entries.append(other)
            } else {
                let baseline = one.baseline.map { join(other.baseline, $0) } ?? other.baseline
                var entry = Entry(actor: one.actor, point: join(one.point, other.point), baseline: baseline)
                entry.settle()
                result.entries.append(entry)
            }
        }
        result.entries += left.entries[first...] + right.entries[second...]
        return result
    }

    private static func join(_ left: Point?, _ right: Point) -> Point {
        guard let left else { return right }
        if right.isBefore(left) { return left }
        if left.isBefore(right) { return right }
        guard let since = left.since else { return right }
        return right.since.map { $0 < since } ?? true ? left : right
    }
}

extension CounterNode.Point {
    /// By time, ties by total.
    func isBefore(_ other: CounterNode.Point) -> Bool {
        guard time == other.time else { return time < other.time }
        return CounterSum.isOrdered(total, other.total)
    }
}
