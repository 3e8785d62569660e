import CRDT
import Exchange

/// The fate of each of the operations that the server has not acknowledged (decision 0009):
/// it moves those that the log can not take as they were written, and no other.
///
/// It moves the operations of a closed actor, those whose stamp is too far ahead to be admitted, those of
/// documents reaped at the server, those resting on one moved or set aside, and every later operation: its
/// author had seen the moved one, so nobody may see it before (rule 17), and an actor's operations are
/// uploaded in one go. Operations before the first that moves keep actor, sequence and stamp, so that a copy
/// of the store that uploads them too writes nothing twice.
///
/// Used once, with the operations in the order of their commits.
struct RepairPlan {
    /// The fate of one operation.
    enum Fate {
        /// It is uploaded as it is.
        case stays
        /// It is written again by a new actor.
        case moves
        /// It is set aside for the application.
        case refused(Refusal)
        /// A copy of this store has moved it: the server's state has it.
        case there
    }

    private let request: RepairRequest
    private let wallMilliseconds: UInt64
    /// The fates so far, in order.
    private(set) var fates: [Fate] = []
    /// The documents of all operations that do not stay, each once.
    private(set) var documents: [DocumentKey] = []
    private var isNamed: Set<DocumentKey> = []
    /// The actors of which something does not stay.
    private(set) var left: Set<ActorID>
    /// True if anything is moved.
    private(set) var moves = false
    /// The stamps that will not be in a document under their names.
    private var gone: [DocumentKey: Set<Stamp>] = [:]
    /// Per document the stamps that stay: the server will have them before the moved ones.
    private var staying: [DocumentKey: VersionVector] = [:]
    /// The store's own stamps of actors that another history goes on with.
    private var diverged: [DocumentKey: Set<Stamp>] = [:]

    init(_ request: RepairRequest, wallMilliseconds: UInt64) {
        self.request = request
        self.wallMilliseconds = wallMilliseconds
        left = request.closed
    }

    /// Returns whether the server has refused something of an actor, so that all that follows is void. (The
    /// server itself says so of operations refused for their clock or base.)
    func closesForGood(_ actor: ActorID) -> Bool {
        request.refused.contains { $0.actor == actor && !$0.error.isOfBase && !$0.error.isOfCopy }
    }

    /// Decides about the next operation.
    mutating func take(_ operation: Operation) throws(CRDTError) {
        let keys = operation.changes.map { DocumentKey(collection: $0.collection, id: $0.id) }
        if request.diverged.contains(operation.actor) {
            for key in keys { diverged[key, default: []].insert(operation.stamp) }
        }
        let fate = try fate(of: operation, keys)
        fates.append(fate)
        if case .stays = fate {
            for key in keys { staying[key, default: VersionVector()].insert(operation.stamp) }
            return
        }
        if case .moves = fate { moves = true }
        left.insert(operation.actor)
        for key in keys {
            gone[key, default: []].insert(operation.stamp)
            if isNamed.insert(key).inserted { documents.append(key) }
        }
    }

    private func fate(of operation: Operation, _ keys: [DocumentKey]) throws(CRDTError) -> Fate {
        let restsOnGone = try restsOnGone(operation, keys)
        let refusal = request.refused.first {
            $0.actor == operation.actor && $0.sequence == operation.sequence
        }
        // A base that the server does not have was moved too, or removed and reaped: then it is let go.
        if let refusal, !request.mayMove(refusal) {
            return refusal.error.isOfCopy ? .there : .refused(refusal)
        }
        if moves || keys.contains(where: request.gone.contains) { return .moves }
        let isTooFarAhead =
            request.isForClock
            && HybridClock.isTooFarAhead(operation.timestamp, wallMilliseconds: wallMilliseconds)
        return restsOnGone || isTooFarAhead || left.contains(operation.actor) ? .moves : .stays
    }

    private func restsOnGone(_ operation: Operation, _ keys: [DocumentKey]) throws(CRDTError) -> Bool {
        for (key, change) in zip(keys, operation.changes) {
            guard let stamps = gone[key] else { continue }
            let base = try Delta(decoding: change.delta, stamp: operation.stamp).base
            if base.entries.contains(where: { stamps.contains(Stamp(time: $0.time, actor: $0.actor)) }) {
                return true
            }
        }
        return false
    }

    /// The stamps that a moved write of a document may rest on, given the vector of the server's state of it.
    func reachable(in key: DocumentKey, _ vector: VersionVector) -> VersionVector {
        staying[key].map(vector.union) ?? vector
    }

    /// Returns whether the server's document has a change of this stamp already, given its vector there. A
    /// vector covers only what was merged; but where another history has gone on with the actor, only one of
    /// this store's own stamps says that its own were.
    func isThere(_ stamp: Stamp, in key: DocumentKey, _ vector: VersionVector) -> Bool {
        guard let time = vector[stamp.actor], time >= stamp.time else { return false }
        guard request.diverged.contains(stamp.actor) else { return true }
        return diverged[key]?.contains(Stamp(time: time, actor: stamp.actor)) ?? false
    }
}
