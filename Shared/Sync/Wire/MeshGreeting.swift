import CRDT

/// The part of a hello in which a small peer introduces its store to another one: its feed, and the start of
/// the store that serves it.
public struct MeshGreeting: Sendable, Equatable {
    /// The feed of the store: positions and cursors of this link name it in the place of a log.
    public var feed: LogID
    /// How often the store was started, this time included.
    public var starts: UInt64
    /// Eight random bytes of this start: two stores with equal counts and other bytes are copies.
    public var start: UInt64
    /// Peers of different groups do not sync with each other.
    public var syncGroup: UInt64
    /// True if the speaker's clock may be relied on (a server or the system has set it).
    public var isClockTrusted: Bool
    /// True if the speaker has a server, so that operations may be carried to it.
    public var hasServer: Bool
    /// The speaker's presence record; nil at a peer that knows no presence, and is told none.
    public var record: SignedRecord?
    /// True if the speaker takes newer certificates within the link.
    public var takesCertificates = false
    /// True if the speaker reads what is void of a document; nobody else is told.
    public var takesVoid = false

    /// A greeting of these parts.
    public init(
        feed: LogID, starts: UInt64 = 0, start: UInt64 = 0, syncGroup: UInt64 = 0,
        isClockTrusted: Bool = false, hasServer: Bool = false
    ) {
        self.feed = feed
        self.starts = starts
        self.start = start
        self.syncGroup = syncGroup
        self.isClockTrusted = isClockTrusted
        self.hasServer = hasServer
    }
}

/// The answer to `Action.meet`: this side's part in a link that is about to open.
public struct MeshMeeting: Sendable {
    /// The head of this side's feed: its stream begins there.
    public let head: LogPosition
    /// This side's subscriptions, with what the store keeps of them for the other side's feed.
    public let requests: [SubscriptionRequest]

    /// A meeting with this head and these subscriptions.
    public init(head: LogPosition, requests: [SubscriptionRequest]) {
        self.head = head
        self.requests = requests
    }
}
