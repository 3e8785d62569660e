import CRDT

/// An operation in the log.
public struct LogEntry: Hashable, Sendable {
    /// Its place, from 1.
    public let offset: Offset
    /// The chain hash up to and including it.
    public let hash: UInt64
    /// The operation as it was appended.
    public let record: OperationRecord

    /// Who wrote it.
    public var actor: ActorID { record.actor }
    /// Its place among the actor's operations.
    public var sequence: SequenceNumber { record.sequence }
    /// When, by the author's hybrid clock.
    public var timestamp: Timestamp { record.timestamp }
    /// The encoded operation.
    public var bytes: [UInt8] { record.bytes }

    /// An entry as a driver read and verified it.
    public init(offset: Offset, hash: UInt64, record: OperationRecord) {
        self.offset = offset
        self.hash = hash
        self.record = record
    }
}

/// How much one read may return.
public struct ReadLimit: Hashable, Sendable {
    /// The greatest number of entries, at least 1.
    public var operations: Int
    /// The greatest sum of their bytes. The first entry is returned even if it alone is larger.
    public var bytes: Int

    /// A limit in entries and bytes.
    public init(operations: Int = LogLimits.readOperations, bytes: Int = LogLimits.readBytes) {
        precondition(operations > 0, "a read of no entries would look like the end of the log")
        self.operations = operations
        self.bytes = bytes
    }

    /// The limit that suits a reader without wishes.
    public static let standard = ReadLimit()
}

/// How a log's writer stands.
public struct LogStatus: Sendable {
    /// Operations admitted and not yet committed.
    public let queuedOperations: Int
    /// Their bytes.
    public let queuedBytes: Int
    /// Append calls suspended until there is room.
    public let waitingAppends: Int
    /// Why the writer takes nothing any more (poisoned or closed); nil while it does.
    public let refusal: OperationLogError?

    /// A standing of these figures.
    public init(
        queuedOperations: Int, queuedBytes: Int, waitingAppends: Int, refusal: OperationLogError?
    ) {
        self.queuedOperations = queuedOperations
        self.queuedBytes = queuedBytes
        self.waitingAppends = waitingAppends
        self.refusal = refusal
    }
}
