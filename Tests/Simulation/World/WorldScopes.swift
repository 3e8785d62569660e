import CRDT
import Replica
import Sync

/// Collections that applications withhold from the server for a while (decision 0013).
extension World {
    /// An application withholds one more collection from now on, or one less from its next session on.
    func changeScopes(_ peer: Peer) {
        let name = generator.pick(Collections.plain)
        if peer.withheld.contains(name) {
            peer.withheld.removeAll { $0 == name }
        } else {
            peer.withheld.append(name)
        }
        note(44) { "peer \(peer.number) withholds \(peer.withheld)" }
        peer.replica.withhold(peer.withheld)
        if let link = peer.link, !link.isCut, generator.chance(50) { cut(link) }
    }

    /// Nothing is withheld any more: the next session uploads everything.
    func endScopes(_ peer: Peer) {
        peer.withheld = []
        peer.replica.withhold([])
        if let link = peer.link, !link.isCut { cut(link) }
    }

    /// What a peer sends tells nothing of what it withholds.
    func checkWithheld(_ bytes: [UInt8], _ link: Link) throws {
        let peer = link.peer
        let authors = try peer.replica.withheldActors()
        guard !authors.isEmpty else { return }
        func check(_ vector: [UInt8], _ key: DocumentKey) throws {
            let entries = try VersionVector(decoding: vector).entries
            guard entries.allSatisfy({ !authors.contains($0.actor) }) else {
                throw Violation("peer \(peer.number) tells of what it withholds of \(key.words)")
            }
        }
        switch try Frame(decoding: bytes) {
        case .upload(let operations):
            for bytes in operations where try authors.contains(OperationHeader.peek(bytes).actor) {
                throw Violation("peer \(peer.number) uploads what it withholds")
            }
        case .holdings(let candidates, _), .held(_, let candidates, _):
            for candidate in candidates { try check(candidate.vector, candidate.key) }
        case .want(_, let held):
            for candidate in held { try check(candidate.vector, candidate.key) }
        case .states(let states, _, _, _):
            for (key, state) in states {
                guard let state else { continue }
                try check(state.withUnsafeBytes { try DocumentReader($0).vector().encoded() }, key)
            }
        default: return
        }
    }
}
