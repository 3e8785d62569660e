import CRDT
import DQL
import GRDB

/// The server's answer to a subscriber's holdings in a range of a collection's ids (rules 13, 14 and 18).
public struct HeldComparison: Sendable {
    /// Full states of matching documents that the subscriber lacks or holds in an incomplete state.
    public var documents: [(id: DocumentID, state: EncodedState)] = []
    /// Held documents of which something was purged, with a vector that covers it.
    public var gone: [(id: DocumentID, vector: VersionVector)] = []
    /// Held documents that the subscriber may not read.
    public var hidden: [DocumentID] = []
    /// The id up to which this answer reaches; nil for the whole range.
    public var through: DocumentID?
}

/// A subscriber's holdings in a range of a collection's ids.
public struct HeldRange: Sendable {
    /// The holdings, ascending by id.
    public var documents: [(id: DocumentID, vector: VersionVector)]
    /// The range begins after this id.
    public var after: DocumentID?
    /// True if the range has no end; else it ends with the last document.
    public var isLast: Bool
    /// The held documents that do not match at the subscriber: they get purges, and states only if they
    /// match here.
    public var unmatched: Set<DocumentID>
    /// Approximate bytes of states read before the comparison stops.
    public var bytes: Int
    /// Approximate number of documents examined before it stops.
    public var rows: Int

    /// A range of these parts.
    public init(
        documents: [(id: DocumentID, vector: VersionVector)], unmatched: Set<DocumentID> = [],
        after: DocumentID?, isLast: Bool, bytes: Int, rows: Int
    ) {
        self.documents = documents
        self.unmatched = unmatched
        self.after = after
        self.isLast = isLast
        self.bytes = bytes
        self.rows = rows
    }
}

extension ReadTransaction {
    /// Compares a subscriber's holdings with this materialization. A document that is missing here counts
    /// as empty with the frontier as its vector, and an existing one has seen the frontier too (rule 13):
    /// any part of the subscriber's copy that the frontier covers and the state here lacks was purged. If
    /// the subscriber may not write a document (`mayWrite`), every part that the state here does not cover
    /// counts as purged, because it cannot reach the log from there.
    public func compare(
        _ held: HeldRange, of query: SubscriptionQuery,
        mayWrite: @escaping (DocumentKey) -> Bool = { _ in true },
        interruption: (@Sendable () -> Interruption?)? = nil,
        mayRead: (DocumentKey) -> Bool
    ) throws -> HeldComparison {
        var comparer = HeldComparer(self, query, held, mayWrite: mayWrite, interruption)
        try comparer.run(mayRead)
        return comparer.result
    }

    /// Visits documents of a collection by id, tombstones included; the visit returns false to stop.
    func documents(
        of collection: CollectionName, after start: DocumentID?, through end: DocumentID?,
        _ visit: (DocumentID, UnsafeRawBufferPointer) throws -> Bool
    ) throws {
        try withDatabase { database in
            var collections = Collections()
            guard let table = try collections.number(of: collection, database) else { return }
            let bound = end == nil ? "" : "AND id <= ?2"
            let statement = try RawStatement(
                fresh: "SELECT id, state FROM documents_\(table) WHERE id > ?1 \(bound) ORDER BY id", database
            )
            statement.bind(1, start?.bytes ?? [])
            if let end { statement.bind(2, end.bytes) }
            while try statement.step() {
                guard try visit(DocumentID(trusted: statement.bytes(0)), statement.blob(1)) else { return }
            }
        }
    }
}

extension ReadTransaction {
    /// The purges for documents that a subscriber holds with these vectors: each document of which
    /// something was purged, with a vector that covers it (see `compare`).
    public func gone(
        of held: [(key: DocumentKey, vector: VersionVector)], mayWrite: @escaping (DocumentKey) -> Bool
    ) throws -> [(key: DocumentKey, vector: VersionVector)] {
        var removals = Removals(self, mayWrite)
        return try held.compactMap { item in
            let gone: VersionVector?
            if let state = try state(of: item.key) {
                gone = try state.withUnsafeBytes {
                    try removals.gone(of: item.key, item.vector, here: try DocumentReader($0))
                }
            } else {
                gone = try removals.gone(of: item.key, item.vector)
            }
            return gone.map { (item.key, $0) }
        }
    }
}

/// Tells what of a subscriber's copy was removed, and its tombstone reaped.
private struct Removals {
    private let transaction: ReadTransaction
    private let mayWrite: (DocumentKey) -> Bool
    private var frontier: [ActorID: Timestamp?] = [:]

    init(_ transaction: ReadTransaction, _ mayWrite: @escaping (DocumentKey) -> Bool) {
        self.transaction = transaction
        self.mayWrite = mayWrite
    }

    /// Of a document that is not here: a vector that covers what is gone; nil where nothing is.
    mutating func gone(of key: DocumentKey, _ theirs: VersionVector) throws -> VersionVector? {
        let seen = mayWrite(key) ? try covered(theirs) : theirs
        return theirs.coversAny(of: seen) ? seen : nil
    }

    /// Of one that is here. What they have beyond its state although its writer's operations are folded was
    /// reaped. (Or the log has lost it, and they may not give it back.)
    mutating func gone(
        of key: DocumentKey, _ theirs: VersionVector, here document: DocumentReader
    ) throws -> VersionVector? {
        let ours = try document.vector()
        let extra = VersionVector(
            theirs.entries.filter { !ours.covers(Stamp(time: $0.time, actor: $0.actor)) })
        if let seen = try gone(of: key, extra) { return seen.union(ours) }
        // They name what they show, so of these seeds they hold the living ones.
        return try document.isRestOfSeeds() ? ours : nil
    }

    /// The frontier of a vector's actors, as far as the vector goes.
    private mutating func covered(_ vector: VersionVector) throws -> VersionVector {
        var result = VersionVector()
        for entry in vector.entries {
            // No actor wrote the seeds (rule 7); what is left of a reaped document tells of them.
            if frontier[entry.actor] == nil {
                let progress = try transaction.frontier(of: [entry.actor]).first
                frontier[entry.actor] = .some(progress?.timestamp)
            }
            if let time = frontier[entry.actor] ?? nil {
                // No later than named: when an actor wrote last, elsewhere, is nobody's concern here.
                result.insert(Stamp(time: min(time, entry.time), actor: entry.actor))
            }
        }
        return result
    }
}

/// One walk over the ids held and the ids here, which both ascend.
private struct HeldComparer {
    private let transaction: ReadTransaction
    private let query: SubscriptionQuery
    private let held: HeldRange
    private let interruption: (@Sendable () -> Interruption?)?
    private var removals: Removals
    private(set) var result = HeldComparison()
    private var next = 0
    private var bytes = 0
    private var rows = 0

    init(
        _ transaction: ReadTransaction, _ query: SubscriptionQuery, _ held: HeldRange,
        mayWrite: @escaping (DocumentKey) -> Bool, _ interruption: (@Sendable () -> Interruption?)?
    ) {
        self.interruption = interruption
        removals = Removals(transaction, mayWrite)
        self.transaction = transaction
        self.query = query
        self.held = held
    }

    mutating func run(_ mayRead: (DocumentKey) -> Bool) throws {
        let end = held.isLast ? nil : held.documents.last?.id
        var last: DocumentID?
        try transaction.documents(of: query.collection, after: held.after, through: end) { id, state in
            if let last, rows >= held.rows || bytes >= held.bytes {
                result.through = last
                return false
            }
            rows += 1
            if let reason = interruption?() { throw DQLError.interrupted(reason) }
            try settleAbsent(before: id, mayRead)
            try settle(id, state, mayRead)
            last = id
            return true
        }
        if result.through == nil { try settleAbsent(before: nil, mayRead) }
    }

    private mutating func settleAbsent(before id: DocumentID?, _ mayRead: (DocumentKey) -> Bool) throws {
        while next < held.documents.count, id.map({ held.documents[next].id < $0 }) ?? true {
            let item = held.documents[next]
            next += 1
            let key = DocumentKey(collection: query.collection, id: item.id)
            guard mayRead(key) else {
                result.hidden.append(item.id)
                continue
            }
            if let gone = try removals.gone(of: key, item.vector) { result.gone.append((item.id, gone)) }
        }
    }

    private mutating func settle(
        _ id: DocumentID, _ state: UnsafeRawBufferPointer, _ mayRead: (DocumentKey) -> Bool
    ) throws {
        let isHeld = next < held.documents.count && held.documents[next].id == id
        let theirs = isHeld ? held.documents[next].vector : VersionVector()
        if isHeld { next += 1 }
        let key = DocumentKey(collection: query.collection, id: id)
        guard mayRead(key) else {
            if isHeld { result.hidden.append(id) }
            return
        }
        let document = try DocumentReader(state)
        let ours = try document.vector()
        // A leave is told; what never was the subscriber's to follow is not its concern.
        var isItsConcern = true
        if !isHeld || held.unmatched.contains(id) {
            let record = DocumentRecord(id: id, document: document)
            isItsConcern = try document.isLive && query.matches(record, interruption: interruption)
        }
        guard isHeld else {
            if isItsConcern { add(id, state) }
            return
        }
        if let gone = try removals.gone(of: key, theirs, here: document) {
            result.gone.append((id, gone))
            // Of seeds alone nothing is left.
            let isRest = try document.isRestOfSeeds() && ours.covers(theirs)
            if isItsConcern, !isRest { add(id, state) }
            return
        }
        guard isItsConcern else { return }
        if try !theirs.covers(ours) || ours.holdsSeed && Document(decoding: state).hasLostSeeds {
            add(id, state)
        }
    }

    private mutating func add(_ id: DocumentID, _ state: UnsafeRawBufferPointer) {
        result.documents.append((id, EncodedState([UInt8](state))))
        bytes += state.count
    }
}

extension VersionVector {
    /// Whether the other covers one of the entries here.
    fileprivate func coversAny(of other: VersionVector) -> Bool {
        entries.contains { other.covers(Stamp(time: $0.time, actor: $0.actor)) }
    }
}

extension Replica {
    /// The vectors of these documents, as far as they are here, deleted ones included; without withheld
    /// parts, as in `held`. (Without rests of seeds: a peer that names those has the live ones.)
    public func vectors(of keys: [DocumentKey]) throws -> [(key: DocumentKey, vector: VersionVector)] {
        try read { transaction in
            try keys.compactMap { key in
                guard let state = try transaction.state(of: key) else { return nil }
                let own = try transaction.withDatabase { try Withheld.actors(of: key.collection, $0) }
                let (vector, isRest) = try state.withUnsafeBytes { bytes in
                    let document = try DocumentReader(bytes)
                    return (try document.vector().without(own), try document.isRestOfSeeds())
                }
                return vector.isEmpty || isRest ? nil : (key, vector)
            }
        }
    }

    /// A document in a subscriber's list, and whether it matches the subscription.
    public typealias HeldDocument = (id: DocumentID, vector: VersionVector, matches: Bool)

    /// A page of the live documents here that match a subscription, or (`isWhole`) of all in its
    /// collection, after an id and ascending, with their vectors and whether they match. Parts withheld
    /// from the server are left out: documents made only of them, and the vector entries of the actors that
    /// wrote them.
    public func held(
        of query: SubscriptionQuery, after start: DocumentID?, isWhole: Bool = false
    ) throws -> (documents: [HeldDocument], isLast: Bool) {
        try read { transaction in
            var page: [HeldDocument] = []
            var size = 0
            var isLast = true
            let own = try transaction.withDatabase { try Withheld.actors(of: query.collection, $0) }
            try transaction.documents(of: query.collection, after: start, through: nil) { id, state in
                let document = try DocumentReader(state)
                let record = DocumentRecord(id: id, document: document)
                guard document.isLive else { return true }
                let matches = try query.matches(record)
                guard matches || isWhole else { return true }
                guard page.count < ReplicaLimits.heldDocuments, size < ReplicaLimits.heldBytes else {
                    isLast = false
                    return false
                }
                let vector = try document.vector().without(own)
                guard !vector.isEmpty else { return true }
                size += id.bytes.count + 16 * vector.entries.count
                page.append((id, vector, matches))
                return true
            }
            return (page, isLast)
        }
    }
}
