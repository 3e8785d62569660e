import CRDT

/// One message of a session. `wire.cddl` beside this file is the description for other languages.
///
/// Every frame is one CBOR map with unsigned keys; key 0 is the type. Unknown keys are ignored, unknown
/// types refused.
public enum Frame: Sendable, Equatable {
    /// First frame of each side: who is speaking, about what, how far it is.
    case hello(Hello)
    /// Asks for a query's documents, from a cursor on.
    case subscribe(Subscribe)
    /// Ends a subscription.
    case unsubscribe(id: UInt64)
    /// A subscription was refused; the session goes on. `hides` when the right was lost: what the subscriber
    /// holds of the collection is to be shown no more.
    case subscriptionRefused(id: UInt64, SyncError, hides: Bool = false)
    /// A page of current states that brings a subscription up to date; the last one makes it live.
    case catchUp(CatchUp)
    /// Operations after the last position, filtered to the live subscriptions.
    case operations(Operations)
    /// Nothing matched up to this position. `skipped` when the sender went over operations without looking
    /// for those of the receiver: what became of its own writes up to here it has to ask for (rule 16).
    case progress(LogPosition, skipped: Bool = false)
    /// A writer's own operations, whole and in sequence.
    case upload([[UInt8]])
    /// Own operations that are durable in the log, not behind an offset of it: per actor the greatest
    /// sequence.
    case acknowledged([Acknowledgement], offset: Offset = 0)
    /// Asks for the full states of documents. A peer names those of them that it holds, with their vectors:
    /// what of these is gone a state alone does not say.
    case want([DocumentKey], held: [Candidate] = [])
    /// Full states; nil for a document that the sender does not have.
    /// A server says as of which position of its log, and whether it is a part of what was asked for only:
    /// for the rest the receiver asks again. What the vectors in `gone` cover goes before the states.
    case states(
        [(key: DocumentKey, state: EncodedState?)], at: LogPosition? = nil, isPart: Bool = false,
        gone: [Candidate] = [])
    /// Lets the other side send this many more bytes of data frames.
    case credit(UInt64)
    /// A part of a message that is larger than a frame. Since version 3 with the message's checksum and the
    /// place in it.
    case chunk(isLast: Bool, [UInt8], of: UInt64? = nil, at: UInt64 = 0)
    /// An operation was refused and will not enter the log.
    case refused(Refusal)
    /// The last frame: why the session ends.
    case close(SyncError)
    /// What a peer holds, for a server that has found its log behind: a page of documents and their vectors.
    case holdings([Candidate], isLast: Bool)
    /// The server has taken what it lacked of the holdings: its log has all of it up to this position. But
    /// for what the peer may not write: then `declined` stands for the rights by which that is so.
    case reconciled(LogPosition, declined: [UInt8]? = nil)
    /// A server asks what the subscriber holds of a subscription, to tell what it lacks and what is gone: its
    /// cursor does not say (rules 14 and 18).
    /// Behind a document's id when it has answered for the others already.
    case list(id: UInt64, after: DocumentID? = nil)
    /// A page of what a subscriber holds of a subscription, ascending by document id.
    case held(id: UInt64, [Candidate], isLast: Bool)
    /// What the receiver may read has changed: subscriptions that were refused may be asked for again.
    case granted
    /// A newer access token of the same peer: the session goes on under it. Since version 3.
    case renewal(token: String)

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
        /// A peer: its own actors. A server: its frontier for the actors the peer named.
        public var actors: [ActorHead]
        /// A server's head of the log; a peer's last position in it that it has seen.
        public var head: LogPosition?
        /// A server's: its log is not the one the peer has seen, so it asks what the peer holds (rule 14).
        public var isBehind = false
        /// A peer's: how far the server has acknowledged its actors.
        public var acknowledged: [Acknowledgement] = []
        /// A server's: of the peer's actors the checksums of operations that are not acknowledged there,
        /// where its head alone does not show that it has what the peer has written.
        public var hashes: [OperationHashes] = []
        /// What an earlier session has brought of a message in chunks. Since version 3.
        public var kept: Kept?
        /// A peer's: what it signed to prove that it holds the key that its token names.
        public var proof: [UInt8]?
        /// A peer's: the rights by which a server has not taken all that the peer held. Under other rights it
        /// asks again.
        public var declined: [UInt8]?
    }

    /// What one side has of a message in chunks.
    public struct Kept: Sendable, Equatable {
        /// `hash64` of the whole message.
        public var hash: UInt64
        /// How many bytes, from its beginning.
        public var count: UInt64
    }

    /// How far an actor's operations are known: the last sequence and the checksum of that operation (rule
    /// 9).
    public struct ActorHead: Sendable, Equatable {
        /// The actor.
        public var actor: ActorID
        /// The greatest sequence; 0 for none.
        public var sequence: SequenceNumber
        /// `hash64` of that operation's bytes.
        public var hash: UInt64

        /// A head of this actor.
        public init(actor: ActorID, sequence: SequenceNumber, hash: UInt64) {
            self.actor = actor
            self.sequence = sequence
            self.hash = hash
        }
    }

    /// See `Frame.subscribe`.
    public struct Subscribe: Sendable, Equatable {
        /// Chosen by the subscriber, unique in the session.
        public var id: UInt64
        /// The DQL statement.
        public var statement: String
        /// Its arguments.
        public var arguments: Value
        /// Up to where the subscriber has everything; nil for nothing.
        public var cursor: LogPosition?
        /// How far the pages reach that the subscriber has staged, in the words of the page that came last.
        public var resume: [UInt8]?
        /// Whether the subscriber holds documents that it shows as matching.
        public var holds = false
        /// What the subscriber might read when the cursor was given, in the words of the page that gave it.
        public var rights: [UInt8]?

        /// A subscription without anything remembered of earlier sessions.
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
        /// Changed documents that do not match now; the subscriber asks for those it holds an older state of.
        public var candidates: [Candidate]
        /// On the last page the position that the subscription has now reached.
        public var end: LogPosition?
        /// Documents that the sender does not have any more, with what of them is gone. Before the documents.
        public var gone: [Candidate] = []
        /// Documents that the receiver may not read any more: to be shown no more, at once.
        public var hidden: [DocumentKey] = []
        /// What to send with the subscription in a later session, so that it goes on behind this page.
        public var resume: [UInt8]?
        /// With the end: what to send with the cursor, so that a change of rights is noticed.
        public var rights: [UInt8]?
        /// Without an end: the position of the sender's log that its states stand for.
        public var asOf: LogPosition?

        /// A page of these parts.
        public init(
            id: UInt64, documents: [DocumentUpdate] = [], candidates: [Candidate] = [],
            end: LogPosition? = nil
        ) {
            self.id = id
            self.documents = documents
            self.candidates = candidates
            self.end = end
        }
    }

    /// A document and the vector of the sender's state of it.
    public struct Candidate: Sendable, Equatable {
        /// The document.
        public var key: DocumentKey
        /// Its encoded version vector.
        public var vector: [UInt8]
        /// In a subscriber's list: whether it does not match the subscription there. Then it is told of the
        /// document only what it has to forget, unless it matches here.
        public var isUnmatched = false

        /// A candidate of these parts.
        public init(key: DocumentKey, vector: [UInt8], isUnmatched: Bool = false) {
            self.key = key
            self.vector = vector
            self.isUnmatched = isUnmatched
        }
    }

    /// See `Frame.operations`.
    public struct Operations: Sendable, Equatable {
        /// The position after the last of them.
        public var position: LogPosition
        /// What they did to matching documents, in the order of the log.
        public var updates: [DocumentUpdate]
    }

    /// One actor's operations are durable up to a sequence.
    public struct Acknowledgement: Sendable, Equatable {
        /// The actor.
        public var actor: ActorID
        /// The greatest durable sequence.
        public var sequence: SequenceNumber

        /// An acknowledgement through `sequence`.
        public init(actor: ActorID, sequence: SequenceNumber) {
            self.actor = actor
            self.sequence = sequence
        }
    }

    /// See `Frame.refused`.
    public struct Refusal: Sendable, Equatable {
        /// The actor.
        public var actor: ActorID
        /// The refused operation.
        public var sequence: SequenceNumber
        /// Why.
        public var error: SyncError
        /// The documents it would have changed, as far as it could be read.
        public var documents: [DocumentKey]

        /// A refusal of this operation.
        public init(actor: ActorID, sequence: SequenceNumber, error: SyncError, documents: [DocumentKey] = [])
        {
            self.actor = actor
            self.sequence = sequence
            self.error = error
            self.documents = documents
        }
    }

    /// Frames with the same content are equal.
    public static func == (left: Frame, right: Frame) -> Bool { left.encoded() == right.encoded() }
}
