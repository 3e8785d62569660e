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

    mutating func forget(
        _ key: DocumentKey, _ frontier: VersionVector, _ returning: inout [DocumentKey]
    ) throws {
        guard let document = documents[key] else { return }
        let isPending = try pending.contains { try Operation(decoding: $0.bytes).keys.contains(key) }
        guard !isPending else { return returning.append(key) }
        evictedActors[key, default: []].formUnion(document.vector.entries.map(\.actor))
        documents[key] =
            frontier.covers(document.vector) ? nil : document.gone(frontier: frontier, replaying: [])
    }

    func held(_ request: SubscriptionRequest, _ last: DocumentID?, _ isWhole: Bool) throws -> Event {
        let query = try SubscriptionQuery(statement: request.statement)
        let all = try documents.filter { key, document in
            if isWhole, document.isLive { return utf8Equal(key.collection, query.collection) }
            return try query.covers(key, document)
        }
        .filter { item in last.map { $0 < item.key.id } ?? true }.sorted { $0.key.id < $1.key.id }
        let page = all.prefix(2).map { Frame.Candidate(key: $0.key, vector: $0.value.vector.encoded()) }
        return .held(key: request.key, Array(page), isLast: all.count <= 2)
    }

    mutating func acknowledged(_ actor: ActorID, _ sequence: UInt64, _ offset: UInt64?) throws -> Event? {
        let keys = try (own[actor] ?? []).filter { $0.sequence <= sequence }
            .flatMap { try Operation(decoding: $0.bytes).keys }
            .filter { key in !subscriptions.contains { utf8Equal($0.collection, key.collection) } }
        acknowledge(actor, through: sequence)
        if let offset {
            if offset > 0 { for key in keys { expectAnswer(key, offset) } }
            return nil
        }
        return want(keys)
    }
}
