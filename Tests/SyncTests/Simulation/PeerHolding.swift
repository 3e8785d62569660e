import CRDT
import DQL
import Sync

/// What a store does about documents that it holds and that are gone, hidden or unanswered, as the real one
/// does it.
extension PeerReplica {
    mutating func hide(_ keys: [DocumentKey]) {
        for key in keys {
            guard let document = documents.removeValue(forKey: key) else { continue }
            evictedActors[key, default: []].formUnion(document.vector.entries.map(\.actor))
        }
    }

    /// What one reception tells of documents that are gone.
    struct Told {
        /// Until the state comes behind it.
        var gone: [(key: DocumentKey, vector: VersionVector)] = []
        /// Documents with own writes that the server does not have.
        var returning: [DocumentKey] = []
        /// Documents of which what has come is not the last word.
        var stale: [DocumentKey] = []
    }

    /// Merges what was staged, or asked for: the state of a document comes behind what is gone of it.
    mutating func mergeTold(
        _ update: DocumentUpdate, _ told: inout Told, _ missing: inout [DocumentKey]
    ) throws {
        if case .gone(let vector) = update.content {
            told.gone.removeAll { $0.key == update.key }
            return told.gone.append((update.key, try VersionVector(decoding: vector)))
        }
        if case .state(let bytes) = update.content,
            let index = told.gone.firstIndex(where: { $0.key == update.key })
        {
            let gone = told.gone.remove(at: index).vector
            try makeRoom(update.key, for: Document(decoding: bytes).vector, under: gone, &told)
        }
        try merge(update, &missing, &told)
    }

    /// Drops a document that has not moved on since it was told of; one that has only where what is gone is
    /// still here, and then it is asked for.
    private mutating func makeRoom(
        _ key: DocumentKey, for state: VersionVector, under gone: VersionVector, _ told: inout Told
    ) throws {
        guard let held = documents[key]?.vector else { return }
        let isHere = held.entries.contains { entry in
            entry.time > state[entry.actor] ?? 0 && entry.time <= gone[entry.actor] ?? 0
        }
        let isCovered = gone.covers(held)
        if try isPending(key) { return told.returning.append(key) }
        guard isHere || isCovered else { return }
        hide([key])
        if !isCovered { told.stale.append(key) }
    }

    /// Drops what is gone of documents of which no state came behind it. What a list tells is of the document
    /// as it was then: one that has moved on is asked for.
    mutating func forget(_ told: inout Told, isListed: Bool = false) throws {
        for item in told.gone {
            let isMovedOn = documents[item.key].map { !item.vector.covers($0.vector) } ?? false
            if isListed, isMovedOn, try !isPending(item.key) {
                told.stale.append(item.key)
            } else {
                try forget(item.key, item.vector, &told)
            }
        }
        told.gone = []
    }

    mutating func forget(_ key: DocumentKey, _ frontier: VersionVector, _ told: inout Told) throws {
        guard let document = documents[key] else { return }
        guard try !isPending(key) else { return told.returning.append(key) }
        evictedActors[key, default: []].formUnion(document.vector.entries.map(\.actor))
        documents[key] =
            frontier.covers(document.vector) ? nil : document.gone(frontier: frontier, replaying: [])
    }

    private func isPending(_ key: DocumentKey) throws -> Bool {
        try pending.contains { try Operation(decoding: $0.bytes).keys.contains(key) }
    }

    func held(_ request: SubscriptionRequest, _ last: DocumentID?, _ isWhole: Bool) throws -> Event {
        let query = try SubscriptionQuery(statement: request.statement)
        let all = try documents.filter { key, document in
            if isWhole, document.isLive { return key.collection == query.collection }
            return try query.covers(key, document)
        }
        .filter { item in last.map { $0 < item.key.id } ?? true }.sorted { $0.key.id < $1.key.id }
        let page = all.prefix(2).map { Frame.Candidate(key: $0.key, vector: $0.value.vector.encoded()) }
        return .held(key: request.key, Array(page), isLast: all.count <= 2)
    }

    mutating func acknowledged(_ actor: ActorID, _ sequence: SequenceNumber, _ offset: Offset?) throws
        -> Event?
    {
        let keys = try (own[actor] ?? []).filter { $0.sequence <= sequence }
            .flatMap { try Operation(decoding: $0.bytes).keys }
            .filter { key in !subscriptions.contains { $0.collection == key.collection } }
        acknowledge(actor, through: sequence)
        if let offset {
            if offset > 0 { for key in keys { expectAnswer(key, offset) } }
            return nil
        }
        return want(keys)
    }
}
