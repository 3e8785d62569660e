import CRDT
import DQL
import Exchange

// Answers to another small peer. A peer names documents that it has more of, and says nothing of missing
// ones: it has no frontier to tell which of them were removed.

extension PeerFeed {
    /// The documents that a subscription's page is read from, and the position that they stand for.
    package func read<Result>(
        _ body: (ReadTransaction, LogPosition) throws -> Result
    ) throws -> Result {
        try replica.read { transaction in
            guard let head = position(of: try transaction.head()) else {
                throw ReplicaError(.closed, "the store has no feed")
            }
            return try body(transaction, head)
        }
    }

    /// Notes of a collection that came after a commit, as candidates: those of at most `limit` documents or
    /// of one commit. `through` is the commit up to which these are all; nil if there are no more.
    package func notes(
        of collection: CollectionName, after position: UInt64, limit: Int, _ transaction: ReadTransaction
    ) throws -> (notes: [(candidate: DocumentVersion, position: UInt64)], through: UInt64?) {
        try transaction.withDatabase { database in
            var found = try Notes.after(
                position, through: .max >> 1, of: collection, limit: limit + 1, database)
            var through: UInt64?
            if found.count > limit, let last = found.last?.position {
                if found.contains(where: { $0.position < last }) {
                    found.removeAll { $0.position == last }
                } else {
                    found = try Notes.after(last - 1, through: last, of: collection, limit: .max, database)
                }
                through = found.last?.position
            }
            let notes = try found.map { item -> (candidate: DocumentVersion, position: UInt64) in
                let key = DocumentKey(collection: collection, id: item.id)
                let state = try transaction.state(of: key)
                let isTold = try !Notes.isQuarantined(key, state, database)
                let vector = try (isTold ? state : nil)?.withUnsafeBytes {
                    try DocumentReader($0).vector()
                }
                var candidate = DocumentVersion(
                    key: key, vector: (vector ?? VersionVector()).encoded())
                if !item.void.isEmpty { candidate.void = item.void }
                return (candidate, item.position)
            }
            return (notes, through)
        }
    }

    /// Compares a page of another's holdings with this store: states of which there is more here, matching or
    /// not, tombstones included; and of documents that it does not have those that match.
    package func compare(
        _ page: HoldingsPage, of query: SubscriptionQuery, bytes: Int, rows: Int,
        mayRead: (DocumentKey) -> Bool
    ) throws -> HoldingsAnswer {
        try replica.read { transaction in
            var comparer = try HoldingsComparer(
                transaction, query, page, by: .link, bytes: min(bytes, page.maxBytes), rows: rows)
            if try transaction.withDatabase({ try Notes.holdsAny($0) }) {
                comparer.voids = { key, _ in try transaction.withDatabase { try Notes.void(key, $0) } }
            }
            try comparer.run(mayRead)
            return comparer.answer
        }
    }

    /// The states of documents; nil where the asker has as much, or this store has nothing. And what is void
    /// of them: then with whatever is here.
    package func states(
        of keys: [DocumentKey], held: [DocumentVersion]
    ) throws -> (states: [(key: DocumentKey, state: EncodedState?)], gone: [DocumentVersion]) {
        let held = Dictionary(held.map { ($0.key, $0.vector) }) { $1 }
        return try replica.read { transaction in
            let gone = try transaction.withDatabase { database -> [DocumentVersion] in
                guard try Notes.holdsAny(database) else { return [] }
                return try keys.compactMap { key in
                    guard let note = try Notes.row(key, database) else { return nil }
                    var told = DocumentVersion(key: key, vector: VersionVector().encoded())
                    let void = note.words.told
                    told.void = void.encoded()
                    return void.isEmpty ? nil : told
                }
            }
            let voided = Set(gone.map(\.key))
            let states = try keys.map { key -> (key: DocumentKey, state: EncodedState?) in
                guard let state = try transaction.toldState(of: key) else {
                    // Where all of it was void, nothing is what is left.
                    let isAllVoid = try voided.contains(key) && transaction.state(of: key) == nil
                    return (key, isAllVoid ? Document().encoded() : nil)
                }
                if voided.contains(key) { return (key, state) }
                guard let theirs = held[key] else { return (key, state) }
                let ours = try state.withUnsafeBytes { try DocumentReader($0).vector() }
                return (key, try VersionVector(decoding: theirs).covers(ours) ? nil : state)
            }
            return (states, gone)
        }
    }

    /// A page of everything that is here of a subscription, or (`isWhole`) of its collection, tombstones
    /// included, ascending by id.
    package func holdings(
        of query: SubscriptionQuery, after start: DocumentID?, isWhole: Bool
    ) throws -> HoldingsPage {
        try replica.read { transaction in
            var page: [DocumentVersion] = []
            var size = 0
            var isLast = true
            try transaction.documents(of: query.collection, after: start, through: nil) { id, state in
                let document = try DocumentReader(state)
                let record = DocumentRecord(id: id, document: document)
                let matches = try document.isLive && query.matches(record)
                guard matches || isWhole else { return true }
                guard page.count < ReplicaLimits.heldDocuments, size < ReplicaLimits.heldBytes else {
                    isLast = false
                    return false
                }
                let key = DocumentKey(collection: query.collection, id: id)
                // A quarantined one is named as if it were empty: everything of it is wanted.
                let void = try transaction.withDatabase { try Notes.void(key, $0) } ?? VersionVector()
                let held = try document.vector()
                let vector = held.isQuarantined(by: void) ? VersionVector() : held
                size += id.bytes.count + 16 * vector.entries.count
                page.append(
                    DocumentVersion(key: key, vector: vector.encoded(), isUnmatched: !matches))
                return true
            }
            return HoldingsPage(candidates: page, after: start, isLast: isLast)
        }
    }

    /// The vectors of documents that are here, tombstones included; not of quarantined ones.
    package func versions(of keys: [DocumentKey]) throws -> [DocumentVersion] {
        try replica.read { transaction in
            try keys.compactMap { key in
                guard let state = try transaction.toldState(of: key) else { return nil }
                let vector = try state.withUnsafeBytes { try DocumentReader($0).vector() }
                return DocumentVersion(key: key, vector: vector.encoded())
            }
        }
    }

    /// As `outdated`, of candidates that a feed names.
    package func outdated(
        _ candidates: [DocumentVersion], for subscription: [UInt8], at feed: LogID
    ) throws -> [DocumentKey] {
        try replica.outdated(candidates, for: LinkKey.of(subscription, at: feed))
    }
}

extension PeerFeed {
    /// The quarantined ones of documents: links are not told their states.
    package func quarantined(_ keys: [DocumentKey], _ transaction: ReadTransaction) throws -> Set<DocumentKey>
    {
        guard try transaction.withDatabase({ try Notes.holdsAny($0) }) else { return [] }
        return Set(try keys.filter { try transaction.toldState(of: $0) == nil })
    }
}

extension ReadTransaction {
    /// The state of a document, as others may be told it: nil if it is quarantined.
    func toldState(of key: DocumentKey) throws -> EncodedState? {
        guard let state = try state(of: key) else { return nil }
        return try withDatabase { try Notes.isQuarantined(key, state, $0) } ? nil : state
    }
}
