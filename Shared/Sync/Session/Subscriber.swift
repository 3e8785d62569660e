import CRDT
import DQL
import Exchange

/// Asks for queries' documents and stores what comes, in order, one durable transaction at a time.
///
/// Invariants: data frames are stored in the order in which they came; a cursor moves in the transaction
/// that stores what it stands for; a frame whose base is missing waits, and everything behind it, until the
/// states it asked for are here.
struct Subscriber: Sendable {
    struct Subscription: Sendable {
        /// Its number on the wire; nil until the server is asked.
        var id: UInt64?
        var request: SubscriptionRequest
        /// The catch-up is complete: every position the server tells counts for this subscription too.
        var isLive = false
        /// The offset at which its catch-up ended.
        var liveFrom: Offset = 0
        /// The server did not take it: it is asked for again when the rights change.
        var isRefused = false
        /// Whether the store may hold documents that match by now, whatever the request says.
        var mayHold = false
        /// The collection it asks for; nil for a statement that is no subscription.
        var collection: CollectionName?
        /// Whether the server has ever told what it lacked of the subscription, or begun to.
        var hasBegun = false
        /// Whether all that is held of its collection is named for it, since the list that was begun last.
        var namesAll = false
    }

    enum Work: Sendable {
        case catchUp(Frame.CatchUp)
        case operations(Frame.Operations)
        case progress(LogPosition)
        /// A position; the answers to own writes up to there were passed over.
        case skipped(LogPosition)
        case states([DocumentUpdate], asOf: LogPosition?)
        /// The server asks what is held; everything that came before is stored by then.
        case list(id: UInt64, after: DocumentID?)
        /// What may not be read any more.
        case hide(collection: CollectionName, key: [UInt8])
        /// What a cancelled catch-up has staged is not a part of the next one under the same key.
        case unstage(key: [UInt8])
        /// What is held is about to be listed: what was staged counts no more, nor does the cursor.
        case startOver(key: [UInt8])
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

    /// What is still to be listed of a subscription.
    struct OwedListing: Sendable {
        let id: UInt64
        /// Behind which id it goes on.
        var after: DocumentID?
        /// Whether all that is held of the collection is named.
        var isWhole: Bool
        /// Whether nothing of it was read, since another subscription of the collection comes first.
        var waits: Bool
    }

    enum Asks: Sendable {
        case documents([DocumentKey])
        case subscription(key: [UInt8])
    }

    var subscriptions: [Subscription] = []
    var nextID: UInt64 = 1
    /// What has come and is not stored; bounded by the credit given.
    var queue = Queue<(work: Work, size: Int)>()
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
    /// What is gone of documents whose states are still to come.
    var gone: [DocumentKey: [UInt8]] = [:]
    /// What is about to be asked for, while the store tells what it holds of it.
    var asking: [DocumentKey] = []
    /// Bytes that have come for the request under way.
    var answerBytes = 0
    /// What the server asks this side to list, in order; which one is being read.
    var listings: [OwedListing] = []
    var readingHeld: UInt64?
    /// The collections of all subscriptions of this session so far, and whether anything was written or
    /// wanted: what the store held when somebody subscribed may not be all that it holds when it is asked.
    var collections: Set<CollectionName> = []
    var hasOthers = false
    /// The keys that were cancelled in this session: what was staged for them is forgotten, whatever a
    /// request says that was put together before.
    var cancelled: Set<[UInt8]> = []
    /// The offset that the server's stream has passed, as far as it is stored.
    var streamed: Offset = 0
}

extension Session {
    /// Who begins a session tells it of all subscriptions that there are, and may tell of one that was added
    /// in this moment twice.
    mutating func subscribe(_ request: SubscriptionRequest) {
        guard !subscriber.subscriptions.contains(where: { $0.request.key == request.key }) else { return }
        let request =
            subscriber.cancelled.contains(request.key) ? request.startingOver : request
        var subscription = Subscriber.Subscription(request: request)
        subscription.hasBegun = request.cursor != nil || request.resume != nil
        if let collection = request.collection {
            subscription.collection = collection
            subscription.mayHold = !subscriber.collections.insert(collection).inserted
        }
        subscriber.subscriptions.append(subscription)
        if uploader.hasBegun { announce(subscription) }
    }

    mutating func unsubscribe(_ key: [UInt8]) {
        for subscription in subscriber.subscriptions where subscription.request.key == key {
            if phase == .open, let id = subscription.id { send(.unsubscribe(id: id)) }
        }
        let isStaging = subscriber.subscriptions.contains {
            $0.request.key == key && !$0.isLive && ($0.id != nil || $0.request.resume != nil)
        }
        subscriber.subscriptions.removeAll { $0.request.key == key }
        subscriber.cancelled.insert(key)
        guard phase == .open else { return }
        if isStaging {
            subscriber.queue.append((.unstage(key: key), 0))
            storeNext()
        }
        readHeld()
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
        var frame = Frame.Subscribe(
            id: id, statement: request.statement, arguments: request.arguments, cursor: request.cursor)
        // What was staged of a log that has lost its end may not be in it any more.
        frame.resume = uploader.isServerBehind ? nil : request.resume
        frame.holds =
            request.holds || subscriber.hasOthers || subscriber.subscriptions[index].mayHold
        frame.rights = request.rights
        send(.subscribe(frame))
    }

    mutating func subscriptionRefused(_ id: UInt64, _ error: SyncError, hides: Bool) {
        guard let index = subscriber.subscriptions.firstIndex(where: { $0.id == id }) else { return }
        subscriber.subscriptions[index].id = nil
        subscriber.subscriptions[index].isLive = false
        subscriber.subscriptions[index].isRefused = true
        subscriber.subscriptions[index].mayHold = true
        subscriber.subscriptions[index].hasBegun = false
        subscriber.subscriptions[index].namesAll = false
        let request = subscriber.subscriptions[index].request
        // What was remembered stands for rights that are no more.
        subscriber.subscriptions[index].request = SubscriptionRequest(
            key: request.key, statement: request.statement, arguments: request.arguments, cursor: nil,
            holds: request.holds)
        actions.append(.report(.subscriptionRefused(key: request.key, error)))
        defer { readHeld() }
        guard hides, let collection = subscriber.subscriptions[index].collection else { return }
        subscriber.queue.append((.unstage(key: request.key), 0))
        received(.hide(collection: collection, key: request.key), 0)
    }

    /// The rights have changed: what was refused is asked for again.
    mutating func askAgain() {
        let refused = subscriber.subscriptions.filter(\.isRefused)
        for index in subscriber.subscriptions.indices { subscriber.subscriptions[index].isRefused = false }
        for subscription in refused { announce(subscription) }
    }

    /// Documents to fetch outside the stream: noted as wanted earlier, or evicted under a live subscription.
    mutating func want(_ keys: [DocumentKey]) {
        guard phase == .open, configuration.role == .peer else { return }
        subscriber.hasOthers = true
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
        } else if !subscriber.wanted.isEmpty, !subscriber.queue.items.contains(where: \.work.isAnswer) {
            // What has come is stored before more comes: it takes no credit.
            keys = Array(subscriber.wanted.prefix(Limits.wantedDocuments))
            subscriber.wanted.removeFirst(keys.count)
            subscriber.isWanted.subtract(keys)
        }
        guard !keys.isEmpty else { return }
        subscriber.asked = Set(keys)
        subscriber.answerBytes = 0
        // The states for a repair take the place of what is held.
        if uploader.repair.isAsking { return send(.want(keys)) }
        subscriber.asking = keys
        actions.append(.readVectors(keys))
    }

    /// Asks, now that it is known what is held of it: for some, where that is much.
    mutating func ask(_ held: [DocumentVersion]) {
        guard phase == .open, !subscriber.asking.isEmpty else { return }
        // One that would take a want for itself is asked for as if it were not here.
        let named = Dictionary(held.map { ($0.key, $0) }) { $1 }.filter { $0.value.size <= Limits.wantBytes }
        var size = 0
        let now = subscriber.asking.prefix { key in
            size += key.size + (named[key]?.vector.count ?? 0)
            return size <= 2 * Limits.wantBytes
        }
        let later = subscriber.asking.dropFirst(now.count)
        subscriber.asking = []
        subscriber.asked.subtract(later)
        askLater(Array(later))
        send(.want(Array(now), held: now.compactMap { named[$0] }))
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

    /// It takes no credit, so a few wait at most: a server passes answers over when it falls back.
    mutating func receivedSkipped(_ position: LogPosition, _ size: Int) throws(SyncError) {
        let waiting = subscriber.queue.items.reduce(0) { count, item in
            if case .skipped = item.work { count + 1 } else { count }
        }
        guard waiting < Limits.skippedPositions else {
            throw SyncError(.creditExceeded, "answers were passed over again and again before it was stored")
        }
        received(.skipped(position), size)
    }

    /// It takes no credit, so one waits for each subscription at most: a server asks again only behind the
    /// answer.
    mutating func receivedList(_ id: UInt64, _ last: DocumentID?) throws(SyncError) {
        // Cancelled meanwhile.
        guard subscriber.subscriptions.contains(where: { $0.id == id }) else { return }
        guard !isListAhead(of: id) else { throw unexpected("list behind a list") }
        received(.list(id: id, after: last), 0)
    }

    /// Whether the server has asked what is held of a subscription, and this side has not got there.
    private func isListAhead(of id: UInt64) -> Bool {
        subscriber.queue.items.contains { item in
            if case .list(id, _) = item.work { true } else { false }
        }
    }

    /// The keys of live subscriptions that are about to be listed: what they pass from here on may be hidden
    /// from them, so their cursors stand for nothing, whatever becomes of the list.
    private var overtaken: [[UInt8]] {
        subscriber.subscriptions.filter { subscription in
            subscription.isLive && subscription.id.map(isListAhead) ?? false
        }.map(\.request.key)
    }

    /// The keys of subscriptions that may have lost a right to these documents: they are not live, or about
    /// to be listed. That the server has no such document may only mean that it may not be read now, and once
    /// it may be again nobody would tell of it.
    private func uncertain(of documents: [DocumentKey]) -> [[UInt8]] {
        subscriber.subscriptions.filter { subscription in
            guard let id = subscription.id, let collection = subscription.collection else { return false }
            return (!subscription.isLive || isListAhead(of: id))
                && documents.contains { $0.collection == collection }
        }.map(\.request.key)
    }

    mutating func receivedStates(
        _ states: [(key: DocumentKey, state: EncodedState?)], at position: LogPosition?, isPart: Bool,
        gone: [DocumentVersion], _ size: Int
    ) throws(SyncError) {
        for item in gone {
            guard subscriber.asked.contains(item.key) else {
                throw unexpected("what is gone of a document that was not asked for")
            }
            guard (try? VersionVector(decoding: item.vector)) != nil else {
                throw SyncError(.malformedFrame, "the vector of what is gone does not decode")
            }
        }
        for item in states where subscriber.asked.remove(item.key) == nil {
            throw unexpected("a state that was not asked for")
        }
        subscriber.answerBytes += size
        guard subscriber.answerBytes <= Limits.answerBytes + 2 * Limits.messageBytes else {
            throw SyncError(.creditExceeded, "an answer of \(subscriber.answerBytes) bytes is not bounded")
        }
        if isPart { askAgainLater() }
        guard !uploader.repair.isAsking else { return receivedForRepair(states, at: position) }
        subscriber.fetchedAt = position ?? subscriber.fetchedAt
        defer { askNext() }
        for item in gone { subscriber.gone[item.key] = item.vector }
        let absent = states.filter { $0.state == nil && subscriber.gone[$0.key] == nil }.map(\.key)
        if !absent.isEmpty { actions.append(.settle(absent, distrusts: uncertain(of: absent))) }
        var others: [DocumentUpdate] = []
        for item in states {
            let isStale = subscriber.stale.remove(item.key) != nil
            let isAnswer = !isStale && subscriber.missing.remove(item.key) != nil
            if isAnswer {
                subscriber.answered.insert(item.key)
                dropDeltas(of: item.key)
            }
            let contents = [
                subscriber.gone.removeValue(forKey: item.key).map(DocumentUpdate.Content.gone),
                item.state.map(DocumentUpdate.Content.state),
            ]
            let updates = contents.compactMap { $0 }.map { DocumentUpdate(key: item.key, content: $0) }
            if isAnswer { subscriber.fetched += updates } else { others += updates }
        }
        if !others.isEmpty { subscriber.queue.append((.states(others, asOf: subscriber.fetchedAt), 0)) }
        if subscriber.step == .waiting, subscriber.missing.isEmpty {
            storeHead(with: subscriber.fetched)
        } else {
            storeNext()
        }
    }

    /// The server's state of a document is from behind what waits here, so that says nothing of it any more:
    /// it is in the state, or rests on what is gone since, the whole document or an earlier one of its id.
    private mutating func dropDeltas(of key: DocumentKey) {
        guard case .operations(var operations)? = subscriber.queue.first?.work else { return }
        operations.updates.removeAll { update in
            if case .delta = update.content { update.key == key } else { false }
        }
        let size = subscriber.queue.removeFirst().size
        subscriber.queue.prepend((.operations(operations), size))
    }

    /// The answer is as large as one may be: what is left of the request goes back to where it came from.
    private mutating func askAgainLater() {
        let rest = subscriber.asked.sorted { ($0.collection, $0.id) < ($1.collection, $1.id) }
        subscriber.asked = []
        guard !uploader.repair.isAsking else { return uploader.repair.needed += rest }
        askLater(rest)
    }

    private mutating func askLater(_ keys: [DocumentKey]) {
        for key in keys {
            // What the head of the queue waits for is asked for again by itself when it is stale.
            if subscriber.stale.remove(key) != nil { continue }
            if subscriber.missing.contains(key) {
                subscriber.urgent.append(key)
            } else if subscriber.isWanted.insert(key).inserted {
                subscriber.wanted.append(key)
            }
        }
    }

    /// Begins with the head of the queue when nothing is under way.
    mutating func storeNext() {
        guard subscriber.step == .idle, !uploader.repair.isDue else { return }
        joinHead()
        guard let head = subscriber.queue.first else { return }
        switch head.work {
        case .catchUp(let page) where !page.candidates.isEmpty:
            guard let key = key(of: page.id) else { return storeHead(with: []) }
            subscriber.step = .lookingUp
            actions.append(.findOutdated(page.candidates, subscription: key))
        case .list(let id, let last):
            beginListing(id, last)
        default: storeHead(with: [])
        }
    }

    private func key(of id: UInt64) -> [UInt8]? {
        subscriber.subscriptions.first { $0.id == id }?.request.key
    }

    /// What was staged for the subscription counts only as far as the server goes on behind it.
    private mutating func beginListing(_ id: UInt64, _ last: DocumentID?) {
        subscriber.queue.removeFirst()
        defer { readHeld() }
        guard let index = subscriber.subscriptions.firstIndex(where: { $0.id == id }) else {
            return storeNext()
        }
        let subscription = subscriber.subscriptions[index]
        subscriber.subscriptions[index].isLive = false
        let waits = last == nil && isNamed(beside: subscription)
        let isWhole = last != nil || !waits && namesAll(subscription)
        subscriber.subscriptions[index].hasBegun = true
        // One that goes on from an earlier session names all of the rest, whatever it did before; it does not
        // speak for others.
        subscriber.subscriptions[index].namesAll = isWhole && last == nil
        subscriber.listings.removeAll { $0.id == id }
        subscriber.listings.append(
            Subscriber.OwedListing(id: id, after: last, isWhole: isWhole, waits: waits))
        if last == nil { subscriber.queue.prepend((.startOver(key: subscription.request.key), 0)) }
        storeNext()
    }

    private func others(of subscription: Subscriber.Subscription) -> [Subscriber.Subscription] {
        guard let collection = subscription.collection else { return [] }
        return subscriber.subscriptions.filter { other in
            other.request.key != subscription.request.key
                && other.collection == collection
        }
    }

    /// Whether all that is held of the collection is being named for another subscription. This one waits
    /// then until that has the answer: so whichever cursor is stored under new rights, what matched nothing
    /// was told before it, and where the session ends in between, all of them are listed again.
    private func isNamed(beside subscription: Subscriber.Subscription) -> Bool {
        others(of: subscription).contains { $0.namesAll && !$0.isLive }
    }

    /// Whether all that is held of the collection is named for this subscription. What matches none any more
    /// is stale, and nobody tells of it: it may be gone and there anew, or not be readable any more. One
    /// subscription stands in for all of it, and the others name what matches; so does a new one, beside one
    /// that is not.
    private func namesAll(_ subscription: Subscriber.Subscription) -> Bool {
        guard subscription.collection != nil else { return false }
        return subscription.hasBegun || !others(of: subscription).contains(where: \.hasBegun)
    }

    /// The place of the next listing whose turn it is.
    mutating func nextListing() -> Int? {
        for (place, listing) in subscriber.listings.enumerated() {
            guard let index = subscriber.subscriptions.firstIndex(where: { $0.id == listing.id }) else {
                continue
            }
            guard listing.waits else { return place }
            let subscription = subscriber.subscriptions[index]
            guard !isNamed(beside: subscription) else { continue }
            subscriber.listings[place].waits = false
            // Who was to name all may be gone, and then this one does.
            if !others(of: subscription).contains(where: \.namesAll) {
                subscriber.listings[place].isWhole = true
                subscriber.subscriptions[index].namesAll = true
            }
            return place
        }
        return nil
    }

    mutating func outdated(_ keys: [DocumentKey]) {
        guard subscriber.step == .lookingUp, case .catchUp(let page)? = subscriber.queue.first?.work else {
            return
        }
        guard !keys.isEmpty else { return storeHead(with: []) }
        let named = Set(page.candidates.map(\.key))
        fetch(keys.filter(named.contains))
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
        if case .skipped(let position) = head.work {
            storeOwed(skipped: position.offset)
        } else if !head.work.isOfStream {
            storeOwed()
        }
        switch head.work {
        case .catchUp(let page): storePage(page, fetched)
        case .operations(let operations):
            store(
                fetched + operations.updates, liveCursors(operations.position), answers: fetched,
                seen: operations.position, streamed: operations.position.offset)
        case .progress(let position):
            store([], liveCursors(position), seen: position, streamed: position.offset)
        case .skipped(let position):
            // That settles them too: two actions may be carried out in any order.
            actions.append(.askForAnswers(through: position.offset))
            store([], liveCursors(position), seen: position)
        case .states(let updates, let position): store(updates, answers: updates, answeredAt: position)
        case .unstage(let key): actions.append(.unstage(subscription: key))
        case .startOver(let key): actions.append(.startOver(subscription: key))
        case .hide(let collection, let key):
            actions.append(.hide(collection: collection, subscription: key))
        case .list: preconditionFailure("a listing is begun, not stored")
        }
    }

    private mutating func storePage(_ page: Frame.CatchUp, _ fetched: [DocumentUpdate]) {
        guard let index = subscriber.subscriptions.firstIndex(where: { $0.id == page.id }) else {
            // Cancelled meanwhile: a part of a catch-up is no state of the log to show.
            return store([], hides: page.hidden)
        }
        let key = subscriber.subscriptions[index].request.key
        let gone = page.gone.map { DocumentUpdate(key: $0.key, content: .gone($0.vector)) }
        let updates = gone + page.documents + fetched
        guard let end = page.end else {
            // Also when it was live before: the server has fallen back to a catch-up.
            subscriber.subscriptions[index].isLive = false
            return actions.append(
                .stage(
                    StagedPage(
                        subscription: key, updates: updates, hides: page.hidden, resume: page.resume,
                        seen: later(page.asOf))))
        }
        actions.append(
            .store(
                .inSession(
                    Reception(
                        updates: updates, cursors: [(key, end)], publishes: key,
                        settles: fetched.map(\.key), seen: later(end), hides: page.hidden,
                        rights: page.rights))))
    }

    /// `answers` are those of the updates that came as the answer to a want; `answeredAt` is as of when,
    /// where they came by themselves.
    private mutating func store(
        _ updates: [DocumentUpdate], _ cursors: [(key: [UInt8], position: LogPosition)] = [],
        answers: [DocumentUpdate] = [], answeredAt: LogPosition? = nil, seen: LogPosition? = nil,
        streamed: Offset? = nil, hides: [DocumentKey] = []
    ) {
        var reception = Reception(
            updates: updates, cursors: cursors, settles: answers.map(\.key), seen: later(seen),
            streamed: streamed, hides: hides)
        reception.acknowledges = takeOwed()
        reception.answeredAt = answeredAt
        reception.distrusts = overtaken
        actions.append(.store(.inSession(reception)))
    }

    /// Behind which offset the stream certainly tells a position: not up to where it is already, nor up to
    /// where a catch-up ended, which its sender may have passed before without a word.
    var streamExpected: Offset {
        subscriber.subscriptions.reduce(streamWaiting?.offset ?? 0) { max($0, $1.liveFrom) }
    }

    /// Whether the live stream comes next, and nothing stands before it that may take long or is of another
    /// kind.
    var isOnlyStreamAhead: Bool {
        [.idle, .storing].contains(subscriber.step) && !uploader.repair.isDue
            && subscriber.queue.items.allSatisfy(\.work.isOfStream)
            && !subscriber.subscriptions.isEmpty && subscriber.subscriptions.allSatisfy(\.isLive)
    }

    /// States that were fetched may be later than the stream.
    func later(_ position: LogPosition?) -> LogPosition? {
        guard let position, let fetched = subscriber.fetchedAt else {
            return position ?? subscriber.fetchedAt
        }
        return fetched.offset > position.offset ? fetched : position
    }

    func liveCursors(_ position: LogPosition) -> [(key: [UInt8], position: LogPosition)] {
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
        switch head.work {
        case .operations(let operations): subscriber.streamed = operations.position.offset
        case .progress(let position), .skipped(let position): subscriber.streamed = position.offset
        default: break
        }
        if case .catchUp(let page) = head.work, let end = page.end,
            let index = subscriber.subscriptions.firstIndex(where: { $0.id == page.id })
        {
            subscriber.subscriptions[index].isLive = true
            subscriber.subscriptions[index].hasBegun = true
            subscriber.subscriptions[index].liveFrom = end.offset
            readHeld()
            actions.append(.report(.subscriptionIsLive(key: subscriber.subscriptions[index].request.key)))
        }
        if head.work.isAnswer { askNext() }
        storeNext()
    }

    /// As `stored`; and own writes to documents that are gone at the server have to be moved (rule 14).
    mutating func returning(_ keys: [DocumentKey]) {
        guard subscriber.step == .storing, !subscriber.queue.isEmpty else { return }
        uploader.repair.gone.formUnion(keys)
        uploader.repair.isDue = true
        stored()
    }
}

extension Subscriber.Work {
    /// Whether it is what was asked for outside of the stream.
    fileprivate var isAnswer: Bool {
        if case .states = self { true } else { false }
    }
}

extension SubscriptionRequest {
    /// The same without what was staged for it.
    fileprivate var startingOver: SubscriptionRequest {
        SubscriptionRequest(
            key: key, statement: statement, arguments: arguments, cursor: cursor, rights: rights,
            holds: holds || resume != nil)
    }

    /// The collection it asks for; nil for a statement that is no subscription, which a server refuses.
    fileprivate var collection: CollectionName? {
        guard case .object(let arguments) = arguments else { return nil }
        return try? SubscriptionQuery(statement: statement, arguments: arguments, isRestricted: false)
            .collection
    }
}

extension Reception {
    /// The same; a server sends deltas only of documents that it believes to be here.
    static func inSession(_ reception: Reception) -> Reception {
        var reception = reception
        reception.presumesHeld = true
        return reception
    }
}
