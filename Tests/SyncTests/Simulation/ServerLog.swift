import CRDT
import Sync

/// The server's operation log in memory: contiguous offsets, chained hashes, one frontier per actor.
struct ServerLog {
    struct Entry {
        let operation: Operation
        let bytes: [UInt8]
        let position: LogPosition
    }

    enum Outcome: Equatable {
        case appended
        case duplicate(through: SequenceNumber)
        case gap
        case conflict
    }

    let id: LogID
    private(set) var entries: [Entry] = []
    private(set) var frontier: [ActorID: (sequence: SequenceNumber, timestamp: Timestamp, hash: UInt64)] = [:]

    /// The greatest timestamp that was appended.
    private(set) var latest: Timestamp = 0
    /// The origins of operations that were moved.
    private var origins: Set<UInt64> = []

    init(id: LogID) { self.id = id }

    /// Whether it has an operation of this one's origin.
    func hasMoved(_ operation: CRDT.Operation) -> Bool { origins.contains(operation.identity) }

    var head: LogPosition { position(at: Offset(UInt64(entries.count))) ?? start }
    private var start: LogPosition { LogPosition(logID: id, offset: 0, hash: 0) }

    func position(at offset: Offset) -> LogPosition? {
        if offset == 0 { return start }
        return offset.rawValue <= UInt64(entries.count) ? entries[Int(offset.rawValue) - 1].position : nil
    }

    mutating func append(_ operation: Operation, _ bytes: [UInt8]) -> Outcome {
        let last = frontier[operation.actor]?.sequence ?? 0
        let content = bytes.withUnsafeBytes { hash64($0, seed: 0) }
        if operation.sequence == last, frontier[operation.actor]?.hash != content { return .conflict }
        if operation.sequence <= last { return .duplicate(through: last) }
        if operation.sequence > last.next { return .gap }
        let hash = bytes.withUnsafeBytes { hash64($0, seed: head.hash) }
        let position = LogPosition(logID: id, offset: head.offset.next, hash: hash)
        entries.append(Entry(operation: operation, bytes: bytes, position: position))
        latest = max(latest, operation.timestamp)
        if let origin = operation.origin { origins.insert(origin) }
        frontier[operation.actor] = (operation.sequence, operation.timestamp, content)
        return .appended
    }

    /// The same log as it was when it had `count` operations: a backup put back.
    func restored(to count: Int) -> ServerLog {
        var log = ServerLog(id: id)
        for entry in entries.prefix(count) { _ = log.append(entry.operation, entry.bytes) }
        return log
    }

    /// All documents after the operations up to an offset.
    func fold(through offset: Offset) throws -> [DocumentKey: Document] {
        var instance = ServerInstance(log: self, liveOperations: 0)
        try instance.fold(self, count: Int(offset.rawValue), origins: [:])
        return instance.documents
    }
}
