import CRDT
import Exchange

/// Own operations that the server does not take yet, because its log lacks what they rest on: a part of the
/// writer. The documents of each are given to the server, as far as it takes them, and the operation is sent
/// again.
///
/// Bounds: one operation of an actor at a time; after `Limits.roundsDeferred` rounds it waits for news of
/// links, or for the next session.
struct DeferredOperations: Sendable {
    /// Per actor its operation that was deferred last, and how often in a row.
    private var rounds: [ActorID: (sequence: SequenceNumber, count: Int)] = [:]
    /// Operations whose documents are to be given; the store has the first one if `isAsking`.
    private var open: [Deferral] = []
    private(set) var isAsking = false
    /// True if operations are being read that follow one to be sent again.
    private var isReadSpoiled = false
    /// Actors whose operations wait for news.
    private(set) var waiting: Set<ActorID> = []

    /// True while nothing is uploaded.
    var isBusy: Bool { !open.isEmpty }

    /// The server does not take an operation yet.
    /// - Returns: whether it is worth another round.
    mutating func note(_ deferral: Deferral) -> Bool {
        let known = rounds[deferral.actor]
        let count = known?.sequence == deferral.sequence ? (known?.count ?? 0) + 1 : 1
        rounds[deferral.actor] = (deferral.sequence, count)
        guard count <= Limits.roundsDeferred else {
            waiting.insert(deferral.actor)
            return false
        }
        open.append(deferral)
        return true
    }

    /// Operations are being read: they may be of this actor.
    mutating func spoilRead() { isReadSpoiled = true }

    /// Returns whether what was read is to be read again.
    mutating func takeSpoiled() -> Bool {
        defer { isReadSpoiled = false }
        return isReadSpoiled
    }

    /// Has the store look after the next one.
    mutating func ask(_ flow: inout FlowControl) {
        guard !isAsking, let next = open.first else { return }
        isAsking = true
        flow.perform(.giveBases(next))
    }

    /// The store has named its documents.
    mutating func given() -> Deferral {
        guard isAsking, !open.isEmpty else { preconditionFailure("no bases were asked for") }
        isAsking = false
        return open.removeFirst()
    }

    /// Links have brought something, which the server may have lacked.
    /// - Returns: the actors that are tried again.
    mutating func retry() -> Set<ActorID> {
        for actor in waiting { rounds[actor] = nil }
        defer { waiting = [] }
        return waiting
    }

    /// A repair has moved the operations of these actors.
    mutating func forget(_ actors: Set<ActorID>) {
        for actor in actors { rounds[actor] = nil }
        waiting.subtract(actors)
        let first = isAsking ? open.first : nil
        open.removeAll { actors.contains($0.actor) && $0 != first }
    }
}

extension Deferral {
    /// The refusal of an operation whose base is nowhere.
    var refusal: Refusal {
        let error = SyncError(
            .baseNotCovered, "the log lacks what this write rests on, and so does this store")
        return Refusal(actor: actor, sequence: sequence, error: error, documents: documents)
    }
}
