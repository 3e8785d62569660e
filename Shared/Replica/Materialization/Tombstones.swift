import CRDT
import GRDB

extension ReadTransaction {
    /// A place in the walk over all tombstones.
    public struct TombstonePlace: Sendable {
        fileprivate var collection: Int64 = 0
        fileprivate var row: Int64 = 0

        /// Before the first.
        public init() {}
    }

    /// The next expired tombstones that may be reaped, at most `limit` of them after visiting at most
    /// `ReplicaLimits.visitedTombstones`; nil after the last. Tombstones with seeds or remains of counters
    /// stay (rule 15), but for an erasure (`withRemains`).
    ///
    /// Once a tombstone is reaped, only the frontier tells holders of the document that it existed (rule
    /// 13). So a tombstone that the frontier does not cover stays: a restored log got it back from a peer,
    /// and its writers' operations are lost (decision 0010).
    public func outlivedTombstones(
        from place: inout TombstonePlace, timeToLive: Duration, wallMilliseconds: UInt64, limit: Int,
        withRemains: Bool = false, where isWanted: (DocumentKey) -> Bool = { _ in true }
    ) throws -> [(key: DocumentKey, vector: VersionVector)]? {
        try withDatabase { database in
            var found: [(key: DocumentKey, vector: VersionVector)] = []
            var frontier = KnownFrontier()
            var visited = 0
            while let (number, name) = try Self.collection(from: place.collection, database) {
                let statement = try RawStatement(
                    fresh: """
                        SELECT number, id, state FROM documents_\(number) WHERE number > ? AND live = 0
                        ORDER BY number
                        """, database)
                statement.bind(1, place.collection == number ? place.row : 0)
                place.collection = number
                while try statement.step() {
                    place.row = statement.int(0)
                    visited += 1
                    let key = DocumentKey(collection: name, id: DocumentID(trusted: statement.bytes(1)))
                    guard isWanted(key) else { continue }
                    let document = try Document(decoding: EncodedState(statement.bytes(2)))
                    if withRemains ? document.isReapable : document.isForgettable,
                        document.hasOutlived(timeToLive, wallMilliseconds: wallMilliseconds),
                        try frontier.covers(document.vector, database)
                    {
                        found.append((key, document.vector))
                    }
                    if found.count >= limit || visited >= ReplicaLimits.visitedTombstones { return found }
                }
                place.collection = number + 1
                place.row = 0
            }
            return found.isEmpty ? nil : found
        }
    }

    private static func collection(
        from number: Int64, _ database: Database
    ) throws -> (number: Int64, name: CollectionName)? {
        let statement = try RawStatement(
            cached: "SELECT number, name FROM collection WHERE number >= ? ORDER BY number LIMIT 1", database)
        statement.bind(1, number)
        return try statement.step() ? (statement.int(0), CollectionName(statement.text(1))) : nil
    }
}

/// The frontier of the actors that were asked about, each read once.
private struct KnownFrontier {
    private var times: [ActorID: Timestamp] = [:]

    /// Returns whether every operation that a vector knows of is folded. (No actor wrote the seeds, at time
    /// zero.)
    mutating func covers(_ vector: VersionVector, _ database: Database) throws -> Bool {
        for entry in vector.entries where entry.time > 0 {
            let known =
                try times[entry.actor] ?? FoldedFrontier.progress(of: entry.actor, database)?.timestamp
            times[entry.actor] = known ?? 0
            if known ?? 0 < entry.time { return false }
        }
        return true
    }
}
