import CRDT

/// The choice of who computes next: a plain state machine, whose owner has the threads and the clock.
///
/// A *turn* is a piece of work of one credential. To begin it needs a *seat* (a thread, and of its store a
/// connection), which it keeps to its end; to compute it needs one of a few *places*, which it gives back
/// after a slice if others wait. So any number of long turns share the places, and a short one is never
/// behind more than a slice of each.
///
/// Fairness: each credential has a virtual time, the time that its turns have held places. The next place
/// goes to the waiting credential with the least of it; among the turns of a credential to the one that has
/// computed least. A credential that was away begins at most `Limits.evaluationCredit` behind the one that
/// is furthest, so nobody saves up time, and nobody pays for time when he was alone.
///
/// A turn of low priority may stand still for as long as the machine is busy, and would keep its place then.
/// So those of credentials that last (`isLasting`) share the places with each other, and the others have as
/// many of their own.
///
/// Invariants: `computing` turns hold places, at most `places` of either kind and those that leave; a waiting
/// turn is queued once; the seats taken are those of the turns that have begun and not ended.
struct EvaluationSchedule {
    /// The number of a turn.
    typealias ID = UInt64

    private struct Turn {
        let credential: String
        let seats: [EvaluationSeats]
        let isUrgent: Bool
        var usedNanoseconds: UInt64 = 0
        /// The processor's part of it.
        var processorNanoseconds: UInt64 = 0
        var hasBegun = false
    }

    private struct Credential {
        /// Nanoseconds.
        var virtual: UInt64
        /// Nanoseconds of the processor that its turns have had since it had none.
        var processor: UInt64 = 0
        var waiting: [ID] = []
        var turns = 0
        var isLasting: Bool { processor >= Limits.evaluationMoment.wholeNanoseconds }
    }

    private struct Taken {
        var count = 0
        var byCredential: [String: Int] = [:]
    }

    private let places: Int
    private var turns: [ID: Turn] = [:]
    private var credentials: [String: Credential] = [:]
    private var urgent: [ID] = []
    private var taken: [ObjectIdentifier: Taken] = [:]
    private var furthest: UInt64 = 0
    private var lastID: ID = 0
    /// The turns that compute.
    private var running: Set<ID> = []
    /// How many turns wait, for a seat or for a place.
    private(set) var waiting = 0

    /// A schedule of so many places.
    init(places: Int) { self.places = max(1, places) }

    /// How many turns compute.
    var computing: Int { running.count }

    /// How many turns there are.
    var count: Int { turns.count }

    /// Queues a new turn. An urgent one comes before all others: its owner bounds it to a moment.
    mutating func arrive(_ credential: String, seats: [EvaluationSeats], isUrgent: Bool) -> ID {
        lastID += 1
        turns[lastID] = Turn(credential: credential, seats: seats, isUrgent: isUrgent)
        var known = credentials[credential] ?? Credential(virtual: floor)
        known.virtual = max(known.virtual, floor)
        known.turns += 1
        credentials[credential] = known
        enqueue(lastID)
        return lastID
    }

    /// A computing turn gives its place back and queues again.
    mutating func pause(_ id: ID, usedNanoseconds: UInt64) {
        charge(id, usedNanoseconds)
        running.remove(id)
        enqueue(id)
    }

    /// A paused turn goes on to its end without waiting for a place.
    mutating func leave(_ id: ID) {
        guard let turn = turns[id] else { preconditionFailure("a turn that has ended is paused") }
        dequeue(id, turn)
        running.insert(id)
    }

    /// A computing turn gives its place back while it waits for somebody else.
    mutating func leave(_ id: ID, usedNanoseconds: UInt64) {
        charge(id, usedNanoseconds)
        running.remove(id)
    }

    /// A turn that has left queues for a place.
    mutating func comeBack(_ id: ID) { enqueue(id) }

    /// A computing turn goes on without giving its place back.
    mutating func charge(_ id: ID, _ usedNanoseconds: UInt64) {
        guard var turn = turns[id] else { preconditionFailure("a turn that has ended computes") }
        turn.usedNanoseconds += usedNanoseconds
        turns[id] = turn
        guard var credential = credentials[turn.credential] else {
            preconditionFailure("a turn has a credential")
        }
        credential.virtual = max(credential.virtual, floor) + usedNanoseconds
        furthest = max(furthest, credential.virtual)
        credentials[turn.credential] = credential
    }

    /// A computing turn ends.
    mutating func end(_ id: ID, usedNanoseconds: UInt64) {
        charge(id, usedNanoseconds)
        running.remove(id)
        remove(id)
    }

    /// Removes a turn that has not begun; false if it has, or has ended.
    mutating func withdraw(_ id: ID) -> Bool {
        guard let turn = turns[id], !turn.hasBegun else { return false }
        dequeue(id, turn)
        remove(id)
        return true
    }

    /// The next turn to compute, and whether it begins; nil while all places are taken or nobody may begin.
    mutating func next() -> (id: ID, begins: Bool)? {
        guard waiting > 0, let id = chosen(), var turn = turns[id] else { return nil }
        dequeue(id, turn)
        let begins = !turn.hasBegun
        if begins {
            turn.hasBegun = true
            for seats in turn.seats {
                taken[seats.id, default: Taken()].count += 1
                taken[seats.id]?.byCredential[turn.credential, default: 0] += 1
            }
            turns[id] = turn
        }
        running.insert(id)
        return (id, begins)
    }

    /// Notes how long a turn has had the processor so far.
    mutating func note(_ id: ID, processorNanoseconds: UInt64) {
        guard var turn = turns[id] else { return }
        let more = processorNanoseconds - min(turn.processorNanoseconds, processorNanoseconds)
        turn.processorNanoseconds += more
        turns[id] = turn
        credentials[turn.credential]?.processor += more
    }

    /// Returns whether all other work comes before a turn: its credential has had the processor for a moment
    /// without a pause, in however many turns. Never for an urgent one.
    func isLasting(_ id: ID) -> Bool {
        guard let turn = turns[id], !turn.isUrgent, let credential = credentials[turn.credential] else {
            return false
        }
        return credential.isLasting
    }

    // MARK: Work without a turn

    /// Returns whether a credential may compute for a moment without a turn: not while others wait whose
    /// virtual time is the whole credit behind its own.
    func mayComputeBriefly(_ credential: String) -> Bool {
        guard waiting > 0, let own = credentials[credential]?.virtual else { return true }
        let others = credentials.lazy.filter {
            !utf8Equal($0.key, credential) && !$0.value.waiting.isEmpty
        }
        guard let least = others.map({ max($0.value.virtual, floor) }).min() else { return true }
        return own < least + Limits.evaluationCreditNanoseconds
    }

    /// Charges a credential for such a moment. Nobody pays while nobody has a turn.
    mutating func charge(brief credential: String, _ usedNanoseconds: UInt64) {
        guard !turns.isEmpty else { return }
        if credentials[credential] == nil, credentials.count >= Limits.chargedCredentials { return }
        var known = credentials[credential] ?? Credential(virtual: floor)
        known.virtual = max(known.virtual, floor) + usedNanoseconds
        furthest = max(furthest, known.virtual)
        credentials[credential] = known
    }

    // MARK: Choosing

    private var floor: UInt64 {
        furthest > Limits.evaluationCreditNanoseconds ? furthest - Limits.evaluationCreditNanoseconds : 0
    }

    private func chosen() -> ID? {
        if let id = urgent.first(where: maySit) { return id }
        let lasting = running.lazy.filter { isLasting($0) }.count
        let isFull = (usual: computing - lasting >= places, lasting: lasting >= places)
        var best: (id: ID, virtual: UInt64, used: UInt64)?
        for credential in credentials.values where !credential.waiting.isEmpty {
            let virtual = max(credential.virtual, floor)
            if let best, best.virtual < virtual { continue }
            if credential.isLasting ? isFull.lasting : isFull.usual { continue }
            for id in credential.waiting {
                let used = turns[id]?.usedNanoseconds ?? 0
                if let best, (best.virtual, best.used, best.id) < (virtual, used, id) { continue }
                if maySit(id) { best = (id, virtual, used) }
            }
        }
        return best?.id
    }

    /// Returns whether the turn has a seat, or there is one for it.
    private func maySit(_ id: ID) -> Bool {
        guard let turn = turns[id] else { return false }
        return turn.hasBegun
            || turn.seats.allSatisfy { seats in
                let taken = taken[seats.id] ?? Taken()
                return seats.isFree(
                    taken: taken.count, own: taken.byCredential[turn.credential] ?? 0,
                    isUrgent: turn.isUrgent)
            }
    }

    // MARK: Queues

    private mutating func enqueue(_ id: ID) {
        guard let turn = turns[id] else { return }
        waiting += 1
        if turn.isUrgent {
            urgent.append(id)
        } else {
            credentials[turn.credential]?.waiting.append(id)
        }
    }

    private mutating func dequeue(_ id: ID, _ turn: Turn) {
        waiting -= 1
        if turn.isUrgent {
            urgent.removeAll { $0 == id }
        } else {
            credentials[turn.credential]?.waiting.removeAll { $0 == id }
        }
    }

    private mutating func remove(_ id: ID) {
        guard let turn = turns.removeValue(forKey: id) else { return }
        if turn.hasBegun {
            for seats in turn.seats {
                taken[seats.id]?.count -= 1
                let own = (taken[seats.id]?.byCredential[turn.credential] ?? 1) - 1
                taken[seats.id]?.byCredential[turn.credential] = own == 0 ? nil : own
                if taken[seats.id]?.count == 0 { taken[seats.id] = nil }
            }
        }
        credentials[turn.credential]?.turns -= 1
        // A credential that comes back begins near the others again.
        if turns.isEmpty {
            credentials.removeAll()
        } else if credentials[turn.credential]?.turns == 0 {
            credentials[turn.credential] = nil
        }
    }
}

/// A limited resource that a turn holds from its beginning to its end: threads, connections of a store.
///
/// No credential takes more than half of the general seats. The reserved ones are for credentials that hold
/// none, so that no few of them can keep another one out. Urgent turns have some of their own.
public final class EvaluationSeats: Sendable {
    private let general: Int
    private let reserved: Int
    private let urgent: Int

    /// So many seats in all. A resource must have as many, or turns wait for one another.
    public init(_ count: Int) {
        precondition(count >= 4, "too few seats for several credentials")
        urgent = count / 8 + 1
        reserved = count / 4
        general = count - urgent - reserved
    }

    var id: ObjectIdentifier { ObjectIdentifier(self) }

    func isFree(taken: Int, own: Int, isUrgent: Bool) -> Bool {
        if isUrgent { return taken < general + reserved + urgent }
        if own == 0 { return taken < general + reserved }
        return taken < general && own < max(1, general / 2)
    }
}
