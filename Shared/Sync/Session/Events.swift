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
    case ownActors(OwnHistory)
    /// The answer to `compareHistory`: how each actor's history here stands to the server's.
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
    /// The answer to `store`: everything is durable, but these documents are gone at the server while own
    /// writes to them are pending: they stay until a repair has moved the writes.
    case returning([DocumentKey])
    /// The answer to `store`: these documents' bases are missing, nothing was stored.
    case wanting([DocumentKey])
    /// The answer to `findOutdated`: of the candidates those that this store must fetch.
    case outdated([DocumentKey])
    /// Documents the store wants from earlier on, after an eviction, or because a state that has come lacks
    /// something that is held.
    case wanted([DocumentKey])
    /// The answer to `readVectors`.
    case vectors([Frame.Candidate])
    /// The application has a newer access token: the server is sent it, as soon as it takes one.
    case renew(token: String)

    // A publisher that admits writes (a server):
    /// The answer to `readFrontier`; `isBehind` says that the log does not have what the peer has seen,
    /// `hashes` what operations it has behind what the peer knows to be acknowledged.
    case frontier([Frame.ActorHead], head: LogPosition, isBehind: Bool, hashes: [OperationHashes] = [])
    /// The answer to `compareHoldings`: of the documents those that the peer has more of and may write.
    /// `declined` stands for its rights where it has more of others too.
    case lacking([DocumentKey], declined: [UInt8]? = nil)
    /// The answer to `admitStates`: what may be taken is durable in the log up to this position. `declined`
    /// as in `lacking`: rights may have changed since.
    case statesAdmitted(LogPosition, declined: [UInt8]? = nil)
    /// The answer to `readPage`.
    case page(subscription: UInt64, CatchUpPage)
    /// The answer to `readPage` where the log does not have the place, or has reaped something behind it.
    case unknownPlace(subscription: UInt64)
    /// The answer to `compareHeld`.
    case compared(subscription: UInt64, HeldAnswer)
    /// What the other side may read has changed; what it may write is asked at every append.
    case grantChanged(ReadAccess)
    /// The answer to `checkToken`; `grantChanged` came before where other things may be read now. (One that
    /// is not taken is answered with `finish`.)
    case renewed
    /// The answer to `awaitOperations`: the folded operations between the position asked for and `through`,
    /// in log order; those may be left out that are not the session's own and that no query matches which it
    /// follows (`Sharing`).
    case operations([LiveOperation], through: LogPosition)
    /// The answer to `awaitOperations` when the position is no longer at hand: catch up to this head instead.
    case lagging(LogPosition)
    /// The answer to `append`; the operations stand in the log, none of them behind `offset` (0 when that is
    /// not known: some were there already).
    case appended([Frame.Acknowledgement], offset: Offset = 0)
    /// The answer to `append`: what was admitted, and per actor the first operation that was not; behind it
    /// those that would not be either, as far as that is known.
    case refused([Frame.Acknowledgement], [Frame.Refusal], offset: Offset = 0)
    /// The answer to `readStates`; `gone` says what of the documents named as held is gone.
    case states([(key: DocumentKey, state: EncodedState?)], at: LogPosition?, gone: [Frame.Candidate] = [])

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
    /// Compare each own actor's history with the server's head of it (sequence 0 for one that the server does
    /// not know), and with what it says of operations before -> `historyCompared`.
    case compareHistory([Frame.ActorHead], hashes: [OperationHashes])
    /// Read own operations after a sequence, about `maxBytes` -> `ownOperations`.
    case readOwnOperations(actor: ActorID, after: SequenceNumber, maxBytes: Int)
    /// Store documents and cursors in one durable transaction -> `stored`, `returning` or `wanting`.
    case store(Batch)
    /// Keep a page aside, durable but invisible -> `stored`.
    case stage(StagedPage)
    /// Forget the pages kept aside for a subscription -> `stored`.
    case unstage(subscription: [UInt8])
    /// The same, and its cursor does not say what is held any more: whatever becomes of the list that the
    /// server has asked for, the next session begins with one -> `stored`.
    case startOver(subscription: [UInt8])
    /// Show no document of a collection any more: they may not be read here. What was written here is still
    /// uploaded. The subscription's cursor is forgotten -> `stored`.
    case hide(collection: CollectionName, subscription: [UInt8])
    /// Which of these does the store hold in an older state, or has staged in one for the subscription ->
    /// `outdated`.
    case findOutdated([Frame.Candidate], subscription: [UInt8])
    /// The server holds the actor's operations durably up to here. Where its documents belong to no
    /// subscription, the server's answer to them (rule 16) is still to come while the stream has not passed
    /// `offset`; never when that is nil -> `wanted` for documents to ask for, or no answer.
    case acknowledge(ActorID, through: SequenceNumber, offset: Offset?)
    /// The server's answers to own writes up to an offset will not come in the stream -> `wanted`, or no
    /// answer.
    case askForAnswers(through: Offset)
    /// Read a page of the documents that the store shows as matching a subscription, or all that it shows of
    /// the collection, behind an id and in the order of ids, at most `Limits.heldDocuments` -> `held`.
    case readHeld(SubscriptionRequest, after: DocumentID?, isWhole: Bool)
    /// Move what the server can not take as it was written to a new actor, in one durable transaction ->
    /// `repairNeeds` or `repaired`.
    case repair(Repair)
    /// Keep the server's states of documents aside for the repair, nil for one that it does not have ->
    /// `repairStaged`.
    case stageRepair([(key: DocumentKey, state: EncodedState?)])
    /// Read a page of what the store holds behind a document, tombstones included, at most
    /// `Limits.heldDocuments` -> `holdings`.
    case readHoldings(after: DocumentKey?)
    /// The server's log is known up to here; `replaces` when what was seen before is no longer in it: then
    /// `declined` takes the place of what was declined before -> `seenNoted`.
    case noteSeen(LogPosition, replaces: Bool, declined: [UInt8]? = nil)
    /// Tell the vectors of those of these documents that the store shows, without what it withholds ->
    /// `vectors`.
    case readVectors([DocumentKey])
    /// The server has none of these, or may not say so; stop wanting them; no answer. The cursors of
    /// `distrusts` do not say any more what is held.
    case settle([DocumentKey], distrusts: [[UInt8]])
    /// Something for the application to know; no answer.
    case report(Report)

    // Publisher:
    /// Tell the frontier of the actors that a peer names and the log's head, and whether the log has what the
    /// peer has seen of it -> `frontier`.
    case readFrontier(Frame.Hello)
    /// Which of these does the log's fold hold less of -> `lacking`.
    case compareHoldings([Frame.Candidate])
    /// Append full states to the log, as far as the grant lets their sender write -> `statesAdmitted`.
    case admitStates([(key: DocumentKey, state: EncodedState)])
    /// Read a page of a subscription's documents behind a position, about `maxBytes` of them at most ->
    /// `page` or `unknownPlace`.
    case readPage(
        subscription: UInt64, query: SubscriptionQuery, access: ReadAccess, after: PageStart, maxBytes: Int)
    /// Compare a page of what a subscriber holds with the log's fold, in one snapshot of it -> `compared`.
    case compareHeld(subscription: UInt64, query: SubscriptionQuery, access: ReadAccess, HeldPage)
    /// Wait for operations after an offset -> `operations` or `lagging`.
    case awaitOperations(after: Offset)
    /// Admit operations to the log, durably, in order -> `appended` or `refused`. `isMore`: others have come
    /// that follow at once.
    case append([[UInt8]], isMore: Bool)
    /// Read full states; of some the other side has said which vector it holds them with -> `states`.
    case readStates([DocumentKey], held: [Frame.Candidate])
    /// Check a newer access token of the other side, and let the session go on under it -> `renewed` or
    /// `finish`.
    case checkToken(String)
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
    /// What the server gave with the cursor (`Batch.rights`).
    public let rights: [UInt8]?
    /// What the server gave with the page that was staged last (`StagedPage.resume`).
    public let resume: [UInt8]?
    /// Whether the store may hold documents that match: then the server is told, instead of sending them.
    public let holds: Bool

    /// A request with what the store remembers.
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

/// A page of a catch-up that is kept aside.
public struct StagedPage: Sendable {
    /// The subscription's key.
    public var subscription: [UInt8]
    /// Full states, and what is gone.
    public var updates: [DocumentUpdate]
    /// Documents to show no more, in the same transaction: they may not be read here any more.
    public var hides: [DocumentKey] = []
    /// What to give with the next subscription, so that it goes on behind this page; nil leaves what there
    /// is.
    public var resume: [UInt8]?
    /// The position of the server's log that the states stand for: seen.
    public var seen: LogPosition?
}

/// That the server holds an own actor's operations durably up to a sequence.
public struct OwnAcknowledgement: Sendable, Equatable {
    /// Whose operations.
    public let actor: ActorID
    /// The sequence of the last of them.
    public let through: SequenceNumber
    /// Once the stream has passed this, the server's answers to them are here.
    public let offset: Offset
}

/// What one durable transaction of the receiver holds.
public struct Batch: Sendable {
    /// Own operations that the server has, noted before everything else, and even where a base is missing.
    public var acknowledges: [OwnAcknowledgement] = []
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
    /// As of which position of the server's log these are; nil where that is not known of each.
    public var answeredAt: LogPosition?
    /// The position of the server's log that this stands for: seen, whatever the cursors.
    public var seen: LogPosition?
    /// The offset that the server's stream has passed with this: its answers to own writes up to there are
    /// here.
    public var streamed: Offset?
    /// Documents to show no more: they may not be read here any more.
    public var hides: [DocumentKey] = []
    /// What to keep with the published subscription's cursor.
    public var rights: [UInt8]?
    /// Subscription keys whose cursors do not say what is held any more: the server is about to ask.
    public var distrusts: [[UInt8]] = []
}

/// Where a page of a catch-up begins.
public enum PageStart: Sendable, Equatable {
    /// At a subscriber's cursor; to be checked against the log and its reap floor.
    case cursor(LogPosition)
    /// At the place up to which a subscriber has staged pages; to be checked like a cursor.
    case resumed(LogPosition, namesAfter: Offset)
    /// Behind an offset of this log. Documents that do not match are named to the subscriber when their
    /// last change lies behind `namesAfter`: it may hold an earlier state that did match.
    case offset(Offset, namesAfter: Offset)
}

/// What a store knows of its own writes and of the server's log.
public struct OwnHistory: Sendable {
    /// The heads of all actors it has written as.
    public let heads: [Frame.ActorHead]
    /// How far the server has acknowledged them.
    public let acknowledged: [Frame.Acknowledgement]
    /// The last position of the server's log that the store knows of.
    public let seen: LogPosition?
    /// The rights by which a server has not taken all that the store holds; nil where one has.
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

/// How an own actor's history stands to what the server has of it (rule 9).
public struct HistoryStanding: Sendable, Equatable {
    /// The ways it can stand.
    public enum State: Sendable, Equatable {
        /// The server has its operations up to `admitted`, and takes what follows.
        case open
        /// The server takes nothing more of it: it refused an operation, or lacks earlier ones that the store
        /// does not keep any more.
        case closed
        /// The server has operations of it that this store has not: the store was rolled back or copied.
        case forked
    }

    /// The actor.
    public let actor: ActorID
    /// The greatest sequence up to which the server has, or once had, this store's operations.
    public let admitted: SequenceNumber
    /// How it stands.
    public let state: State
    /// Whether the server certainly has no later operation of this store's.
    public let isExact: Bool

    /// A standing of this actor.
    public init(actor: ActorID, admitted: SequenceNumber, state: State, isExact: Bool) {
        self.actor = actor
        self.admitted = admitted
        self.state = state
        self.isExact = isExact
    }
}

/// What a store needs to know to get back in line with the server (rules 9, 20 and 21).
public struct Repair: Sendable {
    /// Per own actor the greatest sequence that the server has.
    public var admitted: [ActorID: SequenceNumber]
    /// Actors of which the server takes nothing more: what is written beyond is moved.
    public var closed: Set<ActorID>
    /// Those of them that another history goes on with, exactly beyond what is admitted.
    public var diverged: Set<ActorID>
    /// Operations to set aside; but one that the log has, moved by a copy of the store (`alreadyThere`), is
    /// dropped, and one whose base was missing (`baseNotCovered`) and that rests on another
    /// one that is set aside or moved is moved too. (One refused only for its clock is not among them.)
    public var refused: [Frame.Refusal]
    /// Whether the server found an operation too far ahead of its clock: then all that are, are moved.
    public var isForClock: Bool
    /// Documents that are gone at the server: what is not acknowledged of these is moved too.
    public var gone: Set<DocumentKey> = []
    /// The position of the server's log that the states kept aside stand for.
    public var seen: LogPosition?
    /// Whether what is refused for its base is set aside too: it has been moved again and again.
    public var isFinal = false
    /// What the stream has brought up to `seen`, to be stored in the same transaction, so that the states do
    /// not show a part of what others wrote at once; nil where it has not come.
    public var following: Batch?
}

/// How a store stands after a repair.
public struct Repaired: Sendable {
    /// The actor that writes from now on.
    public let actor: ActorID
    /// Actors that nothing more is uploaded of.
    public let left: Set<ActorID>
    /// Those with something to upload, in the order in which they wrote it.
    public let pending: [ActorID]
    /// The operations that were set aside.
    public let refused: [Frame.Refusal]
    /// Whether `Repair.following` was stored too; if not, it is stored as if nothing had happened.
    public let isFollowed: Bool
    /// See `Event.returning`; of what followed.
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

/// One page of current states behind an offset.
public struct CatchUpPage: Sendable {
    /// Full states of matching documents.
    public var documents: [DocumentUpdate]
    /// Changed documents that do not match.
    public var candidates: [Frame.Candidate]
    /// Everything that last changed up to this offset has been visited.
    public var offset: Offset
    /// The log's position at that offset, where it is known: there a later session may go on.
    public var reached: LogPosition?
    /// The materialization's head in the page's snapshot when the page reached it, else nil.
    public var head: LogPosition?
    /// The materialization's position in the page's snapshot.
    public var asOf: LogPosition?
    /// Changed documents of which reaping has left the names of their seeds: these are gone.
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

/// A range of a collection's ids, and what a subscriber holds in it of a subscription.
public struct HeldPage: Sendable {
    /// What it holds, ascending by id.
    public var candidates: [Frame.Candidate]
    /// The range begins behind this id.
    public var after: DocumentID?
    /// The range has no end; else it ends with the last candidate.
    public var isLast: Bool
    /// About how many bytes of documents answer it at a time.
    public var maxBytes = Int.max

    /// A page of these parts.
    public init(candidates: [Frame.Candidate], after: DocumentID? = nil, isLast: Bool) {
        self.candidates = candidates
        self.after = after
        self.isLast = isLast
    }
}

/// What a subscriber has to be told of a range of ids.
public struct HeldAnswer: Sendable {
    /// Full states of documents that match and are not held, or are held in a state that lacks something.
    public var documents: [DocumentUpdate] = []
    /// Held documents of which something is gone: with a vector that covers it.
    public var gone: [Frame.Candidate] = []
    /// Held documents that the subscriber may not read.
    public var hidden: [DocumentKey] = []
    /// The id up to which this speaks; nil for the whole range.
    public var through: DocumentID?
    /// The materialization's position in the comparison's snapshot.
    public var asOf: LogPosition?

    /// An answer that has nothing to tell.
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
        /// The encoded vector that a tombstone was reaped at; nil for any other change.
        public let gone: [UInt8]?
        /// The followed queries that it matters to; nil where each session evaluates its own.
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
