import CRDT

/// Asks for queries' documents and stores what comes, in order, one durable transaction at a time.
///
/// Invariants: data frames are stored in the order in which they came; a cursor moves in the transaction
/// that stores what it stands for; a frame whose base is missing waits, and everything behind it, until the
/// states it asked for are here.
struct Subscriber: Sendable {
    struct Subscription: Sendable {
        /// Its number on the wire; nil until the server is asked.
        var id: UInt64?
        let request: SubscriptionRequest
        /// The catch-up is complete: every position the server tells counts for this subscription too.
        var isLive = false
        /// Hashes of the documents staged by the catch-up under way: one that is named as a candidate later
        /// has left since, and must be fetched although the store does not show it yet.
        var staged: Set<UInt64> = []
    }

    enum Work: Sendable {
        case catchUp(Frame.CatchUp)
        case operations(Frame.Operations)
        case progress(LogPosition)
        case states([DocumentUpdate])
        /// What a cancelled catch-up has staged is not a part of the next one under the same key.
        case unstage(key: [UInt8])
    }

    enum Step: Sendable, Equatable {
        case idle
        /// A catch-up page's candidates are being looked up.
        case lookingUp
        /// States were asked for; the head of the queue waits for them.
        case waiting
        /// A transaction is under way.
        case storing
    }

    enum Asks: Sendable {
        case documents([DocumentKey])
        case subscription(key: [UInt8])
    }

    var subscriptions: [Subscription] = []
    var nextID: UInt64 = 1
    /// What has come and is not stored; bounded by the credit given.
    var queue: [(work: Work, size: Int)] = []
    var step = Step.idle
    /// Documents whose states the head of the queue waits for.
    var missing: Set<DocumentKey> = []
    /// The states that have come for the head of the queue, and whose they are.
    var fetched: [DocumentUpdate] = []
    var answered: Set<DocumentKey> = []
    /// The position of the server's log that the latest states stand for.
    var fetchedAt: LogPosition?
    /// Documents to ask for: for the head of the queue, and (in order, each once) for the store.
    var urgent: [DocumentKey] = []
    var wanted: [DocumentKey] = []
    var isWanted: Set<DocumentKey> = []
    /// What may be asked for only when the server has what was written here before: own writes are not
    /// echoed, so a state without them would be taken for the last word by a store that has evicted it.
    var held: [(asks: Asks, barrier: Uploader.Barrier)] = []
    /// Documents of the request under way; one at a time, so that what comes unasked is bounded.
    var asked: Set<DocumentKey> = []
    /// Those of them whose answer may be older than the head of the queue, which asks for them again.
    var stale: Set<DocumentKey> = []
}

extension Session {
    mutating func subscribe(_ request: SubscriptionRequest) {
        let subscription = Subscriber.Subscription(request: request)
        subscriber.subscriptions.append(subscription)
        if uploader.hasBegun { announce(subscription) }
    }

    mutating func unsubscribe(_ key: [UInt8]) {
        for subscription in subscriber.subscriptions where subscription.request.key == key {
            if phase == .open, let id = subscription.id { send(.unsubscribe(id: id)) }
        }
        let isStaging = subscriber.subscriptions.contains {
            $0.request.key == key && !$0.isLive && $0.id != nil
        }
        subscriber.subscriptions.removeAll { $0.request.key == key }
        guard phase == .open, isStaging else { return }
        subscriber.queue.append((.unstage(key: key), 0))
        storeNext()
    }

    mutating func announceSubscriptions() {
        guard !uploader.hasBegun else { return }
        uploader.hasBegun = true
        for subscription in subscriber.subscriptions { announce(subscription) }
    }

    /// One with a cursor at once: what it lacks is noted as wanted. One without may lack what was evicted.
    private mutating func announce(_ subscription: Subscriber.Subscription) {
        guard (subscription.request.cursor?.offset ?? 0) == 0 else {
            return sendSubscribe(subscription.request.key)
        }
        subscriber.held.append((.subscription(key: subscription.request.key), uploader.barrier))
        resumeAsking()
    }

    private mutating func sendSubscribe(_ key: [UInt8]) {
        let isMeant = { (subscription: Subscriber.Subscription) in
            subscription.id == nil && subscription.request.key == key
        }
        guard let index = subscriber.subscriptions.firstIndex(where: isMeant) else { return }
        let id = subscriber.nextID
        subscriber.nextID += 1
        subscriber.subscriptions[index].id = id
        let request = subscriber.subscriptions[index].request
        send(
            .subscribe(
                Frame.Subscribe(
                    id: id, statement: request.statement, arguments: request.arguments,
                    cursor: request.cursor)))
    }

    mutating func subscriptionRefused(_ id: UInt64, _ error: SyncError) {
        guard let index = subscriber.subscriptions.firstIndex(where: { $0.id == id }) else { return }
        let subscription = subscriber.subscriptions.remove(at: index)
        actions.append(.report(.subscriptionRefused(key: subscription.request.key, error)))
    }

    /// Documents to fetch outside the stream: noted as wanted earlier, or evicted under a live subscription.
    mutating func want(_ keys: [DocumentKey]) {
        guard phase == .open, configuration.role == .peer else { return }
        subscriber.held.append((.documents(keys), uploader.barrier))
        resumeAsking()
    }

    /// Asks for what was held until its moment.
    mutating func resumeAsking() {
        while let first = subscriber.held.first, uploader.hasBegun, phase == .open,
            uploader.isReached(first.barrier)
        {
            subscriber.held.removeFirst()
            switch first.asks {
            case .documents(let keys):
                for key in keys where subscriber.isWanted.insert(key).inserted {
                    subscriber.wanted.append(key)
                }
            case .subscription(let key): sendSubscribe(key)
            }
        }
        askNext()
    }

    /// Sends the next request when none is under way.
    mutating func askNext() {
        guard phase == .open, subscriber.asked.isEmpty else { return }
        var keys: [DocumentKey] = []
        uploader.repair.isAsking = false
        if !uploader.repair.needed.isEmpty {
            keys = Array(uploader.repair.needed.prefix(Limits.wantedDocuments))
            uploader.repair.needed.removeFirst(keys.count)
            uploader.repair.isAsking = true
        } else if !subscriber.urgent.isEmpty {
            keys = Array(subscriber.urgent.prefix(Limits.wantedDocuments))
            subscriber.urgent.removeFirst(keys.count)
        } else if !subscriber.wanted.isEmpty {
            keys = Array(subscriber.wanted.prefix(Limits.wantedDocuments))
            subscriber.wanted.removeFirst(keys.count)
            subscriber.isWanted.subtract(keys)
        }
        guard !keys.isEmpty else { return }
        subscriber.asked = Set(keys)
        send(.want(keys))
    }

    mutating func received(_ work: Subscriber.Work, _ size: Int) {
        guard case .progress = work else {
            subscriber.queue.append((work, size))
            return storeNext()
        }
        // A later position replaces one that nobody has stored yet.
        if subscriber.queue.count > 1, case .progress? = subscriber.queue.last?.work {
            subscriber.queue.removeLast()
        }
        subscriber.queue.append((work, 0))
        storeNext()
    }

    mutating func receivedStates(
        _ states: [(key: DocumentKey, state: [UInt8]?)], at position: LogPosition?
    ) throws(SyncError) {
        for item in states where subscriber.asked.remove(item.key) == nil {
            throw unexpected("a state that was not asked for")
        }
        guard !uploader.repair.isAsking else { return receivedForRepair(states, at: position) }
        subscriber.fetchedAt = position ?? subscriber.fetchedAt
        defer { askNext() }
        let absent = states.filter { $0.state == nil }.map(\.key)
        if !absent.isEmpty { actions.append(.settle(absent)) }
        var others: [DocumentUpdate] = []
        for item in states {
            let isStale = subscriber.stale.remove(item.key) != nil
            let isAnswer = !isStale && subscriber.missing.remove(item.key) != nil
            if isAnswer { subscriber.answered.insert(item.key) }
            guard let state = item.state else { continue }
            let update = DocumentUpdate(key: item.key, content: .state(state))
            if isAnswer { subscriber.fetched.append(update) } else { others.append(update) }
        }
        if !others.isEmpty { subscriber.queue.append((.states(others), 0)) }
        if subscriber.step == .waiting, subscriber.missing.isEmpty {
            storeHead(with: subscriber.fetched)
        } else {
            storeNext()
        }
    }

    /// Begins with the head of the queue when nothing is under way.
    mutating func storeNext() {
        guard subscriber.step == .idle, !uploader.repair.isDue, let head = subscriber.queue.first else {
            return
        }
        if case .catchUp(let page) = head.work, !page.candidates.isEmpty {
            subscriber.step = .lookingUp
            return actions.append(.findOutdated(page.candidates))
        }
        storeHead(with: [])
    }

    mutating func outdated(_ keys: [DocumentKey]) {
        guard subscriber.step == .lookingUp, case .catchUp(let page)? = subscriber.queue.first?.work else {
            return
        }
        let staged = subscriber.subscriptions.first { $0.id == page.id }?.staged ?? []
        let left = page.candidates.map(\.key).filter { staged.contains($0.hash) && !keys.contains($0) }
        guard !keys.isEmpty || !left.isEmpty else { return storeHead(with: []) }
        fetch(keys + left)
    }

    mutating func wanting(_ keys: [DocumentKey]) throws(SyncError) {
        guard subscriber.step == .storing else { return }
        // A state that was fetched covers every base in the stream; asking again would go on for ever.
        guard !keys.isEmpty, !keys.contains(where: subscriber.answered.contains) else {
            throw SyncError(.baseNotCovered, "a change rests on one that the other side does not have")
        }
        fetch(keys)
    }

    private mutating func fetch(_ keys: [DocumentKey]) {
        subscriber.step = .waiting
        subscriber.missing = Set(keys)
        subscriber.stale = subscriber.asked.intersection(keys)
        subscriber.urgent += keys
        askNext()
    }

    /// Turns the head of the queue into one transaction.
    private mutating func storeHead(with fetched: [DocumentUpdate]) {
        guard let head = subscriber.queue.first else { return }
        subscriber.step = .storing
        switch head.work {
        case .catchUp(let page): storePage(page, fetched)
        case .operations(let operations):
            store(
                fetched + operations.updates, liveCursors(operations.position), answers: fetched,
                seen: operations.position)
        case .progress(let position): store([], liveCursors(position), seen: position)
        case .states(let updates): store(updates, answers: updates)
        case .unstage(let key): actions.append(.unstage(subscription: key))
        }
    }

    private mutating func storePage(_ page: Frame.CatchUp, _ fetched: [DocumentUpdate]) {
        guard let index = subscriber.subscriptions.firstIndex(where: { $0.id == page.id }) else {
            // Cancelled meanwhile: a part of a catch-up is no state of the log to show.
            return store([])
        }
        let key = subscriber.subscriptions[index].request.key
        guard let end = page.end else {
            // Also when it was live before: the server has fallen back to a catch-up.
            subscriber.subscriptions[index].isLive = false
            subscriber.subscriptions[index].staged.formUnion(page.documents.map(\.key.hash))
            return actions.append(.stage(page.documents + fetched, subscription: key))
        }
        actions.append(
            .store(
                Batch(
                    updates: page.documents + fetched, cursors: [(key, end)], publishes: key,
                    settles: fetched.map(\.key), seen: later(end))))
    }

    /// `answers` are those of the updates that came as the answer to a want.
    private mutating func store(
        _ updates: [DocumentUpdate], _ cursors: [(key: [UInt8], position: LogPosition)] = [],
        answers: [DocumentUpdate] = [], seen: LogPosition? = nil
    ) {
        actions.append(
            .store(
                Batch(
                    updates: updates, cursors: cursors, publishes: nil, settles: answers.map(\.key),
                    seen: later(seen))))
    }

    /// States that were fetched may be later than the stream.
    private func later(_ position: LogPosition?) -> LogPosition? {
        guard let position, let fetched = subscriber.fetchedAt else {
            return position ?? subscriber.fetchedAt
        }
        return fetched.offset > position.offset ? fetched : position
    }

    private func liveCursors(_ position: LogPosition) -> [(key: [UInt8], position: LogPosition)] {
        subscriber.subscriptions.filter(\.isLive).map { ($0.request.key, position) }
    }

    /// The head of the queue is durable: give its credit back and go on.
    mutating func stored() {
        guard subscriber.step == .storing, !subscriber.queue.isEmpty else { return }
        let head = subscriber.queue.removeFirst()
        subscriber.step = .idle
        subscriber.fetched = []
        subscriber.answered = []
        returnCredit(head.size)
        if case .catchUp(let page) = head.work, page.end != nil,
            let index = subscriber.subscriptions.firstIndex(where: { $0.id == page.id })
        {
            subscriber.subscriptions[index].isLive = true
            subscriber.subscriptions[index].staged = []
            actions.append(.report(.subscriptionIsLive(key: subscriber.subscriptions[index].request.key)))
        }
        storeNext()
    }
}

extension DocumentKey {
    /// 64 bits that stand for the key; a clash costs one fetch too many.
    fileprivate var hash: UInt64 {
        let collection = Array(collection.utf8).withUnsafeBytes { hash64($0, seed: 0) }
        return id.bytes.withUnsafeBytes { hash64($0, seed: collection) }
    }
}
