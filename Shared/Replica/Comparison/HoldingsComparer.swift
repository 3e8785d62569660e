import CRDT
import DQL
import Exchange

extension ReadTransaction {
    /// Compares a subscriber's holdings with this materialization. Any part of the subscriber's copy that the
    /// frontier covers and the state here lacks was deleted and reaped (rule 13): it is told as lost, and the
    /// answer counts once those documents are deleted anew. If the subscriber may not write a document
    /// (`mayWrite`), it is to forget every copy that the state here does not cover, because that part cannot
    /// reach the log from there.
    ///
    /// - Parameters:
    ///   - concerns: documents to be named whether they match or not, because they were deleted anew for it.
    ///   - bytes: approximate bytes of states read before the comparison stops.
    ///   - rows: approximate number of documents examined before it stops.
    public func compare(
        _ page: HoldingsPage, of query: SubscriptionQuery, bytes: Int, rows: Int,
        mayWrite: @escaping (DocumentKey) -> Bool = { _ in true }, concerns: Set<DocumentKey> = [],
        tellsVoid: Bool = false, interruption: (@Sendable () -> Interruption?)? = nil,
        mayRead: (DocumentKey) -> Bool
    ) throws -> HoldingsAnswer {
        var comparer = try HoldingsComparer(
            self, query, page, by: .server, bytes: min(bytes, page.maxBytes), rows: rows, mayWrite: mayWrite,
            interruption)
        comparer.concerns = concerns
        if tellsVoid {
            comparer.voids = { key, held in try self.void(of: key, held: held) }
        }
        try comparer.run(mayRead)
        comparer.answer.asOf = try logPosition()
        return comparer.answer
    }

    /// The news of documents that a subscriber holds with these vectors, beside their states:
    /// void stamps (`tellsVoid`), and those that it is to forget because it may not write them. And the lost
    /// parts of the others, which are to be deleted anew before the answer counts.
    public func lost(
        of held: [DocumentVersion], mayWrite: @escaping (DocumentKey) -> Bool, tellsVoid: Bool = false
    ) throws -> (told: [DocumentVersion], lost: [DocumentVersion]) {
        var parts = LostParts(self)
        var told: [DocumentVersion] = []
        var lost: [DocumentVersion] = []
        for item in held {
            let theirs = try VersionVector(decoding: item.vector)
            if tellsVoid, let void = try void(of: item.key, held: theirs) {
                var version = DocumentVersion(key: item.key, vector: VersionVector().encoded())
                version.void = void.encoded()
                told.append(version)
                continue
            }
            let state = try state(of: item.key)
            let ours = try state?.withUnsafeBytes { try DocumentReader($0).vector() } ?? VersionVector()
            guard mayWrite(item.key) else {
                if !ours.covers(theirs) {
                    told.append(DocumentVersion(key: item.key, vector: theirs.union(ours).encoded()))
                }
                continue
            }
            let found =
                try state?.withUnsafeBytes { try parts.of(theirs, here: try DocumentReader($0)) }
                ?? parts.of(theirs, here: ours)
            if let found { lost.append(DocumentVersion(key: item.key, vector: found.encoded())) }
        }
        return (told, lost)
    }
}

/// One walk over the ids held and the ids here, which both ascend. A store without the server's authority has
/// no frontier: it says what it has more of, and nothing of the rest.
struct HoldingsComparer {
    private let transaction: ReadTransaction
    /// By a link's word nothing counts as lost, and no right as revoked.
    private let authority: Authority
    private let query: SubscriptionQuery
    private let held: [(id: DocumentID, vector: VersionVector)]
    private let unmatched: Set<DocumentID>
    private let page: HoldingsPage
    private let maxBytes: Int
    private let maxRows: Int
    private let interruption: (@Sendable () -> Interruption?)?
    private var parts: LostParts
    private let mayWrite: (DocumentKey) -> Bool
    var answer = HoldingsAnswer()
    /// Documents to be named whether they match or not.
    var concerns: Set<DocumentKey> = []
    /// Void stamps of a document that is held with a vector; nil where none are told.
    var voids: ((DocumentKey, _ held: VersionVector) throws -> VersionVector?)?
    private var next = 0
    private var bytes = 0
    private var rows = 0

    init(
        _ transaction: ReadTransaction, _ query: SubscriptionQuery, _ page: HoldingsPage,
        by authority: Authority,
        bytes: Int, rows: Int, mayWrite: @escaping (DocumentKey) -> Bool = { _ in true },
        _ interruption: (@Sendable () -> Interruption?)? = nil
    ) throws {
        self.authority = authority
        self.interruption = interruption
        parts = LostParts(transaction)
        self.mayWrite = mayWrite
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
            guard authority == .server else { continue }
            if !mayRead(key) {
                answer.hidden.append(key)
            } else if !mayWrite(key) {
                add(forgotten: item.vector, of: key)
            } else if let lost = try parts.of(item.vector, here: VersionVector()) {
                add(lost: lost, of: key)
            }
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
            if isHeld, authority == .server { answer.hidden.append(key) }
            return
        }
        let document = try DocumentReader(state)
        let ours = try document.vector()
        if isHeld, try tellVoid(of: key, held: theirs, here: ours) { return }
        if authority == .link, let void = try voids?(key, ours), ours.isQuarantined(by: void) { return }
        // A leave is told; what never was the subscriber's to follow is not its concern.
        var isItsConcern = true
        if !isHeld || authority == .server && unmatched.contains(id) {
            let record = DocumentRecord(id: id, document: document)
            isItsConcern = try document.isLive && query.matches(record, interruption: interruption)
        }
        guard isHeld else {
            if isItsConcern { add(state, of: key) }
            return
        }
        if authority == .server, !mayWrite(key) {
            if !ours.covers(theirs) {
                add(forgotten: theirs.union(ours), of: key)
                if isItsConcern { add(state, of: key) }
                return
            }
        } else if authority == .server, let lost = try parts.of(theirs, here: document) {
            return add(lost: lost, of: key)
        }
        guard isItsConcern else {
            // A deletion concerns everybody who holds the document: it is named, and asked for.
            if !document.isLive || concerns.contains(key), !theirs.covers(ours) {
                answer.candidates.append(DocumentVersion(key: key, vector: ours.encoded()))
            }
            return
        }
        if !theirs.covers(ours) { add(state, of: key) }
    }

    /// Names a document to a subscriber that holds something void of it: it asks then.
    private mutating func tellVoid(
        of key: DocumentKey, held: VersionVector, here ours: VersionVector
    ) throws -> Bool {
        guard let void = try voids?(key, held) else { return false }
        // Another small peer names a quarantined one as if it were empty.
        guard held.isQuarantined(by: void) || authority == .link && held.entries.isEmpty else { return false }
        let isTold = authority == .server || !ours.isQuarantined(by: void)
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

    private mutating func add(forgotten vector: VersionVector, of key: DocumentKey) {
        answer.gone.append(DocumentVersion(key: key, vector: vector.encoded()))
    }

    private mutating func add(lost: VersionVector, of key: DocumentKey) {
        answer.lost.append(DocumentVersion(key: key, vector: lost.encoded()))
    }
}
