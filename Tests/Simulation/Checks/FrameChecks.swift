import CRDT
import DQL
import Exchange
import Sync

/// What must hold of every frame, when it is sent.
extension World {
    /// Everything a server sends is granted, and belongs to a subscription or answers a write; what it
    /// acknowledges is in the log.
    func checkSent(_ bytes: [UInt8], _ link: Link) throws {
        switch try Frame(decoding: bytes) {
        case .catchUp(let page):
            for update in page.documents { try checkState(update, link) }
            for candidate in page.candidates + page.gone { try checkGrant(candidate.key, link) }
            for key in page.hidden where !link.peer.named.contains(key) {
                throw Violation("\(key.words) is named and was not listed")
            }
        case .operations(let operations):
            for update in operations.updates { try checkUpdate(update, link) }
        case .states(let states, _, _, let gone):
            for item in states where item.state != nil { try checkGrant(item.key, link) }
            for item in gone { try checkGrant(item.key, link) }
        case .acknowledged(let acknowledgements, _):
            for item in acknowledgements {
                guard reference.frontier[item.actor] ?? 0 >= item.sequence else {
                    throw Violation("\(item.actor) \(item.sequence) is acknowledged and not in the log")
                }
            }
        case .chunk: throw Violation("a part of a message is none by itself")
        default: return
        }
    }

    private func checkGrant(_ key: DocumentKey, _ link: Link) throws {
        guard link.rights.mayRead(key) else { throw Violation("\(key.words) is sent without a grant") }
    }

    private func checkState(_ update: DocumentUpdate, _ link: Link) throws {
        guard case .state(let bytes) = update.content else { throw Violation("a page holds a delta") }
        try checkGrant(update.key, link)
        // What a peer says it shows as matching, it is told about, also that it does not match any more.
        if link.peer.listed.contains(update.key) { return }
        guard try link.asked.contains(where: { try $0.query.covers(update.key, bytes) }) else {
            throw Violation("\(update.key.words) is sent and matches no subscription")
        }
    }

    private func checkUpdate(_ update: DocumentUpdate, _ link: Link) throws {
        try checkGrant(update.key, link)
        switch update.content {
        case .gone, .void:
            let isAsked = link.asked.contains { $0.query.collection == update.key.collection }
            guard isAsked else { throw Violation("\(update.key.words) is gone for one who never asked") }
        case .state(let bytes):
            if link.peer.written.contains(update.key) { return }
            for change in reference.merged where change.key == update.key && change.after == bytes {
                guard let before = change.before else { continue }
                if try link.asked.contains(where: { try $0.query.covers(update.key, before) }) { return }
            }
            try checkState(update, link)
        case .delta(let stamp, _):
            if let uploads = uploads[stamp], uploads == [link.number] {
                throw Violation("\(stamp) of \(update.key.words) is echoed to where it came from")
            }
            let before = reference.changes[stamp]?.filter { $0.key == update.key }.compactMap(\.before) ?? []
            guard !before.isEmpty else { throw Violation("a delta comes without a state before") }
            let isAsked = try before.contains { state in
                try link.asked.contains { try $0.query.covers(update.key, state) }
            }
            guard isAsked else { throw Violation("a delta of \(update.key.words) did not match before") }
        }
    }

    /// Remembers which connections have brought an operation to a server.
    func noteUpload(_ bytes: [UInt8], _ link: Link) {
        guard let message = try? link.peer.heard.take(bytes) else { return }
        let frame = try? Frame(decoding: message)
        if case .held(_, let candidates, _)? = frame {
            link.peer.named.formUnion(candidates.map(\.key))
            link.peer.listed.formUnion(candidates.filter { !$0.isUnmatched }.map(\.key))
        }
        guard case .upload(let operations)? = frame else { return }
        for operation in operations {
            guard let operation = try? Operation(decoding: operation) else { continue }
            uploads[operation.stamp, default: []].insert(link.number)
            // Also what it stored in a call that failed, because the power went.
            let keys = operation.changes.map { DocumentKey(collection: $0.collection, id: $0.id) }
            link.peer.written.formUnion(keys)
        }
    }

    /// A stamp is drawn once, with one content (rule 1).
    func noteStamp(_ operation: Operation) throws {
        let content = hash64(operation.encoded())
        if let known = stamps.updateValue(content, forKey: operation.stamp), known != content {
            throw Violation("\(operation.stamp) is drawn twice")
        }
    }

    /// A store is about to be put back: what has not left it is as if it had never been, and its clock, which
    /// no server corrects any more, may show the same time again.
    func forgetStamps(of peer: Peer) {
        for operation in (try? pending(peer)) ?? [] where uploads[operation.stamp] == nil {
            stamps[operation.stamp] = nil
        }
    }

    /// A session may end only for what this world's faults explain.
    func checkEnd(_ reason: SyncError, _ link: Link) throws {
        var explained: [SyncErrorCode] = [.goingAway]
        // Somebody else has written as the peer's actor: a connection that was lost to the peer only, or a
        // store that was put back. The next handshake tells.
        explained += [.actorConflict, .sequenceGap]
        if !profile.faults.isDisjoint(with: [.clocks, .serverClocks]) { explained.append(.clockTooFarAhead) }
        let restarting: Faults = [.restarts, .restores, .rebuilds, .powerCuts, .truncations]
        let isRestarting = profile.faults.intersection(restarting) != []
        if isRestarting { explained.append(.unavailable) }
        guard explained.contains(where: { $0.rawValue == reason.code }) else {
            throw Violation("link \(link.number) of peer \(link.peer.number) ended: \(reason)")
        }
    }
}

extension DocumentKey {
    var words: String { "\(collection)/\(id)" }
}
