import CRDT
import DQL

/// What happens to a session: frames from the other side, and the answers to its own actions.
public enum Event: Sendable {
    /// The transport is connected and authorized.
    case opened
    /// One frame arrived.
    case frame([UInt8])

    // A subscriber and writer (a peer):
    /// The application subscribed; `cursor` is what the store remembers for the key.
    case subscribe(SubscriptionRequest)
    /// The application cancelled.
    case unsubscribe(key: [UInt8])
    /// The answer to `readOwnActors`.
    case ownActors([Frame.ActorHead])
    /// The answer to `compareHistory`: the actors whose history here is not the server's.
    case historyCompared(forked: [ActorID])
    /// The answer to `readOwnOperations`; empty when there is no further one.
    case ownOperations(actor: ActorID, [(sequence: UInt64, bytes: [UInt8])])
    /// The store has a new own operation of this actor.
    case ownOperationAdded(ActorID)
    /// The answer to `store` and `stage`: everything is durable.
    case stored
    /// The answer to `store`: these documents' bases are missing, nothing was stored.
    case wanting([DocumentKey])
    /// The answer to `findOutdated`: of the candidates those that this store must fetch.
    case outdated([DocumentKey])
    /// Documents the store wants from earlier on or after an eviction.
    case wanted([DocumentKey])

    // A publisher that admits writes (a server):
    /// The answer to `readFrontier`.
    case frontier([Frame.ActorHead], head: LogPosition)
    /// The answer to `readPage`.
    case page(subscription: UInt64, CatchUpPage)
    /// The answer to `awaitOperations`: folded operations in log order, directly after the position asked
    /// for.
    case operations([LiveOperation], through: LogPosition)
    /// The answer to `awaitOperations` when the position is no longer at hand: catch up to this head instead.
    case lagging(LogPosition)
    /// The answer to `append`.
    case appended([Frame.Acknowledgement])
    /// The answer to `append`: the first operation that could not be admitted, after those that were.
    case refused([Frame.Acknowledgement], Frame.Refusal)
    /// The answer to `readStates`.
    case states([(key: DocumentKey, state: [UInt8]?)])

    /// An action failed in a way that is not the other side's fault; the session ends as `unavailable`.
    case failed(String)
    /// This side wants to end the session.
    case finish(SyncError)
    /// The transport is gone.
    case disconnected
}

/// What a session wants done. Each names the event that answers it, where there is one.
public enum Action: Sendable {
    /// Send one frame; frames leave in order.
    case send([UInt8])
    /// Send nothing more, close the transport. Last action of a session.
    case close(SyncError)

    // Subscriber and writer:
    /// Tell the heads of all own actors -> `ownActors`.
    case readOwnActors
    /// Does the store hold, per actor, the operation of this sequence with this checksum ->
    /// `historyCompared`.
    case compareHistory([Frame.ActorHead])
    /// Read own operations after a sequence, about `maxBytes` -> `ownOperations`.
    case readOwnOperations(actor: ActorID, after: UInt64, maxBytes: Int)
    /// Store documents and cursors in one durable transaction -> `stored` or `wanting`.
    case store(Batch)
    /// Keep a page aside, durable but invisible -> `stored`.
    case stage([DocumentUpdate], subscription: [UInt8])
    /// Forget the pages kept aside for a subscription -> `stored`.
    case unstage(subscription: [UInt8])
    /// Which of these does the store hold in an older state -> `outdated`.
    case findOutdated([Frame.Candidate])
    /// The server holds the actor's operations durably up to here; no answer.
    case acknowledge(ActorID, through: UInt64)
    /// The server knows a later or other history of this own actor: write as a new one from now on; no
    /// answer.
    case renewActor(ActorID)
    /// The server has none of these; stop wanting them; no answer.
    case settle([DocumentKey])
    /// Something for the application to know; no answer.
    case report(Report)

    // Publisher:
    /// Tell the frontier of these actors and the log's head -> `frontier`.
    case readFrontier([ActorID])
    /// Read a page of a subscription's documents behind a position -> `page`.
    case readPage(subscription: UInt64, query: SubscriptionQuery, after: PageStart)
    /// Wait for operations after an offset -> `operations` or `lagging`.
    case awaitOperations(after: UInt64)
    /// Admit operations to the log, durably, in order -> `appended` or `refused`.
    case append([[UInt8]])
    /// Read full states -> `states`.
    case readStates([DocumentKey])
}

/// A subscription as the application asks for it.
public struct SubscriptionRequest: Sendable {
    /// The canonical key of query and arguments.
    public let key: [UInt8]
    /// The statement's text.
    public let statement: String
    /// Its arguments, an object.
    public let arguments: Value
    /// What the store remembers for the key.
    public let cursor: LogPosition?

    /// A request with the store's cursor.
    public init(key: [UInt8], statement: String, arguments: Value, cursor: LogPosition?) {
        self.key = key
        self.statement = statement
        self.arguments = arguments
        self.cursor = cursor
    }
}

/// What one durable transaction of the receiver holds.
public struct Batch: Sendable {
    /// Documents, in log order.
    public var updates: [DocumentUpdate]
    /// Subscription keys and the position they have reached.
    public var cursors: [(key: [UInt8], position: LogPosition)]
    /// A subscription whose catch-up ends here: its staged pages become visible with this, and its cursor
    /// becomes the end's position whatever it was before (the log may have been restored).
    public var publishes: [UInt8]?
    /// Documents whose full state was asked for and is among the updates: no longer wanted with this. Any
    /// other state may be older than what is wanted.
    public var settles: [DocumentKey]
}

/// Where a page of a catch-up begins.
public enum PageStart: Sendable, Equatable {
    /// At a subscriber's cursor; to be checked against the log, and read from the start when it does not fit.
    case cursor(LogPosition)
    /// Behind an offset of this log. Documents that do not match are named to the subscriber when their
    /// last change lies behind `namesAfter`: it may hold an earlier state that did match.
    case offset(UInt64, namesAfter: UInt64)
}

/// One page of current states behind an offset.
public struct CatchUpPage: Sendable {
    /// Full states of matching documents.
    public var documents: [DocumentUpdate]
    /// Changed documents that do not match.
    public var candidates: [Frame.Candidate]
    /// Everything that last changed up to this offset has been visited.
    public var offset: UInt64
    /// The materialization's head in the page's snapshot when the page reached it, else nil.
    public var head: LogPosition?

    /// A page of these parts.
    public init(
        documents: [DocumentUpdate], candidates: [Frame.Candidate], offset: UInt64, head: LogPosition?
    ) {
        self.documents = documents
        self.candidates = candidates
        self.offset = offset
        self.head = head
    }
}

/// One folded operation, shared by all sessions of a server.
public struct LiveOperation: Sendable {
    /// One document's change with the states around it.
    public struct Change: Sendable {
        /// The document.
        public let key: DocumentKey
        /// The encoded delta.
        public let delta: [UInt8]
        /// The encoded state before; nil before the first.
        public let before: [UInt8]?
        /// The encoded state after.
        public let after: [UInt8]

        /// A change of this document.
        public init(key: DocumentKey, delta: [UInt8], before: [UInt8]?, after: [UInt8]) {
            self.key = key
            self.delta = delta
            self.before = before
            self.after = after
        }
    }

    /// The place after it.
    public let position: LogPosition
    /// Its stamp.
    public let stamp: Stamp
    /// The session that brought it, nil for any other way into the log.
    public let origin: UInt64?
    /// The changes.
    public let changes: [Change]

    /// An operation at this place.
    public init(position: LogPosition, stamp: Stamp, origin: UInt64?, changes: [Change]) {
        self.position = position
        self.stamp = stamp
        self.origin = origin
        self.changes = changes
    }
}

/// What a peer's session tells its application.
public enum Report: Sendable, Equatable {
    /// The handshake is done; the server's clock minus ours, in milliseconds.
    case connected(clockDifferenceMilliseconds: Int64)
    /// A subscription has everything up to the server's head of that moment.
    case subscriptionIsLive(key: [UInt8])
    /// The server does not take a subscription.
    case subscriptionRefused(key: [UInt8], SyncError)
    /// The server does not take an operation.
    case writeRefused(Frame.Refusal)
    /// The server has another history of an own actor (a restored or copied store).
    case historyForked(ActorID)
}
