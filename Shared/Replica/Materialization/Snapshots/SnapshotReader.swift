import CRDT
import GRDB
import Synchronization

/// Reads a materialization's fold chunk by chunk, all of one moment, while folding continues.
///
/// It holds a read transaction of its own, which keeps SQLite from shortening its write-ahead log: read
/// without long pauses, and close. `progress` guards everything.
public final class SnapshotReader: Sendable {
    private struct Progress {
        var actors: [ActorProgress]
        var origins: [UInt64]
        var histories: [ActorID]
        var collections: [(number: Int64, name: CollectionName)]
        /// The row last read of the first of the collections.
        var row: Int64 = 0
        var hasBegun = false
        var isDone = false
        var actorCount: UInt64 = 0
        var documentCount: UInt64 = 0
    }

    /// The position and clock of the snapshot.
    public let start: SnapshotStart
    private let snapshot: DatabaseSnapshot
    private let progress: Mutex<Progress>

    /// Nil before the first folded operation.
    init?(_ store: DocumentStore) throws {
        snapshot = try store.makeSnapshot()
        let read = try snapshot.read { database -> (SnapshotStart, Progress)? in
            guard let state = try StoreState.load(database), let logID = state.logID else { return nil }
            let position = LogPosition(logID: logID, offset: state.foldedThrough, hash: state.logHash)
            let names = try RawStatement(fresh: "SELECT number, name FROM collection ORDER BY name", database)
            var collections: [(number: Int64, name: CollectionName)] = []
            while try names.step() { collections.append((names.int(0), CollectionName(names.text(1)))) }
            return (
                SnapshotStart(
                    position: position, clock: state.clock.latest, reapFloor: state.reapFloor),
                Progress(
                    actors: try FoldedFrontier.all(database), origins: try FoldedHistory.origins(database),
                    histories: try FoldedHistory.actors(database), collections: collections)
            )
        }
        guard let read else { return nil }
        start = read.0
        progress = Mutex(read.1)
    }

    /// The next chunk, at most `ReplicaLimits.snapshotChunkBytes` long unless it is one document; nil after
    /// the last.
    public func next() throws -> [UInt8]? {
        try progress.withLock { progress in
            guard !progress.isDone else { return nil }
            var chunk = SnapshotChunk()
            if !progress.hasBegun {
                chunk.add(.begin(start))
                progress.hasBegun = true
            }
            while !Self.isFull(chunk), let actor = progress.actors.popLast() {
                chunk.add(.actor(actor))
                progress.actorCount += 1
            }
            while !Self.isFull(chunk), let origin = progress.origins.popLast() { chunk.add(.origin(origin)) }
            try snapshot.read { database in
                while !Self.isFull(chunk), let actor = progress.histories.popLast() {
                    chunk.add(.history(try FoldedHistory.run(of: actor, database)))
                }
            }
            try snapshot.read { try Self.addDocuments(to: &chunk, &progress, $0) }
            let isRead = progress.actors.isEmpty && progress.origins.isEmpty && progress.histories.isEmpty
            if isRead, progress.collections.isEmpty {
                chunk.add(.end(actors: progress.actorCount, documents: progress.documentCount))
                progress.isDone = true
            }
            return chunk.bytes
        }
    }

    /// Ends the read transaction; no more chunks can be read.
    public func close() {
        progress.withLock { $0.isDone = true }
        // It only fails for a statement still in use, of which there is none between two calls.
        try? snapshot.close()
    }

    private static func isFull(_ chunk: borrowing SnapshotChunk) -> Bool {
        chunk.byteCount >= ReplicaLimits.snapshotChunkBytes
    }

    private static func addDocuments(
        to chunk: inout SnapshotChunk, _ progress: inout Progress, _ database: Database
    ) throws {
        while !isFull(chunk), let (number, name) = progress.collections.last {
            let statement = try RawStatement(
                fresh: """
                    SELECT number, id, live, position, state FROM documents_\(number) WHERE number > ?
                    ORDER BY number
                    """, database)
            statement.bind(1, progress.row)
            var isAtEnd = false
            while !isFull(chunk) {
                guard try statement.step() else {
                    isAtEnd = true
                    break
                }
                let key = DocumentKey(collection: name, id: DocumentID(trusted: statement.bytes(1)))
                let document = SnapshotDocument(
                    key: key, isLive: statement.int(2) != 0, offset: Offset(statement.bits(3)),
                    state: EncodedState(statement.bytes(4)))
                // The log bounds a chunk by the largest document alone.
                guard
                    chunk.isEmpty || chunk.byteCount + document.byteBound <= ReplicaLimits.snapshotChunkBytes
                else { return }
                progress.row = statement.int(0)
                chunk.add(.document(document))
                progress.documentCount += 1
            }
            guard isAtEnd else { return }
            progress.collections.removeLast()
            progress.row = 0
        }
    }
}

extension SnapshotDocument {
    /// No fewer bytes than its record has, the collection's with it.
    fileprivate var byteBound: Int { state.count + key.id.bytes.count + key.collection.text.utf8.count + 64 }
}

extension Materialization {
    /// A reader of the present fold, while folding continues; nil before the first operation.
    public func snapshotReader() throws -> SnapshotReader? {
        try store.checkOpen()
        do {
            return try SnapshotReader(store)
        } catch {
            throw store.failed(error)
        }
    }
}
