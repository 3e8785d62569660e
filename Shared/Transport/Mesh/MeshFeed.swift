import CRDT
import DQL
import Exchange
import Logging
import Machine
import Replica
import Sync
import Synchronization

/// A peer's store as one end of its links to other small peers: its subscriptions, its live changes, and the
/// sessions that run. There is one for as long as the peer syncs with others.
///
/// `state` guards the subscriptions, the links and the stream; it is never held across a wait or a call of
/// the store, because the store's listener takes it while the store is locked.
public final class MeshFeed: Sendable {
    /// One link: the other side's rights, and this side's identity.
    public struct Parties: Sendable {
        /// The database.
        public var databaseID: DatabaseID
        /// This peer's public key text; empty when it has none.
        public var peerKey: String
        /// True at the end that dialed.
        public var isDialer: Bool
        /// Peers of different groups do not sync with each other.
        public var syncGroup: UInt64 = 0
        /// True if this peer's clock may be relied on.
        public var isClockTrusted = false
        /// Unix milliseconds when the link begins.
        public var wallMilliseconds: UInt64
        /// The documents that the other side may read.
        public var access = ReadAccess.everything
        /// Decides whether the other side may write a document: what it brings of others is dropped.
        public var mayWrite: @Sendable (DocumentKey) -> Bool = { _ in true }
        /// A number that stands for these rights: under others everything is compared again.
        public var writeMark: UInt64 = 1
        /// Called before anything is served or asked, with the other side's greeting and key text; a thrown
        /// error refuses the link.
        public var meets: @Sendable (MeshGreeting, String) async throws -> Void = { _, _ in }
        /// Called with the pump of the session that begins: by it the link can be ended for a reason.
        public var began: @Sendable (SessionPump) -> Void = { _ in }
        /// Hears of the session's reports.
        public var report: @Sendable (Report) -> Void = { _ in }
        /// This peer's presence record, for the greeting; nil where there is no presence.
        public var record: SignedRecord?
        /// Hears of presence, and of how far each side has the other's documents.
        var hears: @Sendable (MeshNews) -> Void = { _ in }

        /// True if newer certificates are taken within the link.
        var takesCertificates = false

        /// A link with all rights.
        public init(
            databaseID: DatabaseID, peerKey: String = "", isDialer: Bool, wallMilliseconds: UInt64
        ) {
            self.databaseID = databaseID
            self.peerKey = peerKey
            self.isDialer = isDialer
            self.wallMilliseconds = wallMilliseconds
        }
    }

    private struct Subscription: Sendable {
        let live: LiveSubscription
        var holders: Int
        /// Counts the evictions in its collection: a subscription that began before one ends with it.
        var generation: UInt64
    }

    private struct State {
        var subscriptions: [[UInt8]: Subscription] = [:]
        var links: [UInt64: MeshStore] = [:]
        var nextLink: UInt64 = 1
        var generation: UInt64 = 0
        var unserved: Set<CollectionName> = []
        var stream: FeedStream
        var isClosed = false
    }

    let replica: PeerReplica
    let executor: BlockingExecutor
    /// Does something soon, and not where the store is locked.
    let later: @Sendable (@escaping @Sendable () -> Void) -> Void
    private let logger: Logger
    private let setsLiveQueries: Bool
    private let hasServer: Bool
    private let start: PeerFeed.Start
    private let state: Mutex<State>
    private let listener = Mutex<Int?>(nil)

    /// Begins to follow a store; waits for its disk. `setsLiveQueries` where nobody else tells the store
    /// which subscriptions there are.
    public convenience init(
        replica: PeerReplica, hasServer: Bool = false, setsLiveQueries: Bool = true,
        executor: BlockingExecutor = BlockingExecutor(label: "mimeo.mesh", isSerial: true), logger: Logger
    ) throws {
        try self.init(
            replica: replica, hasServer: hasServer, setsLiveQueries: setsLiveQueries, executor: executor,
            later: { executor.start($0) }, logger: logger)
    }

    /// The same; `later` does something soon, and not where it is called.
    init(
        replica: PeerReplica, hasServer: Bool, setsLiveQueries: Bool, executor: BlockingExecutor,
        later: @escaping @Sendable (@escaping @Sendable () -> Void) -> Void, logger: Logger
    ) throws {
        self.later = later
        self.replica = replica
        self.executor = executor
        self.logger = logger
        self.setsLiveQueries = setsLiveQueries
        self.hasServer = hasServer
        start = try replica.feed.begin(hasServer: hasServer)
        guard let head = replica.feed.head() else { preconditionFailure("a feed that has begun has a head") }
        state = Mutex(State(stream: FeedStream(head: head)))
        listener.withLock { $0 = replica.addListener { [weak self] in self?.committed($0) } }
        // Commits between the two are passed over: nobody follows yet.
        if let head = replica.feed.head() { _ = state.withLock { $0.stream.append(nil, at: head) } }
    }

    /// Ends all links, and stops following the store.
    public func close() {
        if let token = listener.withLock({ $0 }) { replica.removeListener(token) }
        let links = state.withLock { state in
            state.isClosed = true
            return Array(state.links.values)
        }
        for link in links { link.deliver(.finish(SyncError(.goingAway, "this side is stopping"))) }
        replica.feed.end()
    }

    /// The introduction of this store.
    public func greeting(syncGroup: UInt64 = 0, isClockTrusted: Bool = false) -> MeshGreeting {
        var greeting = MeshGreeting(
            feed: start.feed, starts: start.starts, start: start.start, syncGroup: syncGroup,
            isClockTrusted: isClockTrusted, hasServer: hasServer)
        greeting.takesVoid = true
        return greeting
    }

    // MARK: Subscriptions

    /// Adds a subscription for all links; equal ones are counted together. Returns its key.
    @discardableResult
    public func subscribe(statement: String, arguments: ObjectValue = ObjectValue()) throws -> [UInt8] {
        let live = try LiveSubscription(statement: statement, arguments: arguments)
        let (isNew, links) = state.withLock { state in
            let isNew = state.subscriptions[live.key] == nil
            var entry =
                state.subscriptions[live.key]
                ?? Subscription(live: live, holders: 0, generation: state.generation)
            entry.holders += 1
            state.subscriptions[live.key] = entry
            return (isNew, Array(state.links.values))
        }
        guard isNew else { return live.key }
        tellLiveQueries()
        for link in links {
            if let request = try link.request(for: live.key) { link.deliver(.subscribe(request)) }
        }
        return live.key
    }

    /// Cancels one `subscribe`. The subscription's documents stay, its cursors at all feeds go.
    public func unsubscribe(_ key: [UInt8]) throws {
        let (ended, links) = state.withLock { state -> (Subscription?, [MeshStore]) in
            guard var entry = state.subscriptions[key] else { return (nil, []) }
            entry.holders -= 1
            state.subscriptions[key] = entry.holders > 0 ? entry : nil
            return entry.holders > 0 ? (nil, []) : (entry, Array(state.links.values))
        }
        guard let ended else { return }
        tellLiveQueries()
        for link in links {
            link.deliver(.unsubscribe(key: LinkSubscription.key(key, ended.generation)))
            try link.forgetLink(of: key)
        }
    }

    /// Collections that are never served to other peers (sync scopes). Links begin anew where that changes.
    public func setUnserved(_ collections: Set<CollectionName>) {
        let links = state.withLock { state -> [MeshStore] in
            guard state.unserved != collections else { return [] }
            state.unserved = collections
            return Array(state.links.values)
        }
        for link in links { link.deliver(.finish(SyncError(.goingAway, "sync scopes have changed"))) }
    }

    private func tellLiveQueries() {
        guard setsLiveQueries else { return }
        state.withLock { replica.setLiveQueries($0.subscriptions.values.map(\.live.query)) }
    }

    /// The subscriptions of a link that begins.
    func subscriptions() -> [LinkSubscription] {
        state.withLock { state in
            state.subscriptions.values.map { LinkSubscription(live: $0.live, generation: $0.generation) }
        }
    }

    func subscription(_ key: [UInt8]) -> LinkSubscription? {
        state.withLock { state in
            state.subscriptions[key].map { LinkSubscription(live: $0.live, generation: $0.generation) }
        }
    }

    // MARK: Links

    /// The store's file was put back while it was closed.
    func wasPutBack() {
        logger.warning(
            "a neighbour knows later commits of this store: its file was put back; it goes on as a new actor"
        )
    }

    /// Time has passed: documents that were ahead of the clock may be taken now.
    func askForDue() { for link in state.withLock({ Array($0.links.values) }) { link.askForDue() } }

    /// Runs one session over an open channel to its end, and returns the reason. A cancelled one says that it
    /// is going away.
    public func run(_ link: Parties, over channel: some FrameChannel) async -> SyncError {
        var logger = logger
        logger[metadataKey: "link"] = "\(link.isDialer ? "dialed" : "accepted")"
        guard let store = attach(link) else { return SyncError(.goingAway, "this side is stopping") }
        defer { detach(store) }
        let pump = SessionPump(store: store, logger: logger)
        store.deliver = { [weak pump] in pump?.deliver($0) }
        link.began(pump)
        return await pump.run(session(of: link, logger), over: channel)
    }

    /// The store of a link that begins; nil when the feed is closed.
    func attach(_ link: Parties) -> MeshStore? {
        state.withLock { state in
            guard !state.isClosed else { return nil }
            let store = MeshStore(feed: self, link: link, number: state.nextLink)
            state.links[state.nextLink] = store
            state.nextLink += 1
            return store
        }
    }

    func detach(_ store: MeshStore) {
        state.withLock { state in
            state.links[store.number] = nil
            state.stream.leave(store.number)
        }
    }

    /// The session of a link that begins.
    func session(of link: Parties, _ logger: Logger) -> Session {
        var greeting = greeting(syncGroup: link.syncGroup, isClockTrusted: link.isClockTrusted)
        greeting.record = link.record
        greeting.takesCertificates = link.takesCertificates
        var configuration = Session.Configuration(
            role: .mesh(Session.MeshLink(isDialer: link.isDialer, greeting: greeting)),
            databaseID: link.databaseID, peerKey: link.peerKey, wallMilliseconds: link.wallMilliseconds,
            access: link.access.without(state.withLock { $0.unserved }))
        configuration.trace(to: logger)
        return Session(configuration)
    }

    /// See `SessionStore.follow`.
    func follow(after offset: Offset, link: UInt64, _ deliver: @escaping @Sendable (Event) -> Void) {
        let answer = state.withLock { $0.stream.follow(after: offset, link: link, deliver) }
        if let answer { deliver(answer) }
    }

    /// A commit is durable, and the next writer waits.
    private func committed(_ commit: PeerReplica.Commit) {
        guard let position = replica.feed.position(of: commit.number) else { return }
        let told = state.withLock { $0.stream.append(commit.recorded, at: position) }
        for (tell, event) in told { tell(event) }
        if !commit.evicted.isEmpty { beginAnew(in: Set(commit.evicted.map(\.collection))) }
        guard commit.hasEntered else { return }
        for link in state.withLock({ Array($0.links.values) }) { link.lookForAsks() }
    }

    /// Documents were evicted: answers under way for subscriptions of their collections would bring back
    /// cursors that disagree with the holdings.
    private func beginAnew(in collections: Set<CollectionName>) {
        let (ended, links) = state.withLock { state in
            var ended: [(key: [UInt8], generation: UInt64)] = []
            state.generation += 1
            for (key, entry) in state.subscriptions where collections.contains(entry.live.query.collection) {
                ended.append((key, entry.generation))
                state.subscriptions[key]?.generation = state.generation
            }
            return (ended, Array(state.links.values))
        }
        for link in links {
            for item in ended {
                link.deliver(.unsubscribe(key: LinkSubscription.key(item.key, item.generation)))
                link.subscribeAgain(item.key)
            }
        }
    }
}

/// News of a link's session beside its documents.
enum MeshNews: Sendable {
    /// The other side takes presence from now on.
    case presenceOpens
    case presence(PresenceNews)
    /// The other side has told a newer certificate of its key, in DER.
    case certificate([UInt8])
    /// A newer certificate of this side was sent.
    case certificateTold([UInt8])
    /// The other side has all that it wanted up to this commit of this store.
    case taken(commit: UInt64)
    /// Documents of the other side, or its progress, are stored here. The position is the one up to which all
    /// subscriptions have everything; nil while they do not.
    case stored(LogPosition?)
}

/// A subscription as a link's session knows it: its key ends with the number of evictions before it. The
/// suffix separates answers to the subscription before an eviction from answers to the one after it.
struct LinkSubscription: Sendable {
    let live: LiveSubscription
    let generation: UInt64

    static func key(_ key: [UInt8], _ generation: UInt64) -> [UInt8] {
        key + (0..<8).map { UInt8(truncatingIfNeeded: generation >> UInt64(56 - 8 * $0)) }
    }

    var key: [UInt8] { Self.key(live.key, generation) }

    /// The key that the store knows.
    static func storedKey(_ key: [UInt8]) -> [UInt8] { Array(key.dropLast(8)) }
}

extension ReadAccess {
    /// The same rights without some collections.
    func without(_ collections: Set<CollectionName>) -> ReadAccess {
        guard !collections.isEmpty else { return self }
        return narrowed { !collections.contains($0) }
    }
}
