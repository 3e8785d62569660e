import CRDT
import DQL

/// Filters the changes that matter to an observer: those of documents that fulfil its condition now, or that
/// were in the result when its query ran last.
///
/// Documents are 64-bit hashes of their ids. A collision costs at most a superfluous evaluation. While the
/// query runs its documents are unknown, so changes are remembered in `open` and compared with the documents
/// after the run.
struct ObserverGate: Sendable {
    let query: ObservedQuery
    /// Sorted; nil while the query runs, and when there are too many.
    private var documents: [UInt64]?
    private var open: [UInt64]? = []

    init(_ query: ObservedQuery) { self.query = query }

    /// The hash of a document's id.
    static func hash(_ id: DocumentID) -> UInt64 { hash64(id.bytes) }

    /// The hash of a row's document id; nil for a row without an id.
    static func hash(_ row: KeptRow) -> UInt64? {
        if let hash = row.withDocument({ id, _ in hash64(id) }) { return hash }
        return row.decoded["_id"].flatMap { try? DocumentID($0) }.map(hash)
    }

    /// Returns whether a change matters, as far as is known. `matches`: the document fulfils the condition
    /// now.
    mutating func matters(_ document: UInt64, matches: Bool) -> Bool {
        if matches { return true }
        if let documents { return Self.contains(documents, document) }
        guard let known = open, known.count < Limits.openDocuments else {
            open = nil
            return true
        }
        open = known + [document]
        return false
    }

    /// The query has run and read these documents, sorted (nil: too many). Returns whether one of them was
    /// changed meanwhile.
    mutating func queryEnded(with found: [UInt64]?) -> Bool {
        let documents = found
        defer {
            self.documents = documents
            // Without the documents every change matters, so nothing is remembered from now on.
            open = documents == nil ? nil : []
        }
        guard let open, let documents else { return open.map { !$0.isEmpty } ?? false }
        return open.contains { Self.contains(documents, $0) }
    }

    private static func contains(_ sorted: [UInt64], _ wanted: UInt64) -> Bool {
        var low = 0
        var high = sorted.count
        while low < high {
            let middle = (low + high) / 2
            if sorted[middle] == wanted { return true }
            if sorted[middle] < wanted { low = middle + 1 } else { high = middle }
        }
        return false
    }
}
