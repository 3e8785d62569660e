import CRDT
import Exchange

/// The versions of documents that the other small peer has or is about to have, because it has sent them or
/// was sent them: what would not change them is not sent again. Echo is never suppressed by author: a store
/// that was put back lacks its own writes.
///
/// A version is the join of the vectors that went either way: the other side merges what it is sent, in
/// order, for as long as the session lasts. Bounds: `Limits.knownVersions`, of `Limits.knownActors` at most;
/// the oldest ones go. Then a change may be sent once too often, and changes nothing.
struct EchoFilter: Sendable {
    private var versions: [DocumentKey: VersionVector] = [:]
    /// Its documents, each once, in the order in which they came.
    private var order = Queue<DocumentKey>()
    /// Documents of which nothing is known any more; all if there are too many.
    private var untracked: Set<DocumentKey> = []
    private var isOff = false

    /// The other side has sent these.
    mutating func received(_ updates: [DocumentUpdate]) {
        for update in updates {
            switch update.content {
            case .state(let state): if let vector = state.vector { note(update.key, vector) }
            case .delta(let stamp, _):
                note(update.key, VersionVector([.init(actor: stamp.actor, time: stamp.time)]))
            case .gone, .void: break
            }
        }
    }

    /// Returns whether the other side has the document as this change leaves it.
    func holds(_ change: FoldedOperation.Change) -> Bool {
        guard !isOff, let known = versions[change.key], let after = change.after.vector else { return false }
        return known.covers(after)
    }

    /// This side sends a change.
    mutating func sent(_ change: FoldedOperation.Change) {
        if let after = change.after.vector { note(change.key, after) }
    }

    /// Takes out of a page what the other side has.
    func leaveOut(of page: inout Frame.CatchUp) {
        guard !versions.isEmpty, !isOff else { return }
        page.documents.removeAll { update in
            guard case .state(let state) = update.content, let known = versions[update.key] else {
                return false
            }
            return state.vector.map { known.covers($0) } ?? false
        }
        page.candidates.removeAll { candidate in
            guard candidate.void == nil, let known = versions[candidate.key],
                let vector = try? VersionVector(decoding: candidate.vector)
            else { return false }
            return known.covers(vector)
        }
    }

    /// Something of a document is void: its vector says less than before.
    mutating func forget(_ change: FoldedOperation.Change) {
        if change.void != nil { untrack(change.key) }
    }

    /// The other side may lose something of a document without a word: nothing is known of it for the rest of
    /// the session.
    mutating func untrack(_ key: DocumentKey) {
        if versions[key] != nil { versions[key] = VersionVector() }
        if untracked.count < Limits.knownVersions { untracked.insert(key) } else { isOff = true }
    }

    /// The other side may have evicted documents of a collection.
    mutating func forget(_ collection: CollectionName) {
        versions = versions.filter { $0.key.collection != collection }
        var kept = Queue<DocumentKey>()
        for key in order.items where key.collection != collection { kept.append(key) }
        order = kept
    }

    private mutating func note(_ key: DocumentKey, _ vector: VersionVector) {
        guard !isOff, !untracked.contains(key) else { return }
        let known = versions[key]?.union(vector) ?? vector
        let isNew = versions[key] == nil
        // An empty one covers nothing: it is not worth its bytes.
        versions[key] = known.entries.count > Limits.knownActors ? VersionVector() : known
        guard isNew else { return }
        order.append(key)
        if order.count > Limits.knownVersions { versions[order.removeFirst()] = nil }
    }

    func checkInvariants() {
        precondition(order.count == versions.count, "each known document has its place in the order")
        precondition(order.count <= Limits.knownVersions, "\(order.count) versions are remembered")
    }
}

extension EncodedState {
    /// The vector of the document; nil for bytes that are no document.
    fileprivate var vector: VersionVector? {
        withUnsafeBytes { bytes in
            guard bytes.count > 0 else { return nil }
            return try? DocumentReader(bytes).vector()
        }
    }

    /// The same, encoded.
    var encodedVector: [UInt8]? { vector?.encoded() }
}

extension Frame {
    /// The documents that the frame carries.
    var documents: [DocumentUpdate] {
        switch self {
        case .catchUp(let page): page.documents
        case .operations(let operations): operations.updates
        case .states(let states, _, _, _):
            states.compactMap { item in
                item.state.map { DocumentUpdate(key: item.key, content: .state($0)) }
            }
        default: []
        }
    }
}
