import CRDT
import DQL

/// Serves subscriptions: brings each up to date with current states, then sends the log's operations in
/// order, filtered.
///
/// Invariants: a subscription counts for operations behind `liveFrom` only, so nothing is sent twice and
/// nothing is skipped; operations leave in log order; no data frame is sent without credit. What the
/// receiver has not taken stays in the log: a slow receiver costs a position, not a queue.
struct Publisher: Sendable {
    struct Subscription: Sendable {
        let id: UInt64
        let query: SubscriptionQuery
        /// What changed behind this offset and does not match is named to the subscriber.
        var namesAfter: UInt64
        /// Behind which offset the live stream speaks for it; nil while it is catching up.
        var liveFrom: UInt64?
        /// Where the next page begins; nil when none is needed or one is being read.
        var nextPage: PageStart?
    }

    var subscriptions: [Subscription] = []
    /// The offset up to which the live stream was sent.
    var position: UInt64 = 0
    /// Whether an answer to `awaitOperations` is outstanding.
    var isWaiting = true
    /// Whether a page is being read; one at a time, so that a page's size is all that may wait for credit.
    var isReadingPage = false
    /// Documents whose states were asked for and not read, in order; their number is bounded.
    var isReadingStates = false
    var wanted: [DocumentKey] = []
    /// The greatest subscription id so far.
    var lastID: UInt64?
}

extension Session {
    mutating func serve(_ request: Frame.Subscribe) throws(SyncError) {
        guard publisher.subscriptions.count < Limits.subscriptions else {
            return refuse(
                request.id, SyncError(.invalidSubscription, "too many subscriptions in one session"))
        }
        guard publisher.lastID.map({ request.id > $0 }) ?? true else {
            throw SyncError(.malformedFrame, "the ids of subscriptions ascend")
        }
        publisher.lastID = request.id
        guard case .object(let arguments) = request.arguments else {
            throw SyncError(.malformedFrame, "a subscription's arguments are no object")
        }
        let query: SubscriptionQuery
        do {
            query = try SubscriptionQuery(
                statement: request.statement, arguments: arguments, isRestricted: false)
        } catch {
            return refuse(request.id, SyncError(.invalidSubscription, "\(error)"))
        }
        guard configuration.allowsReading(query.collection) else {
            return refuse(request.id, SyncError(.readNotGranted, "no right to read \(query.collection)"))
        }
        // One without a cursor begins at the head: only what changes from now on can leave it.
        let namesAfter = request.cursor == nil ? publisher.position : 0
        let start = request.cursor.map(PageStart.cursor) ?? .offset(0, namesAfter: namesAfter)
        publisher.subscriptions.append(
            Publisher.Subscription(
                id: request.id, query: query, namesAfter: namesAfter, nextPage: start))
        resumePublishing()
    }

    private mutating func refuse(_ id: UInt64, _ error: SyncError) {
        send(.subscriptionRefused(id: id, error))
    }

    mutating func stopServing(_ id: UInt64) { publisher.subscriptions.removeAll { $0.id == id } }

    /// Asks for the next page and the next operations when there is credit for them.
    mutating func resumePublishing() {
        guard canSendData, case .server = configuration.role else { return }
        if !publisher.isReadingPage,
            let index = publisher.subscriptions.firstIndex(where: { $0.nextPage != nil }),
            let start = publisher.subscriptions[index].nextPage
        {
            publisher.isReadingPage = true
            publisher.subscriptions[index].nextPage = nil
            let subscription = publisher.subscriptions[index]
            actions.append(.readPage(subscription: subscription.id, query: subscription.query, after: start))
        }
        if !publisher.isWaiting {
            publisher.isWaiting = true
            actions.append(.awaitOperations(after: publisher.position))
        }
    }

    mutating func publish(_ page: CatchUpPage, for id: UInt64) {
        publisher.isReadingPage = false
        defer { resumePublishing() }
        guard let index = publisher.subscriptions.firstIndex(where: { $0.id == id }) else { return }
        // The live stream may have moved while the page was read: then what lies between is one more page.
        let end = page.head.flatMap { $0.offset >= publisher.position ? $0 : nil }
        if let end {
            publisher.subscriptions[index].liveFrom = end.offset
        } else {
            let namesAfter = publisher.subscriptions[index].namesAfter
            publisher.subscriptions[index].nextPage = .offset(page.offset, namesAfter: namesAfter)
        }
        sendPage(page, for: id, end: end)
    }

    /// A page in frames of about `batchBytes`; only the last carries the end.
    private mutating func sendPage(_ page: CatchUpPage, for id: UInt64, end: LogPosition?) {
        var frame = Frame.CatchUp(id: id, documents: [], candidates: [], end: nil)
        var size = 0
        let limit = configuration.batchBytes
        func isFull(_ next: Int) -> Bool { size > 0 && size + next > limit }
        for document in page.documents {
            if isFull(document.size) {
                send(.catchUp(frame))
                frame.documents = []
                size = 0
            }
            frame.documents.append(document)
            size += document.size
        }
        for candidate in page.candidates {
            if isFull(candidate.size) {
                send(.catchUp(frame))
                frame.documents = []
                frame.candidates = []
                size = 0
            }
            frame.candidates.append(candidate)
            size += candidate.size
        }
        frame.end = end
        send(.catchUp(frame))
    }

    mutating func publish(_ operations: [LiveOperation], through position: LogPosition) throws(SyncError) {
        publisher.isWaiting = false
        var updates: [DocumentUpdate] = []
        var size = 0
        var reached: LogPosition?
        for operation in operations {
            var own: [DocumentUpdate] = []
            for change in operation.changes {
                if let update = try update(for: change, of: operation) { own.append(update) }
            }
            let ownSize = own.reduce(0) { $0 + $1.size }
            // A frame ends only at an operation's end: its receiver stores a frame in one transaction.
            if let reached, size > 0, size + ownSize > configuration.batchBytes {
                send(.operations(Frame.Operations(position: reached, updates: updates)))
                publisher.position = reached.offset
                updates = []
                size = 0
            }
            if ownSize > Limits.transactionBytes {
                publisher.position = reached?.offset ?? publisher.position
                return fallBack(to: position)
            }
            updates += own
            size += ownSize
            reached = operation.position
        }
        publisher.position = position.offset
        if updates.isEmpty {
            if publisher.subscriptions.contains(where: { $0.liveFrom != nil }) { send(.progress(position)) }
        } else {
            send(.operations(Frame.Operations(position: position, updates: updates)))
        }
        resumePublishing()
    }

    /// What the receiver is to be told of one change: nothing, the delta, or the full state when it enters.
    private func update(for change: LiveOperation.Change, of operation: LiveOperation) throws(SyncError)
        -> DocumentUpdate?
    {
        if case .server(let origin) = configuration.role, operation.origin == origin {
            return try answerToWriter(change, of: operation)
        }
        var matchedBefore = false
        var matchesAfter = false
        for subscription in publisher.subscriptions {
            guard let liveFrom = subscription.liveFrom, liveFrom < operation.position.offset,
                utf8Equal(subscription.query.collection, change.key.collection)
            else { continue }
            if !matchedBefore { matchedBefore = try subscription.matches(change.key, change.before) }
            if !matchesAfter { matchesAfter = try subscription.matches(change.key, change.after) }
        }
        guard matchedBefore || matchesAfter else { return nil }
        return DocumentUpdate(
            key: change.key,
            content: content(of: change, operation.stamp, matchedBefore))
    }

    private func content(
        of change: LiveOperation.Change, _ stamp: Stamp, _ isKnown: Bool
    ) -> DocumentUpdate.Content {
        guard isKnown, let delta = change.delta else { return .state(change.after) }
        return .delta(stamp, delta)
    }

    /// A writer has its own operation; but where the merged state is not what it knows, it gets that state
    /// (rule 16).
    private func answerToWriter(
        _ change: LiveOperation.Change, of operation: LiveOperation
    ) throws(SyncError) -> DocumentUpdate? {
        guard let bytes = change.delta else { return nil }
        // A subscription that is catching up brings the document, or names it, in one step with what belongs
        // to it.
        let isComing = publisher.subscriptions.contains {
            $0.liveFrom == nil && utf8Equal($0.query.collection, change.key.collection)
        }
        guard !isComing else { return nil }
        do {
            let delta = try Delta(decoding: bytes, stamp: operation.stamp)
            let vector = try change.after.withUnsafeBytes { try DocumentReader($0).vector() }
            guard vector != delta.resultingVector, configuration.allowsReading(change.key.collection) else {
                return nil
            }
            return DocumentUpdate(key: change.key, content: .state(change.after))
        } catch {
            throw SyncError(.unavailable, "a stored document does not decode: \(error)")
        }
    }

    /// The live stream is not at hand any more at this session's position: catch up from there to where it
    /// is.
    mutating func fallBack(to head: LogPosition) {
        for index in publisher.subscriptions.indices {
            guard let liveFrom = publisher.subscriptions[index].liveFrom else { continue }
            publisher.subscriptions[index].liveFrom = nil
            publisher.subscriptions[index].namesAfter = 0
            publisher.subscriptions[index].nextPage = .offset(
                max(liveFrom, publisher.position), namesAfter: 0)
            // A page without end tells the receiver that positions do not count for it any more.
            let id = publisher.subscriptions[index].id
            send(.catchUp(Frame.CatchUp(id: id, documents: [], candidates: [], end: nil)))
        }
        publisher.position = head.offset
        publisher.isWaiting = false
        resumePublishing()
    }
}

// MARK: States on request

extension Session {
    mutating func serveStates(_ keys: [DocumentKey]) throws(SyncError) {
        guard keys.count <= Limits.wantedDocuments else {
            throw SyncError(.malformedFrame, "more than \(Limits.wantedDocuments) documents wanted at once")
        }
        guard publisher.wanted.count + keys.count <= Limits.wantedWaitingDocuments else {
            throw SyncError(.creditExceeded, "too many documents wanted before any was answered")
        }
        publisher.wanted += keys
        readNextStates()
    }

    mutating func readNextStates() {
        guard !publisher.isReadingStates, !publisher.wanted.isEmpty else { return }
        publisher.isReadingStates = true
        // What the grant hides is answered like what does not exist.
        let keys = Array(publisher.wanted.prefix(Limits.statesPerRead))
        publisher.wanted.removeFirst(keys.count)
        actions.append(.readStates(keys))
    }

    mutating func answerStates(
        _ states: [(key: DocumentKey, state: [UInt8]?)], at position: LogPosition?
    ) {
        publisher.isReadingStates = false
        var batch: [(key: DocumentKey, state: [UInt8]?)] = []
        var size = 0
        for item in states {
            // A peer answers with what it offered itself.
            let mayRead = configuration.role == .peer || configuration.allowsReading(item.key.collection)
            let state = mayRead ? item.state : nil
            batch.append((item.key, state))
            size += state?.count ?? 0
            if size >= configuration.batchBytes {
                send(.states(batch, at: position))
                batch = []
                size = 0
            }
        }
        if !batch.isEmpty { send(.states(batch, at: position)) }
        readNextStates()
    }
}

extension Publisher.Subscription {
    func matches(_ key: DocumentKey, _ state: [UInt8]?) throws(SyncError) -> Bool {
        guard let state else { return false }
        do {
            return try state.withUnsafeBytes { bytes in
                let document = try DocumentReader(bytes)
                return try document.isLive && query.matches(DocumentRecord(id: key.id, document: document))
            }
        } catch {
            throw SyncError(.unavailable, "a stored document does not decode: \(error)")
        }
    }
}

extension Frame.Candidate {
    /// About how many bytes it takes in a frame.
    var size: Int { vector.count + key.id.bytes.count + key.collection.utf8.count + 8 }
}

extension DocumentUpdate {
    /// About how many bytes it takes in a frame.
    var size: Int {
        let content =
            switch content {
            case .state(let bytes): bytes.count
            case .delta(_, let bytes): bytes.count + 20
            }
        return content + key.id.bytes.count + key.collection.utf8.count + 8
    }
}
