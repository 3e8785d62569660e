import CRDT

/// What a transaction did to documents, in the order in which it first touched them.
///
/// Invariant: a document stands in it once. Keys are looked up from the first question on; a load, which only
/// adds, never asks one.
struct PendingDocuments {
    /// What the transaction did to a document.
    enum Written: Sendable {
        case edited(DocumentEditor.Pending)
        /// Inserted where there was none, and not edited since; and the row it is in, nil once it is in none.
        case inserted(FreshDocument, DocumentPlace?)
        /// Its encoded delta, when the transaction has ended.
        case delta(EncodedDelta)

        var edits: DocumentEditor.Pending {
            switch self {
            case .edited(let pending): pending
            case .inserted(let document, _): document.pending
            case .delta: preconditionFailure("nothing is edited after the end")
            }
        }

        /// The same at the end of the transaction; nil when nothing is left of the edits.
        func encoded(_ stamp: Stamp) -> Written? {
            guard case .edited(let pending) = self else { return self }
            return pending.delta(stamp: stamp).map { .delta($0.encoded()) }
        }
    }

    /// A moment that can be gone back to.
    struct Mark {
        fileprivate let count: Int
        fileprivate let replaced: Int
    }

    /// All of them.
    private(set) var all: [WrittenOperation.Change] = []
    /// Whether nothing was done but to insert.
    private(set) var areAllInserted = true
    /// Where the first `placed` of them stand.
    private var places: [DocumentKey: Int] = [:]
    private var placed = 0
    /// What was written over since the first open mark, in order.
    private var replaced: [(place: Int, written: Written)] = []
    private var openMarks = 0

    var isEmpty: Bool { all.isEmpty }

    /// What was done to a document.
    subscript(key: DocumentKey) -> Written? {
        mutating get { place(of: key).map { all[$0].written } }
    }

    /// What was done to a document that is not in it.
    mutating func append(_ key: DocumentKey, _ written: Written) {
        if case .inserted = written {} else { areAllInserted = false }
        all.append((key, written))
    }

    /// The row of a document goes.
    mutating func leaveRow(of key: DocumentKey) {
        guard case .inserted(let document, _)? = self[key] else { return }
        update(key, .inserted(document, nil))
    }

    /// What was done to a document, all told.
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

    /// Ends a part whose changes stay.
    mutating func end(_ mark: Mark) {
        openMarks -= 1
        if openMarks == 0 { replaced = [] }
    }

    /// Ends a part whose changes are undone.
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
