/// Everything one transaction changed: the unit that logs store and sessions carry.
///
/// Invariants: `sequence` counts one actor's operations from 1 without gap; every delta has the stamp
/// (`timestamp`, `actor`); changes name distinct documents.
public struct Operation: Sendable, Equatable {
    /// One document's change.
    public struct Change: Sendable, Equatable {
        /// The collection.
        public let collection: CollectionName
        /// The document.
        public let id: DocumentID
        /// The change, encoded.
        public let delta: EncodedDelta

        /// A change of this document.
        public init(collection: CollectionName, id: DocumentID, delta: EncodedDelta) {
            self.collection = collection
            self.id = id
            self.delta = delta
        }
    }

    /// The author.
    public let actor: ActorID
    /// The number among its actor's operations, from 1.
    public let sequence: SequenceNumber
    /// The hybrid logical time of the transaction.
    public let timestamp: Timestamp
    /// The `identity` under which the operation was first written, when its store moved it to this actor;
    /// else nil. A log takes one operation for each origin (decision 0009).
    public let origin: UInt64?
    /// The changes, in the order in which the transaction first touched the documents.
    public let changes: [Change]

    /// An operation of these parts.
    public init(
        actor: ActorID, sequence: SequenceNumber, timestamp: Timestamp, origin: UInt64? = nil,
        changes: [Change]
    ) {
        self.actor = actor
        self.sequence = sequence
        self.timestamp = timestamp
        self.origin = origin
        self.changes = changes
    }

    /// The stamp of every delta in it.
    public var stamp: Stamp { Stamp(time: timestamp, actor: actor) }

    /// A checksum that identifies the transaction, whatever actor its operation was moved to: the checksum
    /// of the operation as first written.
    public var identity: UInt64 { identity(of: encoded()) }

    /// As `identity`, when the caller has the encoding already.
    public func identity(of encoding: [UInt8]) -> UInt64 { origin ?? hash64(encoding) }
}

/// An operation's identity without its changes.
public struct OperationHeader: Sendable, Equatable {
    /// The author.
    public let actor: ActorID
    /// The number among its actor's operations, from 1.
    public let sequence: SequenceNumber
    /// The hybrid logical time of the transaction.
    public let timestamp: Timestamp
    /// See `Operation.origin`.
    public let origin: UInt64?

    init(actor: ActorID, sequence: SequenceNumber, timestamp: Timestamp, origin: UInt64? = nil) {
        self.actor = actor
        self.sequence = sequence
        self.timestamp = timestamp
        self.origin = origin
    }

    /// Reads the header of an encoded operation without decoding its changes.
    public static func peek(_ bytes: [UInt8]) throws(CRDTError) -> OperationHeader {
        let result = bytes.withUnsafeBytes { raw -> Result<OperationHeader, CRDTError> in
            Result { () throws(CRDTError) -> OperationHeader in
                var reader = ByteReader(raw)
                return try reader.operationHeader()
            }
        }
        return try result.get()
    }
}
