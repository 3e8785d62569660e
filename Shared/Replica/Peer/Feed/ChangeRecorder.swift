import CRDT

/// Notes, within one transaction, what its documents were before, and the delta that changed each: other
/// small peers are told deltas, and asked about documents that were not here.
///
/// Safe although unchecked: only the transaction that has the write lock uses it. Bounds: beyond
/// `ReplicaLimits.recordedDocuments` nothing is noted, and the whole commit is told as states.
final class ChangeRecorder: @unchecked Sendable {
    struct Item {
        /// The state before the transaction; nil if the document was not here.
        let before: EncodedState?
        /// The one delta that made all of the change; nil if it is merged, or made of several.
        var delta: (stamp: Stamp, bytes: EncodedDelta)?
    }

    /// The commit after which nobody else may have a change; nil where there is a server to have it.
    let untakenAfter: UInt64?
    private(set) var items: [DocumentKey: Item] = [:]
    /// Void stamps, by document: the commit tells them to links.
    private(set) var void: [DocumentKey: VersionVector] = [:]
    /// Documents that lost something without anybody's removal: every feed is asked about them.
    private(set) var replaced: Set<DocumentKey> = []

    /// More of a document is void, or links are told again what is; `stamps` is all of it.
    func noteVoid(_ key: DocumentKey, _ stamps: VersionVector) {
        if stamps.isEmpty {
            void[key] = nil
        } else if void[key] != nil || void.count < ReplicaLimits.recordedDocuments {
            void[key] = stamps
        }
    }

    /// A document is replaced, or it is not known any more whether it has everything.
    func replace(_ key: DocumentKey) { replaced.insert(key) }

    init(untakenAfter: UInt64? = nil) { self.untakenAfter = untakenAfter }

    /// A document changes from a state, nil if it was not here, by a delta or by merging.
    func note(_ key: DocumentKey, before: EncodedState?, delta: (stamp: Stamp, bytes: EncodedDelta)? = nil) {
        if items[key] != nil {
            items[key]?.delta = nil
        } else if items.count < ReplicaLimits.recordedDocuments {
            items[key] = Item(before: before, delta: delta)
        }
    }

    /// The transaction ends, and this is all that it has done to a document.
    func conclude(_ key: DocumentKey, delta: (stamp: Stamp, bytes: EncodedDelta)) {
        items[key]?.delta = delta
    }
}
