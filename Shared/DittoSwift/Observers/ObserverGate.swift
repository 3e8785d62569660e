import CRDT
import DQL

/// Which changes of documents can matter to an observer: those of documents that fulfil its condition, or
/// that were among those that did when its query ran last.
///
/// Documents are 64-bit hashes of their ids: two that fall together cost a superfluous evaluation at most.
/// While the query runs its documents are not known: what changes meanwhile is remembered in `open` and
/// compared with them when they are.
struct ObserverGate: Sendable {
    let query: ObservedQuery
    /// Sorted; nil while the query runs, and where there are too many.
    private var documents: [UInt64]?
    private var open: [UInt64]? = []

    init(_ query: ObservedQuery) { self.query = query }

    /// What stands for a document.
    static func hash(_ id: DocumentID) -> UInt64 { hash64(id.bytes) }

    /// What stands for the document that a row is; nil for a row without an id.
    static func hash(_ row: KeptRow) -> UInt64? {
        if let hash = row.withDocument({ id, _ in hash64(id) }) { return hash }
        return row.decoded["_id"].flatMap { try? DocumentID($0) }.map(hash)
    }

    /// Whether a change matters, as far as is known. `matches`: the document fulfils the condition now.
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

    /// The query has run and read these documents, sorted (nil: too many). Whether one that has changed
    /// meanwhile is among them.
    mutating func queryEnded(with found: [UInt64]?) -> Bool {
        let documents = found
        defer {
            self.documents = documents
            // Nothing is remembered from now on: without the documents every change matters.
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
