import CRDT
import DQL
import Exchange
import Replica
import Sync
import TestSupport

/// What must hold when everything has healed and come to rest.
extension World {
    func checkConvergence() throws {
        for instance in instances {
            guard let hub = instance.hub else { throw Violation("replicator \(instance.number) is down") }
            let states = try glance(hub.materializer.replica)
            guard states == reference.states else {
                let key = reference.states.keys.first { states[$0] != reference.states[$0] }
                throw Violation(
                    "replicator \(instance.number) has folded something else: \(key?.words ?? "more")")
            }
        }
        try checkSum(reference.states, "the server")
        for peer in peers { try check(peer) }
        try checkWrites()
        try checkCounts()
        for (key, state) in reference.states.sorted(by: { $0.key.words < $1.key.words }) {
            trace.note(Array(key.words.utf8))
            trace.note(state.bytes)
        }
    }

    private func check(_ peer: Peer) throws {
        try look(peer)
        let pending = try peer.replica.ownActors().filter { $0.acknowledged < $0.sequence }
        guard pending.isEmpty else { throw Violation("peer \(peer.number) still has writes: \(pending)") }
        let wanted = try peer.replica.wanted(limit: 10)
        guard wanted.isEmpty else {
            throw Violation("peer \(peer.number) still wants \(wanted.map(\.words))")
        }
        let states = try glance(peer.replica)
        let guarded = peer.subscriptions.values.contains { $0.query.collection == Collections.guarded }
        for (key, state) in states {
            if guarded { try checkHidden(peer, key, state) }
            guard !Collections.isLocked(key) else {
                throw Violation("peer \(peer.number) still shows \(key.words), which was refused")
            }
            // Sync's README: what a restored log lost and its holder might not give back stays with it where
            // no subscription of its asked for it before it might again: then it is not told as gone.
            if !peer.rights.mayWrite, peer.ungiven.contains(key), try !isAsked(key, state, peer) { continue }
            let vector = try Document(decoding: state).vector
            guard reference.hasSeen(vector, of: key) else {
                let known = try reference.states[key].map { try Document(decoding: $0).vector.entries }
                throw Violation(
                    "the server lacks what peer \(peer.number) holds of \(key.words): \(vector.entries) "
                        + "beside \(known ?? [])")
            }
        }
        for held in peer.subscriptions.values
        where peer.rights.mayRead(collection: CollectionName(held.query.collection.text)) {
            try check(held.query, states, peer)
        }
    }

    private func isAsked(_ key: DocumentKey, _ state: EncodedState, _ peer: Peer) throws -> Bool {
        try peer.subscriptions.values.contains { try $0.query.covers(key, state) }
    }

    /// A subscriber has exactly the matching documents, as the plain fold and the evaluator say.
    private func check(
        _ query: SubscriptionQuery, _ states: [DocumentKey: EncodedState], _ peer: Peer
    ) throws {
        for key in Set(reference.states.keys).union(states.keys) where peer.rights.mayRead(key) {
            let (held, whole) = (states[key], reference.states[key])
            guard let fault = try Rest.fault(holding: held, of: whole, matches: { try query.covers(key, $0) })
            else { continue }
            let copies = try [held, whole].map { try $0.map { "\(try Document(decoding: $0))" } ?? "nothing" }
            throw Violation(
                "peer \(peer.number) \(fault.rawValue) \(key.words) of \(query.statement.text): "
                    + copies.joined(separator: " and not "))
        }
        let cursor = try peer.replica.cursor(of: query.canonicalKey)
        guard cursor == (try log.file.head(of: SimulatedLog.database)) else {
            throw Violation("peer \(peer.number) has not reached the head in \(query.statement.text)")
        }
    }

    /// Every write that was not refused left its mark, and none that was refused did.
    private func checkWrites() throws {
        for (number, write) in book.writes.enumerated() {
            for key in write.keys where Collections.isNote(key) {
                let isThere = reference.documents[key]?.value["w\(number)"] != nil
                if isThere == (write.code == nil) || write.isForgiven { continue }
                // A server that was restored may have got a state with what it refused later.
                if isThere, restores > 0 { continue }
                // Of two copies of a write one came while its author might write, the other when not.
                if isThere, haveWritersBeenBarred, book.rollBacks > 0 || statistics.clones > 0 { continue }
                // It was only at the server before that, or only at a store before this; or its document
                // could not be given back because a clock had spoilt it (see Sync's README).
                if restores > 0, book.rollBacks > 0 || profile.faults.contains(.clocks) { continue }
                throw Violation("write w\(number) of \(key.words): \(write.code ?? "lost")")
            }
            try checkCode(number, write)
        }
    }

    private func checkCode(_ number: Int, _ write: WriteBook.Write) throws {
        let isLocked = write.keys.contains(where: Collections.isLocked)
        switch write.code {
        case nil:
            guard !isLocked || write.isForgiven || write.isForgotten else {
                throw Violation("write w\(number) was not refused")
            }
        case SyncErrorCode.writeNotGranted.rawValue:
            let isKept = write.keys.contains { $0.collection == Collections.kept }
            guard isLocked || isKept && haveWritersBeenBarred else {
                throw Violation("write w\(number) was refused for nothing")
            }
        case let code:
            // Its base was evicted here before the server lost it.
            guard restores > 0, code == SyncErrorCode.baseNotCovered.rawValue else {
                throw Violation("write w\(number) was refused: \(code ?? "")")
            }
        }
    }

    /// Every write counted once, however often it was moved, by whatever copy of its store. (Of a log that
    /// was restored, a store put back to before a repair may move again what that had moved.)
    private func checkCounts() throws {
        guard restores == 0 || book.rollBacks == 0 && statistics.clones == 0 else { return }
        for (key, document) in reference.documents where Collections.isNote(key) {
            let marks = Reference.marks(in: document.value).count
            // A restored log takes back no state with a stamp too far ahead, nor a part of it (rule 21,
            // CRDT's invariant 1). So what its peer had uploaded and heard no answer to rests on nothing
            // there, and is written again under another stamp (rules 3, 20); then somebody else may bring
            // the same write under its first one in a state, which has no origins (0009): it counts twice.
            if restores > 0, spoilt.contains(key), case .int(let count)? = document.value["count"],
                count >= Int64(marks)
            {
                continue
            }
            guard document.value["count"] == .int(Int64(marks)) else {
                throw Violation("\(key.words) counts \(document.value["count"] ?? .null), not \(marks)")
            }
        }
    }
}
