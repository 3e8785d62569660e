import CRDT
import Exchange

/// Asks for the documents of queries, and stores what comes, in order, one durable transaction at a time.
///
/// Invariants: data frames are stored in the order in which they came; a cursor moves in the transaction
/// that stores what it stands for; a frame whose base is missing waits, and everything after it, until the
/// states that it needs are here; while a repair is due nothing is stored.
///
/// Bounds: what waits to be stored takes credit (`StreamQueue`); one request for states is under way at a
/// time (`FetchQueue`).
struct Reader: Sendable {
    /// The state of the exchange of subscriptions.
    private enum Exchange: Sendable {
        /// The handshake, a reconcile or a repair comes first.
        case waiting
        /// They are. Staged pages of a log that has lost its end may not be in it any more, and do not count.
        case begun(resumesStaged: Bool)
    }

    private enum Step: Sendable {
        case idle
        /// The candidates of the first catch-up page, or of the stream's first changes, are being looked up.
        case lookingUp
        /// The first item waits for states.
        case waiting(Needs)
        /// A transaction is under way.
        case storing(Needs)
    }

    private var exchange = Exchange.waiting
    private var step = Step.idle
    /// True while a repair is due or under way.
    private var isPaused = false
    private var subscriptions = AskedSubscriptions()
    private var queue = StreamQueue()
    private var fetches = FetchQueue()
    /// The position of the server's log that the latest states stand for.
    private var fetchedAt: LogPosition?
    /// The offset that the server's stream has passed, as far as it is stored.
    private(set) var streamed: Offset = 0
    private var owed = OwedAcknowledgements()

    mutating func handle(_ event: Event, _ flow: inout FlowControl) throws(SyncError) -> [Message] {
        let before = flow.traced(name)
        defer { flow.trace(.reader, from: before, to: name) }
        switch event {
        case .catchUp(let page, let size): received(.catchUp(page), size, &flow)
        case .operations(let operations, let size): received(.operations(operations), size, &flow)
        case .progress(let position): received(.progress(position), 0, &flow)
        case .skipped(let position, let size): try skipped(position, size, &flow)
        case .states(let states, let position, let isPart, let gone, let size):
            return try received(states, at: position, isPart: isPart, gone, size, &flow)
        case .subscriptionRefused(let id, let error, let hides): refused(id, error, hides: hides, &flow)
        case .list(let id, let last): try list(id, after: last, &flow)
        case .chunk: owed.store(&flow)
        case .credited: subscriptions.readList(&flow)
        case .subscribe(let request):
            if subscriptions.add(request), case .begun = exchange { return announce(request.key, &flow) }
        case .unsubscribe(let key): unsubscribe(key, &flow)
        case .storeChanged: subscriptions.storeChanged()
        case .wanted(let keys):
            guard flow.isOpen else { return [] }
            subscriptions.storeChanged()
            return [.askWhenReached(.documents(keys))]
        case .stored: stored(&flow)
        case .returning(let keys): return returning(keys, &flow)
        case .wanting(let keys): try wanting(keys, &flow)
        case .outdated(let keys): outdated(keys, &flow)
        case .vectors(let versions): fetches.named(versions, missing: needs.missing, &flow)
        case .held(let key, let versions, let isLast):
            subscriptions.listed(key, versions, isLast: isLast, &flow)
        default: return handleMessage(event, &flow)
        }
        return []
    }

    private mutating func handleMessage(_ event: Event, _ flow: inout FlowControl) -> [Message] {
        switch event {
        case .exchangeBegins(let resumesStaged):
            guard case .waiting = exchange else {
                preconditionFailure("the exchange has begun; the reader is \(name)")
            }
            exchange = .begun(resumesStaged: resumesStaged)
            return subscriptions.keys.map { .announce(key: $0) }
        case .announce(let key): return announce(key, &flow)
        case .barrierReached(.documents(let keys)): fetches.wantForStore(keys)
        case .barrierReached(.subscription(let key)): ask(key, &flow)
        case .askNext: askNext(&flow)
        case .acknowledged(let acknowledgements, let offset): acknowledged(acknowledgements, offset, &flow)
        case .rightsChanged: return subscriptions.forgiveRefused().map { .announce(key: $0) }
        case .repairIsDue: isPaused = true
        case .mayRepair: if case .idle = step { return [.readerIsIdle] }
        case .mayFollow(let position): if !mayFollow(to: position, flow) { return [.streamWillNotFollow] }
        case .lendStream(let position): return lend(to: position, &flow)
        case .fetchForRepair(let keys):
            queue.takeBack()
            fetches.wantForRepair(keys)
            askNext(&flow)
        case .repairEnded(let isFollowed, let isAnotherDue):
            repairEnded(isFollowed: isFollowed, isAnotherDue: isAnotherDue, &flow)
        default: preconditionFailure("\(event) is no message")
        }
        return []
    }

    // MARK: Subscriptions

    /// Asks for a subscription with a cursor at once: what it lacks is noted as wanted. One without may lack
    /// documents that were evicted.
    private mutating func announce(_ key: [UInt8], _ flow: inout FlowControl) -> [Message] {
        guard let subscription = subscriptions.subscription(key) else { return [] }
        guard (subscription.request.cursor?.offset ?? 0) == 0 else {
            ask(key, &flow)
            return []
        }
        return [.askWhenReached(.subscription(key: key))]
    }

    private mutating func ask(_ key: [UInt8], _ flow: inout FlowControl) {
        guard case .begun(let resumesStaged) = exchange else {
            preconditionFailure("subscriptions are not asked for yet; the reader is \(name)")
        }
        if let frame = subscriptions.ask(key, resumes: resumesStaged) { flow.send(.subscribe(frame)) }
    }

    private mutating func unsubscribe(_ key: [UInt8], _ flow: inout FlowControl) {
        let (id, isStaging) = subscriptions.cancel(key)
        guard flow.isOpen else { return }
        if let id { flow.send(.unsubscribe(id: id)) }
        if isStaging {
            queue.append(.unstage(key: key))
            storeNext(&flow)
        }
        subscriptions.readList(&flow)
    }

    private mutating func refused(
        _ id: UInt64, _ error: SyncError, hides: Bool, _ flow: inout FlowControl
    ) {
        guard let subscription = subscriptions.refuse(id) else { return }
        flow.perform(.report(.subscriptionRefused(key: subscription.key, error)))
        if hides, let collection = subscription.collection {
            queue.append(.unstage(key: subscription.key))
            received(.hide(collection: collection, key: subscription.key), 0, &flow)
        }
        subscriptions.readList(&flow)
    }

    // MARK: What comes

    private mutating func received(_ work: StreamQueue.Work, _ size: Int, _ flow: inout FlowControl) {
        queue.append(work, size: size)
        storeNext(&flow)
    }

    /// A skipped position takes no credit, so a few wait at most: a server passes answers over when it falls
    /// back.
    private mutating func skipped(
        _ position: LogPosition, _ size: Int, _ flow: inout FlowControl
    ) throws(SyncError) {
        guard queue.skippedCount < Limits.skippedPositions else {
            throw SyncError(.creditExceeded, "answers were passed over again and again before it was stored")
        }
        received(.skipped(position), size, &flow)
    }

    /// A list takes no credit, so one waits for each subscription at most: a server asks again only after the
    /// answer.
    private mutating func list(
        _ id: UInt64, after last: DocumentID?, _ flow: inout FlowControl
    ) throws(SyncError) {
        // The subscription may be cancelled meanwhile.
        guard subscriptions.key(of: id) != nil else { return }
        guard !queue.isListAhead(of: id) else { throw .unexpected("list behind a list") }
        received(.list(id: id, after: last), 0, &flow)
    }

    private mutating func received(
        _ states: [(key: DocumentKey, state: EncodedState?)], at position: LogPosition?, isPart: Bool,
        _ gone: [DocumentVersion], _ size: Int, _ flow: inout FlowControl
    ) throws(SyncError) -> [Message] {
        switch try fetches.received(states, isPart: isPart, gone: gone, size: size, missing: needs.missing) {
        case .forRepair(let isComplete):
            return [.repairStates(states, at: position, isComplete: isComplete), .askNext]
        case .answers(let answers, let absent):
            fetchedAt = position ?? fetchedAt
            if !absent.isEmpty {
                let distrusts = subscriptions.uncertain(of: absent, queue.isListAhead)
                flow.perform(.settle(absent, distrusts: distrusts))
            }
            answered(answers, &flow)
            askNext(&flow)
            return []
        }
    }

    /// States that the first item needs are stored with it, others by themselves.
    private mutating func answered(_ answers: [FetchQueue.Answered], _ flow: inout FlowControl) {
        var needs = needs
        let (others, covered) = needs.take(answers)
        queue.dropDeltas(of: covered)
        if !others.isEmpty { queue.append(.states(others)) }
        guard case .waiting = step else { return storeNext(&flow) }
        step = .waiting(needs)
        if needs.missing.isEmpty { storeFirst(needs, &flow) }
    }

    /// Begins the next request for states if none is under way.
    private mutating func askNext(_ flow: inout FlowControl) {
        if flow.isOpen { fetches.askNext(isAnswerWaiting: queue.isAnyAnswer, &flow) }
    }

    // MARK: Storing

    private var needs: Needs {
        switch step {
        case .waiting(let needs), .storing(let needs): needs
        case .idle, .lookingUp: Needs()
        }
    }

    /// Begins with the first item if nothing is under way.
    private mutating func storeNext(_ flow: inout FlowControl) {
        guard case .idle = step, !isPaused else { return }
        queue.joinFirst()
        guard let first = queue.first else { return }
        switch first.work {
        case .catchUp(let page) where !page.candidates.isEmpty:
            guard let key = subscriptions.key(of: page.id) else { return storeFirst(Needs(), &flow) }
            step = .lookingUp
            flow.perform(.findOutdated(page.candidates, subscription: key))
        case .operations(let operations) where !operations.candidates.isEmpty:
            step = .lookingUp
            flow.perform(.findOutdated(operations.candidates, subscription: []))
        case .list(let id, let last): beginList(id, after: last, &flow)
        default: storeFirst(Needs(), &flow)
        }
    }

    /// Pages staged for the subscription count only as far as the server goes on after them.
    private mutating func beginList(_ id: UInt64, after last: DocumentID?, _ flow: inout FlowControl) {
        queue.removeFirst()
        if let key = subscriptions.beginList(id, after: last), last == nil {
            queue.prepend(.startOver(key: key))
        }
        storeNext(&flow)
        subscriptions.readList(&flow)
    }

    private mutating func outdated(_ keys: [DocumentKey], _ flow: inout FlowControl) {
        guard case .lookingUp = step, let work = queue.first?.work, let candidates = work.candidates else {
            preconditionFailure("no candidates were looked up; the reader is \(name)")
        }
        // The live stream may name a document more than once: it is asked for once.
        var named = Set(candidates.map(\.key))
        let keys = (keys + work.namedAndBrought).filter { named.remove($0) != nil }
        if keys.isEmpty { storeFirst(Needs(), &flow) } else { fetch(keys, Needs(), &flow) }
    }

    /// Bases are missing. A state that was fetched covers every base in the stream. A delta whose base the
    /// other side does not have any more says nothing.
    private mutating func wanting(_ keys: [DocumentKey], _ flow: inout FlowControl) throws(SyncError) {
        guard case .storing(var needs) = step else {
            preconditionFailure("nothing was being stored; the reader is \(name)")
        }
        precondition(!keys.isEmpty, "a store that wants nothing")
        guard let (missing, absent) = needs.lacks(basesOf: keys) else {
            throw SyncError(.baseNotCovered, "a change rests on one that the other side does not have")
        }
        if !absent.isEmpty {
            queue.dropDeltas(of: absent)
            flow.perform(.settle(Array(absent), distrusts: []))
        }
        if missing.isEmpty { storeFirst(needs, &flow) } else { fetch(missing, needs, &flow) }
    }

    private mutating func fetch(_ keys: [DocumentKey], _ needs: Needs, _ flow: inout FlowControl) {
        var needs = needs
        needs.missing = Set(keys)
        step = .waiting(needs)
        fetches.wantForHead(keys)
        askNext(&flow)
    }

    /// Turns the first item into one transaction.
    private mutating func storeFirst(_ needs: Needs, _ flow: inout FlowControl) {
        guard let first = queue.first else { preconditionFailure("there is nothing to store") }
        step = .storing(needs)
        if case .skipped(let position) = first.work {
            owed.store(skipped: position.offset, &flow)
        } else if !first.work.isOfStream {
            owed.store(&flow)
        }
        let fetched = needs.fetched
        switch first.work {
        case .catchUp(let page): store(page, fetched, &flow)
        case .operations(let operations):
            let position = operations.position
            store(
                Reception(
                    updates: operations.updates + fetched, cursors: subscriptions.cursors(at: position),
                    settles: fetched.map(\.key), seen: later(position), streamed: position.offset), &flow)
        case .progress(let position):
            store(
                Reception(
                    cursors: subscriptions.cursors(at: position), seen: later(position),
                    streamed: position.offset), &flow)
        case .skipped(let position):
            // The action settles them too: two actions may be carried out in any order.
            flow.perform(.askForAnswers(through: position.offset))
            store(
                Reception(cursors: subscriptions.cursors(at: position), seen: later(position)), &flow)
        case .states(let updates):
            store(Reception(updates: updates, settles: updates.map(\.key), seen: later(nil)), &flow)
        case .unstage(let key): flow.perform(.unstage(subscription: key))
        case .startOver(let key): flow.perform(.startOver(subscription: key))
        case .hide(let collection, let key):
            flow.perform(.hide(collection: collection, subscription: key))
        case .list: preconditionFailure("a list is begun, not stored")
        }
    }

    private mutating func store(
        _ page: Frame.CatchUp, _ fetched: [DocumentUpdate], _ flow: inout FlowControl
    ) {
        guard let key = subscriptions.key(of: page.id) else {
            // Cancelled meanwhile: a part of a catch-up is no state of the log to show.
            return store(Reception(seen: later(nil), hides: page.hidden), &flow)
        }
        let purges = page.gone.map { DocumentUpdate(key: $0.key, content: .gone($0.vector)) }
        let updates = purges + page.documents + fetched
        guard let end = page.end else {
            subscriptions.catchesUp(page.id)
            return flow.perform(
                .stage(
                    StagedPage(
                        subscription: key, updates: updates, hides: page.hidden, resume: page.resume,
                        seen: later(page.asOf))))
        }
        var reception = Reception(
            updates: updates, cursors: [(key, end)], publishes: key, settles: fetched.map(\.key),
            seen: later(end), hides: page.hidden, rights: page.rights)
        reception.presumesHeld = true
        flow.perform(.store(reception))
    }

    /// Stores a part of the stream, with the acknowledgements that wait for it.
    private mutating func store(_ reception: Reception, _ flow: inout FlowControl) {
        var reception = reception
        reception.acknowledges = owed.take()
        reception.distrusts = subscriptions.overtaken(queue.isListAhead)
        reception.presumesHeld = true
        flow.perform(.store(reception))
    }

    /// The later one of a position and that of the latest states: states that were fetched may be later
    /// than the stream.
    private func later(_ position: LogPosition?) -> LogPosition? {
        guard let position, let fetched = fetchedAt else { return position ?? fetchedAt }
        return fetched.offset > position.offset ? fetched : position
    }

    /// The first item is durable: gives its credit back and goes on.
    private mutating func stored(_ flow: inout FlowControl) {
        guard case .storing = step else {
            preconditionFailure("nothing was being stored; the reader is \(name)")
        }
        let first = queue.removeFirst()
        step = .idle
        flow.returnCredit(first.size)
        streamed = first.work.streamed ?? streamed
        if case .catchUp(let page) = first.work, let end = page.end,
            let key = subscriptions.becomesLive(page.id, from: end.offset)
        {
            subscriptions.readList(&flow)
            flow.perform(.report(.subscriptionIsLive(key: key)))
        }
        if case .states = first.work { askNext(&flow) }
        storeNext(&flow)
    }

    /// As `stored`; and own writes to documents that were purged at the server have to be moved (rule 14).
    private mutating func returning(_ keys: [DocumentKey], _ flow: inout FlowControl) -> [Message] {
        isPaused = true
        stored(&flow)
        return [.purged(keys)]
    }

    // MARK: Acknowledgements

    /// Acknowledgements are stored with what the stream brings next, if it comes to their offset by itself.
    /// Should the session end before, the next handshake tells the same. If two follow each other closely,
    /// the first one does not wait.
    private mutating func acknowledged(
        _ acknowledgements: [Acknowledgement], _ offset: Offset, _ flow: inout FlowControl
    ) {
        // Operations that the stream has passed are answered.
        let open = offset > streamed ? offset : 0
        owed.store(&flow)
        let mayWait = open > streamExpected && isOnlyStreamAhead
        owed.note(acknowledgements, offset: offset, open: open, mayWait: mayWait, &flow)
    }

    /// The offset after which the stream certainly tells a position: not up to where it is already, nor up to
    /// the end of a catch-up, which its sender may have passed before without a word.
    private var streamExpected: Offset {
        subscriptions.liveFrom.reduce(queue.streamWaiting?.offset ?? 0, max)
    }

    /// True if the live stream comes next, and nothing before it takes long or is of another kind.
    private var isOnlyStreamAhead: Bool {
        switch step {
        case .lookingUp, .waiting: false
        case .idle, .storing: !isPaused && queue.isOnlyStream && subscriptions.areAllLive
        }
    }

    // MARK: Repairs

    /// Returns whether the stream will come to a position without anything being stored before: there is one,
    /// nothing else waits in it, and its sender has credit.
    private func mayFollow(to position: LogPosition?, _ flow: FlowControl) -> Bool {
        guard let position, flow.receiveCredit > 0, queue.isOnlyStream,
            let first = subscriptions.liveFrom.min()
        else { return false }
        return max(first, streamed, queue.streamWaiting?.offset ?? 0) < position.offset
    }

    private mutating func lend(to position: LogPosition?, _ flow: inout FlowControl) -> [Message] {
        owed.store(&flow)
        guard let (updates, reached) = queue.lend(to: position) else { return [.streamLent(nil)] }
        var reception = Reception(
            updates: updates, cursors: subscriptions.cursors(at: reached), seen: later(reached),
            streamed: reached.offset)
        reception.presumesHeld = true
        return [.streamLent(reception)]
    }

    private mutating func repairEnded(
        isFollowed: Bool, isAnotherDue: Bool, _ flow: inout FlowControl
    ) {
        if isFollowed {
            let lent = queue.settleLent()
            streamed = lent.streamed ?? streamed
            flow.returnCredit(lent.size)
        } else {
            queue.takeBack()
        }
        fetches.forgetRepair()
        isPaused = isAnotherDue
        storeNext(&flow)
    }
}

// MARK: Invariants

extension Reader {
    /// The name of its state, for logs and traps.
    var name: String {
        let step =
            switch step {
            case .idle: "idle"
            case .lookingUp: "looking up candidates"
            case .waiting(let needs): "waiting for states: \(needs.missing.count)"
            case .storing: "storing"
            }
        return isPaused ? "\(step), paused for a repair" : step
    }

    /// The number of items that wait, the one being stored included.
    var waitingItems: Int { queue.count }

    /// Returns whether the driver may answer now.
    func expects(_ answer: Answer) -> Bool {
        switch (answer, step) {
        case (.storing, .storing), (.outdated, .lookingUp): true
        case (.vectors, _): fetches.isNaming
        case (.held, _): subscriptions.readingList != nil
        default: false
        }
    }

    /// Traps on a state that contradicts itself.
    func checkInvariants() {
        switch step {
        case .storing, .lookingUp: precondition(!queue.isEmpty, "\(name), and there is nothing to store")
        case .waiting(let needs):
            precondition(!needs.missing.isEmpty && !queue.isEmpty, "waits for nothing")
        case .idle: precondition(queue.isEmpty || isPaused, "work waits, and nothing is under way")
        }
        fetches.checkInvariants()
        subscriptions.checkInvariants()
    }
}
