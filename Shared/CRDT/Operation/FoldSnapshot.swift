// A stored fold of a log at one offset. A store that starts from it needs no entry before that offset.
//
// A snapshot is a sequence of chunks, each decodable by itself. A chunk is a version byte (1) and records:
//
//   00  begin      log id (16 bytes), varint offset, chain hash (u64), clock (u64), varint reap floor
//   01  actor      actor (u64), varint sequence, timestamp (u64)
//   02  collection text: the collection of the documents that follow in this chunk
//   03  document   byte live, varint offset of its last change, varint id length, id, varint state length,
//                  state
//   04  origin     checksum (u64) that a moved operation named as its origin
//   05  history    actor (u64), varint sequence, varint count, checksums (u64 each): its latest operations
//   FF  end        varint number of actors, varint number of documents
//
// The first record is a begin, the last an end. A sequence that lacks either is no snapshot.

/// One record of a snapshot.
public enum SnapshotRecord: Sendable, Equatable {
    /// The log position and clock of the snapshot.
    case begin(SnapshotStart)
    /// The last folded operation of one actor.
    case actor(ActorProgress)
    /// One document, tombstones included.
    case document(SnapshotDocument)
    /// An operation of this origin is folded (see `Operation.origin`).
    case origin(UInt64)
    /// The checksums of an actor's latest operations.
    case history(OperationHashes)
    /// The end, with the numbers of actors and documents before it.
    case end(actors: UInt64, documents: UInt64)
}

/// The position of a snapshot, and the fold's state besides documents.
public struct SnapshotStart: Sendable, Equatable {
    /// The place after the last folded entry.
    public let position: LogPosition
    /// The greatest timestamp folded.
    public let clock: Timestamp
    /// The greatest offset of the last change of any reaped tombstone; 0 when none was reaped.
    public let reapFloor: Offset

    /// A snapshot at this position.
    public init(position: LogPosition, clock: Timestamp, reapFloor: Offset) {
        self.position = position
        self.clock = clock
        self.reapFloor = reapFloor
    }
}

/// The last folded operation of one actor (rule 13).
public struct ActorProgress: Sendable, Hashable {
    /// The actor.
    public let actor: ActorID
    /// The sequence of its last folded operation, refusals included.
    public let sequence: SequenceNumber
    /// The greatest timestamp of its folded operations.
    public let timestamp: Timestamp

    /// Progress up to here.
    public init(actor: ActorID, sequence: SequenceNumber, timestamp: Timestamp) {
        self.actor = actor
        self.sequence = sequence
        self.timestamp = timestamp
    }
}

/// A document of a snapshot.
public struct SnapshotDocument: Sendable, Equatable {
    /// Its key.
    public let key: DocumentKey
    /// True if readers see it.
    public let isLive: Bool
    /// The offset that last changed it.
    public let offset: Offset
    /// Its encoded state.
    public let state: EncodedState

    /// A document in this state.
    public init(key: DocumentKey, isLive: Bool, offset: Offset, state: EncodedState) {
        self.key = key
        self.isLive = isLive
        self.offset = offset
        self.state = state
    }
}

private enum Tag {
    static let version: UInt8 = 1
    static let begin: UInt8 = 0
    static let actor: UInt8 = 1
    static let collection: UInt8 = 2
    static let document: UInt8 = 3
    static let origin: UInt8 = 4
    static let history: UInt8 = 5
    static let end: UInt8 = 0xFF
}

/// Encodes records into a chunk.
public struct SnapshotChunk: Sendable {
    private var writer = ByteWriter()
    private var collection: CollectionName?
    /// True if it holds no record yet.
    public private(set) var isEmpty = true

    /// A chunk without records.
    public init() { writer.byte(Tag.version) }

    /// The chunk as stored.
    public var bytes: [UInt8] { writer.bytes }
    /// Its size in bytes.
    public var byteCount: Int { writer.bytes.count }

    /// Adds a record.
    public mutating func add(_ record: SnapshotRecord) {
        isEmpty = false
        switch record {
        case .begin(let start):
            writer.byte(Tag.begin)
            writer.raw(start.position.logID.bytes)
            writer.varint(start.position.offset.rawValue)
            writer.fixed64(start.position.hash)
            writer.fixed64(start.clock)
            writer.varint(start.reapFloor.rawValue)
        case .actor(let progress):
            writer.byte(Tag.actor)
            writer.fixed64(progress.actor.rawValue)
            writer.varint(progress.sequence.rawValue)
            writer.fixed64(progress.timestamp)
        case .document(let document):
            if collection != document.key.collection {
                collection = document.key.collection
                writer.byte(Tag.collection)
                writer.text(document.key.collection.text)
            }
            writer.byte(Tag.document)
            writer.byte(document.isLive ? 1 : 0)
            writer.varint(document.offset.rawValue)
            writer.count(document.key.id.bytes.count)
            writer.raw(document.key.id.bytes)
            writer.count(document.state.count)
            writer.raw(document.state.bytes)
        case .origin(let checksum):
            writer.byte(Tag.origin)
            writer.fixed64(checksum)
        case .history(let run):
            writer.byte(Tag.history)
            writer.fixed64(run.actor.rawValue)
            writer.varint(run.first.rawValue)
            writer.count(run.hashes.count)
            for hash in run.hashes { writer.fixed64(hash) }
        case .end(let actors, let documents):
            writer.byte(Tag.end)
            writer.varint(actors)
            writer.varint(documents)
        }
    }

    /// Decodes the records of a stored chunk; document states stay encoded. Throws `truncated`, `malformed`,
    /// `unsupportedVersion`.
    public static func records(in bytes: [UInt8]) throws(CRDTError) -> [SnapshotRecord] {
        let result = bytes.withUnsafeBytes { raw -> Result<[SnapshotRecord], CRDTError> in
            Result { () throws(CRDTError) -> [SnapshotRecord] in
                var reader = ByteReader(raw)
                let version = try reader.byte()
                guard version == Tag.version else {
                    throw CRDTError(.unsupportedVersion, "snapshot version \(version) is not known here")
                }
                var records: [SnapshotRecord] = []
                var collection: CollectionName?
                while !reader.isAtEnd {
                    if let record = try reader.snapshotRecord(&collection) { records.append(record) }
                }
                return records
            }
        }
        return try result.get()
    }
}

extension ByteReader {
    /// Reads the next record; nil for a record that only names a collection.
    fileprivate mutating func snapshotRecord(
        _ collection: inout CollectionName?
    ) throws(CRDTError) -> SnapshotRecord? {
        switch try byte() {
        case Tag.begin:
            guard let id = LogID(bytes: [UInt8](try run(LogID.byteCount))) else {
                throw .malformed("a log id", at: place)
            }
            let position = LogPosition(logID: id, offset: Offset(try varint()), hash: try fixed64())
            return .begin(
                SnapshotStart(
                    position: position, clock: try fixed64(), reapFloor: Offset(try varint())))
        case Tag.actor:
            return .actor(
                ActorProgress(
                    actor: ActorID(try fixed64()), sequence: SequenceNumber(try varint()),
                    timestamp: try fixed64()))
        case Tag.collection:
            collection = CollectionName(try text())
            return nil
        case Tag.document:
            guard let collection else { throw .malformed("a document without a collection", at: place) }
            let isLive = try byte() == 1
            let offset = Offset(try varint())
            let id = try DocumentID(canonical: [UInt8](try run(try count())))
            let state = EncodedState([UInt8](try run(try count())))
            return .document(
                SnapshotDocument(
                    key: DocumentKey(collection: collection, id: id), isLive: isLive, offset: offset,
                    state: state))
        case Tag.origin: return .origin(try fixed64())
        case Tag.history:
            let (actor, first) = (ActorID(try fixed64()), SequenceNumber(try varint()))
            let count = try count()
            var hashes: [UInt64] = []
            for _ in 0..<count { hashes.append(try fixed64()) }
            return .history(OperationHashes(actor: actor, first: first, hashes: hashes))
        case Tag.end: return .end(actors: try varint(), documents: try varint())
        default: throw .malformed("an unknown record of a snapshot", at: place)
        }
    }
}
