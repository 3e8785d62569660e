import CRDT
import DQL
import Exchange
import Replica
import Sync

/// Reads one page of a subscription's catch-up, in one short snapshot: a server's from its materialization, a
/// small peer's from its own store.
///
/// Documents come in the order of their last change, and a page ends only between offsets: what changes
/// while pages are read moves behind them and is met again, so nothing is missed and nothing pins a
/// snapshot.
package struct CatchUpReader {
    /// The size of a page.
    package struct Bounds: Sendable {
        let bytes: Int
        let documents: Int
        let candidates: Int

        /// About how many bytes of documents a page holds, how many it visits, and how many it names.
        package init(bytes: Int, documents: Int, candidates: Int) {
            self.bytes = bytes
            self.documents = documents
            self.candidates = candidates
        }
    }

    let query: SubscriptionQuery
    let access: ReadAccess
    /// Documents that do not match are named as candidates when they changed behind this offset.
    let namesAfter: Offset
    private var documents: [DocumentUpdate] = []
    private var candidates: [DocumentVersion] = []
    private var gone: [DocumentVersion] = []
    private var size = 0
    private var visited = 0
    private let bounds: Bounds
    private let interruption: (@Sendable () -> Interruption?)?
    private var last: Offset

    /// Reads the page after an offset; `head` is the position that the snapshot stands for. The page ends
    /// with offset `end` at the latest.
    package static func page(
        in transaction: ReadTransaction, at head: LogPosition, query: SubscriptionQuery, access: ReadAccess,
        after offset: Offset, namesAfter: Offset, through end: Offset? = nil, bounds: Bounds,
        interruption: (@Sendable () -> Interruption?)?
    ) throws -> CatchUpPage {
        var reader = CatchUpReader(
            query: query, access: access, namesAfter: namesAfter, after: offset, bounds, interruption)
        var isComplete = true
        try transaction.changes(in: query.collection, after: offset.rawValue) { document in
            if let end, document.position > end.rawValue { return false }
            guard !reader.isFull || document.position == reader.last.rawValue else {
                isComplete = false
                return false
            }
            try reader.visit(document)
            return true
        }
        var page = CatchUpPage(
            documents: reader.documents, candidates: reader.candidates,
            offset: isComplete ? end ?? head.offset : reader.last,
            head: isComplete && end == nil ? head : nil, asOf: head)
        page.gone = reader.gone
        return page
    }

    private init(
        query: SubscriptionQuery, access: ReadAccess, namesAfter: Offset, after offset: Offset,
        _ bounds: Bounds, _ interruption: (@Sendable () -> Interruption?)?
    ) {
        self.interruption = interruption
        self.bounds = bounds
        self.query = query
        self.access = access
        self.namesAfter = namesAfter
        last = offset
    }

    private var isFull: Bool {
        visited >= bounds.documents || size >= bounds.bytes
            || candidates.count + gone.count >= bounds.candidates
    }

    private mutating func visit(_ changed: ReadTransaction.ChangedDocument) throws {
        let document = try DocumentReader(changed.state)
        let key = DocumentKey(collection: query.collection, id: changed.id)
        visited += 1
        last = Offset(changed.position)
        guard access.allows(key) else { return }
        if let reason = interruption?() { throw DQLError.interrupted(reason) }
        let record = DocumentRecord(id: changed.id, document: document)
        if try document.isLive && query.matches(record, interruption: interruption) {
            documents.append(DocumentUpdate(key: key, content: .state(EncodedState([UInt8](changed.state)))))
            size += changed.state.count
        } else if changed.position > namesAfter.rawValue {
            let item = DocumentVersion(key: key, vector: try document.vector().encoded())
            // A holder of the living seeds holds them under this very vector.
            if try document.isRestOfSeeds() { gone.append(item) } else { candidates.append(item) }
        }
    }
}
