import CRDT
import DQL
import Exchange
import GRDB

extension ReadTransaction {
    /// Compares a subscriber's holdings with this materialization. A document that is missing here counts
    /// as empty with the frontier as its vector, and an existing one has seen the frontier too (rule 13):
    /// any part of the subscriber's copy that the frontier covers and the state here lacks was purged. If
    /// the subscriber may not write a document (`mayWrite`), every part that the state here does not cover
    /// counts as purged, because it cannot reach the log from there.
    ///
    /// - Parameters:
    ///   - bytes: approximate bytes of states read before the comparison stops.
    ///   - rows: approximate number of documents examined before it stops.
    public func compare(
        _ page: HoldingsPage, of query: SubscriptionQuery, bytes: Int, rows: Int,
        mayWrite: @escaping (DocumentKey) -> Bool = { _ in true }, tellsVoid: Bool = false,
        interruption: (@Sendable () -> Interruption?)? = nil,
        mayRead: (DocumentKey) -> Bool
    ) throws -> HoldingsAnswer {
        var comparer = try HoldingsComparer(
            self, query, page, bytes: min(bytes, page.maxBytes), rows: rows, mayWrite: mayWrite, interruption)
        if tellsVoid {
            comparer.voids = { key, held in try self.void(of: key, held: held) }
        }
        try comparer.run(mayRead)
        comparer.answer.asOf = try logPosition()
        return comparer.answer
    }
}

extension ReadTransaction {
    /// The same at a store that has no frontier: it says what it has more of, and nothing of the rest.
    func compareWithoutAuthority(
        _ page: HoldingsPage, of query: SubscriptionQuery, bytes: Int, rows: Int,
        mayRead: (DocumentKey) -> Bool
    ) throws -> HoldingsAnswer {
        var comparer = try HoldingsComparer(
            self, query, page, bytes: min(bytes, page.maxBytes), rows: rows, mayWrite: { _ in true }, nil)
        comparer.hasAuthority = false
        comparer.notes = try withDatabase { database -> [DocumentID: VersionVector] in
            guard try Notes.holdsAny(database) else { return [:] }
            return try page.candidates.reduce(into: [:]) { notes, item in
                notes[item.key.id] = try Notes.find(item.key, database)
            }
        }
        if try withDatabase({ try Notes.holdsVoid($0) }) {
            comparer.voids = { key, _ in try self.withDatabase { try Notes.void(key, $0) } }
        }
        try comparer.run(mayRead)
        return comparer.answer
    }

    /// The purges for documents that a subscriber holds with these vectors: each document of which
    /// something was purged, with a vector that covers it (see `compare`), or is void (`tellsVoid`).
    public func gone(
        of held: [DocumentVersion], mayWrite: @escaping (DocumentKey) -> Bool, tellsVoid: Bool = false
    ) throws -> [DocumentVersion] {
        var removals = Removals(self, mayWrite)
        return try held.compactMap { item in
            let whole = try VersionVector(decoding: item.vector)
            let void = tellsVoid ? try void(of: item.key, held: whole) : nil
            let vector = void.map { whole.without(void: $0) } ?? whole
            let gone: VersionVector?
            if let state = try state(of: item.key) {
                gone = try state.withUnsafeBytes {
                    try removals.gone(of: item.key, vector, here: try DocumentReader($0))
                }
            } else {
                gone = try removals.gone(of: item.key, vector)
            }
            guard gone != nil || void != nil else { return nil }
            var told = DocumentVersion(key: item.key, vector: (gone ?? VersionVector()).encoded())
            told.void = void?.encoded()
            return told
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

    /// A vector that covers the purged parts of a document that is not here; nil where nothing is purged.
    mutating func gone(of key: DocumentKey, _ theirs: VersionVector) throws -> VersionVector? {
        let seen = mayWrite(key) ? try covered(theirs) : theirs
        return theirs.coversAny(of: seen) ? seen : nil
    }

    /// The same for a document that is here. Their stamps beyond its state were reaped if the writers'
    /// operations up to there are folded. (Or the log has lost them, and the holders may not give them back.)
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
private struct HoldingsComparer {
    private let transaction: ReadTransaction
    private let query: SubscriptionQuery
    private let held: [(id: DocumentID, vector: VersionVector)]
    private let unmatched: Set<DocumentID>
    private let page: HoldingsPage
    private let maxBytes: Int
    private let maxRows: Int
    private let interruption: (@Sendable () -> Interruption?)?
    private var removals: Removals
    var answer = HoldingsAnswer()
    /// False where there is no frontier: nothing counts as purged, and no right as revoked.
    var hasAuthority = true
    /// Notes of held documents, gone without an entry in their vectors: at a store without a frontier.
    var notes: [DocumentID: VersionVector] = [:]
    /// Void stamps of a document that is held with a vector; nil where none are told.
    var voids: ((DocumentKey, _ held: VersionVector) throws -> VersionVector?)?
    private var next = 0
    private var bytes = 0
    private var rows = 0

    init(
        _ transaction: ReadTransaction, _ query: SubscriptionQuery, _ page: HoldingsPage, bytes: Int,
        rows: Int, mayWrite: @escaping (DocumentKey) -> Bool,
        _ interruption: (@Sendable () -> Interruption?)?
    ) throws {
        self.interruption = interruption
        removals = Removals(transaction, mayWrite)
        self.transaction = transaction
        self.query = query
        self.page = page
        held = try page.candidates.map { ($0.key.id, try VersionVector(decoding: $0.vector)) }
        unmatched = Set(page.candidates.filter(\.isUnmatched).map(\.key.id))
        maxBytes = bytes
        maxRows = rows
    }

    mutating func run(_ mayRead: (DocumentKey) -> Bool) throws {
        let end = page.isLast ? nil : held.last?.id
        var last: DocumentID?
        try transaction.documents(of: query.collection, after: page.after, through: end) { id, state in
            if let last, rows >= maxRows || bytes >= maxBytes {
                answer.through = last
                return false
            }
            rows += 1
            if let reason = interruption?() { throw DQLError.interrupted(reason) }
            try compareAbsent(before: id, mayRead)
            try compare(id, state, mayRead)
            last = id
            return true
        }
        if answer.through == nil { try compareAbsent(before: nil, mayRead) }
    }

    private func key(_ id: DocumentID) -> DocumentKey { DocumentKey(collection: query.collection, id: id) }

    private mutating func compareAbsent(before id: DocumentID?, _ mayRead: (DocumentKey) -> Bool) throws {
        while next < held.count, id.map({ held[next].id < $0 }) ?? true {
            let item = held[next]
            next += 1
            let key = key(item.id)
            if mayRead(key), try tellVoid(of: key, held: item.vector, here: VersionVector()) { continue }
            guard hasAuthority else {
                if let note = notes[item.id], mayRead(key) { add(note, of: key) }
                continue
            }
            guard mayRead(key) else {
                answer.hidden.append(key)
                continue
            }
            if let gone = try removals.gone(of: key, item.vector) { add(gone, of: key) }
        }
    }

    private mutating func compare(
        _ id: DocumentID, _ state: UnsafeRawBufferPointer, _ mayRead: (DocumentKey) -> Bool
    ) throws {
        let isHeld = next < held.count && held[next].id == id
        let theirs = isHeld ? held[next].vector : VersionVector()
        if isHeld { next += 1 }
        let key = key(id)
        guard mayRead(key) else {
            if isHeld, hasAuthority { answer.hidden.append(key) }
            return
        }
        let document = try DocumentReader(state)
        let ours = try document.vector()
        if isHeld, try tellVoid(of: key, held: theirs, here: ours) { return }
        if !hasAuthority, let void = try voids?(key, ours), ours.isTainted(by: void) { return }
        // A leave is told; what never was the subscriber's to follow is not its concern.
        var isItsConcern = true
        if !isHeld || hasAuthority && unmatched.contains(id) {
            let record = DocumentRecord(id: id, document: document)
            isItsConcern = try document.isLive && query.matches(record, interruption: interruption)
        }
        guard isHeld else {
            if isItsConcern { add(state, of: key) }
            return
        }
        if hasAuthority, let gone = try removals.gone(of: key, theirs, here: document) {
            add(gone, of: key)
            // A document of seeds alone leaves nothing.
            let isRest = try document.isRestOfSeeds() && ours.covers(theirs)
            if isItsConcern, !isRest { add(state, of: key) }
            return
        }
        if let note = notes[id] {
            // With the state that is left.
            add(note, of: key)
            return add(state, of: key)
        }
        guard isItsConcern else { return }
        if try !theirs.covers(ours) || ours.holdsSeed && Document(decoding: state).hasLostSeeds {
            add(state, of: key)
        }
    }

    /// Names a document to a subscriber that holds something void of it: it asks then.
    private mutating func tellVoid(
        of key: DocumentKey, held: VersionVector, here ours: VersionVector
    ) throws -> Bool {
        guard let void = try voids?(key, held) else { return false }
        // Another small peer names a tainted one as if it were empty.
        guard held.isTainted(by: void) || !hasAuthority && held.entries.isEmpty else { return false }
        let isTold = hasAuthority || !ours.isTainted(by: void)
        var candidate = DocumentVersion(key: key, vector: (isTold ? ours : VersionVector()).encoded())
        candidate.void = void.encoded()
        answer.candidates.append(candidate)
        return true
    }

    private mutating func add(_ state: UnsafeRawBufferPointer, of key: DocumentKey) {
        answer.documents.append(
            DocumentUpdate(key: key, content: .state(EncodedState([UInt8](state)))))
        bytes += state.count
    }

    private mutating func add(_ gone: VersionVector, of key: DocumentKey) {
        answer.gone.append(DocumentVersion(key: key, vector: gone.encoded()))
    }
}

extension VersionVector {
    /// Returns whether the other covers one of the entries here.
    fileprivate func coversAny(of other: VersionVector) -> Bool {
        entries.contains { other.covers(Stamp(time: $0.time, actor: $0.actor)) }
    }
}
