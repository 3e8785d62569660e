import CRDT

/// An operation as the log sees it: a header, and bytes that it never looks into.
public struct OperationRecord: Hashable, Sendable {
    /// The actor that wrote it.
    public let actor: ActorID
    /// Its place among the actor's operations, from 1, without gaps.
    public let sequence: SequenceNumber
    /// The time by the author's hybrid clock. The caller checks the bound on the future (rule 21).
    public let timestamp: Timestamp
    /// The encoded operation; its header has the same actor, sequence and timestamp.
    public let bytes: [UInt8]

    /// A record of an encoded operation.
    public init(actor: ActorID, sequence: SequenceNumber, timestamp: Timestamp, bytes: [UInt8]) {
        self.actor = actor
        self.sequence = sequence
        self.timestamp = timestamp
        self.bytes = bytes
    }
}

/// Identifies a document, or a collection as a whole, that an operation changes or a statement read, in 64
/// bits. A collision makes a needless conflict, never a missed one.
public struct Touch: Hashable, Sendable {
    /// The bits.
    public let rawValue: UInt64

    /// A touch with stored bits.
    public init(rawValue: UInt64) { self.rawValue = rawValue }

    /// A document.
    public static func document(_ collection: CollectionName, _ id: DocumentID) -> Touch {
        Touch(rawValue: hash64(id.bytes, seed: hash(of: collection, seed: 1)))
    }

    /// Everything in a collection.
    public static func collection(_ name: CollectionName) -> Touch {
        Touch(rawValue: hash(of: name, seed: 2))
    }

    /// Hashes for tables: the bits are a checksum already, so they are only mixed with the table's seed.
    /// The standard library's hashing costs as much as all the rest of a lookup.
    public func _rawHashValue(seed: Int) -> Int {
        let mixed = (rawValue ^ UInt64(truncatingIfNeeded: seed)) &* 0x9E37_79B9_7F4A_7C15
        return Int(truncatingIfNeeded: mixed ^ (mixed >> 32))
    }

    private static func hash(of collection: CollectionName, seed: UInt64) -> UInt64 {
        var name = collection.text
        return name.withUTF8 { hash64(UnsafeRawBufferPointer($0), seed: seed) }
    }

    /// An operation that was moved to another actor, by its origin (decision 0009).
    public static func origin(_ identity: UInt64) -> Touch {
        Touch(rawValue: withUnsafeBytes(of: identity.littleEndian) { hash64($0, seed: 3) })
    }

    /// All touches of an operation: its documents and their collections.
    public static func all(of operation: Operation) -> [Touch] {
        var last: CollectionName?
        var touches: [Touch] = []
        touches.reserveCapacity(operation.changes.count + 1)
        // An operation names each collection once in a row.
        for change in operation.changes {
            if last != change.collection {
                last = change.collection
                touches.append(.collection(change.collection))
            }
            touches.append(.document(change.collection, change.id))
        }
        if let origin = operation.origin { touches.append(.origin(origin)) }
        return touches
    }
}

/// A condition for an append: things that must not have changed since they were read (rule 22).
public struct AppendCondition: Hashable, Sendable {
    /// The offset up to which the author had read.
    public let readAt: Offset
    /// The documents and collections that the author read there.
    public let reads: [Touch]

    /// A condition: nothing in `reads` was touched after `readAt`.
    public init(readAt: Offset, reads: [Touch]) {
        self.readAt = readAt
        self.reads = reads
    }
}

/// An operation to append, and the key of its author.
public struct AppendRequest: Hashable, Sendable {
    /// The operation.
    public let record: OperationRecord
    /// The peer key that the actor belongs to: registered with its first operation, checked at every later
    /// one. At most `LogLimits.authorKeyBytes`; may be empty where peers have no keys.
    public let authorKey: String
    /// Everything the operation changes, for the conditions of others. Must equal `Touch.all(of:)`, because
    /// a driver may compute it from the operation itself. At most `LogLimits.touches`.
    public let touches: [Touch]
    /// The condition for the append; nil appends unconditionally.
    public let condition: AppendCondition?
    /// The lease that the operation is written under; nil for an actor that only its author uses.
    public let lease: ActorLease?
    /// The log's term (`OperationLog.term`) in which the operation was checked and must be appended; nil
    /// accepts any.
    public let term: UInt64?

    /// A request to append an operation of this author.
    public init(
        record: OperationRecord, authorKey: String, touches: [Touch], condition: AppendCondition? = nil,
        lease: ActorLease? = nil, term: UInt64? = nil
    ) {
        self.lease = lease
        self.term = term
        self.record = record
        self.authorKey = authorKey
        self.touches = touches
        self.condition = condition
    }

    /// A request to append an operation of a leased actor.
    public init(_ operation: Operation, under lease: ActorLease, condition: AppendCondition? = nil) {
        self.init(
            record: OperationRecord(
                actor: operation.actor, sequence: operation.sequence, timestamp: operation.timestamp,
                bytes: operation.encoded()),
            authorKey: lease.authorKey, touches: Touch.all(of: operation), condition: condition, lease: lease)
    }

    /// A request to append an operation; `bytes` are its encoding, if it is at hand.
    public init(
        _ operation: Operation, bytes: [UInt8]? = nil, authorKey: String, condition: AppendCondition? = nil,
        term: UInt64? = nil
    ) {
        self.init(
            record: OperationRecord(
                actor: operation.actor, sequence: operation.sequence, timestamp: operation.timestamp,
                bytes: bytes ?? operation.encoded()),
            authorKey: authorKey, touches: Touch.all(of: operation), condition: condition, term: term)
    }
}

/// The outcome for one operation of an append.
public enum AppendOutcome: Hashable, Sendable {
    /// Durable at this offset.
    case appended(offset: Offset)
    /// Durable since earlier: the log has this actor's operations through that sequence.
    case duplicate(through: SequenceNumber)
    /// Not stored, because earlier operations are missing; `expected` is the next sequence that the log
    /// takes.
    case gap(expected: SequenceNumber)
    /// Not stored, and never will be as it is.
    case conflict(AppendConflict)
}

/// The reason why an operation contradicts the log.
public enum AppendConflict: Hashable, Sendable {
    /// The actor is registered to another author key.
    case foreignActor
    /// The actor's last operation in the log has this sequence but other content: two stores write as one
    /// actor (rule 9), and the later one must take a new actor.
    case differentContent(sequence: SequenceNumber)
    /// Something in the operation's condition was touched at this offset, after it was read: the statement
    /// that made the operation has to run again.
    case condition(offset: Offset)
    /// The holder has lost the operation's lease.
    case leaseLost
    /// The term in which the operation was checked is over: check it again.
    case termOver
}

/// The end of one actor's operations in the log.
public struct FrontierEntry: Hashable, Sendable {
    /// The last sequence; everything up to it was appended.
    public let sequence: SequenceNumber
    /// The timestamp of that operation.
    public let timestamp: Timestamp
    /// `ChainHash.content` of that operation's bytes.
    public let hash: UInt64
    /// The key that the actor is registered to.
    public let authorKey: String

    /// A frontier at this operation.
    public init(sequence: SequenceNumber, timestamp: Timestamp, hash: UInt64, authorKey: String) {
        self.authorKey = authorKey
        self.sequence = sequence
        self.timestamp = timestamp
        self.hash = hash
    }
}
