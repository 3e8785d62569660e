import CRDT
import DQL
import Exchange

/// Serves subscriptions: brings each up to date with current states, then sends the log's operations in
/// order, filtered.
///
/// Invariants: a subscription counts for operations after the offset where it went live only, so nothing is
/// sent twice and nothing is skipped; operations leave in log order; no data frame is sent without credit.
/// Operations that the receiver has not taken stay in the log: a slow receiver costs a position, not a
/// queue. If a cursor does not say what the receiver has (another log, reaped tombstones after it, other
/// rights), the receiver lists its holdings (`Listing`); nothing is guessed, and nothing that it has is
/// sent again.
///
/// Bounds: one page is read at a time; the stream is awaited only while a data frame may leave; wants are
/// bounded in `StateAnswers`.
struct Publisher: Sendable {
    /// The receiver's read rights.
    private var access: ReadAccess
    /// The number of this session in `FoldedOperation.origin`.
    private let origin: UInt64
    private let sharing: Sharing?
    /// See `Session.Configuration.interruption`.
    private let interruption: (@Sendable (_ subscription: UInt64) -> (@Sendable () -> Interruption?)?)?
    /// See `Session.Configuration.holding`.
    private let holding: (@Sendable (_ bytes: Int) -> Bool)?
    private var subscriptions: [ServedSubscription] = []
    private var page = PageRead.idle
    private var stream = StreamProgress()
    private var answers = StateAnswers()
    /// The versions that the receiver has; nil where all changes pass through the sender. Where they do not,
    /// documents that match nothing at the sender are named too: merged with what came to the receiver from
    /// elsewhere they may match there.
    private var known: EchoFilter?
    /// The greatest subscription id so far.
    private var lastID: UInt64?

    init(
        origin: UInt64, access: ReadAccess, sharing: Sharing?,
        interruption: (@Sendable (_ subscription: UInt64) -> (@Sendable () -> Interruption?)?)? = nil,
        holding: (@Sendable (_ bytes: Int) -> Bool)? = nil, known: EchoFilter? = nil
    ) {
        self.known = known
        self.interruption = interruption
        self.holding = holding
        self.origin = origin
        self.access = access
        self.sharing = sharing
    }

    mutating func handle(_ event: Event, _ flow: inout FlowControl) throws(SyncError) -> [Message] {
        let before = flow.traced(name)
        defer { flow.trace(.publisher, from: before, to: name) }
        switch event {
        case .operations(let operations, let position):
            return try publish(operations, through: position, &flow)
        case .appendBegan: stream.appendBegan()
        case .appendEnded(let offset): stream.appendEnded(through: offset, &flow)
        case .credited: resume(&flow)
        case .subscribe(let request, let size): try serve(request, size, &flow)
        case .unsubscribe(let id): stopServing(id, &flow)
        case .held(let id, let page, let size): try listed(page, of: id, size, &flow)
        case .want(let keys, let held): try answers.want(keys, held, head: stream.head, &flow)
        case .page(let id, let page): publish(page, of: id, &flow)
        case .unknownPlace(let id): unknownPlace(id, &flow)
        case .compared(let id, let answer): compared(id, answer, &flow)
        case .tooCostly(let id): tooCostly(id, &flow)
        case .lagging(let head): return fallBack(to: head, &flow)
        case .states(let states, let position, let gone):
            for item in gone where item.void != nil { known?.untrack(item.key) }
            let access = access
            answers.answer(
                states, at: position, gone: gone, mayRead: { access.allows($0) }, head: stream.head, &flow)
        case .grantChanged(let access): return grantChanged(access, &flow)
        case .greeted(let head):
            stream.begin(at: head, &flow)
        case .otherSideHas(let updates): known?.received(updates)
        }
        return []
    }

    // MARK: Subscriptions

    private mutating func serve(
        _ request: Frame.Subscribe, _ size: Int, _ flow: inout FlowControl
    ) throws(SyncError) {
        guard subscriptions.count < Limits.subscriptions else {
            let error = SyncError(.invalidSubscription, "too many subscriptions in one session")
            return flow.send(.subscriptionRefused(id: request.id, error))
        }
        guard lastID.map({ request.id > $0 }) ?? true else {
            throw SyncError(.malformedFrame, "the ids of subscriptions ascend")
        }
        lastID = request.id
        let held = subscriptions.reduce(size) { $0 + $1.size }
        guard held <= Limits.subscriptionBytes else {
            throw SyncError(.creditExceeded, "the subscriptions of one session take \(held) bytes")
        }
        guard case .object(let arguments) = request.arguments else {
            throw SyncError(.malformedFrame, "a subscription's arguments are no object")
        }
        let memory = Self.memory(of: request, size)
        guard memory == 0 || holds(memory) else {
            return flow.send(.subscriptionRefused(id: request.id, Self.noMemory))
        }
        // A refused one leaves nothing.
        defer { if memory > 0 { _ = holds() } }
        let query: SubscriptionQuery
        do {
            query = try SubscriptionQuery(
                statement: request.statement, arguments: arguments, isRestricted: false)
        } catch {
            // Its parsing found no memory, and says nothing about the statement.
            let error =
                [.timeout, .cancelled].contains(error.code)
                ? Self.noMemory : SyncError(.invalidSubscription, "\(error)")
            return flow.send(.subscriptionRefused(id: request.id, error))
        }
        guard access.allows(collection: query.collection) else {
            let error = SyncError(.readNotGranted, "no right to read \(query.collection)")
            let hides = request.cursor != nil || request.resume != nil
            return flow.send(.subscriptionRefused(id: request.id, error, hides: hides))
        }
        // One that holds nothing begins at the head: only what changes from now on can leave it.
        let holdsNothing = request.cursor == nil && !request.holds
        var subscription = ServedSubscription(
            id: request.id, query: query, size: size, memory: memory,
            namesAfter: holdsNothing ? stream.offset : 0,
            // Before a page is read: operations folded from here on are looked up for it.
            followed: sharing?.follow(query))
        start(&subscription, request, &flow)
        // It may begin again because documents were evicted.
        known?.forget(query.collection)
        subscriptions.append(subscription)
        resume(&flow)
    }

    /// Decides where a new subscription begins. Positions remembered under other rights say nothing now
    /// (rule 18).
    private mutating func start(
        _ subscription: inout ServedSubscription, _ request: Frame.Subscribe, _ flow: inout FlowControl
    ) {
        let rights = access.mark(of: subscription.query.collection)
        if let token = request.resume {
            switch ResumeToken(decoding: token) {
            case .pages(let reached, let namesAfter, rights)?:
                subscription.catchUp(
                    from: .resumed(reached, namesAfter: namesAfter), namesAfter: namesAfter)
            case .listing(let start, let last, rights)?: subscription.list(from: start, after: last, &flow)
            default: subscription.list(from: listingStart, &flow)
            }
        } else if let cursor = request.cursor {
            guard request.rights == rights else { return subscription.list(from: listingStart, &flow) }
            subscription.catchUp(from: .cursor(cursor))
        } else if request.holds {
            subscription.list(from: listingStart, &flow)
        } else {
            subscription.catchUp(from: .offset(0, namesAfter: subscription.namesAfter))
        }
    }

    private mutating func stopServing(_ id: UInt64, _ flow: inout FlowControl) {
        guard let index = subscriptions.firstIndex(where: { $0.id == id }) else { return }
        let gone = subscriptions.remove(at: index)
        gone.returnCredit(&flow)
        if gone.memory > 0 { _ = holds() }
    }

    /// Holds the memory of the long subscriptions that there are, and so much more.
    /// - Returns: whether there is as much.
    private func holds(_ more: Int = 0) -> Bool {
        holding?(subscriptions.reduce(more) { $0 + $1.memory }) ?? true
    }

    private static var noMemory: SyncError {
        SyncError(
            .subscriptionTooCostly,
            "the subscriptions of this credential take as much memory as they may: end some, or shorten "
                + "their statements and arguments")
    }

    private static func memory(of request: Frame.Subscribe, _ size: Int) -> Int {
        guard size > Limits.briefSubscriptionBytes else { return 0 }
        return Limits.statementWeight * request.statement.utf8.count + request.arguments.heldBytes
    }

    /// The condition of a subscription took too long: it ends, and the others go on.
    private mutating func tooCostly(_ id: UInt64, _ flow: inout FlowControl) {
        defer { resume(&flow) }
        guard answered(.refusal(id)) != nil else { return }
        refuseCostly(id, &flow)
    }

    private mutating func refuseCostly(_ id: UInt64, _ flow: inout FlowControl) {
        stopServing(id, &flow)
        let error = SyncError(
            .subscriptionTooCostly,
            "the subscription's condition takes longer than the server's limit: narrow it, or compare fields "
                + "with values instead of going through elements")
        flow.send(.subscriptionRefused(id: id, error))
    }

    /// Asks for the next page and the next operations if there is credit for them.
    private mutating func resume(_ flow: inout FlowControl) {
        guard flow.canSendData else { return }
        if case .idle = page { readNextPage(&flow) }
        stream.awaitMore(&flow)
    }

    private mutating func readNextPage(_ flow: inout FlowControl) {
        for index in subscriptions.indices {
            let id = subscriptions[index].id
            switch subscriptions[index].state {
            case .live, .reading: continue
            case .due(let start):
                page = .reading(id: id)
                subscriptions[index].pageBegan()
                return flow.perform(
                    .readPage(
                        subscription: id, query: subscriptions[index].query, access: access, after: start,
                        maxBytes: flow.readBytes))
            case .listing(let listing):
                guard var next = listing.next else { continue }
                next.maxBytes = flow.readBytes
                page = .comparing(id: id)
                return flow.perform(
                    .compareHeld(
                        subscription: id, query: subscriptions[index].query, access: access, next))
            }
        }
    }

    /// Takes the answer to the question that the driver has.
    /// - Returns: the place of its subscription; nil if it was cancelled or its rights have changed since.
    private mutating func answered(_ answer: Answer) -> Int? {
        precondition(expects(answer), "\(answer) was not asked for; the publisher is \(name)")
        defer { page = .idle }
        guard case .stale = page else {
            let id = answer.id
            return subscriptions.firstIndex { $0.id == id }
        }
        return nil
    }

    // MARK: Catching up

    private mutating func publish(_ page: CatchUpPage, of id: UInt64, _ flow: inout FlowControl) {
        defer { resume(&flow) }
        guard let index = answered(.page(id)) else { return }
        // The live stream may have moved while the page was read: then one more page brings what lies
        // between.
        let end = page.head.flatMap { $0.offset >= stream.offset ? $0 : nil }
        let namesAfter = subscriptions[index].namesAfter
        let rights = access.mark(of: subscriptions[index].query.collection)
        var frame = Frame.CatchUp(
            id: id, documents: page.documents, candidates: page.candidates, end: end)
        known?.leaveOut(of: &frame)
        frame.gone = page.gone
        if let end {
            subscriptions[index].goLive(from: end.offset)
            frame.rights = rights
        } else {
            subscriptions[index].catchUp(from: .offset(page.offset, namesAfter: namesAfter))
            frame.resume = page.reached.map {
                ResumeToken.pages($0, namesAfter: namesAfter, rights: rights).encoded()
            }
            frame.asOf = page.asOf
        }
        flow.sendPage(frame)
    }

    /// The log does not have the place where a page was to begin, or reaped something after it.
    private mutating func unknownPlace(_ id: UInt64, _ flow: inout FlowControl) {
        defer { resume(&flow) }
        guard let index = answered(.page(id)) else { return }
        subscriptions[index].list(from: listingStart, &flow)
    }

    // MARK: Holdings

    /// The position after which changes follow a list. States that are being read may be from before the
    /// stream's head, and reach the subscriber after its list: changes since that read began are told too.
    private var listingStart: LogPosition? { answers.readFrom ?? stream.head }

    private mutating func listed(
        _ page: HoldingsPage, of id: UInt64, _ size: Int, _ flow: inout FlowControl
    ) throws(SyncError) {
        guard let index = subscriptions.firstIndex(where: { $0.id == id }) else {
            return flow.returnCredit(size)
        }
        try subscriptions[index].listed(page, size)
        subscriptions[index].listAgain(from: listingStart, &flow)
        resume(&flow)
    }

    private mutating func compared(_ id: UInt64, _ answer: HoldingsAnswer, _ flow: inout FlowControl) {
        defer { resume(&flow) }
        guard let index = answered(.comparison(id)) else { return }
        let rights = access.mark(of: subscriptions[index].query.collection)
        guard
            let (isDone, token) = subscriptions[index].compared(
                through: answer.through, rights: rights, &flow)
        else { preconditionFailure("no holdings are compared; the publisher is \(name)") }
        var frame = Frame.CatchUp(id: id, documents: answer.documents, candidates: answer.candidates)
        frame.gone = answer.gone
        frame.hidden = answer.hidden
        frame.asOf = answer.asOf
        frame.resume = token?.encoded()
        if isDone || !answer.isEmpty { flow.sendPage(frame) }
    }

    // MARK: Rights

    /// Takes other rights of the other side: documents that may not be read any more are told at once,
    /// everything else is reconciled (rule 18). Frames that wait for credit were put together under the
    /// earlier rights, and are not sent.
    private mutating func grantChanged(_ changed: ReadAccess, _ flow: inout FlowControl) -> [Message] {
        let earlier = access
        access = changed
        guard flow.isOpen else { return [] }
        stream.tell(&flow)
        let isAnyWithdrawn = flow.withdrawWaiting()
        page.expire()
        let held = subscriptions
        subscriptions = []
        for var subscription in held {
            let name = subscription.query.collection
            guard changed.allows(collection: name) else {
                let error = SyncError(.readNotGranted, "no right to read \(name) any more")
                subscription.returnCredit(&flow)
                flow.send(.subscriptionRefused(id: subscription.id, error, hides: true))
                continue
            }
            if earlier.mark(of: name) != changed.mark(of: name) || isAnyWithdrawn {
                subscription.list(from: listingStart, &flow)
            }
            // A page of it is being read under the earlier rights.
            if case .reading = subscription.state { subscription.list(from: listingStart, &flow) }
            subscriptions.append(subscription)
        }
        if held.contains(where: { $0.memory > 0 }) { _ = holds() }
        // Answers to the receiver's own writes may have been among what is not sent.
        let messages = isAnyWithdrawn ? stream.withdraw(&flow) : []
        flow.send(.granted)
        for index in subscriptions.indices { subscriptions[index].listAgain(from: listingStart, &flow) }
        resume(&flow)
        return messages
    }

    // MARK: The live stream

    private mutating func publish(
        _ operations: [FoldedOperation], through position: LogPosition, _ flow: inout FlowControl
    ) throws(SyncError) -> [Message] {
        stream.arrived()
        let filter = LiveFilter(access: access, origin: origin, interruption: interruption)
        var costly: [UInt64] = []
        var updates: [DocumentUpdate] = []
        var candidates: [DocumentVersion] = []
        var selection = FrameSelection()
        var size = 0
        var reached: LogPosition?
        for operation in operations {
            var own: [DocumentUpdate] = []
            var chosen: [(index: Int, form: UInt64)] = []
            for (index, change) in operation.changes.enumerated() {
                if change.void == nil, known?.holds(change) ?? false { continue }
                let told = known == nil ? change : change.withoutVoid
                let update = try filter.update(for: told, of: operation, to: subscriptions, costly: &costly)
                while let id = costly.popLast() { refuseCostly(id, &flow) }
                // The receiver, which holds the document, asks for what is void and the state that is left.
                if known != nil, update == nil || change.void != nil,
                    let item = filter.candidate(change, of: operation, for: subscriptions)
                {
                    known?.forget(change)
                    candidates.append(item)
                    size += item.size
                }
                guard let update, known == nil || !change.isNamedOnly else { continue }
                known?.sent(change)
                own.append(update)
                chosen.append((index, update.content.form))
            }
            let ownSize = own.reduce(0) { $0 + $1.size }
            // A frame ends only at an operation's end: its receiver stores a frame in one transaction.
            let isFull = size + ownSize > flow.readBytes || candidates.count > Limits.candidatesPerFrame
            if let reached, size > 0, isFull {
                sendOperations(updates, candidates, selection, through: reached, &flow)
                updates = []
                candidates = []
                selection = FrameSelection()
                size = 0
            }
            if ownSize > Limits.transactionBytes {
                stream.passed(reached)
                return fallBack(to: position, &flow)
            }
            updates += own
            selection.add(operation.position.offset, chosen)
            size += ownSize
            reached = operation.position
        }
        if !updates.isEmpty || !candidates.isEmpty {
            sendOperations(updates, candidates, selection, through: position, &flow)
        } else {
            let isAnyLive = subscriptions.contains { $0.liveFrom != nil }
            stream.passed(position, isAnyLive: isAnyLive, &flow)
        }
        resume(&flow)
        return []
    }

    private mutating func sendOperations(
        _ updates: [DocumentUpdate], _ candidates: [DocumentVersion], _ selection: FrameSelection,
        through position: LogPosition, _ flow: inout FlowControl
    ) {
        let frame = Frame.operations(
            Frame.Operations(position: position, updates: updates, candidates: candidates))
        flow.send(
            frame, shared: sharing?.encode(selection.ending(at: position.offset)) { frame.encoded() })
        stream.sent(through: position)
    }

    /// The live stream is not at hand any more at this session's position: catches up from there to its head.
    private mutating func fallBack(to head: LogPosition, _ flow: inout FlowControl) -> [Message] {
        for index in subscriptions.indices {
            guard let liveFrom = subscriptions[index].liveFrom else { continue }
            subscriptions[index].catchUp(
                from: .offset(max(liveFrom, stream.offset), namesAfter: 0), namesAfter: 0)
            // A page without end tells the receiver that positions do not count for it any more.
            flow.send(.catchUp(Frame.CatchUp(id: subscriptions[index].id)))
        }
        let messages = stream.skip(to: head, &flow)
        resume(&flow)
        return messages
    }
}

// MARK: Invariants

extension Publisher {
    /// The name of its state, for logs and traps.
    var name: String {
        let page =
            switch page {
            case .idle: "idle"
            case .reading(let id): "reading a page of \(id)"
            case .comparing(let id): "comparing holdings of \(id)"
            case .stale(let id): "reading a page of \(id) under earlier rights"
            }
        return "\(page), \(stream.name), catching up: \(catchingUp) of \(subscriptions.count) subscriptions"
    }

    /// The number of wants that are not answered.
    var waitingWants: Int { answers.count }

    /// The number of subscriptions that are still catching up. Mutating only to be read in place.
    mutating func countCatchingUp() -> Int { catchingUp }

    private var catchingUp: Int {
        var count = 0
        for place in subscriptions.indices where subscriptions[place].liveFrom == nil { count += 1 }
        return count
    }

    /// Returns whether the driver may answer now.
    func expects(_ answer: Answer) -> Bool {
        switch (answer, page) {
        case (.page(let id), .reading(let asked)), (.comparison(let id), .comparing(let asked)),
            (.page(let id), .stale(let asked)), (.comparison(let id), .stale(let asked)),
            (.refusal(let id), .reading(let asked)), (.refusal(let id), .comparing(let asked)),
            (.refusal(let id), .stale(let asked)):
            id == asked
        case (.stream, _): stream.isAwaited
        case (.states, _): answers.isReading
        default: false
        }
    }

    /// Traps on a state that contradicts itself.
    func checkInvariants() {
        let reading = subscriptions.filter { if case .reading = $0.state { true } else { false } }
        if case .reading(let id) = page {
            precondition(reading.allSatisfy { $0.id == id }, "one page is read at a time")
        } else {
            precondition(reading.isEmpty, "a subscription waits for a page that nobody reads")
        }
        stream.checkInvariants()
        known?.checkInvariants()
        answers.checkInvariants()
    }
}
