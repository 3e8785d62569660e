import CRDT

/// An operation as the log sees it: a header, and bytes that it never looks into.
public struct OperationRecord: Hashable, Sendable {
    /// Who wrote it.
    public let actor: ActorID
    /// Its place among the actor's operations, from 1, without gaps.
    public let sequence: SequenceNumber
    /// When, by the author's hybrid clock. The bound on the future (rule 21) is the caller's to check.
    public let timestamp: Timestamp
    /// The encoded operation, whose header says the same.
    public let bytes: [UInt8]

    /// A record of an encoded operation.
    public init(actor: ActorID, sequence: SequenceNumber, timestamp: Timestamp, bytes: [UInt8]) {
        self.actor = actor
        self.sequence = sequence
        self.timestamp = timestamp
        self.bytes = bytes
    }
}

/// What an operation changes or a statement read, as 64 bits: a document, or a collection as a whole. Two
/// that collide make a needless conflict, never a missed one.
public struct Touch: Hashable, Sendable {
    /// The bits.
    public let rawValue: UInt64

    /// A touch of these bits, as a driver stored them.
    public init(rawValue: UInt64) { self.rawValue = rawValue }

    /// A document.
    public static func document(_ collection: CollectionName, _ id: DocumentID) -> Touch {
        Touch(rawValue: hash64(id.bytes, seed: hash(of: collection, seed: 1)))
    }

    /// Everything in a collection.
    public static func collection(_ name: CollectionName) -> Touch {
        Touch(rawValue: hash(of: name, seed: 2))
    }

    /// What tables are to hash by: the bits are a checksum already, so they are mixed with the table's own
    /// seed and no more. The standard library's way costs as much as all the rest of a look-up.
    public func _rawHashValue(seed: Int) -> Int {
        let mixed = (rawValue ^ UInt64(truncatingIfNeeded: seed)) &* 0x9E37_79B9_7F4A_7C15
        return Int(truncatingIfNeeded: mixed ^ (mixed >> 32))
    }

    private static func hash(of collection: CollectionName, seed: UInt64) -> UInt64 {
        var name = collection.text
        return name.withUTF8 { hash64(UnsafeRawBufferPointer($0), seed: seed) }
    }

    /// What was moved to another actor, by its origin (decision 0009).
    public static func origin(_ identity: UInt64) -> Touch {
        Touch(rawValue: withUnsafeBytes(of: identity.littleEndian) { hash64($0, seed: 3) })
    }

    /// What an operation changes: its documents, and their collections.
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

/// What must not have changed for an operation to be appended (rule 22).
public struct AppendCondition: Hashable, Sendable {
    /// The offset up to which the author had read.
    public let readAt: Offset
    /// What the author read there.
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
    /// The peer key the actor belongs to: registered with its first operation, checked at every later one.
    /// At most `LogLimits.authorKeyBytes`; may be empty where peers have no keys.
    public let authorKey: String
    /// What the operation changes, for the conditions of others: `Touch.all(of:)` of it, for a driver may ask
    /// the operation itself. At most `LogLimits.touches`.
    public let touches: [Touch]
    /// What must not have changed; nil appends whatever has.
    public let condition: AppendCondition?
    /// The lease that the operation is written under; nil for an actor that is nobody's but its author's.
    public let lease: ActorLease?
    /// The log's term (`OperationLog.term`) that the operation was judged in and is to be appended in; nil
    /// appends in any.
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

/// What became of one operation of an append.
public enum AppendOutcome: Hashable, Sendable {
    /// Durable at this offset.
    case appended(offset: Offset)
    /// Durable since earlier: the log has this actor's operations through that sequence.
    case duplicate(through: SequenceNumber)
    /// Not stored, because operations before it are missing; the next the log takes of this actor.
    case gap(expected: SequenceNumber)
    /// Not stored, and never will be as it is.
    case conflict(AppendConflict)
}

/// Why an operation contradicts what the log has.
public enum AppendConflict: Hashable, Sendable {
    /// The actor is registered to another author key.
    case foreignActor
    /// The actor's last operation in the log has this sequence but another content: two stores write as one
    /// actor (rule 9), and the later one must take a new one.
    case differentContent(sequence: SequenceNumber)
    /// Something that the operation's condition names was touched at this offset, after it was read: the
    /// statement behind it has to run again.
    case condition(offset: Offset)
    /// The operation's lease is not its holder's any more.
    case leaseLost
    /// The term that the operation was judged in is over: it has to be judged again.
    case termOver
}

/// The end of what the log has of one actor.
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
