import CRDT
import Replica
import Replicator
import Sync

/// Rights that come and go in the midst of sessions.
extension World {
    /// A peer gets other rights: every session of it learns of that, also those that it has lost and the
    /// server has not. `byToken` the one that it has sends a newer token instead.
    func changeRights(_ peer: Peer, byToken: Bool = false) {
        peer.rights = Rights(reading: generator.pick(Rights.Reading.allCases), mayWrite: generator.chance(70))
        if !peer.rights.mayWrite { haveWritersBeenBarred = true }
        statistics.grants += 1
        note(41) { "peer \(peer.number) \(peer.rights)" }
        if byToken {
            if let link = peer.link { tell(.renew(token: "newer"), link, false) }
            return
        }
        for link in links.values.sorted(by: { $0.number < $1.number })
        where link.peer === peer && !link.far.isGone {
            apply(peer.rights, link)
        }
    }

    /// A session at a server goes on under these rights.
    func apply(_ rights: Rights, _ link: Link) {
        link.rights = rights
        link.serverStore = ServerStore(
            hub: link.hub, log: log, database: SimulatedLog.database, session: link.origin,
            identity: link.peer.identity)
        tell(.grantChanged(rights.access), link, true)
    }

    /// A peer gives a restored log what it holds: what it may not write is not taken.
    func noteGiving(_ action: Action, _ link: Link) {
        let keys: [DocumentKey]
        switch action {
        case .compareHoldings(let held): keys = held.map(\.key)
        case .admitStates(let states, _):
            keys = states.map(\.key)
            noteSpoilt(states)
        default: return
        }
        let kept = keys.filter { $0.collection == Collections.kept }
        if link.rights.mayWrite {
            link.peer.ungiven.subtract(kept)
        } else {
            link.peer.ungiven.formUnion(kept)
        }
    }

    /// No log takes a state with a stamp that is too far ahead (rule 21).
    private func noteSpoilt(_ states: [(key: DocumentKey, state: EncodedState)]) {
        for item in states {
            guard let latest = try? Document(decoding: item.state).vector.greatestTime,
                HybridClock.isTooFarAhead(latest, wallMilliseconds: now)
            else { continue }
            spoilt.insert(item.key)
        }
    }

    /// What a peer may not read any more it does not show, but for what it wrote itself. What was deleted
    /// before shows nothing.
    func checkHidden(_ peer: Peer, _ key: DocumentKey, _ state: EncodedState) throws {
        guard !peer.rights.mayRead(key), !peer.isForgetful, !peer.written.contains(key),
            try Document(decoding: state).isLive
        else { return }
        throw Violation("peer \(peer.number) shows \(key.words), which it may not read any more")
    }
}
