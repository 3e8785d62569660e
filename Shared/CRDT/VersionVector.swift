/// Per actor the greatest timestamp merged: the causal context of a document, the base of a delta.
///
/// Invariants: actors ascend strictly. An absent actor covers nothing, not even timestamp zero.
public struct VersionVector: Hashable, Sendable {
    /// One actor's greatest timestamp.
    public struct Entry: Hashable, Sendable {
        /// The actor.
        public let actor: ActorID
        /// The greatest timestamp of that actor that is covered.
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

    /// From entries in any order; of two entries of one actor the greater time stays.
    public init(_ entries: some Sequence<Entry>) {
        self.entries = []
        for entry in entries { insert(Stamp(time: entry.time, actor: entry.actor)) }
    }

    /// From entries that a decoder has found strictly ascending.
    init(ascending entries: [Entry]) { self.entries = entries }

    /// Whether it covers nothing.
    public var isEmpty: Bool { entries.isEmpty }

    /// Whether it covers what a seed wrote (rule 7).
    public var holdsSeed: Bool { entries.contains { $0.time == 0 } }

    /// The entries of seeds.
    var seeds: VersionVector { VersionVector(ascending: entries.filter { $0.time == 0 }) }

    /// The greatest timestamp of an actor, nil when none of its stamps is covered.
    public subscript(actor: ActorID) -> Timestamp? {
        let place = position(of: actor)
        return place < entries.count && entries[place].actor == actor ? entries[place].time : nil
    }

    /// Where an actor's entry is among `entries`, nil when there is none.
    func place(of actor: ActorID) -> Int? {
        let place = position(of: actor)
        return place < entries.count && entries[place].actor == actor ? place : nil
    }

    /// Whether the stamp is covered: its actor has an entry and it is not smaller.
    public func covers(_ stamp: Stamp) -> Bool {
        guard let time = self[stamp.actor] else { return false }
        return time >= stamp.time
    }

    /// Whether everything `other` covers is covered here.
    public func covers(_ other: VersionVector) -> Bool {
        other.entries.allSatisfy { covers(Stamp(time: $0.time, actor: $0.actor)) }
    }

    /// As `covers`, but for a stamp that comes with what is asked about.
    func covers(_ other: VersionVector, besides stamp: Stamp?) -> Bool {
        other.entries.allSatisfy { entry in
            let needed = Stamp(time: entry.time, actor: entry.actor)
            return needed == stamp || covers(needed)
        }
    }

    /// The greatest timestamp of any actor; nil when empty.
    public var greatestTime: Timestamp? { entries.map(\.time).max() }

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

    /// Joins another vector: per actor the greater time.
    public mutating func formUnion(_ other: VersionVector) {
        guard !entries.isEmpty else {
            entries = other.entries
            return
        }
        // A few go in one by one. Each moves what stands behind it, so many go in one walk.
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
