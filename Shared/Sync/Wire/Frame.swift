import CRDT
import Exchange

/// One message of a session. `wire.cddl` beside this file describes it for other languages.
///
/// Every frame is one CBOR map with unsigned keys; key 0 is the type. Unknown keys are ignored, unknown
/// types refused.
public enum Frame: Sendable, Equatable {
    /// First frame of each side: its identity, its database, its progress.
    case hello(Hello)
    /// Asks for a query's documents, from a cursor on.
    case subscribe(Subscribe)
    /// Ends a subscription.
    case unsubscribe(id: UInt64)
    /// A subscription was refused; the session continues. `hides` when the right was revoked: the
    /// subscriber hides its documents of the collection.
    case subscriptionRefused(id: UInt64, SyncError, hides: Bool = false)
    /// A page of current states that brings a subscription up to date; the last one makes it live.
    case catchUp(CatchUp)
    /// Operations after the last position, filtered to the live subscriptions.
    case operations(Operations)
    /// Nothing matched up to this position. `skipped` when the sender passed operations without checking
    /// for the receiver's own: it must ask for the outcome of its own writes up to here (rule 16).
    case progress(LogPosition, skipped: Bool = false)
    /// A writer's own operations, whole and in sequence.
    case upload([[UInt8]])
    /// Own operations that are durable in the log, none of them after `offset`: per actor the greatest
    /// sequence.
    case acknowledged([Acknowledgement], offset: Offset = 0)
    /// Asks for the full states of documents. A peer names the vectors of those that it holds, because a
    /// state alone does not show what was purged.
    case want([DocumentKey], held: [DocumentVersion] = [])
    /// Full states; nil for a document that the sender does not have. A server gives the position of its
    /// log as of which they are, and whether they answer only a part of the request: the receiver asks
    /// again for the rest. The purges in `gone` apply before the states.
    case states(
        [(key: DocumentKey, state: EncodedState?)], at: LogPosition? = nil, isPart: Bool = false,
        gone: [DocumentVersion] = [])
    /// Lets the other side send this many more bytes of data frames.
    case credit(UInt64)
    /// A part of a message larger than a frame, with the message's checksum and the part's offset in it.
    case chunk(isLast: Bool, [UInt8], of: UInt64, at: UInt64)
    /// An operation was refused and will not enter the log.
    case refused(Refusal)
    /// The last frame: the reason why the session ends.
    case close(SyncError)
    /// A peer's holdings, for a server that has found its log behind: a page of documents and their
    /// vectors.
    case holdings([DocumentVersion], isLast: Bool)
    /// The server has taken the missing part of the holdings: its log has all of it up to this position,
    /// except for documents that the peer may not write. If there are any, `declined` is the fingerprint of
    /// the rights.
    case reconciled(LogPosition, declined: [UInt8]? = nil)
    /// A server asks for a subscriber's holdings of a subscription, to send missing states and purges,
    /// because the cursor does not tell (rules 14 and 18). `after` is the id of the last document already
    /// answered.
    case list(id: UInt64, after: DocumentID? = nil)
    /// A page of a subscriber's holdings of a subscription, ascending by document id.
    case held(id: UInt64, [DocumentVersion], isLast: Bool)
    /// The receiver's read rights have changed: refused subscriptions may be requested again.
    case granted
    /// A newer access token of the same peer: the session continues under it.
    case renewal(token: String)
    /// To a peer that brings its links' changes: an operation is not taken yet, because the log lacks its
    /// base. Since version 4.
    case deferred(Deferral)
    /// Between small peers: everything that the receiver wanted is stored up to this position of its feed.
    case taken(LogPosition)
    /// Between small peers: a newer certificate of the speaker's key, in DER. The link goes on to its end.
    case certificate([UInt8])
    /// News of who is there: between small peers, and from a peer to a server that takes them.
    case presence(PresenceNews)

    /// See `Frame.hello`.
    public struct Hello: Sendable, Equatable {
        /// The protocol version.
        public var version: UInt64
        /// The database's id.
        public var databaseID: DatabaseID
        /// The speaker's public key text, empty when it has none.
        public var peerKey: String
        /// The speaker's wall clock, Unix milliseconds.
        public var wallMilliseconds: UInt64
        /// The credit it gives at the start, in bytes.
        public var credit: UInt64
        /// At a peer: its own actors. At a server: its frontier for the actors named by the peer.
        public var actors: [ActorHead]
        /// At a server: its head of the log. At a peer: the last position in the log that it has seen.
        public var head: LogPosition?
        /// At a server: true if its log is not the one the peer has seen, so it asks for the holdings (rule
        /// 14).
        public var isBehind = false
        /// At a peer: the server's acknowledgements of its actors.
        public var acknowledged: [Acknowledgement] = []
        /// At a server: checksums of the peer's unacknowledged operations, for actors whose head alone does
        /// not show that the server has the peer's writes.
        public var hashes: [OperationHashes] = []
        /// The part of a chunked message received in an earlier session.
        public var kept: Kept?
        /// At a peer: its signature, which proves that it holds the key named by its token.
        public var proof: [UInt8]?
        /// At a peer: the fingerprint of the rights under which a server did not accept all its holdings.
        /// Under other rights the server asks again.
        public var declined: [UInt8]?
        /// At a small peer that greets another one: its feed. Since version 4.
        public var mesh: MeshGreeting?
        /// At a peer: true if it has links, which bring documents that the log may lack. At a server: true if
        /// it takes them. A side that does not know the field ignores it.
        public var hasLinks = false
        /// At a peer: true if it has news of presence to tell. At a server: true if it takes them.
        public var hasPresence = false
        /// At a peer: true if it reads what is void of a document. Nobody else is told.
        public var takesVoid = false
    }

    /// The received part of a message in chunks.
    public struct Kept: Sendable, Equatable {
        /// `hash64` of the whole message.
        public var hash: UInt64
        /// The number of bytes, from its beginning.
        public var count: UInt64
    }

    /// See `Frame.subscribe`.
    public struct Subscribe: Sendable, Equatable {
        /// Chosen by the subscriber, unique in the session.
        public var id: UInt64
        /// The DQL statement.
        public var statement: String
        /// Its arguments.
        public var arguments: Value
        /// The position up to which the subscriber has everything; nil for nothing.
        public var cursor: LogPosition?
        /// The end of the subscriber's staged pages, as the token of the last page.
        public var resume: [UInt8]?
        /// True if the subscriber shows documents as matching.
        public var holds = false
        /// The subscriber's read rights when the cursor was given, as the token from that page.
        public var rights: [UInt8]?

        /// A subscription without data of earlier sessions.
        public init(id: UInt64, statement: String, arguments: Value, cursor: LogPosition? = nil) {
            self.id = id
            self.statement = statement
            self.arguments = arguments
            self.cursor = cursor
        }
    }

    /// See `Frame.catchUp`.
    public struct CatchUp: Sendable, Equatable {
        /// The subscription.
        public var id: UInt64
        /// Full states of documents that match.
        public var documents: [DocumentUpdate]
        /// Changed documents that do not match now; the subscriber asks for those it has in an older state.
        public var candidates: [DocumentVersion]
        /// On the last page: the position that the subscription has reached.
        public var end: LogPosition?
        /// Purged documents with vectors that cover the purged parts. Applied before the documents.
        public var gone: [DocumentVersion] = []
        /// Documents that the receiver may not read any more: it hides them at once.
        public var hidden: [DocumentKey] = []
        /// The token to send with the subscription in a later session, so that it continues after this
        /// page.
        public var resume: [UInt8]?
        /// With the end: the token to send with the cursor, so that a change of rights is noticed.
        public var rights: [UInt8]?
        /// Without an end: the position of the sender's log that its states reflect.
        public var asOf: LogPosition?

        /// A page of these parts.
        public init(
            id: UInt64, documents: [DocumentUpdate] = [], candidates: [DocumentVersion] = [],
            end: LogPosition? = nil
        ) {
            self.id = id
            self.documents = documents
            self.candidates = candidates
            self.end = end
        }
    }

    /// See `Frame.operations`.
    public struct Operations: Sendable, Equatable {
        /// The position after the last of them.
        public var position: LogPosition
        /// Their changes to matching documents, in the order of the log.
        public var updates: [DocumentUpdate]
        /// Between small peers: other documents of subscribed collections that changed. The receiver asks
        /// for those that it has in an older state.
        public var candidates: [DocumentVersion] = []
    }

    /// Frames with the same content are equal.
    public static func == (left: Frame, right: Frame) -> Bool { left.encoded() == right.encoded() }
}
