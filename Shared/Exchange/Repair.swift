import CRDT

/// The input of a repair, which brings a store back in line with its server (rules 9, 20 and 21).
public struct RepairRequest: Sendable {
    /// Per own actor the greatest sequence that the server has.
    public var admitted: [ActorID: SequenceNumber]
    /// Own actors of which the server accepts nothing more: later operations are moved.
    public var closed: Set<ActorID>
    /// The closed actors whose history at the server continues differently after the admitted operations:
    /// by a copy of this store, or by its state before it was restored.
    public var diverged: Set<ActorID>
    /// Operations to set aside. One that the log already has, moved by a copy of the store
    /// (`alreadyThere`), is dropped. One whose base was missing (`baseNotCovered`) is moved if it depends
    /// on another that is set aside or moved. (One refused only for its clock is not among them.)
    public var refused: [Refusal]
    /// True if the server found an operation too far ahead of its clock: then all that are too far ahead
    /// are moved.
    public var isForClock: Bool
    /// Documents purged at the server: their unacknowledged writes are moved too.
    public var gone: Set<DocumentKey>
    /// The position of the server's log as of which the staged states are.
    public var seen: LogPosition?
    /// True to set aside also the writes refused for their base: they were moved again and again.
    public var isFinal = false
    /// The content of the server's stream up to `seen`, stored in the same transaction, so that the states
    /// never show a part of a foreign transaction. Nil if it has not arrived.
    public var following: Reception?

    /// A request of these parts.
    public init(
        admitted: [ActorID: SequenceNumber], closed: Set<ActorID> = [], diverged: Set<ActorID> = [],
        refused: [Refusal], isForClock: Bool = false, gone: Set<DocumentKey> = [], seen: LogPosition?
    ) {
        self.admitted = admitted
        self.closed = closed
        self.diverged = diverged
        self.refused = refused
        self.isForClock = isForClock
        self.gone = gone
        self.seen = seen
    }

    /// Returns whether a refused operation may be moved, because only its base was missing.
    public func mayMove(_ refusal: Refusal) -> Bool { refusal.error.isOfBase && !isFinal }
}

/// The outcome of a repair.
public enum RepairOutcome: Sendable {
    /// Nothing was done yet: the server's states of these documents must be staged first.
    case needs([DocumentKey])
    /// Done and durable.
    case repaired(Repaired)

    /// The state of the store after a repair.
    public struct Repaired: Sendable {
        /// The actor that writes from now on.
        public let actor: ActorID
        /// Actors of which nothing more is uploaded.
        public let left: Set<ActorID>
        /// The actors with operations to upload, in the order of writing.
        public let pending: [ActorID]
        /// The operations that were set aside.
        public let refused: [Refusal]
        /// True if `RepairRequest.following` is stored; false if one of its bases is missing: then it is
        /// stored as usual afterwards.
        public let isFollowed: Bool
        /// As in `ReceptionOutcome.returning`.
        public let returning: [DocumentKey]

        /// A store after a repair.
        public init(
            actor: ActorID, left: Set<ActorID>, pending: [ActorID], refused: [Refusal],
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
}
