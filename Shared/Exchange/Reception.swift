import CRDT

/// The content of one durable transaction of a peer's store: documents, and the positions that they reach.
public struct Reception: Sendable {
    /// Own operations that the server has, recorded before everything else, even if a base is missing.
    public var acknowledges: [OwnAcknowledgement] = []
    /// The documents, in log order.
    public var updates: [DocumentUpdate]
    /// Subscription keys and the position they have reached.
    public var cursors: [(key: [UInt8], position: LogPosition)]
    /// A subscription whose catch-up ends here: its staged pages become visible, and its cursor becomes the
    /// end's position even if that is lower (a restored log is shorter).
    public var publishes: [UInt8]?
    /// Documents that are no longer wanted: their requested full states are among the updates. Any other
    /// state may be older than the wanted one.
    public var settles: [DocumentKey]
    /// The position of the server's log that this reflects: seen, whatever the cursors.
    public var seen: LogPosition?
    /// The offset that the server's stream has passed with this: its answers to own writes up to there have
    /// arrived.
    public var streamed: Offset?
    /// Documents to hide: they may not be read here any more.
    public var hides: [DocumentKey]
    /// The server's rights token, to be stored with the published subscription's cursor.
    public var rights: [UInt8]?
    /// Subscription keys whose cursors no longer describe the holdings: the server is about to ask.
    public var distrusts: [[UInt8]] = []
    /// True if deltas come only for documents that the sender believes to be here: a document that enters a
    /// subscription comes as a state. Always true in a session.
    public var presumesHeld = false

    /// A reception of these parts.
    public init(
        updates: [DocumentUpdate] = [], cursors: [(key: [UInt8], position: LogPosition)] = [],
        publishes: [UInt8]? = nil, settles: [DocumentKey] = [], seen: LogPosition? = nil,
        streamed: Offset? = nil, hides: [DocumentKey] = [], rights: [UInt8]? = nil
    ) {
        self.updates = updates
        self.cursors = cursors
        self.publishes = publishes
        self.settles = settles
        self.seen = seen
        self.streamed = streamed
        self.hides = hides
        self.rights = rights
    }
}

/// The server has an own actor's operations durably up to a sequence.
public struct OwnAcknowledgement: Sendable, Equatable {
    /// The actor of the operations.
    public let actor: ActorID
    /// The sequence of the last of them.
    public let through: SequenceNumber
    /// Once the stream has passed this, the server's answers to them have arrived.
    public let offset: Offset

    /// An acknowledgement of this actor's operations.
    public init(actor: ActorID, through: SequenceNumber, offset: Offset) {
        self.actor = actor
        self.through = through
        self.offset = offset
    }
}

/// The outcome of a reception.
public enum ReceptionOutcome: Sendable, Equatable {
    /// Everything is stored, durable and visible; the cursors have advanced.
    case stored
    /// A delta's base is not covered here (rule 3): nothing of the reception is visible, no cursor has moved,
    /// and these documents are durably recorded as wanted. Receive the same message again once their states
    /// have come.
    case wanting([DocumentKey])
    /// Like `stored`, but these documents were purged at the server while own writes to them are
    /// unacknowledged. They are untouched: a repair has to move the writes (rule 14).
    case returning([DocumentKey])
}

/// A page of a catch-up, to be kept durable and invisible until the catch-up ends.
public struct StagedPage: Sendable {
    /// The subscription's key.
    public var subscription: [UInt8]
    /// Full states, and purges.
    public var updates: [DocumentUpdate]
    /// Documents to hide in the same transaction: they may not be read here any more.
    public var hides: [DocumentKey]
    /// The token to send with the next subscription, so that it continues after this page; nil keeps the
    /// present token.
    public var resume: [UInt8]?
    /// The position of the server's log that the states reflect: seen.
    public var seen: LogPosition?

    /// A page of these parts.
    public init(
        subscription: [UInt8], updates: [DocumentUpdate], hides: [DocumentKey] = [],
        resume: [UInt8]? = nil, seen: LogPosition? = nil
    ) {
        self.subscription = subscription
        self.updates = updates
        self.hides = hides
        self.resume = resume
        self.seen = seen
    }
}
