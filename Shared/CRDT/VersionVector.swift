/// The greatest timestamp merged, for each actor: the causal context of a document, the base of a delta.
///
/// Invariants: actors ascend strictly. An absent actor covers nothing, not even timestamp zero.
public struct VersionVector: Hashable, Sendable {
    /// One actor's greatest timestamp.
    public struct Entry: Hashable, Sendable {
        /// The actor.
        public let actor: ActorID
        /// The greatest covered timestamp of that actor.
        public let time: Timestamp

        /// An entry for `actor` up to and including `time`.
        public init(actor: ActorID, time: Timestamp) {
            self.actor = actor
            self.time = time
        }
    }

    /// The entries, ascending by actor.
    public private(set) var entries: [Entry]

    /// The vector that covers nothing.
    public init() { entries = [] }

    /// A vector of entries in any order. For an actor that has several, the greatest time counts.
    public init(_ entries: some Sequence<Entry>) {
        self.entries = []
        for entry in entries { insert(Stamp(time: entry.time, actor: entry.actor)) }
    }

    /// A vector of entries that a decoder has found strictly ascending.
    init(ascending entries: [Entry]) { self.entries = entries }

    /// True if it covers nothing.
    public var isEmpty: Bool { entries.isEmpty }

    /// True if it covers the write of a seed (rule 7).
    public var holdsSeed: Bool { entries.contains { $0.time == 0 } }

    /// The entries of seeds.
    var seeds: VersionVector { VersionVector(ascending: entries.filter { $0.time == 0 }) }

    /// The greatest covered timestamp of an actor; nil when none of its stamps is covered.
    public subscript(actor: ActorID) -> Timestamp? {
        let place = position(of: actor)
        return place < entries.count && entries[place].actor == actor ? entries[place].time : nil
    }

    /// The index of an actor's entry in `entries`; nil when there is none.
    func place(of actor: ActorID) -> Int? {
        let place = position(of: actor)
        return place < entries.count && entries[place].actor == actor ? place : nil
    }

    /// Returns whether the stamp is covered: its actor has an entry with a time that is not smaller.
    public func covers(_ stamp: Stamp) -> Bool {
        guard let time = self[stamp.actor] else { return false }
        return time >= stamp.time
    }

    /// Returns whether everything that `other` covers is covered here.
    public func covers(_ other: VersionVector) -> Bool {
        other.entries.allSatisfy { covers(Stamp(time: $0.time, actor: $0.actor)) }
    }

    /// As `covers`, but treats `stamp` as covered: it arrives together with `other`.
    func covers(_ other: VersionVector, besides stamp: Stamp?) -> Bool {
        other.entries.allSatisfy { entry in
            let needed = Stamp(time: entry.time, actor: entry.actor)
            return needed == stamp || covers(needed)
        }
    }

    /// The greatest timestamp of any actor; nil when empty.
    public var greatestTime: Timestamp? { entries.map { $0.time }.max() }

    /// Adds one stamp: its actor's entry becomes the greater of the two times.
    public mutating func insert(_ stamp: Stamp) {
        let place = position(of: stamp.actor)
        if place < entries.count, entries[place].actor == stamp.actor {
            if entries[place].time < stamp.time {
                entries[place] = Entry(actor: stamp.actor, time: stamp.time)
            }
        } else {
            entries.insert(Entry(actor: stamp.actor, time: stamp.time), at: place)
        }
    }

    /// Joins another vector: the greater time of each actor.
    public mutating func formUnion(_ other: VersionVector) {
        guard !entries.isEmpty else {
            entries = other.entries
            return
        }
        // A few entries are inserted one by one. Each insertion moves the entries after it, so many entries
        // are merged in one walk.
        guard other.entries.count > 16 else {
            for entry in other.entries { insert(Stamp(time: entry.time, actor: entry.actor)) }
            return
        }
        var joined: [Entry] = []
        joined.reserveCapacity(max(entries.count, other.entries.count))
        var place = 0
        for entry in other.entries {
            while place < entries.count, entries[place].actor < entry.actor {
                joined.append(entries[place])
                place += 1
            }
            if place < entries.count, entries[place].actor == entry.actor {
                joined.append(entries[place].time < entry.time ? entry : entries[place])
                place += 1
            } else {
                joined.append(entry)
            }
        }
        joined.append(contentsOf: entries[place...])
        entries = joined
    }

    /// The join of two vectors.
    public func union(_ other: VersionVector) -> VersionVector {
        var joined = self
        joined.formUnion(other)
        return joined
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
