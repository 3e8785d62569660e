import CRDT
import DQL
import Exchange
import GRDB
import Logging
import Machine
import Synchronization

/// A small peer's own store: local writes become operations that wait to be uploaded, and what the server
/// sends is merged.
///
/// Every commit is synced to disk before `write` returns, so nothing leaves the store before it is durable
/// (rule 8). `shared` guards what is not in the file: listeners, live subscriptions, the withheld
/// collections, the server's clock.
public final class PeerReplica: Replica {
    /// The changes of a commit, reported to listeners after it is durable.
    public struct Commit: Sendable {
        /// The commit's number.
        public let number: UInt64
        /// The documents that changed, in order; evicted ones included.
        public let documents: [DocumentKey]
        /// The actor of the commit's operation; nil if it came from elsewhere or only evicted.
        public let actor: ActorID?
        /// Evicted documents that match a live subscription and must be fetched again.
        public let wanted: [DocumentKey]
        /// True if the commit is the store's own but withheld: nothing of it is uploaded now.
        public var isWithheld = false
        /// The commit's operation if it is small: equal to the result of `ownOperations`.
        public var operation: OwnOperation?
        /// The documents among `documents` that were evicted.
        public var evicted: [DocumentKey] = []
        /// The changes for links that follow this store; nil if nobody does, or they are too large.
        public var recorded: FoldedOperation?
        /// True if documents came that other feeds are to be asked about.
        public var hasEntered = false
        /// True if a link changed documents that the server may lack.
        public var isMeshed = false
    }

    /// The result of a write, and its commit.
    public struct WriteResult<Value> {
        /// The closure's result.
        public let value: Value
        /// The number of the write's commit, or of the latest one when nothing changed.
        public let commit: UInt64
        /// The operation of the write, created at each access; nil when nothing changed or documents were
        /// only evicted.
        public var operation: Operation? { written?.operation }

        let written: WrittenOperation?
    }

    /// See `Replica`.
    public let store: DocumentStore
    private let shared: Mutex<Shared>
    /// The notes of commits for links.
    let recording: FeedRecording

    private struct Shared {
        var listeners: [Int: @Sendable (Commit) -> Void] = [:]
        var nextListener = 0
        /// Nil until the first `setLiveQueries`.
        var liveQueries: [SubscriptionQuery]?
        var withheld = WithheldCollections()
        /// Milliseconds by which the server's clock is ahead of this one (rule 21); 0 outside a session.
        var clockCorrection: Int64 = 0
    }

    /// Opens or creates the store in a directory. Throws `directoryLocked` after about a second,
    /// `directoryUnusable`, `unsupportedFormat` or `damaged`; `otherDatabase` for a store of another owner.
    /// - Parameter owner: the database to open it for; nil to look into a store of any database.
    public init(
        directory: String, owner: StoreOwner? = nil, environment: Environment, logger: Logger
    ) throws {
        store = try DocumentStore(
            directory: directory, owner: owner, durability: .synced, environment: environment, logger: logger)
        do {
            let kept = try store.read { try $0.withDatabase { try Withheld.collections($0) } }
            shared = Mutex(Shared(withheld: WithheldCollections(kept: kept)))
            recording = try Self.beginRecording(store, environment)
        } catch {
            try? store.close()
            throw error
        }
    }

    /// A store that has a feed marks each of its starts, whether or not anybody follows it then.
    private static func beginRecording(
        _ store: DocumentStore, _ environment: Environment
    ) throws -> FeedRecording {
        let hasFeed = try store.read { transaction in
            try transaction.withDatabase { try RawStatement(cached: "SELECT 1 FROM feed", $0).hasRow() }
        }
        guard hasFeed else { return FeedRecording(identity: nil, feeds: []) }
        return try store.committing { database, state in
            let identity = try FeedIdentity.begin(head: state.head, creates: false, environment, database)
            return FeedRecording(identity: identity, feeds: try PeerFeeds.all(database))
        }
    }

    /// See `Replica`. No listener is called any more.
    public func close() throws {
        shared.withLock { $0.listeners = [:] }
        try store.close()
    }

    /// Runs a local write transaction; a thrown error rolls it back. The closure may run twice (see
    /// `WriteTransaction`), so it must have no effect outside the transaction. Returns after the commit is
    /// durable.
    public func write<Value>(
        limits: DocumentLimits = DocumentLimits(), _ body: (WriteTransaction) throws -> Value
    ) throws -> WriteResult<Value> {
        try committing { database, state in
            for _ in 0..<2 {
                if let done = try self.attempt(database, &state, limits, body) { return done }
                try state.renewActor(self.store.environment, database)
            }
            preconditionFailure("a new actor cannot have written an evicted document")
        }
    }

    /// The actor of the next local write.
    public var actor: ActorID { store.state.actor }

    /// Calls a closure after every commit, in the order of commits, while the next writer waits: it must be
    /// quick and must not call the store. Returns a token for `removeListener`.
    public func addListener(_ listener: @escaping @Sendable (Commit) -> Void) -> Int {
        shared.withLock { shared in
            shared.nextListener += 1
            shared.listeners[shared.nextListener] = listener
            return shared.nextListener
        }
    }

    /// Removes a listener. A running call may still end after this returns.
    public func removeListener(_ listener: Int) {
        _ = shared.withLock { $0.listeners.removeValue(forKey: listener) }
    }

    /// Tells the store the live subscriptions: a document that is evicted while one of them matches it is
    /// requested again at once (rule 10).
    public func setLiveQueries(_ queries: [SubscriptionQuery]) {
        shared.withLock { $0.liveQueries = queries }
    }

    /// Makes local writes bear the server's time instead of this computer's. `milliseconds` is the server
    /// clock's lead, 0 to end the correction (rule 21).
    public func correctClock(byMilliseconds milliseconds: Int64) {
        shared.withLock { $0.clockCorrection = milliseconds }
    }

    /// Milliseconds by which the server's clock is ahead; 0 outside a session.
    var clockCorrection: Int64 { shared.withLock { $0.clockCorrection } }

    /// The store's environment, its wall clock corrected to the server's, if that is known.
    var correctedEnvironment: Environment {
        let environment = store.environment
        let correction = shared.withLock { $0.clockCorrection }
        guard correction != 0 else { return environment }
        return Environment(
            wallMilliseconds: {
                let (sum, overflows) = Int64(clamping: environment.wallMilliseconds())
                    .addingReportingOverflow(correction)
                return overflows ? environment.wallMilliseconds() : UInt64(max(0, sum))
            }, random: environment.random, pause: environment.pause)
    }

    /// Returns whether a subscription's cursor is still valid: not after the subscription was cancelled,
    /// because an eviction may have dropped documents that the cursor covers.
    func keepsCursor(of key: [UInt8]) -> Bool {
        shared.withLock { $0.liveQueries?.contains { $0.canonicalKey == key } ?? true }
    }

    /// The live subscriptions.
    var liveQueries: [SubscriptionQuery] { shared.withLock { $0.liveQueries ?? [] } }

    /// The keys of the live subscriptions.
    var liveKeys: [[UInt8]] { liveQueries.map(\.canonicalKey) }

    /// The collections withheld from the server.
    var withheld: WithheldCollections { shared.withLock { $0.withheld } }

    func updateWithheld(_ change: (inout WithheldCollections) -> Void) {
        shared.withLock { change(&$0.withheld) }
    }

    /// The names of the collections in live subscriptions.
    var subscribedCollections: [CollectionName] {
        shared.withLock { shared in
            var names: [CollectionName] = []
            for query in shared.liveQueries ?? [] {
                if !names.contains(query.collection) { names.append(query.collection) }
            }
            return names
        }
    }

    /// Returns whether a live subscription includes a collection.
    func isSubscribed(_ collection: CollectionName) -> Bool {
        shared.withLock { $0.liveQueries?.contains { $0.collection == collection } ?? false }
    }

    /// Runs `body` in one transaction, and tells the listeners of the returned commit.
    /// `feed` is the link's that brings the changes.
    func committing<Result>(
        from feed: LogID? = nil,
        _ body: (Database, inout StoreState) throws -> (result: Result, commit: Commit?)
    ) throws -> Result {
        try store.committing(tell: { self.tell($0.commit) }) { database, state in
            recording.begin()
            defer { recording.end() }
            var made = try body(database, &state)
            if var commit = made.commit {
                try recording.finish(&commit, from: feed, database)
                made.commit = commit
            }
            return made
        }.result
    }

    private func tell(_ commit: Commit?) {
        guard let commit else { return }
        let listeners = shared.withLock { Array($0.listeners.values) }
        for listener in listeners { listener(commit) }
    }

    /// One run of a local transaction inside a savepoint; nil when it must run again under a new actor.
    private func attempt<Value>(
        _ database: Database, _ state: inout StoreState, _ limits: DocumentLimits,
        _ body: (WriteTransaction) throws -> Value
    ) throws -> (result: WriteResult<Value>, commit: Commit?)? {
        let (queries, withheld) = shared.withLock { ($0.liveQueries ?? [], $0.withheld) }
        let transaction = WriteTransaction(
            database, state, correctedEnvironment, liveQueries: queries, limits: limits,
            indexes: store.indexCache, withheld: withheld, recorder: recording.recorder)
        var outcome: (value: Value, made: WriteTransaction.Made?)?
        do {
            try database.inPart {
                let value = try body(transaction)
                guard !transaction.needsNewActor else { throw ActorMustChange() }
                outcome = (value, try transaction.made())
                return true
            }
        } catch  where transaction.needsNewActor {
            return nil
        }
        guard let outcome else { preconditionFailure("a committed savepoint left no result") }
        guard let made = outcome.made else {
            var commit: Commit?
            if !transaction.evicted.isEmpty {
                commit = Commit(
                    number: state.head, documents: transaction.evicted, actor: nil,
                    wanted: transaction.wanted, evicted: transaction.evicted)
            }
            return (WriteResult(value: outcome.value, commit: state.head, written: nil), commit)
        }
        state = transaction.state
        state.advance()
        var operation: OwnOperation?
        if let written = made.own {
            state.wrote(written.sequence)
            let bytes = try OwnOperations.insert(written, position: state.head, database)
            try feed.boundOperations(state.head, database)
            if let bytes, bytes.count <= ReplicaLimits.toldOperationBytes {
                operation = OwnOperation(commit: state.head, sequence: written.sequence, bytes: bytes)
            }
        }
        if let recorder = recording.recorder { made.conclude(recorder) }
        for (collection, operation) in made.withheld {
            try Withheld.insert(operation, collection, position: state.head, database)
            updateWithheld { $0.kept.insert(collection) }
        }
        let commit = Commit(
            number: state.head, documents: made.documents + transaction.evicted,
            actor: made.own?.actor, wanted: transaction.wanted, isWithheld: made.own == nil,
            operation: operation, evicted: transaction.evicted)
        return (WriteResult(value: outcome.value, commit: state.head, written: made.own), commit)
    }
}
