import CRDT

/// The known end of an actor's operations: the last sequence and the checksum of that operation (rule 9).
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

/// One actor's operations are durable in the log up to a sequence.
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

/// An operation that the server refused: it will not enter the log.
public struct Refusal: Sendable, Equatable {
    /// The actor.
    public var actor: ActorID
    /// The refused operation.
    public var sequence: SequenceNumber
    /// The reason.
    public var error: SyncError
    /// The documents it would have changed, as far as it could be read.
    public var documents: [DocumentKey]

    /// A refusal of this operation.
    public init(actor: ActorID, sequence: SequenceNumber, error: SyncError, documents: [DocumentKey] = []) {
        self.actor = actor
        self.sequence = sequence
        self.error = error
        self.documents = documents
    }
}

/// An operation that the log does not take yet: its base may still come. It consumes nothing, and its actor
/// goes on with it.
public struct Deferral: Sendable, Equatable {
    /// The actor.
    public var actor: ActorID
    /// The operation.
    public var sequence: SequenceNumber
    /// The documents that it changes.
    public var documents: [DocumentKey]

    /// A deferral of this operation.
    public init(actor: ActorID, sequence: SequenceNumber, documents: [DocumentKey]) {
        self.actor = actor
        self.sequence = sequence
        self.documents = documents
    }
}

/// A peer's record of its own writes and of the server's log, compared at every handshake.
public struct OwnHistory: Sendable {
    /// The heads of all actors it has written as.
    public let heads: [ActorHead]
    /// The server's acknowledgements of them.
    public let acknowledged: [Acknowledgement]
    /// The last position of the server's log known to the store.
    public let seen: LogPosition?
    /// The fingerprint of the rights under which a server did not accept all holdings; nil if it did.
    public let declined: [UInt8]?
    /// True if the store has links with other peers, which bring documents that the log may lack.
    public var hasLinks = false

    /// A history of these parts.
    public init(
        heads: [ActorHead] = [], acknowledged: [Acknowledgement] = [], seen: LogPosition? = nil,
        declined: [UInt8]? = nil
    ) {
        self.declined = declined
        self.heads = heads
        self.acknowledged = acknowledged
        self.seen = seen
    }
}

/// The relation of an own actor's history to the server's (rule 9).
public struct HistoryComparison: Sendable, Equatable {
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

    /// The relation of this actor.
    public init(actor: ActorID, admitted: SequenceNumber, state: State, isExact: Bool) {
        self.actor = actor
        self.admitted = admitted
        self.state = state
        self.isExact = isExact
    }
}
