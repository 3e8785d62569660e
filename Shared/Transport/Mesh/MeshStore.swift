import CRDT
import DQL
import Exchange
import Machine
import Replica
import Sync
import Synchronization

/// A peer's replica as the store of a session with another small peer: answers the questions of a
/// subscriber's session and of a publisher's.
///
/// `asking` guards the documents that the other side is asked about because they came from elsewhere: one
/// batch at a time, and the next one after its answers are stored.
final class MeshStore: SessionStore {
    private struct Asking {
        /// The other side's feed; nil before it has greeted.
        var feed: LogID?
        /// True from the first subscription that is up to date: from then on cursors speak for something.
        var hasBegun = false
        /// True while the store is read for the next batch, and whether it is to be read once more.
        var isLooking = false
        var looksAgain = false
        /// The documents of the batch without an answer.
        var open: Set<DocumentKey> = []
        /// The own commit through which the batch asks.
        var through: UInt64?
        /// How far each subscription is at the other side's feed, by the session's keys.
        var reached: [[UInt8]: LogPosition] = [:]
    }

    private let feed: MeshFeed
    private let link: MeshFeed.Parties
    /// Its number at the feed.
    let number: UInt64
    private let asking = Mutex(Asking())
    private let tellings = NoteTellings()
    private let delivery = Mutex<@Sendable (Event) -> Void>({ _ in })

    private var replica: PeerReplica { feed.replica }
    private var executor: BlockingExecutor { feed.executor }

    init(feed: MeshFeed, link: MeshFeed.Parties, number: UInt64) {
        self.feed = feed
        self.link = link
        self.number = number
    }

    /// Brings an event to the session.
    var deliver: @Sendable (Event) -> Void {
        get { delivery.withLock { $0 } }
        set { delivery.withLock { $0 = newValue } }
    }

    /// The other side's feed.
    private var other: LogID {
        guard let feed = asking.withLock({ $0.feed }) else {
            preconditionFailure("nothing is stored before the other side has greeted")
        }
        return feed
    }

    // MARK: Subscriptions

    /// The request for a subscription that there is, once the other side has greeted.
    func request(for key: [UInt8]) throws -> SubscriptionRequest? {
        guard asking.withLock({ $0.feed }) != nil, let subscription = feed.subscription(key) else {
            return nil
        }
        return try request(subscription)
    }

    private func request(_ subscription: LinkSubscription) throws -> SubscriptionRequest {
        let (key, other) = (subscription.live.key, other)
        let cursor = try replica.feed.linkCursor(of: key, at: other)
        return subscription.live.request(
            as: subscription.key, cursor: cursor?.position, rights: cursor?.rights,
            resume: try replica.feed.linkResumption(of: key, at: other),
            holds: try replica.holdsDocuments(in: subscription.live.query.collection))
    }

    /// Documents of its collection were evicted. Called where the store is locked.
    func subscribeAgain(_ key: [UInt8]) {
        feed.later { [weak self] in
            guard let self, let request = try? request(for: key) else { return }
            deliver(.subscribe(request))
        }
    }

    /// A subscription is cancelled.
    func forgetLink(of key: [UInt8]) throws {
        if let other = asking.withLock({ $0.feed }) { try replica.feed.forgetLink(of: key, at: other) }
    }

    /// Returns whether no eviction has ended a subscription since it began; also asked within transactions.
    private func isCurrent(_ key: [UInt8]) -> Bool {
        feed.subscription(LinkSubscription.storedKey(key))?.key == key
    }

    // MARK: Actions

    /// See `SessionStore`.
    func follow(after offset: Offset, deliver: @escaping @Sendable (Event) -> Void) -> Bool {
        feed.follow(after: offset, link: number, deliver)
        return true
    }

    /// See `SessionStore`. If bytes from the other side do not decode, the session ends with that reason, and
    /// nothing of them is stored.
    func perform(_ action: Action) async throws -> Event? {
        do {
            return try await answer(to: action)
        } catch let error as CRDTError {
            guard let defect = action.foreignDefect else { throw error }
            return .finish(SyncError(.malformedFrame, "what the other peer sent does not decode: \(defect)"))
        } catch let error as SyncError {
            return .finish(error)
        }
    }

    private func answer(to action: Action) async throws -> Event? {
        switch action {
        case .meet(let greeting, let peerKey): return .met(try await meet(greeting, peerKey))
        case .store(let reception): return try await store(reception)
        case .stage(var page):
            let (key, other) = (page.subscription, other)
            page.subscription = LinkSubscription.storedKey(key)
            page.updates = permitted(page.updates)
            try await executor.run { [page] in
                try self.replica.feed.stage(page, from: other, isClockReliable: self.link.isClockTrusted) {
                    !self.isCurrent(key)
                }
            }
            return .stored
        case .unstage(let key):
            let (stored, other) = (LinkSubscription.storedKey(key), other)
            try await executor.run { try self.replica.feed.discardLinkPages(of: stored, at: other) }
            return .stored
        case .startOver(let key), .hide(_, let key):
            // Another peer's rights are no reason to hide anything here.
            let (stored, other) = (LinkSubscription.storedKey(key), other)
            try await executor.run { try self.replica.feed.forgetLink(of: stored, at: other) }
            return .stored
        case .findOutdated(let candidates, let key):
            let (stored, other) = (LinkSubscription.storedKey(key), other)
            return .outdated(
                try await executor.run {
                    try self.replica.feed.outdated(candidates, for: stored, at: other)
                })
        case .readHeld(let request, let last, let isWhole): return try await held(request, last, isWhole)
        case .readVectors(let keys):
            return .vectors(try await executor.run { try self.replica.feed.versions(of: keys) })
        case .settle(let keys, _):
            let other = other
            try await executor.run { try self.replica.feed.settleAhead(keys, of: other) }
            try await answered(keys)
            return nil
        case .presenceOpens:
            link.hears(.presenceOpens)
            link.hears(.stored(reached()))
            return nil
        case .presence(let news):
            link.hears(.presence(news))
            return nil
        case .certificate(let der):
            link.hears(.certificate(der))
            return nil
        case .certificateTold(let der):
            link.hears(.certificateTold(der))
            return nil
        case .taken(let position):
            // A position of another feed, or beyond the head, says nothing of this store.
            guard let head = replica.feed.head(), position.logID == head.logID, position.offset <= head.offset
            else { return nil }
            replica.feed.noteTaken(position.offset.rawValue)
            link.hears(.taken(commit: position.offset.rawValue))
            return nil
        case .report(let report):
            link.report(report)
            if case .subscriptionIsLive = report {
                asking.withLock { $0.hasBegun = true }
                lookForAsks()
                askForDue()
            }
            return nil
        default: return try await serve(action)
        }
    }

    private func serve(_ action: Action) async throws -> Event? {
        switch action {
        case .readPage(let id, let query, let access, let start, let maxBytes):
            guard let page = try await page(query, access, start, maxBytes) else {
                return .unknownPlace(subscription: id)
            }
            return .page(subscription: id, page)
        case .compareHeld(let id, let query, let access, let page):
            return .compared(
                subscription: id,
                try await executor.run {
                    try self.replica.feed.compare(
                        page, of: query, bytes: Limits.linkPage.bytes, rows: Limits.linkPage.documents,
                        mayRead: { access.allows($0) })
                })
        case .readStates(let keys, let held):
            let found = try await executor.run { try self.replica.feed.states(of: keys, held: held) }
            return .states(found.states, at: nil, gone: found.gone)
        default: preconditionFailure("a session of two small peers asks for nothing else")
        }
    }

    private func meet(_ greeting: MeshGreeting, _ peerKey: String) async throws -> MeshMeeting {
        try await link.meets(greeting, peerKey)
        // First, so that a subscription that is added meanwhile comes as an event at least.
        asking.withLock { $0.feed = greeting.feed }
        let subscriptions = feed.subscriptions()
        let mark = link.writeMark
        let requests = try await executor.run {
            try self.replica.feed.meet(
                greeting.feed, writeMark: mark, subscriptions: subscriptions.map(\.live.key))
            return try subscriptions.map { try self.request($0) }
        }
        for request in requests {
            if let cursor = request.cursor { asking.withLock { $0.reached[request.key] = cursor } }
        }
        guard let head = replica.feed.head() else { throw SyncError(.goingAway, "this side is stopping") }
        return MeshMeeting(head: head, requests: requests)
    }

    private func held(
        _ request: SubscriptionRequest, _ last: DocumentID?, _ isWhole: Bool
    ) async throws -> Event {
        guard case .object(let arguments) = request.arguments else {
            preconditionFailure("a subscription's arguments are an object")
        }
        return try await executor.run {
            let query = try SubscriptionQuery(
                statement: request.statement, arguments: arguments, isRestricted: false)
            let page = try self.replica.feed.holdings(of: query, after: last, isWhole: isWhole)
            return .held(key: request.key, page.candidates, isLast: page.isLast)
        }
    }

    /// Reads a page; nil for a place that this feed does not have.
    private func page(
        _ query: SubscriptionQuery, _ access: ReadAccess, _ start: PageStart, _ maxBytes: Int
    ) async throws -> CatchUpPage? {
        let offset: Offset
        let names: Offset
        switch start {
        case .cursor(let place), .resumed(let place, _):
            guard replica.feed.hasPosition(place) else {
                if try await executor.run({ try self.replica.feed.noticePutBack(place) }) {
                    feed.wasPutBack()
                }
                return nil
            }
            offset = place.offset
            if case .resumed(_, let namesAfter) = start { names = namesAfter } else { names = 0 }
        case .offset(let place, let namesAfter):
            offset = place
            names = namesAfter
        }
        let limits = Limits.linkPage
        let bounds = CatchUpReader.Bounds(
            bytes: min(limits.bytes, maxBytes), documents: limits.documents, candidates: limits.candidates)
        return try await executor.run {
            try self.replica.feed.read { transaction, head in
                // Removals are named in the order of commits too.
                let (notes, end) = try self.replica.feed.notes(
                    of: query.collection, after: max(offset, names).rawValue, limit: limits.candidates,
                    transaction)
                var page = try CatchUpReader.page(
                    in: transaction, at: head, query: query, access: access, after: offset,
                    namesAfter: names, through: end.map { Offset($0) }, bounds: bounds, interruption: nil)
                let told = page.documents.map(\.key) + page.candidates.map(\.key)
                let quarantined = try self.replica.feed.quarantined(told, transaction)
                page.documents.removeAll { quarantined.contains($0.key) }
                page.candidates.removeAll { quarantined.contains($0.key) }
                for note in notes
                where note.position <= page.offset.rawValue && access.allows(note.candidate.key) {
                    page.candidates.append(note.candidate)
                }
                if page.head == nil { page.reached = self.replica.feed.position(of: page.offset.rawValue) }
                return page
            }
        }
    }

    // MARK: Storing

    /// The updates that the other side may bring, what is gone included.
    private func permitted(_ updates: [DocumentUpdate]) -> [DocumentUpdate] {
        updates.filter { link.mayWrite($0.key) }
    }

    private func store(_ reception: Reception) async throws -> Event {
        let other = other
        var stored = Reception(
            updates: permitted(reception.updates),
            cursors: reception.cursors.filter { isCurrent($0.key) },
            publishes: reception.publishes.flatMap { isCurrent($0) ? $0 : nil }, settles: reception.settles,
            rights: reception.rights)
        stored.presumesHeld = reception.presumesHeld
        // Within the transaction once more: an eviction may come first.
        let currents = Dictionary(
            stored.cursors.map { (LinkSubscription.storedKey($0.key), $0.key) }
        ) { first, _ in first }
        var collections: [[UInt8]: CollectionName] = [:]
        for key in currents.keys {
            collections[key] = feed.subscription(key)?.live.query.collection
        }
        stored.cursors = stored.cursors.map { (LinkSubscription.storedKey($0.key), $0.position) }
        stored.publishes = stored.publishes.map { LinkSubscription.storedKey($0) }
        let outcome = try await executor.run { [stored, collections] in
            try self.replica.feed.receive(
                stored, from: other, isClockReliable: self.link.isClockTrusted, tellings: self.tellings,
                collections: collections
            ) { key in
                currents[key].map { self.isCurrent($0) } ?? false
            }
        }
        switch outcome {
        case .wanting(let keys): return .wanting(keys)
        case .stored, .returning:
            try await answered(reception.settles)
            asking.withLock { asking in
                for cursor in reception.cursors { asking.reached[cursor.key] = cursor.position }
            }
            link.hears(.stored(reached()))
            return .stored
        }
    }

    /// The position up to which all subscriptions have everything; nil while one has nothing, and without
    /// any.
    private func reached() -> LogPosition? {
        let keys = feed.subscriptions().map(\.key)
        return asking.withLock { asking in
            asking.reached = asking.reached.filter { keys.contains($0.key) }
            guard !keys.isEmpty, asking.reached.count == keys.count else { return nil }
            return asking.reached.values.min { $0.offset < $1.offset }
        }
    }

    // MARK: Asking about what came from elsewhere

    /// Looks for documents that entered, if no batch is under way. May be called where the store is locked.
    func lookForAsks() {
        let looks = asking.withLock { asking in
            guard asking.hasBegun, asking.through == nil else { return false }
            guard !asking.isLooking else {
                asking.looksAgain = true
                return false
            }
            asking.isLooking = true
            return true
        }
        guard looks else { return }
        feed.later { [weak self] in self?.readAsks() }
    }

    /// Asks for documents that were ahead of the clock, if their time has come.
    func askForDue() {
        feed.later { [weak self] in
            guard let self, let other = asking.withLock({ $0.hasBegun ? $0.feed : nil }),
                let keys = try? replica.feed.aheadDue(of: other, limit: Limits.linkAsks), !keys.isEmpty
            else { return }
            deliver(.wanted(keys))
        }
    }

    private func readAsks() {
        let other = other
        let collections = Set(feed.subscriptions().map(\.live.query.collection))
        let batch = try? replica.feed.asks(for: other, in: collections, limit: Limits.linkAsks)
        let again = asking.withLock { asking in
            asking.isLooking = false
            defer { asking.looksAgain = false }
            if let batch {
                asking.through = batch.through
                asking.open = Set(batch.keys)
                return false
            }
            return asking.looksAgain
        }
        if let batch {
            if batch.keys.isEmpty { concludeAsks() } else { ask(batch.keys) }
        } else if again {
            lookForAsks()
        }
    }

    /// As many as the session takes at once.
    private func ask(_ keys: [DocumentKey]) { deliver(.wanted(keys)) }

    /// The other side has answered about documents, and that is stored.
    private func answered(_ keys: [DocumentKey]) async throws {
        let isDone = asking.withLock { asking in
            guard asking.through != nil, !asking.open.isEmpty else { return false }
            asking.open.subtract(keys)
            return asking.open.isEmpty
        }
        if isDone { try await executor.run { self.concludeAsks() } }
    }

    /// The batch is answered.
    private func concludeAsks() {
        guard let through = asking.withLock({ $0.through }) else { return }
        // A failed note only means that a later session asks again.
        try? replica.feed.asked(other, through: through)
        asking.withLock { $0.through = nil }
        lookForAsks()
    }
}
