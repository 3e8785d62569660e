import CRDT
import Exchange

/// The store's actors and how far the server has each of them: a part of the writer.
///
/// Invariants: nothing is acknowledged that was not sent; nothing is sent of an actor that is stopped.
struct OwnActors: Sendable {
    /// The actors, oldest first, as the hello named them.
    private var heads: [ActorHead] = []
    /// Per actor the sequence up to which everything was sent or was known to the server.
    private(set) var sent: [ActorID: SequenceNumber] = [:]
    /// Per actor the sequence up to which the server has everything durably.
    private(set) var acknowledged: [ActorID: SequenceNumber] = [:]
    /// Actors that may have more to send, in order.
    private(set) var pending: [ActorID] = []
    /// Actors of which the server takes nothing more: nothing of them is sent.
    private(set) var stopped: Set<ActorID> = []
    /// Stopped actors with another history at the server right after what is acknowledged here.
    private(set) var diverged: Set<ActorID> = []

    // MARK: The handshake

    mutating func greet(_ heads: [ActorHead]) { self.heads = heads }

    /// The server's heads of the actors; sequence 0 for an actor that it does not know.
    func known(to server: [ActorHead]) -> [ActorHead] {
        heads.map { own in
            server.first { $0.actor == own.actor } ?? ActorHead(actor: own.actor, sequence: 0, hash: 0)
        }
    }

    /// Histories are compared.
    /// - Returns: whether one of them has to be repaired.
    mutating func begin(_ comparisons: [HistoryComparison], _ flow: inout FlowControl) -> Bool {
        let relations = Dictionary(comparisons.map { ($0.actor, $0) }) { first, _ in first }
        // Operations written since the heads were read come last: they may rest on those of earlier actors.
        let added = pending
        pending = []
        var isAnyClosed = false
        for own in heads {
            let relation = relations[own.actor]
            let sequence = relation?.admitted ?? 0
            sent[own.actor] = sequence
            acknowledged[own.actor] = sequence
            if let relation, relation.state != .open {
                isAnyClosed = true
                stopped.insert(own.actor)
                guard relation.state == .forked else { continue }
                if relation.isExact { diverged.insert(own.actor) }
                flow.perform(.report(.historyForked(own.actor)))
            } else {
                if sequence > 0 { flow.perform(.acknowledge(own.actor, through: sequence, offset: nil)) }
                if own.sequence > sequence { pending.append(own.actor) }
            }
        }
        for actor in added where !pending.contains(actor) && !stopped.contains(actor) {
            pending.append(actor)
        }
        return isAnyClosed
    }

    // MARK: Uploading

    /// An actor has written.
    mutating func wrote(_ actor: ActorID) { if !pending.contains(actor) { pending.append(actor) } }

    /// The actor whose operations are sent next. Not before everything that the store wrote as other actors
    /// is in the log: their author had seen it.
    var next: ActorID? {
        guard let actor = pending.first,
            sent.allSatisfy({ $0.key == actor || $0.value <= acknowledged[$0.key] ?? 0 })
        else { return nil }
        return actor
    }

    mutating func sent(_ actor: ActorID, through sequence: SequenceNumber) { sent[actor] = sequence }

    /// The server takes an operation later: it, and what follows, is sent again.
    /// - Returns: whether it was sent, and is not acknowledged.
    mutating func rewind(_ actor: ActorID, before sequence: SequenceNumber) -> Bool {
        guard let last = sent[actor], sequence > acknowledged[actor] ?? 0, sequence <= last else {
            return false
        }
        sent[actor] = SequenceNumber(sequence.rawValue - 1)
        if !pending.contains(actor) { pending.insert(actor, at: 0) }
        return true
    }

    /// An actor has nothing more to send.
    mutating func finished(_ actor: ActorID) { pending.removeAll { $0 == actor } }

    /// Returns whether the server has everything durably that was sent of an actor.
    func isAnswered(_ actor: ActorID) -> Bool { sent[actor] ?? 0 <= acknowledged[actor] ?? 0 }

    /// Returns whether nothing that was sent of an actor waits for an answer.
    func isSettled(_ actor: ActorID) -> Bool { stopped.contains(actor) || isAnswered(actor) }

    /// The same of all actors of which the server takes more.
    var areAllAnswered: Bool { sent.keys.allSatisfy { stopped.contains($0) || isAnswered($0) } }

    /// The server has operations durably. The store forgets them, so none may be among them that has not
    /// left.
    /// - Returns: the acknowledgements that say something new.
    mutating func take(_ acknowledgements: [Acknowledgement]) throws(SyncError) -> [Acknowledgement] {
        for item in acknowledgements where item.sequence > sent[item.actor] ?? 0 {
            throw .unexpected("an acknowledgement of what was not sent")
        }
        var newer: [Acknowledgement] = []
        for item in acknowledgements where item.sequence > acknowledged[item.actor] ?? 0 {
            acknowledged[item.actor] = item.sequence
            newer.append(item)
        }
        return newer
    }

    // MARK: Stopping

    /// The server refused an operation of an actor.
    /// - Returns: whether it is the first of the actor; nil for an actor that nothing was sent of.
    mutating func refused(_ actor: ActorID) -> Bool? {
        sent[actor] == nil ? nil : stopped.insert(actor).inserted
    }

    /// The own grant forbids operations of an actor. An actor that has just begun has sent nothing.
    mutating func stop(_ actor: ActorID) {
        stopped.insert(actor)
        sent[actor] = sent[actor] ?? 0
        acknowledged[actor] = acknowledged[actor] ?? 0
    }

    /// The store has moved, or set aside, everything that the server does not have of the actors it left.
    mutating func repaired(_ outcome: RepairOutcome.Repaired) {
        stopped.formUnion(outcome.left)
        for actor in outcome.left {
            acknowledged[actor] = nil
            sent[actor] = nil
        }
        for actor in outcome.pending + [outcome.actor] where sent[actor] == nil {
            acknowledged[actor] = 0
            sent[actor] = 0
        }
        pending = outcome.pending + pending.filter { !outcome.pending.contains($0) && !stopped.contains($0) }
    }

    func checkInvariants() {
        for (actor, sequence) in acknowledged {
            precondition(sequence <= sent[actor] ?? 0, "\(actor) is acknowledged further than sent")
        }
        precondition(Set(pending).count == pending.count, "an actor is pending once")
    }
}
