import CRDT

/// An operation as the log sees it: a header, and bytes that it never looks into.
public struct OperationRecord: Hashable, Sendable {
    /// Who wrote it.
    public let actor: ActorID
    /// Its place among the actor's operations, from 1, without gaps.
    public let sequence: UInt64
    /// When, by the author's hybrid clock. The bound on the future (rule 21) is the caller's to check.
    public let timestamp: Timestamp
    /// The encoded operation, whose header says the same.
    public let bytes: [UInt8]

    /// A record of an encoded operation.
    public init(actor: ActorID, sequence: UInt64, timestamp: Timestamp, bytes: [UInt8]) {
        self.actor = actor
        self.sequence = sequence
        self.timestamp = timestamp
        self.bytes = bytes
    }
}

/// An operation to append, and the key of its author.
public struct AppendRequest: Hashable, Sendable {
    /// The operation.
    public let record: OperationRecord
    /// The peer key the actor belongs to: registered with its first operation, checked at every later one.
    /// At most `LogLimits.authorKeyBytes`; may be empty where peers have no keys.
    public let authorKey: String

    /// A request to append an operation of this author.
    public init(record: OperationRecord, authorKey: String) {
        self.record = record
        self.authorKey = authorKey
    }
}

/// What became of one operation of an append.
public enum AppendOutcome: Hashable, Sendable {
    /// Durable at this offset.
    case appended(offset: UInt64)
    /// Durable since earlier: the log has this actor's operations through that sequence.
    case duplicate(through: UInt64)
    /// Not stored, because operations before it are missing; the next the log takes of this actor.
    case gap(expected: UInt64)
    /// Not stored, and never will be as it is.
    case conflict(AppendConflict)
}

/// Why an operation contradicts what the log has.
public enum AppendConflict: Hashable, Sendable {
    /// The actor is registered to another author key.
    case foreignActor
    /// The actor's last operation in the log has this sequence but another content: two stores write as one
    /// actor (rule 9), and the later one must take a new one.
    case differentContent(sequence: UInt64)
}

/// The end of what the log has of one actor.
public struct FrontierEntry: Hashable, Sendable {
    /// The last sequence; everything up to it was appended.
    public let sequence: UInt64
    /// The timestamp of that operation.
    public let timestamp: Timestamp
    /// `ChainHash.content` of that operation's bytes.
    public let hash: UInt64

    /// A frontier at this operation.
    public init(sequence: UInt64, timestamp: Timestamp, hash: UInt64) {
        self.sequence = sequence
        self.timestamp = timestamp
        self.hash = hash
    }
}
