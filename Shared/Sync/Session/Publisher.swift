import CRDT
import DQL
import Exchange

/// Serves subscriptions: brings each up to date with current states, then sends the log's operations in
/// order, filtered.
///
/// Invariants: a subscription counts for operations behind `liveFrom` only, so nothing is sent twice and
/// nothing is skipped; operations leave in log order; no data frame is sent without credit. What the
/// receiver has not taken stays in the log: a slow receiver costs a position, not a queue. Where a cursor
/// does not say what the receiver has (another log, reaped tombstones behind it, other rights), the receiver
/// lists it (`Listing`); nothing is guessed and nothing that it has is sent again.
struct Publisher: Sendable {
    struct Subscription: Sendable {
        let id: UInt64
        let query: SubscriptionQuery
        /// The bytes of the frame that asked for it.
        let size: Int
        /// What changed behind this offset and does not match is named to the subscriber.
        var namesAfter: Offset
        /// Behind which offset the live stream speaks for it; nil while it is catching up.
        var liveFrom: Offset?
        /// Where the next page begins; nil when none is needed or one is being read.
        var nextPage: PageStart?
        /// The receiver is telling what it holds; nil while it is not.
        var listing: Listing?
        /// The query as all sessions know it; nil where this one is alone.
        var followed: (any FollowedQuery)?
    }

    /// Documents whose states were asked for and not read, and what the asker holds of them.
    struct Want: Sendable {
        var keys: [DocumentKey]
        let held: [DocumentVersion]
        let heldBytes: Int
        /// The stream's head when the read under way was begun: the states are from there or later.
        var readFrom: LogPosition?
    }

    var subscriptions: [Subscription] = []
    /// The position up to which the live stream was sent.
    var head: LogPosition?
    /// The offset of the last position that the receiver was told.
    var toldThrough: Offset = 0
    /// The greatest offset that an operation of the receiver's own has in the log, as far as this session
    /// brought it.
    var ownThrough: Offset = 0
    /// Whether the receiver is still to be told how far the stream is.
    var isProgressDue = false
    /// The offset through which operations were passed over: the receiver is not answered there.
    var skippedThrough: Offset = 0
    /// The rights have changed since the page being read, or compared, was asked for.
    var isStale = false
    /// Whether an answer to `awaitOperations` is outstanding.
    var isWaiting = true
    /// Whether a page is being read; one at a time, so that a page's size is all that may wait for credit.
    var isReadingPage = false
    /// Whether states are being read.
    var isReadingStates = false
    /// One entry for each `want`, in order; their number is bounded, and so is the answer to each.
    var wants: [Want] = []
    /// Bytes of the answer to the first one so far.
    var answeredBytes = 0
    /// The greatest subscription id so far.
    var lastID: UInt64?

    var position: Offset { head?.offset ?? 0 }
}

extension Session {
    mutating func serve(_ request: Frame.Subscribe, _ size: Int) throws(SyncError) {
        guard publisher.subscriptions.count < Limits.subscriptions else {
            return refuse(
                request.id, SyncError(.invalidSubscription, "too many subscriptions in one session"))
        }
        guard publisher.lastID.map({ request.id > $0 }) ?? true else {
            throw SyncError(.malformedFrame, "the ids of subscriptions ascend")
        }
        publisher.lastID = request.id
        let held = publisher.subscriptions.reduce(size) { $0 + $1.size }
        guard held <= Limits.subscriptionBytes else {
            throw SyncError(.creditExceeded, "the subscriptions of one session take \(held) bytes")
        }
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
        guard access.allows(collection: query.collection) else {
            let error = SyncError(.readNotGranted, "no right to read \(query.collection)")
            return refuse(request.id, error, hides: request.cursor != nil || request.resume != nil)
        }
        // One that holds nothing begins at the head: only what changes from now on can leave it.
        let holdsNothing = request.cursor == nil && !request.holds
        var subscription = Publisher.Subscription(
            id: request.id, query: query, size: size, namesAfter: holdsNothing ? publisher.position : 0)
        // Before a page is read: what is folded from here on is looked up for it.
        subscription.followed = configuration.sharing?.follow(query)
        start(&subscription, request)
        publisher.subscriptions.append(subscription)
        resumePublishing()
    }

    /// Where a new subscription begins. What was remembered under other rights says nothing now (rule 18).
    private mutating func start(
        _ subscription: inout Publisher.Subscription, _ request: Frame.Subscribe
    ) {
        let rights = access.mark(of: subscription.query.collection)
        if let token = request.resume {
            switch ResumeToken(decoding: token) {
            case .pages(let reached, let namesAfter, rights)?:
                subscription.namesAfter = namesAfter
                subscription.nextPage = .resumed(reached, namesAfter: namesAfter)
            case .listing(let start, let last, rights)?:
                subscription.listing = Listing(start: start, after: last)
                send(.list(id: subscription.id, after: last))
            default: list(&subscription)
            }
        } else if let cursor = request.cursor {
            guard request.rights == rights else { return list(&subscription) }
            subscription.nextPage = .cursor(cursor)
        } else if request.holds {
            list(&subscription)
        } else {
            subscription.nextPage = .offset(0, namesAfter: subscription.namesAfter)
        }
    }

    mutating func refuse(_ id: UInt64, _ error: SyncError, hides: Bool = false) {
        send(.subscriptionRefused(id: id, error, hides: hides))
    }

    mutating func stopServing(_ id: UInt64) {
        guard let index = publisher.subscriptions.firstIndex(where: { $0.id == id }) else { return }
        let subscription = publisher.subscriptions.remove(at: index)
        for item in subscription.listing?.pages ?? [] { returnCredit(item.size) }
    }

    /// Asks for the next page and the next operations when there is credit for them.
    mutating func resumePublishing() {
        guard canSendData, case .server = configuration.role else { return }
        if !publisher.isReadingPage { readNextPage() }
        if !publisher.isWaiting {
            publisher.isWaiting = true
            actions.append(.awaitOperations(after: publisher.position))
        }
    }

    private mutating func readNextPage() {
        for index in publisher.subscriptions.indices {
            let subscription = publisher.subscriptions[index]
            if let start = subscription.nextPage {
                publisher.isReadingPage = true
                publisher.subscriptions[index].nextPage = nil
                return actions.append(
                    .readPage(
                        subscription: subscription.id, query: subscription.query, access: access,
                        after: start, maxBytes: readBytes))
            }
            if var page = subscription.listing?.next {
                page.maxBytes = readBytes
                publisher.isReadingPage = true
                return actions.append(
                    .compareHeld(
                        subscription: subscription.id, query: subscription.query, access: access, page))
            }
        }
    }

    /// The subscription that an answer is for; nil when it was cancelled or its rights have changed since.
    mutating func answered(_ id: UInt64) -> Int? {
        publisher.isReadingPage = false
        defer { publisher.isStale = false }
        return publisher.isStale ? nil : publisher.subscriptions.firstIndex { $0.id == id }
    }

    mutating func publish(_ page: CatchUpPage, for id: UInt64) {
        defer { resumePublishing() }
        guard let index = answered(id) else { return }
        // The live stream may have moved while the page was read: then what lies between is one more page.
        let end = page.head.flatMap { $0.offset >= publisher.position ? $0 : nil }
        let namesAfter = publisher.subscriptions[index].namesAfter
        let rights = access.mark(of: publisher.subscriptions[index].query.collection)
        var resume: [UInt8]?
        if let end {
            publisher.subscriptions[index].liveFrom = end.offset
        } else {
            publisher.subscriptions[index].nextPage = .offset(page.offset, namesAfter: namesAfter)
            resume = page.reached.map {
                ResumeToken.pages($0, namesAfter: namesAfter, rights: rights).encoded()
            }
        }
        var frame = Frame.CatchUp(
            id: id, documents: page.documents, candidates: page.candidates, end: end)
        frame.gone = page.gone
        frame.resume = resume
        frame.rights = end == nil ? nil : rights
        frame.asOf = end == nil ? page.asOf : nil
        sendPage(frame)
    }

    /// A page in frames of about `batchBytes`; only the last carries what stands for all of it.
    mutating func sendPage(_ page: Frame.CatchUp) {
        var frame = Frame.CatchUp(id: page.id)
        // Each of them is stored by itself, and stands for the log as far as it was read.
        frame.asOf = page.asOf ?? page.end
        var size = 0
        let limit = readBytes
        var isPlaceTold = false
        func makeRoom(_ next: Int) {
            if size > 0, size + next > limit {
                send(.catchUp(frame))
                frame = Frame.CatchUp(id: page.id)
                frame.asOf = page.asOf ?? page.end
                size = 0
            }
            size += next
        }
        for key in page.hidden {
            makeRoom(key.size)
            frame.hidden.append(key)
        }
        for item in page.gone {
            makeRoom(item.size)
            frame.gone.append(item)
        }
        for document in page.documents {
            makeRoom(document.size)
            frame.documents.append(document)
            guard version >= 3, document.size > max(limit, Limits.firstBurstBytes) else { continue }
            // One that a later session may go on with is a message without anything that may be another
            // then. That the log was read up to here is told before it is stored.
            if !isPlaceTold {
                var place = Frame.CatchUp(id: page.id)
                place.asOf = frame.asOf
                send(.catchUp(place))
                isPlaceTold = true
            }
            let asOf = frame.asOf
            frame.asOf = nil
            send(.catchUp(frame))
            frame = Frame.CatchUp(id: page.id)
            frame.asOf = asOf
            size = 0
        }
        for candidate in page.candidates {
            makeRoom(candidate.size)
            frame.candidates.append(candidate)
        }
        frame.asOf = page.asOf
        frame.end = page.end
        frame.resume = page.resume
        frame.rights = page.rights
        send(.catchUp(frame))
    }

    mutating func publish(_ operations: [FoldedOperation], through position: LogPosition) throws(SyncError) {
        publisher.isWaiting = false
        var updates: [DocumentUpdate] = []
        var selection = FrameSelection()
        var size = 0
        var reached: LogPosition?
        for operation in operations {
            var own: [DocumentUpdate] = []
            var chosen: [(index: Int, form: UInt64)] = []
            for (index, change) in operation.changes.enumerated() {
                guard let update = try update(for: change, of: operation) else { continue }
                own.append(update)
                chosen.append((index, update.content.form))
            }
            let ownSize = own.reduce(0) { $0 + $1.size }
            // A frame ends only at an operation's end: its receiver stores a frame in one transaction.
            if let reached, size > 0, size + ownSize > readBytes {
                sendOperations(updates, selection, through: reached)
                publisher.head = reached
                updates = []
                selection = FrameSelection()
                size = 0
            }
            if ownSize > Limits.transactionBytes {
                publisher.head = reached ?? publisher.head
                return fallBack(to: position)
            }
            updates += own
            selection.add(operation.position.offset, chosen)
            size += ownSize
            reached = operation.position
        }
        publisher.head = position
        let isLive = publisher.subscriptions.contains { $0.liveFrom != nil }
        if !updates.isEmpty {
            sendOperations(updates, selection, through: position)
        } else if isLive || publisher.ownThrough > publisher.toldThrough {
            publisher.isProgressDue = true
            if admission.appending == nil { tellProgress() }
        }
        resumePublishing()
    }

    /// Tells how far the stream is, where nothing else has told that. While an upload is being appended this
    /// waits for its acknowledgement: the receiver stores the two together.
    mutating func tellProgress() {
        guard publisher.isProgressDue, let position = publisher.head else { return }
        publisher.isProgressDue = false
        send(.progress(position))
        publisher.toldThrough = position.offset
    }

    private mutating func sendOperations(
        _ updates: [DocumentUpdate], _ selection: FrameSelection, through position: LogPosition
    ) {
        let frame = Frame.operations(Frame.Operations(position: position, updates: updates))
        send(
            frame,
            shared: configuration.sharing?.encode(selection.ending(at: position.offset)) { frame.encoded() })
        publisher.toldThrough = position.offset
        publisher.isProgressDue = false
    }

    /// What the receiver is to be told of one change: nothing, the delta, or the full state when it enters.
    /// (In place, as `standing`, and the subscriptions too: this is asked for each receiver.) A subscription
    /// whose condition takes too long is refused and counts no more.
    private mutating func update(
        for change: FoldedOperation.Change, of operation: FoldedOperation
    ) throws(SyncError) -> DocumentUpdate? {
        guard access.allows(change.key) else { return nil }
        if let gone = change.gone { return self.gone(change.key, gone, at: operation.position.offset) }
        if case .server(let origin) = configuration.role, operation.origin == origin {
            return try answerToWriter(change, of: operation)
        }
        var matchedBefore = false
        var matchesAfter = false
        var costly: [UInt64] = []
        for place in publisher.subscriptions.indices {
            guard let liveFrom = publisher.subscriptions[place].liveFrom,
                liveFrom < operation.position.offset,
                publisher.subscriptions[place].query.collection == change.key.collection
            else { continue }
            let number = publisher.subscriptions[place].followed?.number
            if let number, let known = change.matches?.answer(for: number) {
                matchedBefore = matchedBefore || known.before
                matchesAfter = matchesAfter || known.after
                continue
            }
            let subscription = publisher.subscriptions[place]
            let interruption = configuration.interruption?(subscription.id)
            guard
                let before = matchedBefore
                    ? true : try subscription.matches(change.key, change.before, interruption),
                let after = matchesAfter
                    ? true : try subscription.matches(change.key, change.after, interruption)
            else {
                costly.append(subscription.id)
                continue
            }
            (matchedBefore, matchesAfter) = (before, after)
        }
        for id in costly { refuseCostly(id) }
        guard matchedBefore || matchesAfter else { return nil }
        return DocumentUpdate(
            key: change.key,
            content: content(of: change, operation.stamp, matchedBefore))
    }

    /// Who subscribes to anything in the collection may hold the tombstone: it is told that it may go too.
    private func gone(_ key: DocumentKey, _ vector: [UInt8], at offset: Offset) -> DocumentUpdate? {
        let mayHold = publisher.subscriptions.contains { subscription in
            subscription.liveFrom.map { $0 < offset } ?? false
                && subscription.query.collection == key.collection
        }
        return mayHold ? DocumentUpdate(key: key, content: .gone(vector)) : nil
    }

    private func content(
        of change: FoldedOperation.Change, _ stamp: Stamp, _ isKnown: Bool
    ) -> DocumentUpdate.Content {
        guard isKnown, let delta = change.delta else { return .state(change.after) }
        return .delta(stamp, delta)
    }

    /// A writer has its own operation; but where the merged state is not what it knows, it gets that state
    /// (rule 16).
    private func answerToWriter(
        _ change: FoldedOperation.Change, of operation: FoldedOperation
    ) throws(SyncError) -> DocumentUpdate? {
        guard let bytes = change.delta else { return nil }
        // A subscription that is catching up brings the document, or names it, in one step with what belongs
        // to it. Unless it is live for another one, whose cursor is about to pass it.
        let offset = operation.position.offset
        var isComing = false
        var isLive = false
        for subscription in publisher.subscriptions
        where subscription.query.collection == change.key.collection {
            isComing = isComing || subscription.liveFrom == nil
            isLive = isLive || subscription.liveFrom.map { $0 < offset } ?? false
        }
        guard isLive || !isComing else { return nil }
        // Of a document that began with the change the state is what the change says.
        guard change.before != nil else { return nil }
        do {
            let delta = try DeltaReach(decoding: bytes, stamp: operation.stamp)
            let vector = try change.after.withUnsafeBytes { try DocumentReader($0).vector() }
            // Of seeds that were reaped here the writer may hold the living ones, under the same vector.
            let isOnRest = try change.before?.withUnsafeBytes { try DocumentReader($0).isRestOfSeeds() }
            guard vector != delta.resultingVector || isOnRest ?? false else { return nil }
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
            send(.catchUp(Frame.CatchUp(id: publisher.subscriptions[index].id)))
        }
        publisher.head = head
        publisher.isWaiting = false
        publisher.isProgressDue = false
        publisher.skippedThrough = head.offset
        tellSkipped(head)
        resumePublishing()
    }

    /// The answers to the receiver's own writes up to here were passed over (rule 16).
    mutating func tellSkipped(_ position: LogPosition) {
        guard publisher.ownThrough > publisher.toldThrough else { return }
        send(.progress(position, skipped: true))
        publisher.toldThrough = position.offset
    }
}

extension Publisher.Subscription {
    /// Returns whether a state matches; nil if that was interrupted.
    func matches(
        _ key: DocumentKey, _ state: EncodedState?, _ interruption: (@Sendable () -> Interruption?)?
    ) throws(SyncError) -> Bool? {
        guard let state else { return false }
        if interruption?() != nil { return nil }
        do {
            return try state.withUnsafeBytes { bytes in
                let document = try DocumentReader(bytes)
                let record = DocumentRecord(id: key.id, document: document)
                return try document.isLive && query.matches(record, interruption: interruption)
            }
        } catch let error as DQLError where [.timeout, .cancelled].contains(error.code) {
            return nil
        } catch {
            throw SyncError(.unavailable, "a stored document does not decode: \(error)")
        }
    }
}

extension DocumentVersion {
    /// About how many bytes it takes in a frame.
    var size: Int { vector.count + key.size }
}

extension DocumentKey {
    /// About how many bytes it takes in a frame.
    var size: Int { id.bytes.count + collection.text.utf8.count + 8 }
}

extension DocumentUpdate {
    /// About how many bytes it takes in a frame.
    var size: Int {
        let content =
            switch content {
            case .state(let bytes): bytes.count
            case .delta(_, let bytes): bytes.count + 20
            case .gone(let bytes): bytes.count
            }
        return content + key.size
    }
}
