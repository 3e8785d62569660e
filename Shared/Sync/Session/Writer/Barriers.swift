import CRDT

/// Requests that wait until the server has everything that this store wrote before a moment: a part of the
/// writer.
struct Barriers: Sendable {
    /// The store's own history at a moment.
    struct Moment: Sendable {
        /// Reads of own operations begun after this one know of everything written before.
        let reads: UInt64
        /// Actors of which not everything written before has been read yet.
        var unread: Set<ActorID>
        /// Per actor the sequence that must be acknowledged.
        var targets: [ActorID: SequenceNumber]
    }

    /// In order: a later request waits for those before it.
    private var waiting: [(ask: Reader.Ask, moment: Moment)] = []

    mutating func add(_ ask: Reader.Ask, at moment: Moment) { waiting.append((ask, moment)) }

    /// Everything of this actor that was written before the latest read has been sent, up to a sequence.
    mutating func sent(_ actor: ActorID, through sequence: SequenceNumber, reads: UInt64) {
        for index in waiting.indices where waiting[index].moment.reads < reads {
            guard waiting[index].moment.unread.remove(actor) != nil else { continue }
            waiting[index].moment.targets[actor] = sequence
        }
    }

    /// The store writes as another actor: all wait for its operations.
    mutating func move(to moment: Moment) {
        for index in waiting.indices { waiting[index].moment = moment }
    }

    /// The server does not take an actor's operations for now: nobody waits for them.
    mutating func pass(_ actor: ActorID) {
        for index in waiting.indices {
            waiting[index].moment.unread.remove(actor)
            waiting[index].moment.targets[actor] = nil
        }
    }

    /// Takes the requests that may leave, given what the server has.
    mutating func takeReached(_ acknowledged: [ActorID: SequenceNumber]) -> [Reader.Ask] {
        let reached = waiting.prefix { item in
            item.moment.unread.isEmpty
                && item.moment.targets.allSatisfy { $0.value <= acknowledged[$0.key] ?? 0 }
        }
        waiting.removeFirst(reached.count)
        return reached.map(\.ask)
    }
}
