import CRDT
import DQL
import Exchange
import Replica
import Sync
import Transport

/// What must hold of every store at any time: looked at as an application or an observer would.
extension World {
    /// All documents of a store in one snapshot, tombstones included.
    func glance(_ replica: some Replica, only some: [CollectionName]? = nil) throws -> [DocumentKey:
        EncodedState]
    {
        try replica.read { transaction in
            var states: [DocumentKey: EncodedState] = [:]
            for name in try some ?? transaction.collectionNames() {
                try transaction.changes(in: name, after: 0) { document in
                    states[DocumentKey(collection: name, id: document.id)] = EncodedState(
                        [UInt8](document.state))
                    return true
                }
            }
            return states
        }
    }

    /// The marks that a store shows.
    func marks(_ peer: Peer) throws -> Set<Int> {
        try marks(glance(peer.replica, only: [Collections.notes]))
    }

    private func marks(_ states: [DocumentKey: EncodedState]) throws -> Set<Int> {
        var marks: Set<Int> = []
        for (key, state) in states where Collections.isNote(key) {
            marks.formUnion(try readings.marks(state))
        }
        return marks
    }

    /// An application looks at everything it has.
    func look(_ peer: Peer) throws {
        let states = try glance(peer.replica)
        note(13) { "peer \(peer.number) looks at \(states.count) documents" }
        for (key, state) in states where peer.looked[key] != state { try noteState(key, state) }
        peer.looked = states
        try noteRefusals(peer)
        try checkAcknowledged(peer)
        // A repair shows the server's documents beside others that the cursors have not brought yet, where
        // the stream did not come along with it.
        // And a subscription's first catch-up is nothing before it is complete.
        guard peer.holdsEverything, peer.repairedAt == 0, try hasBegun(peer) else { return }
        try checkSum(states, "peer \(peer.number)")
        try checkMarks(peer, try marks(states))
    }

    /// Equal vectors mean identical bytes, whoever holds them and whenever (rule 6).
    func noteState(_ key: DocumentKey, _ state: EncodedState) throws {
        let vector = try state.withUnsafeBytes { try DocumentReader($0).vector().encoded() }
        let name = key.id.bytes + Array(key.collection.text.utf8) + [0] + vector
        let content = hash64(state.bytes)
        if let known = vectors.updateValue(content, forKey: hash64(name)), known != content {
            throw Violation("\(key.words) has equal vectors and different bytes")
        }
    }

    /// A transfer's two documents appear together: nothing is gained or lost in any snapshot.
    func checkSum(_ states: [DocumentKey: EncodedState], _ whose: String) throws {
        // A log that was restored gets back what peers hold, as they hold it.
        guard restores == 0 else { return }
        var sum: Int64 = 0
        for (key, state) in states where Collections.isAccount(key) {
            sum += try readings.balance(state)
        }
        guard sum == 0 else { throw Violation("\(whose) sees a transfer in part: the sum is \(sum)") }
    }

    /// Nothing is seen before what its author had seen, nothing that was seen goes away, and an author sees
    /// its own.
    private func checkMarks(_ peer: Peer, _ marks: Set<Int>) throws {
        guard restores == 0 else { return }
        for mark in marks {
            for cause in book[mark].causes where book[cause].mustShow && !marks.contains(cause) {
                throw Violation("peer \(peer.number) sees w\(mark) without w\(cause), which caused it")
            }
        }
        for mark in peer.seenMarks where book[mark].mustShow && !marks.contains(mark) {
            throw Violation("peer \(peer.number) does not see w\(mark) any more")
        }
        peer.seenMarks = marks
    }

    /// Takes note of what the server refused.
    func noteRefusals(_ peer: Peer) throws {
        for refused in try peer.replica.refusedWrites() {
            guard let number = peer.commits[refused.commit] else { continue }
            book[number].code = refused.code
        }
    }

    /// What is told to be durable on the server is in its log.
    private func checkAcknowledged(_ peer: Peer) throws {
        guard restores == 0 else { return }
        let commit = try peer.replica.acknowledgedCommit()
        for (own, number) in peer.commits where own <= commit && book[number].mustShow {
            let isThere =
                !book[number].keys.contains(where: Collections.isNote) || reference.marks.contains(number)
            guard isThere else {
                throw Violation("peer \(peer.number) takes w\(number) for durable, and the log lacks it")
            }
        }
    }

    /// A cursor is stored with what it stands for: the next session begins with the one that was stored
    /// last.
    func checkCursor(_ request: SubscriptionRequest, _ peer: Peer) throws {
        guard let stored = peer.stored[request.key] else { return }
        guard let cursor = request.cursor, cursor.offset >= stored.offset || cursor.logID != stored.logID
        else {
            throw Violation(
                "peer \(peer.number) had stored up to \(stored.offset) and asks from "
                    + "\(request.cursor.map { "\($0.offset)" } ?? "the start")")
        }
    }

    /// A cursor never says more than is stored: where it is at the log's end, each document that matches
    /// there is held at least as far, or wanted. Looked at whenever a connection ends. Worlds in which a
    /// store is put back, rights change or the log goes back have exceptions that only `checkConvergence`
    /// knows; and a power cut counts the calls of a disk, these too.
    func checkHoldings(_ peer: Peer) throws {
        let exceptions: Faults = [
            .restores, .rollBacks, .clones, .grants, .renewals, .scopes, .powerCuts,
        ]
        guard profile.faults.isDisjoint(with: exceptions), let end = reference.position else { return }
        let states = try glance(peer.replica)
        let wanted = Set(try peer.replica.wanted(limit: 10_000))
        for held in peer.subscriptions.values where peer.rights.mayRead(collection: held.query.collection) {
            guard try peer.replica.cursor(of: held.key) == end else { continue }
            for (key, state) in reference.states
            where try held.query.covers(key, state) && !wanted.contains(key) && !peer.released.contains(key) {
                let mine = try states[key].map { try Document(decoding: $0).vector } ?? VersionVector()
                guard try mine.covers(Document(decoding: state).vector) else {
                    throw Violation(
                        "peer \(peer.number) has a cursor at \(end.offset) and lacks \(key.words)")
                }
            }
        }
    }

    /// What a store is about to forget of cursors: those of subscriptions that nobody holds any more, and, of
    /// a collection that may not be read, the one named. Before it does, for the power may go with it.
    func willForget(_ peer: Peer, but hidden: [UInt8]? = nil) {
        let live = Set(peer.subscriptions.keys)
        peer.stored = peer.stored.filter { live.contains($0.key) && $0.key != hidden }
    }

    /// The end of a catch-up takes a cursor back where a restored log is shorter; the power may go when that
    /// is durable, and before it is told.
    func mayGoBack(_ peer: Peer, _ batch: Reception) {
        for cursor in batch.cursors where cursor.key == batch.publishes {
            guard let stored = peer.stored[cursor.key], cursor.position.offset < stored.offset else {
                continue
            }
            peer.stored[cursor.key] = cursor.position
        }
    }

    /// A peer's store has done something.
    func done(_ action: Action, _ answer: Event?, _ peer: Peer) throws {
        switch action {
        case .store(let batch):
            let isStored = if case .stored? = answer { true } else { false }
            // What returns is stored too, but for the documents that a repair brings in line next.
            let isReturning = if case .returning? = answer { true } else { false }
            guard isStored || isReturning else { return }
            for cursor in batch.cursors where peer.subscriptions[cursor.key] != nil {
                peer.stored[cursor.key] = cursor.position
            }
            guard isStored else { return }
            passRepair(peer)
            try observe(peer, batch)
        case .repair(let repair):
            guard case .repaired(let outcome)? = answer else { return }
            statistics.repairs += 1
            let following = outcome.isFollowed ? repair.following : nil
            for cursor in following?.cursors ?? [] where peer.subscriptions[cursor.key] != nil {
                peer.stored[cursor.key] = cursor.position
            }
            peer.repairedAt = max(peer.repairedAt, repair.seen?.offset ?? 0)
            passRepair(peer)
            try noteRefusals(peer)
            for operation in try pending(peer) { try noteStamp(operation) }
            if let following { try observe(peer, following) }
        case .noteSeen(_, let replaces, _): if replaces { statistics.reconciles += 1 }
        default: break
        }
    }

    /// An observer of what is checked in every snapshot hears of a commit, and looks.
    private func observe(_ peer: Peer, _ batch: Reception) throws {
        guard peer.holdsEverything, peer.repairedAt == 0 else { return }
        let concerns =
            batch.publishes != nil
            || batch.updates.contains { update in
                Collections.isAccount(update.key) || Collections.isNote(update.key)
            }
        guard concerns, try hasBegun(peer) else { return }
        let states = try glance(peer.replica, only: Collections.observed)
        try checkSum(states, "peer \(peer.number)")
        try checkMarks(peer, try marks(states))
    }

    private func hasBegun(_ peer: Peer) throws -> Bool {
        try peer.subscriptions.values.allSatisfy { held in
            guard Collections.everything.contains(held.query.statement.text) else { return true }
            return try peer.replica.cursor(of: held.key) != nil
        }
    }

    private func passRepair(_ peer: Peer) {
        let cursors = peer.subscriptions.values.filter {
            Collections.everything.contains($0.query.statement.text)
        }.map { peer.stored[$0.key]?.offset ?? 0 }
        if cursors.allSatisfy({ $0 >= peer.repairedAt }) { peer.repairedAt = 0 }
    }

    func pending(_ peer: Peer) throws -> [Operation] {
        try peer.replica.ownActors().flatMap { own in
            try peer.replica.ownOperations(of: own.actor, after: 0, maxBytes: .max)
        }.map { try Operation(decoding: $0.bytes) }
    }
}
