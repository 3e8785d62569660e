import CRDT

/// The beginning of a catch-up's page.
public enum PageStart: Sendable, Equatable {
    /// At a subscriber's cursor; to be checked against the log and its reap floor.
    case cursor(LogPosition)
    /// At the position up to which a subscriber has staged pages; to be checked like a cursor.
    case resumed(LogPosition, namesAfter: Offset)
    /// After an offset of this log. A document that does not match is named to the subscriber if its last
    /// change is after `namesAfter`: the subscriber may hold an earlier state that did match.
    case offset(Offset, namesAfter: Offset)
}

/// One page of current states after an offset.
public struct CatchUpPage: Sendable {
    /// Full states of matching documents.
    public var documents: [DocumentUpdate]
    /// Changed documents that do not match.
    public var candidates: [DocumentVersion]
    /// The page has visited everything that last changed up to this offset.
    public var offset: Offset
    /// The log's position at that offset, if known: a later session may continue there.
    public var reached: LogPosition?
    /// The materialization's head in the page's snapshot when the page reached it, else nil.
    public var head: LogPosition?
    /// The materialization's position in the page's snapshot.
    public var asOf: LogPosition?
    /// Changed documents that reaping has reduced to the names of their seeds: the seeds are to be forgotten.
    public var gone: [DocumentVersion] = []

    /// A page of these parts.
    public init(
        documents: [DocumentUpdate], candidates: [DocumentVersion], offset: Offset, head: LogPosition?,
        reached: LogPosition? = nil, asOf: LogPosition? = nil
    ) {
        self.asOf = asOf
        self.documents = documents
        self.candidates = candidates
        self.offset = offset
        self.head = head
        self.reached = reached
    }
}

/// A page of a store's holdings, in the order of their ids: of a subscription, of its collection, or of the
/// whole store.
public struct HoldingsPage: Sendable {
    /// The holdings, ascending by id.
    public var candidates: [DocumentVersion]
    /// The page begins after this id.
    public var after: DocumentID?
    /// True if the page has no end; else it ends with the last document.
    public var isLast: Bool
    /// Approximate bytes of documents in one answer.
    public var maxBytes = Int.max

    /// A page of these documents.
    public init(candidates: [DocumentVersion], after: DocumentID? = nil, isLast: Bool) {
        self.candidates = candidates
        self.after = after
        self.isLast = isLast
    }
}

/// The server's answer to a page of a subscriber's holdings (rules 13, 14 and 18).
public struct HoldingsAnswer: Sendable {
    /// Full states of matching documents that the subscriber lacks or holds in an incomplete state.
    public var documents: [DocumentUpdate] = []
    /// Held documents that the subscriber is to forget, before it takes their states: they show what was
    /// deleted and reaped, and it may not write them. With a vector that covers the copy.
    public var gone: [DocumentVersion] = []
    /// Held documents of which something is void: the subscriber asks for them.
    public var candidates: [DocumentVersion] = []
    /// Held documents that the subscriber may not read.
    public var hidden: [DocumentKey] = []
    /// Held documents of which something was deleted and reaped here, with what is lost: the answer counts
    /// once they are deleted anew (rule 14).
    public var lost: [DocumentVersion] = []
    /// The id up to which this answer reaches; nil for the whole page.
    public var through: DocumentID?
    /// The materialization's position in the comparison's snapshot.
    public var asOf: LogPosition?

    /// True if it tells nothing.
    public var isEmpty: Bool {
        documents.isEmpty && gone.isEmpty && candidates.isEmpty && hidden.isEmpty
    }

    /// An empty answer.
    public init() {}
}
