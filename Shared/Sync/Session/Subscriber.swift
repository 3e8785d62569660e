import CRDT

/// Asks for queries' documents and stores what comes, in order, one durable transaction at a time.
///
/// Invariants: data frames are stored in the order in which they came; a cursor moves in the transaction
/// that stores what it stands for; a frame whose base is missing waits, and everything behind it, until the
/// states it asked for are here.
struct Subscriber: Sendable {
    struct Subscription: Sendable {
        let id: UInt64
        let request: SubscriptionRequest
        /// The catch-up is complete: every position the server tells counts for this subscription too.
        var isLive = false
    }

    enum Work: Sendable {
        case catchUp(Frame.CatchUp)
        case operations(Frame.Operations)
        case progress(LogPosition)
        case states([DocumentUpdate])
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

    var subscriptions: [Subscription] = []
    var nextID: UInt64 = 1
    /// What has come and is not stored; bounded by the credit given.
    var queue: [(work: Work, size: Int)] = []
    var step = Step.idle
    /// Documents whose states the head of the queue waits for.
    var missing: Set<DocumentKey> = []
    /// The states that have come for the head of the queue.
    var fetched: [DocumentUpdate] = []
}

extension Session {
    mutating func subscribe(_ request: SubscriptionRequest) {
        let subscription = Subscriber.Subscription(id: subscriber.nextID, request: request)
        subscriber.nextID += 1
        subscriber.subscriptions.append(subscription)
        if phase == .open { announce(subscription) }
    }

    mutating func unsubscribe(_ key: [UInt8]) {
        for subscription in subscriber.subscriptions where subscription.request.key == key {
            if phase == .open { send(.unsubscribe(id: subscription.id)) }
        }
        subscriber.subscriptions.removeAll { $0.request.key == key }
    }

    mutating func announceSubscriptions() {
        for subscription in subscriber.subscriptions { announce(subscription) }
    }

    private mutating func announce(_ subscription: Subscriber.Subscription) {
        send(
            .subscribe(
                Frame.Subscribe(
                    id: subscription.id, statement: subscription.request.statement,
                    arguments: subscription.request.arguments, cursor: subscription.request.cursor)))
    }

    mutating func subscriptionRefused(_ id: UInt64, _ error: SyncError) {
        guard let index = subscriber.subscriptions.firstIndex(where: { $0.id == id }) else { return }
        let subscription = subscriber.subscriptions.remove(at: index)
        actions.append(.report(.subscriptionRefused(key: subscription.request.key, error)))
    }

    /// Documents to fetch outside the stream: noted as wanted earlier, or evicted under a live subscription.
    mutating func want(_ keys: [DocumentKey]) {
        guard phase == .open, configuration.role == .peer else { return }
        for start in stride(from: 0, to: keys.count, by: Limits.wantedDocuments) {
            send(.want(Array(keys[start..<min(start + Limits.wantedDocuments, keys.count)])))
        }
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

    mutating func receivedStates(_ states: [(key: DocumentKey, state: [UInt8]?)]) {
        let absent = states.filter { $0.state == nil }.map(\.key)
        if !absent.isEmpty { actions.append(.settle(absent)) }
        let updates = states.compactMap { item in
            item.state.map { DocumentUpdate(key: item.key, content: .state($0)) }
        }
        let isAnswer = subscriber.step == .waiting && states.contains { subscriber.missing.contains($0.key) }
        guard isAnswer else {
            subscriber.queue.append((.states(updates), 0))
            return storeNext()
        }
        subscriber.fetched += updates
        for item in states { subscriber.missing.remove(item.key) }
        guard subscriber.missing.isEmpty else { return }
        subscriber.step = .idle
        storeHead(with: subscriber.fetched)
    }

    /// Begins with the head of the queue when nothing is under way.
    private mutating func storeNext() {
        guard subscriber.step == .idle, let head = subscriber.queue.first else { return }
        if case .catchUp(let page) = head.work, !page.candidates.isEmpty {
            subscriber.step = .lookingUp
            return actions.append(.findOutdated(page.candidates))
        }
        storeHead(with: [])
    }

    mutating func outdated(_ keys: [DocumentKey]) {
        guard subscriber.step == .lookingUp else { return }
        guard !keys.isEmpty else { return storeHead(with: []) }
        fetch(keys)
    }

    mutating func wanting(_ keys: [DocumentKey]) {
        guard subscriber.step == .storing else { return }
        fetch(keys)
    }

    private mutating func fetch(_ keys: [DocumentKey]) {
        subscriber.step = .waiting
        subscriber.missing = Set(keys)
        want(keys)
    }

    /// Turns the head of the queue into one transaction.
    private mutating func storeHead(with fetched: [DocumentUpdate]) {
        guard let head = subscriber.queue.first else { return }
        subscriber.step = .storing
        switch head.work {
        case .catchUp(let page): storePage(page, fetched)
        case .operations(let operations):
            store(fetched + operations.updates, cursors: liveCursors(operations.position))
        case .progress(let position): store([], cursors: liveCursors(position))
        case .states(let updates): store(updates, cursors: [])
        }
    }

    private mutating func storePage(_ page: Frame.CatchUp, _ fetched: [DocumentUpdate]) {
        guard let index = subscriber.subscriptions.firstIndex(where: { $0.id == page.id }) else {
            // Cancelled meanwhile: what came is still true, and stays.
            return store(page.documents + fetched, cursors: [])
        }
        let key = subscriber.subscriptions[index].request.key
        guard let end = page.end else {
            return actions.append(.stage(page.documents + fetched, subscription: key))
        }
        actions.append(
            .store(Batch(updates: page.documents + fetched, cursors: [(key, end)], publishes: key)))
    }

    private mutating func store(_ updates: [DocumentUpdate], cursors: [(key: [UInt8], position: LogPosition)])
    {
        actions.append(.store(Batch(updates: updates, cursors: cursors, publishes: nil)))
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
        returnCredit(head.size)
        if case .catchUp(let page) = head.work, page.end != nil,
            let index = subscriber.subscriptions.firstIndex(where: { $0.id == page.id })
        {
            subscriber.subscriptions[index].isLive = true
            actions.append(.report(.subscriptionIsLive(key: subscriber.subscriptions[index].request.key)))
        }
        storeNext()
    }
}
