import CRDT
import DQL

@testable import Sync

/// What must hold: at any time of what is sent and where cursors stand, at the end of what everybody holds.
extension World {
    /// Everything the server sends is granted, and belongs to a subscription or answers a write.
    func checkSent(_ bytes: [UInt8], _ link: Link) throws {
        // Large messages are checked as a whole only when they fit one frame; simulated ones do.
        switch try Frame(decoding: bytes) {
        case .catchUp(let page):
            for update in page.documents { try checkState(update, link) }
            for candidate in page.candidates { try checkGrant(candidate.key) }
        case .operations(let operations):
            for update in operations.updates { try checkUpdate(update, link) }
        case .states(let states):
            for item in states where item.state != nil { try checkGrant(item.key) }
        default: return
        }
    }

    private func checkGrant(_ key: DocumentKey) throws {
        guard !utf8Equal(key.collection, Self.hidden) else { throw Violation("\(key) is not granted") }
    }

    private func checkState(_ update: DocumentUpdate, _ link: Link) throws {
        guard case .state(let bytes) = update.content else { throw Violation("a page holds a delta") }
        try checkGrant(update.key)
        let document = try Document(decoding: bytes)
        guard try link.asked.contains(where: { try $0.covers(update.key, document) }) else {
            throw Violation("\(update.key) matches no subscription")
        }
    }

    private func checkUpdate(_ update: DocumentUpdate, _ link: Link) throws {
        try checkGrant(update.key)
        switch update.content {
        case .state:
            if written[link.peer]?.contains(update.key) == true { return }
            try checkState(update, link)
        case .delta(let stamp, _):
            let change = folded[stamp]?.changes.first { $0.key == update.key }
            guard folded[stamp]?.origin != link.number else { throw Violation("an operation was echoed") }
            guard let before = change?.before else { throw Violation("a delta comes without a state before") }
            let document = try Document(decoding: before)
            guard try link.asked.contains(where: { try $0.covers(update.key, document) }) else {
                throw Violation("a delta of \(update.key) did not match before")
            }
        }
    }

    /// A cursor never says more than what is stored: everything that matched at its position is held, or
    /// noted as wanted.
    func checkCursors(_ peer: Int) throws {
        for query in peers[peer].subscriptions {
            guard let cursor = peers[peer].cursors[query.canonicalKey],
                log.position(at: cursor.offset) == cursor
            else { continue }
            for (key, document) in try log.fold(through: cursor.offset) where try query.covers(key, document)
            {
                if released[peer]?.contains(key) == true { continue }
                let vector = peers[peer].documents[key]?.vector ?? VersionVector()
                guard vector.covers(document.vector) || peers[peer].wanted.contains(key) else {
                    throw Violation("peer \(peer) has a cursor at \(cursor.offset) but lacks \(key)")
                }
            }
        }
    }

    func checkConvergence() throws {
        let server = instances[0].documents
        for (number, peer) in peers.enumerated() {
            try checkOperations(number)
            guard peer.wanted.isEmpty else { throw Violation("peer \(number) still wants \(peer.wanted)") }
            for query in peer.subscriptions where !utf8Equal(query.collection, Self.hidden) {
                try checkSubscription(number, query, server)
            }
            for (key, document) in peer.documents {
                guard let other = server[key], other.vector == document.vector else { continue }
                guard other.encoded() == document.encoded() else {
                    throw Violation("\(key) has equal vectors and different bytes")
                }
            }
        }
    }

    private func checkSubscription(
        _ number: Int, _ query: SubscriptionQuery, _ server: [DocumentKey: Document]
    ) throws {
        for (key, document) in server where try query.covers(key, document) {
            guard let held = peers[number].documents[key] else {
                throw Violation("peer \(number) lacks \(key) of \(query.collection)")
            }
            guard held.encoded() == document.encoded() else {
                throw Violation(
                    "peer \(number) holds another \(key): \(held.vector) not \(document.vector)"
                )
            }
        }
        let unsettled = unsettled[number] ?? []
        for (key, document) in peers[number].documents where try query.covers(key, document) {
            if unsettled.contains(key) { continue }
            guard let other = server[key], try query.covers(key, other) else {
                throw Violation("peer \(number) shows \(key), which does not match any more")
            }
        }
        guard peers[number].cursors[query.canonicalKey] == log.head else {
            throw Violation("peer \(number) has not reached the head in \(query.collection)")
        }
    }

    /// Every operation of a peer is in the log once, acknowledged, and nothing else of its actors.
    private func checkOperations(_ number: Int) throws {
        for actor in peers[number].actors {
            let own = peers[number].own[actor]?.map(\.bytes) ?? []
            let logged = log.entries.filter { $0.operation.actor == actor }.map(\.bytes)
            guard own == logged else {
                throw Violation("of \(own.count) operations \(logged.count) are in the log")
            }
            guard peers[number].acknowledged[actor] == UInt64(own.count) else {
                throw Violation("peer \(number) does not know what is acknowledged")
            }
        }
    }
}
