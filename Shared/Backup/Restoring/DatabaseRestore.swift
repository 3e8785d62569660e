import CRDT
import Logging
import OperationLog

/// Puts one database of a backup into a log, as a draft that nobody sees yet.
struct DatabaseRestore {
    let log: any RestorableLog
    let plan: RestorePlan
    /// The name that it gets.
    let name: DatabaseID
    let progress: BackupProgress

    /// - Returns: the draft.
    /// - Throws: `BAK-0202`, `BAK-0405`, the log's errors.
    func run() async throws -> DatabaseID {
        let first = plan.run.first
        let start = try first.start()
        let draft = try await log.beginRestore(of: name, after: start.offset, hash: start.hash)
        var writer = DraftWriter(log: log, draft: draft)
        if first.base == .snapshot { try await loadSnapshot(&writer) }
        try await append(&writer)
        return draft
    }

    /// Pieces and their files one by one, because a log is written by awaiting it.
    private func frames(
        _ piece: Run.Piece, _ body: (Frame) async throws -> Bool
    ) async throws {
        for file in piece.part.files {
            let reader = try FrameReader(folder: piece.folder, file)
            while let frame = try reader.next() { guard try await body(frame) else { return } }
        }
    }

    /// Registers the snapshot's actors and writes its chunks, with the new log's identity.
    private func loadSnapshot(_ writer: inout DraftWriter) async throws {
        var actors = SnapshotActors()
        try await frames(plan.run.pieces[0]) { frame in
            switch frame {
            case .key(let actor, let key): actors.keys[actor] = key
            case .chunk(let bytes): try actors.take(bytes)
            default: return false
            }
            return true
        }
        try await writer.register(actors.frontiers())
        guard let start = try await log.position(at: Offset(plan.run.first.from), in: writer.draft) else {
            throw BackupError(.restoreFailed, "the log does not have the place of the snapshot")
        }
        let draft = try await log.beginSnapshot(of: writer.draft, at: start)
        var isFirst = true
        let target = writer.draft
        try await frames(plan.run.pieces[0]) { frame in
            switch frame {
            case .key: break
            case .chunk(let bytes):
                let chunk = isFirst ? try Self.renamed(bytes, to: start) : bytes
                isFirst = false
                try await log.add(chunk, to: draft, in: target)
            default: return false
            }
            return true
        }
        _ = try await log.finish(draft, in: target)
    }

    /// The first chunk of a snapshot, at the same place of another log.
    private static func renamed(_ bytes: [UInt8], to place: LogPosition) throws -> [UInt8] {
        var chunk = SnapshotChunk()
        for record in try SnapshotChunk.records(in: bytes) {
            guard case .begin(let start) = record else {
                chunk.add(record)
                continue
            }
            chunk.add(
                .begin(SnapshotStart(position: place, clock: start.clock, reapFloor: start.reapFloor)))
        }
        return chunk.bytes
    }

    private func append(_ writer: inout DraftWriter) async throws {
        var offset = Offset(plan.run.first.from)
        for piece in plan.run.pieces where piece.part.from < plan.through.rawValue {
            var part = writer
            try await frames(piece) { frame in
                switch frame {
                case .key(let actor, let key): part.keys[actor] = key
                case .entry(let record, _):
                    guard offset < plan.through else { return false }
                    offset = offset.next
                    try await part.append(record, at: offset)
                    guard part.isFlushed else { break }
                    progress.tell("writing \(name)", offset.rawValue, of: plan.through.rawValue)
                case .chunk, .end: break
                }
                return true
            }
            writer = part
        }
        try await writer.flush()
    }
}

/// Appends the entries of a backup to a draft, many at once.
struct DraftWriter {
    let log: any RestorableLog
    let draft: DatabaseID
    var keys: [ActorID: String] = [:]
    private var waiting: [AppendRequest] = []
    private var bytes = 0
    private var last: Offset = 0

    init(log: any RestorableLog, draft: DatabaseID) { (self.log, self.draft) = (log, draft) }

    mutating func append(_ record: OperationRecord, at offset: Offset) async throws {
        guard let key = keys[record.actor] else {
            throw BackupError(.restoreFailed, "the backup lacks the key of an operation's author")
        }
        let operation: Operation
        do {
            operation = try Operation(decoding: record.bytes)
        } catch {
            throw BackupError(.restoreFailed, "operation \(offset) of the backup cannot be read: \(error)")
        }
        waiting.append(AppendRequest(record: record, authorKey: key, touches: Touch.all(of: operation)))
        bytes += record.bytes.count
        last = offset
        if waiting.count >= Limits.appendedOperations || bytes >= Limits.appendedBytes { try await flush() }
    }

    /// True if nothing waits to be appended.
    var isFlushed: Bool { waiting.isEmpty }

    mutating func flush() async throws {
        guard !waiting.isEmpty else { return }
        let outcomes = try await log.append(waiting, to: draft)
        guard outcomes.last == .appended(offset: last), outcomes.count == waiting.count else {
            throw BackupError(
                .restoreFailed,
                "the log refused an operation up to offset \(last): \(outcomes.last.map { "\($0)" } ?? "")")
        }
        (waiting, bytes) = ([], 0)
    }

    func register(_ frontiers: [ActorID: FrontierEntry]) async throws {
        let all = Array(frontiers)
        for start in stride(from: 0, to: all.count, by: Limits.actorsAtOnce) {
            let some = all[start..<min(start + Limits.actorsAtOnce, all.count)]
            try await log.register(Dictionary(uniqueKeysWithValues: Array(some)), in: draft)
        }
    }
}

/// The actors of a snapshot, as its records tell them. Some two hundred bytes an actor.
struct SnapshotActors {
    var keys: [ActorID: String] = [:]
    private var progress: [ActorID: ActorProgress] = [:]
    private var hashes: [ActorID: (last: SequenceNumber, hash: UInt64)] = [:]

    mutating func take(_ chunk: [UInt8]) throws {
        for record in try SnapshotChunk.records(in: chunk) {
            switch record {
            case .actor(let actor): progress[actor.actor] = actor
            case .history(let run):
                guard let hash = run.hashes.last else { continue }
                let last = run.first.rawValue &+ UInt64(run.hashes.count - 1)
                hashes[run.actor] = (SequenceNumber(last), hash)
            default: break
            }
        }
    }

    /// The ends of all actors. An operation whose checksum the snapshot lacks gets one that no operation has
    /// but by accident: a peer that sends it again takes a new actor.
    func frontiers() throws(BackupError) -> [ActorID: FrontierEntry] {
        var frontiers: [ActorID: FrontierEntry] = [:]
        for (actor, progress) in progress {
            guard let key = keys[actor] else {
                throw BackupError(.restoreFailed, "the backup lacks the key of an actor")
            }
            let known = hashes[actor].flatMap { $0.last == progress.sequence ? $0.hash : nil }
            frontiers[actor] = FrontierEntry(
                sequence: progress.sequence, timestamp: progress.timestamp, hash: known ?? 0, authorKey: key)
        }
        return frontiers
    }
}
