import CRDT
import DQL
import Exchange

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
    case historyCompared([HistoryComparison])
    /// The answer to `repair`: the server's states of these documents are needed first.
    case repairNeeds([DocumentKey])
    /// The answer to `stageRepair`.
    case repairStaged
    /// The answer to `repair`: it is durable.
    case repaired(RepairOutcome.Repaired)
    /// The answer to `noteSeen`.
    case seenNoted
    /// The answer to `readHoldings`.
    case holdings([DocumentVersion], isLast: Bool)
    /// The answer to `readHeld` for the subscription of this key.
    case held(key: [UInt8], [DocumentVersion], isLast: Bool)
    /// The answer to `readOwnOperations`; empty when there is no further one.
    case ownOperations(actor: ActorID, [(sequence: SequenceNumber, bytes: [UInt8])])
    /// The store has a new own operation of this actor.
    case ownOperationAdded(ActorID)
    /// The answer to `store`, `stage`, `unstage`, `startOver` and `hide`: everything is durable.
    case stored
    /// The answer to `store`: everything is durable, but these documents were purged at the server while
    /// own writes to them are pending: they stay until a repair has moved the writes. A session between small
    /// peers takes `stored` instead, because only a server's session repairs.
    case returning([DocumentKey])
    /// The answer to `store`: these documents' bases are missing, nothing was stored.
    case wanting([DocumentKey])
    /// The answer to `findOutdated`: the candidates that this store must fetch.
    case outdated([DocumentKey])
    /// Documents that the store wants from earlier on, after an eviction, or because a received state is
    /// incomplete.
    case wanted([DocumentKey])
    /// The answer to `readVectors`.
    case vectors([DocumentVersion])
    /// Links have changed documents that the server may lack.
    case linksBrought
    /// The answer to `giveBases`: the documents are named in the next list; `areHeld` if they are here as the
    /// operation found them, or later.
    case basesGiven(areHeld: Bool)
    /// Tell the other side news of presence; nothing is sent before `presenceOpens`, or to a side that takes
    /// none.
    case tell(PresenceNews)
    /// Tell the other small peer a newer certificate of this one; nothing is sent to a side that takes none.
    case renewCertificate([UInt8])
    /// Everything that this side wanted of the other's feed up to a position is stored: tell it.
    case took(LogPosition)
    /// The application has a newer access token: send it as soon as the server accepts tokens.
    case renew(token: String)

    /// The answer to `meet`. (A link that this side does not want is answered with `finish`.)
    case met(MeshMeeting)

    // A publisher that admits writes (a server):
    /// The answer to `readFrontier`. `isBehind`: the log lacks a position that the peer has seen. `hashes`:
    /// the log's operations after those that the peer knows to be acknowledged.
    case frontier([ActorHead], head: LogPosition, isBehind: Bool, hashes: [OperationHashes] = [])
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
    case compared(subscription: UInt64, HoldingsAnswer)
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
    case operations([FoldedOperation], through: LogPosition)
    /// The answer to `awaitOperations` when the position is no longer buffered: catch up to this head
    /// instead.
    case lagging(LogPosition)
    /// The answer to `append`; the operations are in the log, none of them after `offset` (0 if unknown:
    /// some were there already).
    case appended([Acknowledgement], offset: Offset = 0)
    /// The answer to `append`: the admitted operations, and per actor the first refused one, followed by
    /// further ones already known to be refused.
    case refused([Acknowledgement], [Refusal], offset: Offset = 0)
    /// The answer to `append` that `defers`: the admitted operations; per actor the first one whose base may
    /// still come, after which nothing of the actor is taken; and refused ones of others as in `refused`.
    case deferred([Acknowledgement], [Deferral], [Refusal], offset: Offset = 0)
    /// The answer to `readStates`; `gone` has the purges of the documents named as held.
    case states([(key: DocumentKey, state: EncodedState?)], at: LogPosition?, gone: [DocumentVersion] = [])

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
    case compareHistory([ActorHead], hashes: [OperationHashes])
    /// Read own operations after a sequence, about `maxBytes` -> `ownOperations`.
    case readOwnOperations(actor: ActorID, after: SequenceNumber, maxBytes: Int)
    /// Store documents and cursors in one durable transaction -> `stored`, `returning` or `wanting`.
    case store(Reception)
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
    case findOutdated([DocumentVersion], subscription: [UInt8])
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
    case repair(RepairRequest)
    /// Stage the server's states of documents for the repair, nil for one that it does not have ->
    /// `repairStaged`.
    case stageRepair([(key: DocumentKey, state: EncodedState?)])
    /// Read a page of the store's holdings after a document, tombstones included, at most
    /// `Limits.heldDocuments`; `ofLinks`: only of documents that links have changed since `settleLinks` ->
    /// `holdings`.
    case readHoldings(after: DocumentKey?, ofLinks: Bool)
    /// The server lacks what an own operation rests on: name its documents in the next list of what links
    /// have changed -> `basesGiven`.
    case giveBases(Deferral)
    /// The server has what links had changed when their list began, as far as it takes it: ask it about those
    /// documents -> `wanted`, or no answer.
    case settleLinks
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

    /// The other side takes news of presence from now on; no answer.
    case presenceOpens
    /// The other side tells news of presence; no answer.
    case presence(PresenceNews)
    /// The other small peer has a newer certificate, in DER: verify it; `finish` if it is not good.
    case certificate([UInt8])
    /// A newer certificate of this side is on its way to the other small peer.
    case certificateTold([UInt8])
    /// The other small peer has stored all that it wanted of this side's feed up to a position; no answer.
    case taken(LogPosition)
    /// Another small peer has greeted: return this side's head and subscriptions -> `met`.
    case meet(MeshGreeting, peerKey: String)

    // Publisher:
    /// Return the frontier of the peer's actors and the log's head, and whether the log has the position
    /// that the peer has seen -> `frontier`.
    case readFrontier(OwnHistory)
    /// Find the documents of which the log's fold has less -> `lacking`.
    case compareHoldings([DocumentVersion])
    /// Append full states to the log, as far as their sender's grant permits -> `statesAdmitted`. `isReturn`:
    /// a restored log takes back what it may have had; else links have brought them.
    case admitStates([(key: DocumentKey, state: EncodedState)], isReturn: Bool)
    /// Read a page of a subscription's documents after a position, about `maxBytes` at most -> `page`,
    /// `unknownPlace` or `tooCostly`.
    case readPage(
        subscription: UInt64, query: SubscriptionQuery, access: ReadAccess, after: PageStart, maxBytes: Int)
    /// Compare a page of a subscriber's holdings with the log's fold, in one snapshot of it -> `compared`
    /// or `tooCostly`.
    case compareHeld(subscription: UInt64, query: SubscriptionQuery, access: ReadAccess, HoldingsPage)
    /// Wait for operations after an offset -> `operations` or `lagging`.
    case awaitOperations(after: Offset)
    /// Admit operations to the log, durably, in order -> `appended`, `refused` or, if it `defers` those whose
    /// base may still come, `deferred`. `isMore`: further ones that have arrived follow at once.
    case append([[UInt8]], isMore: Bool, defers: Bool)
    /// Read full states; for some the other side has named the vector of its own copy -> `states`.
    case readStates([DocumentKey], held: [DocumentVersion])
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
    /// The server's token stored with the cursor (`Reception.rights`).
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

/// Information from a peer's session for its application.
public enum Report: Sendable, Equatable {
    /// The handshake is complete; the difference is the server's clock minus ours, in milliseconds.
    case connected(clockDifferenceMilliseconds: Int64)
    /// A subscription has everything up to the server's present head.
    case subscriptionIsLive(key: [UInt8])
    /// The server refused a subscription.
    case subscriptionRefused(key: [UInt8], SyncError)
    /// The server refused an operation.
    case writeRefused(Refusal)
    /// The server has another history of an own actor (a restored or copied store).
    case historyForked(ActorID)
}
