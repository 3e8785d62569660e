import CRDT

/// The changes of a transaction to documents, in the order of first touch.
///
/// Invariant: a document is in it once. Keys are indexed from the first lookup on; a load, which only adds,
/// never looks one up.
struct PendingDocuments {
    /// The change to a document.
    enum Written: Sendable {
        case edited(DocumentEditor.Pending)
        /// Inserted as a new document, and not edited since; with its row, nil once the row is gone.
        case inserted(FreshDocument, DocumentPlace?)
        /// The encoded delta, at the end of the transaction.
        case delta(EncodedDelta)

        var edits: DocumentEditor.Pending {
            switch self {
            case .edited(let pending): pending
            case .inserted(let document, _): document.pending
            case .delta: preconditionFailure("nothing is edited after the end")
            }
        }

        /// The same at the end of the transaction; nil if the edits had no net effect.
        func encoded(_ stamp: Stamp) -> Written? {
            guard case .edited(let pending) = self else { return self }
            return pending.delta(stamp: stamp).map { .delta($0.encoded()) }
        }
    }

    /// A state that the changes can be reset to.
    struct Mark {
        fileprivate let count: Int
        fileprivate let replaced: Int
    }

    /// All changes.
    private(set) var all: [WrittenOperation.Change] = []
    /// True if documents were only inserted.
    private(set) var areAllInserted = true
    /// The indexes of the first `placed` changes.
    private var places: [DocumentKey: Int] = [:]
    private var placed = 0
    /// Changes overwritten since the first open mark, in order.
    private var replaced: [(place: Int, written: Written)] = []
    private var openMarks = 0

    var isEmpty: Bool { all.isEmpty }

    /// The change to a document.
    subscript(key: DocumentKey) -> Written? {
        mutating get { place(of: key).map { all[$0].written } }
    }

    /// Adds the change to a document that is not in it.
    mutating func append(_ key: DocumentKey, _ written: Written) {
        if case .inserted = written {} else { areAllInserted = false }
        all.append((key, written))
    }

    /// Records that a document's row was deleted.
    mutating func leaveRow(of key: DocumentKey) {
        guard case .inserted(let document, _)? = self[key] else { return }
        update(key, .inserted(document, nil))
    }

    /// Sets the complete change to a document.
    mutating func update(_ key: DocumentKey, _ written: Written) {
        guard let place = place(of: key) else { return append(key, written) }
        if case .inserted = written {} else { areAllInserted = false }
        if openMarks > 0 { replaced.append((place, all[place].written)) }
        all[place].written = written
    }

    /// Begins a part. Parts end in the reverse order of their beginnings, by `end` or `undo`.
    mutating func begin() -> Mark {
        openMarks += 1
        return Mark(count: all.count, replaced: replaced.count)
    }

    /// Ends a part and keeps its changes.
    mutating func end(_ mark: Mark) {
        openMarks -= 1
        if openMarks == 0 { replaced = [] }
    }

    /// Ends a part and undoes its changes.
    mutating func undo(to mark: Mark) {
        while replaced.count > mark.replaced {
            let (place, written) = replaced.removeLast()
            all[place].written = written
        }
        if placed > mark.count {
            for (key, _) in all[mark.count..<placed] { places[key] = nil }
            placed = mark.count
        }
        all.removeSubrange(mark.count...)
        end(mark)
    }

    private mutating func place(of key: DocumentKey) -> Int? {
        while placed < all.count {
            places[all[placed].key] = placed
            placed += 1
        }
        return places[key]
    }
}
