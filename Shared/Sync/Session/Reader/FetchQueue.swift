import CRDT
import Exchange

/// Documents whose states are asked for (`want`), each from a moment on: a part of the reader.
///
/// Three sources ask, in this order: a repair, the head of the stream that lacks a base, and the store, for
/// documents that it wants from earlier on. One request is under way at a time, so that unasked answers are
/// bounded; documents without room in an answer go back to their source.
struct FetchQueue: Sendable {
    private enum Request: Sendable {
        case none
        /// The store names its versions of these documents first.
        case naming([DocumentKey])
        /// Sent, for the stream or the store.
        case sent
        /// Sent, for a repair: the states replace the store's, so no versions are named.
        case sentForRepair
    }

    private var request = Request.none
    /// Documents of the request under way whose states have not come.
    private var asked: Set<DocumentKey> = []
    /// Asked documents whose answer may be older than the head of the stream: they are asked for again.
    private var stale: Set<DocumentKey> = []
    /// Purges of documents whose states are still to come.
    private var purges: [DocumentKey: [UInt8]] = [:]
    /// Void stamps of documents whose states are still to come.
    private var voids: [DocumentKey: [UInt8]] = [:]
    /// Bytes that have come for the request under way.
    private var answerBytes = 0
    private var forRepair: [DocumentKey] = []
    private var forHead: [DocumentKey] = []
    /// In order, each once.
    private var forStore: [DocumentKey] = []
    private var isForStore: Set<DocumentKey> = []

    // MARK: What is to be asked for

    mutating func wantForRepair(_ keys: [DocumentKey]) { forRepair = keys }

    /// The head of the stream needs these.
    mutating func wantForHead(_ keys: [DocumentKey]) {
        stale = asked.intersection(keys)
        forHead += keys
    }

    mutating func wantForStore(_ keys: [DocumentKey]) {
        for key in keys where isForStore.insert(key).inserted { forStore.append(key) }
    }

    /// A repair has ended.
    mutating func forgetRepair() {
        forRepair = []
        if case .sentForRepair = request { request = .none }
    }

    // MARK: Requests

    /// Begins the next request if none is under way. Documents for the store wait while an answer is not
    /// stored: it takes no credit.
    mutating func askNext(isAnswerWaiting: Bool, _ flow: inout FlowControl) {
        guard asked.isEmpty else { return }
        request = .none
        if !forRepair.isEmpty {
            let keys = Array(forRepair.prefix(Limits.wantedDocuments))
            forRepair.removeFirst(keys.count)
            asked = Set(keys)
            answerBytes = 0
            request = .sentForRepair
            return flow.send(.want(keys))
        }
        var keys: [DocumentKey] = []
        if !forHead.isEmpty {
            keys = Array(forHead.prefix(Limits.wantedDocuments))
            forHead.removeFirst(keys.count)
        } else if !forStore.isEmpty, !isAnswerWaiting {
            keys = Array(forStore.prefix(Limits.wantedDocuments))
            forStore.removeFirst(keys.count)
            isForStore.subtract(keys)
        }
        guard !keys.isEmpty else { return }
        asked = Set(keys)
        answerBytes = 0
        request = .naming(keys)
        flow.perform(.readVectors(keys))
    }

    /// The store has named its versions. If they are many, only some documents are asked for now.
    mutating func named(
        _ versions: [DocumentVersion], missing: Set<DocumentKey>, _ flow: inout FlowControl
    ) {
        guard case .naming(let keys) = request else {
            preconditionFailure("no versions were asked for; the request is \(request)")
        }
        // A version that would take a want for itself is left out: its document is asked for as if absent.
        let named = Dictionary(versions.map { ($0.key, $0) }) { $1 }.filter {
            $0.value.size <= Limits.wantBytes
        }
        var size = 0
        let now = keys.prefix { key in
            size += key.size + (named[key]?.vector.count ?? 0)
            return size <= 2 * Limits.wantBytes
        }
        let later = keys.dropFirst(now.count)
        request = .sent
        asked.subtract(later)
        askLater(Array(later), missing)
        flow.send(.want(Array(now), held: now.compactMap { named[$0] }))
    }

    private mutating func askLater(_ keys: [DocumentKey], _ missing: Set<DocumentKey>) {
        for key in keys {
            // A stale document is asked for again anyway.
            if stale.remove(key) != nil { continue }
            if missing.contains(key) { forHead.append(key) } else { wantForStore([key]) }
        }
    }

    // MARK: Answers

    /// A document's part of an answer.
    struct Answered: Sendable {
        let key: DocumentKey
        /// Its void stamps, its purge, and its state.
        let updates: [DocumentUpdate]
        /// True if it was asked for before the head of the stream needed it.
        let isStale: Bool
    }

    enum Arrived: Sendable {
        case forRepair(isComplete: Bool)
        /// `absent` are documents that the server does not have, or may not say so.
        case answers([Answered], absent: [DocumentKey])
    }

    /// States have come; `missing` are the documents that the head of the stream waits for.
    mutating func received(
        _ states: [(key: DocumentKey, state: EncodedState?)], isPart: Bool, gone: [DocumentVersion],
        size: Int, missing: Set<DocumentKey>
    ) throws(SyncError) -> Arrived {
        let isNaming = if case .naming = request { true } else { false }
        for item in gone {
            guard !isNaming, asked.contains(item.key) else {
                throw .unexpected("what is gone of a document that was not asked for")
            }
            guard (try? VersionVector(decoding: item.vector)) != nil,
                item.void.map({ (try? VersionVector(decoding: $0)) != nil }) ?? true
            else {
                throw SyncError(.malformedFrame, "the vector of what is gone does not decode")
            }
        }
        for item in states {
            guard !isNaming, asked.remove(item.key) != nil else {
                throw .unexpected("a state that was not asked for")
            }
        }
        answerBytes += size
        guard answerBytes <= Limits.answerBytes + 2 * Limits.messageBytes else {
            throw SyncError(.creditExceeded, "an answer of \(answerBytes) bytes is not bounded")
        }
        if isPart, !isNaming { askAgainLater(missing) }
        if case .sentForRepair = request {
            return .forRepair(isComplete: forRepair.isEmpty && asked.isEmpty)
        }
        for item in gone {
            if let void = item.void { voids[item.key] = void }
            if item.void == nil || item.tellsGone { purges[item.key] = item.vector }
        }
        let absent = states.filter {
            $0.state == nil && purges[$0.key] == nil && voids[$0.key] == nil
        }.map(\.key)
        return .answers(states.map { answered($0.key, $0.state) }, absent: absent)
    }

    private mutating func answered(_ key: DocumentKey, _ state: EncodedState?) -> Answered {
        let contents = [
            voids.removeValue(forKey: key).map(DocumentUpdate.Content.void),
            purges.removeValue(forKey: key).map(DocumentUpdate.Content.gone),
            state.map(DocumentUpdate.Content.state),
        ]
        return Answered(
            key: key, updates: contents.compactMap { $0 }.map { DocumentUpdate(key: key, content: $0) },
            isStale: stale.remove(key) != nil)
    }

    /// The answer is as large as one may be: the rest of the request goes back to its source.
    private mutating func askAgainLater(_ missing: Set<DocumentKey>) {
        let rest = asked.sorted { ($0.collection, $0.id) < ($1.collection, $1.id) }
        asked = []
        if case .sentForRepair = request { forRepair += rest } else { askLater(rest, missing) }
    }

    // MARK: Invariants

    var isNaming: Bool { if case .naming = request { true } else { false } }

    func checkInvariants() {
        precondition(asked.count <= Limits.wantedDocuments, "asks for \(asked.count) documents at once")
        precondition(stale.isSubset(of: asked), "a document is stale that was not asked for")
        precondition(Set(forStore) == isForStore, "documents for the store, each once")
    }
}
