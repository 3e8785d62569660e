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
            for item in page.gone { try checkGrant(item.key, link) }
            for key in page.hidden where listed[link.peer]?.contains(key) != true {
                throw Violation("\(key) is named although it was not listed")
            }
            for candidate in page.candidates { try checkGrant(candidate.key, link) }
        case .operations(let operations):
            for update in operations.updates { try checkUpdate(update, link) }
        case .states(let states, _, _, let gone):
            for item in states where item.state != nil { try checkGrant(item.key, link) }
            for item in gone { try checkGrant(item.key, link) }
        default: return
        }
    }

    mutating func noteListed(_ bytes: [UInt8], _ link: Link) throws {
        guard case .held(_, let candidates, _) = try Frame(decoding: bytes) else { return }
        listed[link.peer, default: []].formUnion(candidates.map(\.key))
    }

    private func checkGrant(_ key: DocumentKey, _ link: Link) throws {
        guard access(of: link.peer).allows(key) else { throw Violation("\(key) is not granted") }
    }

    private func checkState(_ update: DocumentUpdate, _ link: Link) throws {
        guard case .state(let bytes) = update.content else { throw Violation("a page holds a delta") }
        try checkGrant(update.key, link)
        if listed[link.peer]?.contains(update.key) == true { return }
        let document = try Document(decoding: bytes)
        guard try link.asked.contains(where: { try $0.covers(update.key, document) }) else {
            throw Violation("\(update.key) matches no subscription")
        }
    }

    private func checkUpdate(_ update: DocumentUpdate, _ link: Link) throws {
        try checkGrant(update.key, link)
        switch update.content {
        case .gone:
            guard link.asked.contains(where: { $0.collection == update.key.collection }) else {
                throw Violation("\(update.key) is gone for somebody who never asked for it")
            }
        case .state:
            if written[link.peer]?.contains(update.key) == true { return }
            for change in merged where change.key == update.key {
                guard let before = change.before, case .state(change.after) = update.content else { continue }
                let document = try Document(decoding: before)
                if try link.asked.contains(where: { try $0.covers(update.key, document) }) { return }
            }
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
            for query in peer.subscriptions {
                if access(of: number).allows(collection: query.collection) {
                    try checkSubscription(number, query, server)
                } else {
                    try checkHidden(number, query)
                }
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
            // Where a tombstone was reaped, vectors may tell more or less than the content.
            let isEqual = reapings > 0 ? held.value == document.value : held.encoded() == document.encoded()
            guard isEqual else {
                throw Violation(
                    "peer \(number) holds another \(key): \(held.vector) not \(document.vector)"
                )
            }
        }
        for (key, document) in peers[number].documents where try query.covers(key, document) {
            guard let other = server[key], try query.covers(key, other) else {
                throw Violation("peer \(number) shows \(key), which does not match any more")
            }
        }
        guard peers[number].cursors[query.canonicalKey] == log.head else {
            throw Violation("peer \(number) has not reached the head in \(query.collection)")
        }
    }

    /// What may not be read any more is not shown, but for what was written here.
    private func checkHidden(_ number: Int, _ query: SubscriptionQuery) throws {
        guard !forgetful.contains(number), query.collection != Self.hidden else { return }
        for key in peers[number].documents.keys where key.collection == query.collection {
            guard written[number]?.contains(key) == true else {
                throw Violation("peer \(number) shows \(key), which it may not read any more")
            }
        }
    }

    /// Nothing waits any more, nothing that was refused is left, and the server has what the peers hold.
    private func checkOperations(_ number: Int) throws {
        let peer = peers[number]
        guard peer.pending.isEmpty else { throw Violation("peer \(number) still has \(peer.pending.count)") }
        for (key, document) in peer.documents {
            guard key.collection != Self.locked else {
                throw Violation("peer \(number) still shows \(key), which was refused")
            }
            let seen =
                reapings > 0
                ? instances[0].seen(document.vector, of: key) : instances[0].vector(of: key)
            guard seen.covers(document.vector) else {
                throw Violation("the server lacks what peer \(number) holds of \(key)")
            }
        }
    }

    /// Every write that was not refused left its mark, and none that was refused did.
    func checkWrites() throws {
        for (number, write) in book.writes {
            for key in write.keys where key.collection == Self.notes {
                let isThere = instances[0].documents[key]?.value["w\(number)"] != nil
                if isThere == (write.code == nil) || write.isForgiven { continue }
                // A server that was restored may have got a state with what it refused later.
                if isThere, restores > 0 { continue }
                // It was only at the server before that, or only at a store before this; or its document
                // could not be given back because a clock had spoilt it (see the README's gaps).
                if restores > 0, book.rollBacks > 0 || faults.contains(.clocks) { continue }
                throw Violation("write \(number) of \(key): \(write.code ?? "lost")")
            }
            try checkCode(number, write)
        }
    }

    /// Every write counted once, however often it was moved, by whatever copy of its store.
    func checkCounts() throws {
        for (key, document) in instances[0].documents where key.collection == Self.notes {
            let marks = document.value.entries.count { $0.key.utf8.first == UInt8(ascii: "w") }
            if hasForgottenMoves, case .int(let count)? = document.value["count"], count > marks { continue }
            guard document.value["count"] == .int(Int64(marks)) else {
                throw Violation("\(key) counts \(document.value["count"] ?? .null), not \(marks)")
            }
        }
    }

    private func checkCode(_ number: Int, _ write: WriteBook.Write) throws {
        let isLocked = write.keys.contains { $0.collection == Self.locked }
        switch write.code {
        case nil:
            guard !isLocked || write.isForgiven else { throw Violation("write \(number) was not refused") }
        case SyncErrorCode.writeNotGranted.rawValue:
            guard isLocked else { throw Violation("write \(number) was refused for nothing") }
        case let code:
            // Its base was evicted here before the server lost it.
            guard restores > 0, code == SyncErrorCode.baseNotCovered.rawValue else {
                throw Violation("write \(number) was refused: \(code ?? "")")
            }
        }
    }
}
