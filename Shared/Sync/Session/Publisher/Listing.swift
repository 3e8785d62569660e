import CRDT
import Exchange

/// A subscriber names its holdings of a subscription, in the order of ids, and is told page by page what it
/// lacks and what is purged (rules 13, 14 and 18); then it catches up from where the stream stood when it was
/// asked, so that what it writes meanwhile is named to it too.
///
/// Bounds: pages are data and consume credit; one is compared at a time.
struct Listing: Sendable {
    private enum State: Sendable {
        case valid
        /// The rights have changed: its pages are dropped, and it is asked for again.
        case discarded
    }

    /// The stream's position when the subscriber was asked: later changes follow in pages of changes.
    let start: LogPosition
    /// The id up to which the subscriber was answered.
    private(set) var after: DocumentID?
    /// True if the last page has come.
    private(set) var isListed = false
    private var state = State.valid
    /// Pages that wait, the first one being compared; ids that were answered are gone from it.
    private var pages: [(page: HoldingsPage, size: Int)] = []
    /// The last id that was listed.
    private var last: DocumentID?

    init(start: LogPosition, after: DocumentID? = nil) {
        self.start = start
        self.after = after
        last = after
    }

    /// True if its pages are dropped.
    var isDiscarded: Bool { if case .discarded = state { true } else { false } }

    /// The page to be compared next.
    var next: HoldingsPage? {
        guard case .valid = state, var page = pages.first?.page else { return nil }
        page.after = after
        return page
    }

    /// The rights have changed.
    mutating func discard() { state = .discarded }

    /// Drops the pages that wait, and gives their credit back.
    mutating func dropPages(_ flow: inout FlowControl) {
        returnCredit(&flow)
        pages = []
    }

    func returnCredit(_ flow: inout FlowControl) {
        for item in pages { flow.returnCredit(item.size) }
    }

    /// A page has come.
    mutating func take(
        _ page: HoldingsPage, _ size: Int, of collection: CollectionName
    ) throws(SyncError) {
        try check(page, of: collection)
        isListed = page.isLast
        last = page.candidates.last?.key.id ?? last
        pages.append((page, size))
    }

    private func check(_ page: HoldingsPage, of collection: CollectionName) throws(SyncError) {
        guard page.candidates.count <= Limits.heldDocuments, page.isLast || !page.candidates.isEmpty else {
            throw SyncError(.malformedFrame, "a page names no document or too many")
        }
        var last = last
        for candidate in page.candidates {
            guard candidate.key.collection == collection, last.map({ $0 < candidate.key.id }) ?? true
            else { throw SyncError(.malformedFrame, "a page is of another collection or not in order") }
            guard (try? VersionVector(decoding: candidate.vector)) != nil else {
                throw SyncError(.malformedFrame, "the vector of a document does not decode")
            }
            last = candidate.key.id
        }
    }

    /// The first page was answered, up to an id or whole. A page that was not answered whole goes on after
    /// that id.
    /// - Returns: whether it was the last part of the last page.
    mutating func answered(through id: DocumentID?, _ flow: inout FlowControl) -> Bool {
        guard let first = pages.first else { preconditionFailure("no page of holdings was compared") }
        after = id ?? first.page.candidates.last?.key.id ?? after
        if let id {
            pages[0].page.candidates.removeAll { $0.key.id <= id }
            return false
        }
        pages.removeFirst()
        flow.returnCredit(first.size)
        return first.page.isLast
    }
}
