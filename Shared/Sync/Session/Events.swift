import CRDT
import DQL

/// The input of a session: frames from the other side, and the answers to its own actions.
public enum Event: Sendable {
    /// The transport is connected and authorized.
    case opened
    /// One frame arrived.
    case frame([UInt8])

    // A subscriber and writer (a peer):
    /// The application subscribed; `cursor` is the store's cursor for the key.
    case subscribe(SubscriptionRequest)
    /// The application cancelled a subscription.
    case unsubscribe(key: [UInt8])
    /// The answer to `readOwnActors`.
    case ownActors(OwnHistory)
    /// The answer to `compareHistory`: the relation of each actor's history here to the server's.
    case historyCompared([HistoryStanding])
    /// The answer to `repair`: the server's states of these documents are needed first.
    case repairNeeds([DocumentKey])
    /// The answer to `stageRepair`.
    case repairStaged
    /// The answer to `repair`: it is durable.
    case repaired(Repaired)
    /// The answer to `noteSeen`.
    case seenNoted
    /// The answer to `readHoldings`.
    case holdings([Frame.Candidate], isLast: Bool)
    /// The answer to `readHeld` for the subscription of this key.
    case held(key: [UInt8], [Frame.Candidate], isLast: Bool)
    /// The answer to `readOwnOperations`; empty when there is no further one.
    case ownOperations(actor: ActorID, [(sequence: SequenceNumber, bytes: [UInt8])])
    /// The store has a new own operation of this actor.
    case ownOperationAdded(ActorID)
    /// The answer to `store`, `stage`, `unstage`, `startOver` and `hide`: everything is durable.
    case stored
    /// The answer to `store`: everything is durable, but these documents were purged at the server while
    /// own writes to them are pending: they stay until a repair has moved the writes.
    case returning([DocumentKey])
    /// The answer to `store`: these documents' bases are missing, nothing was stored.
    case wanting([DocumentKey])
    /// The answer to `findOutdated`: the candidates that this store must fetch.
    case outdated([DocumentKey])
    /// Documents that the store wants from earlier on, after an eviction, or because a received state is
    /// incomplete.
    case wanted([DocumentKey])
    /// The answer to `readVectors`.
    case vectors([Frame.Candidate])
    /// The application has a newer access token: send it as soon as the server accepts tokens.
    case renew(token: String)

    // A publisher that admits writes (a server):
    /// The answer to `readFrontier`. `isBehind`: the log lacks a position that the peer has seen. `hashes`:
    /// the log's operations after those that the peer knows to be acknowledged.
    case frontier([Frame.ActorHead], head: LogPosition, isBehind: Bool, hashes: [OperationHashes] = [])
    /// The answer to `compareHoldings`: the documents of which the peer has more and that it may write.
    /// `declined` is the fingerprint of its rights if it has more of others too.
    case lacking([DocumentKey], declined: [UInt8]? = nil)
    /// The answer to `admitStates`: the permitted states are durable in the log up to this position.
    /// `declined` as in `lacking`: rights may have changed since.
    case statesAdmitted(LogPosition, declined: [UInt8]? = nil)
    /// The answer to `readPage`.
    case page(subscription: UInt64, CatchUpPage)
    /// The answer to `readPage` if the log lacks the position, or has reaped a tombstone after it.
    case unknownPlace(subscription: UInt64)
    /// The answer to `compareHeld`.
    case compared(subscription: UInt64, HeldAnswer)
    /// The answer to `readPage` and `compareHeld` for a subscription whose condition took too long: it is
    /// refused, and the session goes on.
    case tooCostly(subscription: UInt64)
    /// The other side's read rights have changed; its write rights are checked at every append.
    case grantChanged(ReadAccess)
    /// The answer to `checkToken`; preceded by `grantChanged` if the read rights differ. (A refused token
    /// is answered with `finish`.)
    case renewed
    /// The answer to `awaitOperations`: the folded operations between the requested position and `through`,
    /// in log order. Foreign operations that match none of the session's followed queries may be left out
    /// (`Sharing`).
    case operations([LiveOperation], through: LogPosition)
    /// The answer to `awaitOperations` when the position is no longer buffered: catch up to this head
    /// instead.
    case lagging(LogPosition)
    /// The answer to `append`; the operations are in the log, none of them after `offset` (0 if unknown:
    /// some were there already).
    case appended([Frame.Acknowledgement], offset: Offset = 0)
    /// The answer to `append`: the admitted operations, and per actor the first refused one, followed by
    /// further ones already known to be refused.
    case refused([Frame.Acknowledgement], [Frame.Refusal], offset: Offset = 0)
    /// The answer to `readStates`; `gone` has the purges of the documents named as held.
    case states([(key: DocumentKey, state: EncodedState?)], at: LogPosition?, gone: [Frame.Candidate] = [])

    /// An action failed, not by the other side's fault; the session ends as `unavailable`.
    case failed(String)
    /// This side wants to end the session.
    case finish(SyncError)
    /// The transport is closed.
    case disconnected
}

/// The output of a session. Each action names the event that answers it, if there is one.
public enum Action: Sendable {
    /// Send one frame; frames leave in order.
    case send([UInt8])
    /// Send nothing more and close the transport. The last action of a session.
    case close(SyncError)

    // Subscriber and writer:
    /// Return the heads of all own actors -> `ownActors`.
    case readOwnActors
    /// Compare each own actor's history with the server's head of it (sequence 0 for an unknown actor), and
    /// with the server's checksums of earlier operations -> `historyCompared`.
    case compareHistory([Frame.ActorHead], hashes: [OperationHashes])
    /// Read own operations after a sequence, about `maxBytes` -> `ownOperations`.
    case readOwnOperations(actor: ActorID, after: SequenceNumber, maxBytes: Int)
    /// Store documents and cursors in one durable transaction -> `stored`, `returning` or `wanting`.
    case store(Batch)
    /// Stage a page, durable but invisible -> `stored`.
    case stage(StagedPage)
    /// Drop the staged pages of a subscription -> `stored`.
    case unstage(subscription: [UInt8])
    /// Like `unstage`, and the cursor no longer describes the holdings: even if the list requested by the
    /// server is not completed, the next session begins with one -> `stored`.
    case startOver(subscription: [UInt8])
    /// Hide all documents of a collection: they may not be read here. Local writes are still uploaded. The
    /// subscription's cursor is dropped -> `stored`.
    case hide(collection: CollectionName, subscription: [UInt8])
    /// Find the candidates that the store shows, or has staged for the subscription, in an older state ->
    /// `outdated`.
    case findOutdated([Frame.Candidate], subscription: [UInt8])
    /// The server has the actor's operations durably up to here. For documents outside of all subscriptions
    /// the server's answer (rule 16) is still to come until the stream has passed `offset`, and never comes
    /// if that is nil -> `wanted` for documents to fetch, or no answer.
    case acknowledge(ActorID, through: SequenceNumber, offset: Offset?)
    /// The server's answers to own writes up to an offset will not come in the stream -> `wanted`, or no
    /// answer.
    case askForAnswers(through: Offset)
    /// Read a page of the visible documents that match a subscription, or of all in its collection, after
    /// an id and in the order of ids, at most `Limits.heldDocuments` -> `held`.
    case readHeld(SubscriptionRequest, after: DocumentID?, isWhole: Bool)
    /// Move writes that the server cannot accept as written to a new actor, in one durable transaction ->
    /// `repairNeeds` or `repaired`.
    case repair(Repair)
    /// Stage the server's states of documents for the repair, nil for one that it does not have ->
    /// `repairStaged`.
    case stageRepair([(key: DocumentKey, state: EncodedState?)])
    /// Read a page of the store's holdings after a document, tombstones included, at most
    /// `Limits.heldDocuments` -> `holdings`.
    case readHoldings(after: DocumentKey?)
    /// The server's log is known up to here; `replaces` when it no longer has the earlier seen position:
    /// then `declined` replaces the stored one -> `seenNoted`.
    case noteSeen(LogPosition, replaces: Bool, declined: [UInt8]? = nil)
    /// Return the vectors of these documents as far as the store shows them, without withheld parts ->
    /// `vectors`.
    case readVectors([DocumentKey])
    /// The server has none of these, or may not say so: stop wanting them; no answer. The cursors of
    /// `distrusts` no longer describe the holdings.
    case settle([DocumentKey], distrusts: [[UInt8]])
    /// Information for the application; no answer.
    case report(Report)

    // Publisher:
    /// Return the frontier of the peer's actors and the log's head, and whether the log has the position
    /// that the peer has seen -> `frontier`.
    case readFrontier(Frame.Hello)
    /// Find the documents of which the log's fold has less -> `lacking`.
    case compareHoldings([Frame.Candidate])
    /// Append full states to the log, as far as their sender's grant permits -> `statesAdmitted`.
    case admitStates([(key: DocumentKey, state: EncodedState)])
    /// Read a page of a subscription's documents after a position, about `maxBytes` at most -> `page`,
    /// `unknownPlace` or `tooCostly`.
    case readPage(
        subscription: UInt64, query: SubscriptionQuery, access: ReadAccess, after: PageStart, maxBytes: Int)
    /// Compare a page of a subscriber's holdings with the log's fold, in one snapshot of it -> `compared`
    /// or `tooCostly`.
    case compareHeld(subscription: UInt64, query: SubscriptionQuery, access: ReadAccess, HeldPage)
    /// Wait for operations after an offset -> `operations` or `lagging`.
    case awaitOperations(after: Offset)
    /// Admit operations to the log, durably, in order -> `appended` or `refused`. `isMore`: further ones
    /// that have arrived follow at once.
    case append([[UInt8]], isMore: Bool)
    /// Read full states; for some the other side has named the vector of its own copy -> `states`.
    case readStates([DocumentKey], held: [Frame.Candidate])
    /// Check a newer access token of the other side, and continue the session under it -> `renewed` or
    /// `finish`.
    case checkToken(String)
}

/// A subscription as requested by the application.
public struct SubscriptionRequest: Sendable {
    /// The canonical key of query and arguments.
    public let key: [UInt8]
    /// The statement's text.
    public let statement: String
    /// Its arguments, an object.
    public let arguments: Value
    /// The stored cursor of the key.
    public let cursor: LogPosition?
    /// The server's token stored with the cursor (`Batch.rights`).
    public let rights: [UInt8]?
    /// The server's token of the last staged page (`StagedPage.resume`).
    public let resume: [UInt8]?
    /// True if the store may hold matching documents: then the server is told so, instead of sending them
    /// again.
    public let holds: Bool

    /// A request with the stored data of its key.
    public init(
        key: [UInt8], statement: String, arguments: Value, cursor: LogPosition?, rights: [UInt8]? = nil,
        resume: [UInt8]? = nil, holds: Bool = false
    ) {
        self.key = key
        self.statement = statement
        self.arguments = arguments
        self.cursor = cursor
        self.rights = rights
        self.resume = resume
        self.holds = holds
    }
}

/// A staged page of a catch-up.
public struct StagedPage: Sendable {
    /// The subscription's key.
    public var subscription: [UInt8]
    /// Full states, and purges.
    public var updates: [DocumentUpdate]
    /// Documents to hide in the same transaction: they may not be read here any more.
    public var hides: [DocumentKey] = []
    /// The token to send with the next subscription, so that it continues after this page; nil keeps the
    /// present token.
    public var resume: [UInt8]?
    /// The position of the server's log that the states reflect: seen.
    public var seen: LogPosition?
}

/// States that the server has an own actor's operations durably up to a sequence.
public struct OwnAcknowledgement: Sendable, Equatable {
    /// The actor of the operations.
    public let actor: ActorID
    /// The sequence of the last of them.
    public let through: SequenceNumber
    /// Once the stream has passed this, the server's answers to them have arrived.
    public let offset: Offset
}

/// The content of one durable transaction of the receiver.
public struct Batch: Sendable {
    /// Own operations that the server has, recorded before everything else, even if a base is missing.
    public var acknowledges: [OwnAcknowledgement] = []
    /// Documents, in log order.
    public var updates: [DocumentUpdate]
    /// Subscription keys and the position they have reached.
    public var cursors: [(key: [UInt8], position: LogPosition)]
    /// A subscription whose catch-up ends here: its staged pages become visible, and its cursor becomes the
    /// end's position even if that is lower (the log may have been restored).
    public var publishes: [UInt8]?
    /// Documents that are no longer wanted: their requested full states are among the updates. Any other
    /// state may be older than the wanted one.
    public var settles: [DocumentKey]
    /// The position of the server's log as of which these states are; nil if it is not known for each.
    public var answeredAt: LogPosition?
    /// The position of the server's log that this reflects: seen, whatever the cursors.
    public var seen: LogPosition?
    /// The offset that the server's stream has passed with this: its answers to own writes up to there have
    /// arrived.
    public var streamed: Offset?
    /// Documents to hide: they may not be read here any more.
    public var hides: [DocumentKey] = []
    /// The token to store with the published subscription's cursor.
    public var rights: [UInt8]?
    /// Subscription keys whose cursors no longer describe the holdings: the server is about to ask.
    public var distrusts: [[UInt8]] = []
}

/// The beginning of a catch-up's page.
public enum PageStart: Sendable, Equatable {
    /// At a subscriber's cursor; to be checked against the log and its reap floor.
    case cursor(LogPosition)
    /// At the position up to which a subscriber has staged pages; to be checked like a cursor.
    case resumed(LogPosition, namesAfter: Offset)
    /// After an offset of this log. A document that does not match is named to the subscriber if its last
    /// change is after `namesAfter`: the subscriber may hold an earlier state that did match.
    case offset(Offset, namesAfter: Offset)
}

/// The store's record of its own writes and of the server's log.
public struct OwnHistory: Sendable {
    /// The heads of all actors it has written as.
    public let heads: [Frame.ActorHead]
    /// The server's acknowledgements of them.
    public let acknowledged: [Frame.Acknowledgement]
    /// The last position of the server's log known to the store.
    public let seen: LogPosition?
    /// The fingerprint of the rights under which a server did not accept all holdings; nil if it did.
    public let declined: [UInt8]?

    /// A history of these parts.
    public init(
        heads: [Frame.ActorHead] = [], acknowledged: [Frame.Acknowledgement] = [], seen: LogPosition? = nil,
        declined: [UInt8]? = nil
    ) {
        self.declined = declined
        self.heads = heads
        self.acknowledged = acknowledged
        self.seen = seen
    }
}

/// The relation of an own actor's history to the server's (rule 9).
public struct HistoryStanding: Sendable, Equatable {
    /// The possible relations.
    public enum State: Sendable, Equatable {
        /// The server has its operations up to `admitted`, and accepts further ones.
        case open
        /// The server accepts nothing more of it: it refused an operation, or lacks earlier ones that the
        /// store no longer keeps.
        case closed
        /// The server has operations of it that this store lacks: the store was rolled back or copied.
        case forked
    }

    /// The actor.
    public let actor: ActorID
    /// The sequence up to which the server has, or once had, this store's operations.
    public let admitted: SequenceNumber
    /// The relation.
    public let state: State
    /// True if the server certainly has no later operation of this store.
    public let isExact: Bool

    /// The standing of this actor.
    public init(actor: ActorID, admitted: SequenceNumber, state: State, isExact: Bool) {
        self.actor = actor
        self.admitted = admitted
        self.state = state
        self.isExact = isExact
    }
}

/// The input of a repair, which brings a store back in line with the server (rules 9, 20 and 21).
public struct Repair: Sendable {
    /// Per own actor the greatest sequence that the server has.
    public var admitted: [ActorID: SequenceNumber]
    /// Actors of which the server accepts nothing more: later operations are moved.
    public var closed: Set<ActorID>
    /// The closed actors with another history at the server right after the admitted operations.
    public var diverged: Set<ActorID>
    /// Operations to set aside. One that the log already has, moved by a copy of the store
    /// (`alreadyThere`), is dropped. One whose base was missing (`baseNotCovered`) is moved if it depends
    /// on another that is set aside or moved. (One refused only for its clock is not among them.)
    public var refused: [Frame.Refusal]
    /// True if the server found an operation too far ahead of its clock: then all that are too far ahead
    /// are moved.
    public var isForClock: Bool
    /// Documents purged at the server: their unacknowledged writes are moved too.
    public var gone: Set<DocumentKey> = []
    /// The position of the server's log as of which the staged states are.
    public var seen: LogPosition?
    /// True to set aside also the writes refused for their base: they were moved again and again.
    public var isFinal = false
    /// The content of the stream up to `seen`, to be stored in the same transaction, so that the states
    /// never show a part of a foreign transaction; nil if it has not arrived.
    public var following: Batch?
}

/// The state of a store after a repair.
public struct Repaired: Sendable {
    /// The actor that writes from now on.
    public let actor: ActorID
    /// Actors of which nothing more is uploaded.
    public let left: Set<ActorID>
    /// The actors with operations to upload, in the order of writing.
    public let pending: [ActorID]
    /// The operations that were set aside.
    public let refused: [Frame.Refusal]
    /// True if `Repair.following` was stored too; if not, it is stored as usual afterwards.
    public let isFollowed: Bool
    /// Like `Event.returning`, for the batch that followed.
    public let returning: [DocumentKey]

    /// A store after a repair.
    public init(
        actor: ActorID, left: Set<ActorID>, pending: [ActorID], refused: [Frame.Refusal],
        isFollowed: Bool = false, returning: [DocumentKey] = []
    ) {
        self.isFollowed = isFollowed
        self.returning = returning
        self.actor = actor
        self.left = left
        self.pending = pending
        self.refused = refused
    }
}

/// One page of current states after an offset.
public struct CatchUpPage: Sendable {
    /// Full states of matching documents.
    public var documents: [DocumentUpdate]
    /// Changed documents that do not match.
    public var candidates: [Frame.Candidate]
    /// The page has visited everything that last changed up to this offset.
    public var offset: Offset
    /// The log's position at that offset, if known: a later session may continue there.
    public var reached: LogPosition?
    /// The materialization's head in the page's snapshot when the page reached it, else nil.
    public var head: LogPosition?
    /// The materialization's position in the page's snapshot.
    public var asOf: LogPosition?
    /// Changed documents that reaping has reduced to the names of their seeds: the seeds are purged.
    public var gone: [Frame.Candidate] = []

    /// A page of these parts.
    public init(
        documents: [DocumentUpdate], candidates: [Frame.Candidate], offset: Offset, head: LogPosition?,
        reached: LogPosition? = nil, asOf: LogPosition? = nil
    ) {
        self.asOf = asOf
        self.documents = documents
        self.candidates = candidates
        self.offset = offset
        self.head = head
        self.reached = reached
    }
}

/// A range of a collection's ids, with a subscriber's holdings for a subscription.
public struct HeldPage: Sendable {
    /// The holdings, ascending by id.
    public var candidates: [Frame.Candidate]
    /// The range begins after this id.
    public var after: DocumentID?
    /// True if the range has no end; else it ends with the last candidate.
    public var isLast: Bool
    /// Approximate bytes of documents in one answer.
    public var maxBytes = Int.max

    /// A page of these parts.
    public init(candidates: [Frame.Candidate], after: DocumentID? = nil, isLast: Bool) {
        self.candidates = candidates
        self.after = after
        self.isLast = isLast
    }
}

/// The answer to a subscriber's holdings in a range of ids.
public struct HeldAnswer: Sendable {
    /// Full states of matching documents that the subscriber lacks or holds in an incomplete state.
    public var documents: [DocumentUpdate] = []
    /// Held documents of which something was purged, with a vector that covers it.
    public var gone: [Frame.Candidate] = []
    /// Held documents that the subscriber may not read.
    public var hidden: [DocumentKey] = []
    /// The id up to which this answer reaches; nil for the whole range.
    public var through: DocumentID?
    /// The materialization's position in the comparison's snapshot.
    public var asOf: LogPosition?

    /// An empty answer.
    public init() {}
}

/// One folded operation, shared by all sessions of a server.
public struct LiveOperation: Sendable {
    /// One document's change with the states around it.
    public struct Change: Sendable {
        /// The document.
        public let key: DocumentKey
        /// The encoded delta; nil when a full state was merged.
        public let delta: EncodedDelta?
        /// The encoded state before; nil before the first.
        public let before: EncodedState?
        /// The encoded state after; empty for a tombstone that was reaped.
        public let after: EncodedState
        /// The encoded vector at which a tombstone was reaped; nil for any other change.
        public let gone: [UInt8]?
        /// The followed queries affected by the change; nil if each session evaluates its own.
        public let matches: QueryMatches?

        /// A change of this document.
        public init(
            key: DocumentKey, delta: EncodedDelta?, before: EncodedState?, after: EncodedState,
            gone: [UInt8]? = nil,
            matches: QueryMatches? = nil
        ) {
            self.key = key
            self.delta = delta
            self.before = before
            self.after = after
            self.gone = gone
            self.matches = matches
        }
    }

    /// The position after it.
    public let position: LogPosition
    /// Its stamp.
    public let stamp: Stamp
    /// The session that uploaded it; nil if it entered the log another way.
    public let origin: UInt64?
    /// The changes.
    public let changes: [Change]

    /// An operation at this position.
    public init(position: LogPosition, stamp: Stamp, origin: UInt64?, changes: [Change]) {
        self.position = position
        self.stamp = stamp
        self.origin = origin
        self.changes = changes
    }
}

/// Information from a peer's session for its application.
public enum Report: Sendable, Equatable {
    /// The handshake is complete; the difference is the server's clock minus ours, in milliseconds.
    case connected(clockDifferenceMilliseconds: Int64)
    /// A subscription has everything up to the server's present head.
    case subscriptionIsLive(key: [UInt8])
    /// The server refused a subscription.
    case subscriptionRefused(key: [UInt8], SyncError)
    /// The server refused an operation.
    case writeRefused(Frame.Refusal)
    /// The server has another history of an own actor (a restored or copied store).
    case historyForked(ActorID)
}
