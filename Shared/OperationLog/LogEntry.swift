import CRDT

/// An operation in the log.
public struct LogEntry: Hashable, Sendable {
    /// Its offset, from 1.
    public let offset: Offset
    /// The chain hash up to and including it.
    public let hash: UInt64
    /// The operation as it was appended.
    public let record: OperationRecord

    /// The actor that wrote it.
    public var actor: ActorID { record.actor }
    /// Its number among the actor's operations.
    public var sequence: SequenceNumber { record.sequence }
    /// The time by the author's hybrid clock.
    public var timestamp: Timestamp { record.timestamp }
    /// The encoded operation.
    public var bytes: [UInt8] { record.bytes }

    /// An entry that a driver has read and verified.
    public init(offset: Offset, hash: UInt64, record: OperationRecord) {
        self.offset = offset
        self.hash = hash
        self.record = record
    }

    /// The entries that an append of these requests has added directly after a position. Empty if others have
    /// appended in between, or the first request was refused.
    public static func added(
        by requests: [AppendRequest], _ outcomes: [AppendOutcome], after position: LogPosition
    ) -> [LogEntry] {
        var (offset, hash) = (position.offset, position.hash)
        var entries: [LogEntry] = []
        for (request, outcome) in zip(requests, outcomes) {
            guard case .appended(offset.next) = outcome else { break }
            let record = request.record
            let digest = ChainHash.digest(
                actor: record.actor, sequence: record.sequence, timestamp: record.timestamp,
                contentHash: ChainHash.content(record.bytes))
            (offset, hash) = (offset.next, ChainHash.next(after: hash, digest: digest))
            entries.append(LogEntry(offset: offset, hash: hash, record: record))
        }
        return entries
    }
}

/// The bounds of one read.
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

    /// The limit for a reader without special needs.
    public static let standard = ReadLimit()
}

/// The load and health of a log's writer.
public struct LogStatus: Sendable {
    /// Operations admitted and not yet committed.
    public let queuedOperations: Int
    /// Their bytes.
    public let queuedBytes: Int
    /// Append calls that are suspended until there is room.
    public let waitingAppends: Int
    /// The reason why the writer refuses appends (poisoned or closed); nil while it accepts them.
    public var refusal: OperationLogError?
    /// True if an append is refused at once; false while it may still wait, as with `LOG-0311` at first.
    public var refusesAtOnce: Bool
    /// The end that the log had when it was last open here, and lacks now; nil if it lacks none.
    public var loss: LogLoss?
    /// The first damage that was found since the log was opened; nil if none was.
    public var damage: OperationLogError?

    /// A status with these figures.
    public init(
        queuedOperations: Int, queuedBytes: Int, waitingAppends: Int, refusal: OperationLogError?
    ) {
        self.queuedOperations = queuedOperations
        self.queuedBytes = queuedBytes
        self.waitingAppends = waitingAppends
        self.refusal = refusal
        refusesAtOnce = refusal != nil
    }
}

/// The end of a database's log that is gone: the file was put back, or its write-ahead log was lost.
public struct LogLoss: Sendable, Equatable {
    /// The database; nil if the log does not have it any more.
    public let database: DatabaseID?
    /// The log's head now.
    public let head: Offset
    /// The head that was durable here before.
    public let previous: Offset

    /// A loss of these facts.
    public init(database: DatabaseID?, head: Offset, previous: Offset) {
        self.database = database
        self.head = head
        self.previous = previous
    }
}
