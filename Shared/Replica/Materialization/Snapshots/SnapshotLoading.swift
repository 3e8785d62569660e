import CRDT
import GRDB

/// The progress of loading a snapshot into a fresh materialization.
public struct SnapshotLoading: Sendable {
    fileprivate var start: SnapshotStart?
    fileprivate var actors: UInt64 = 0
    fileprivate var documents: UInt64 = 0
    /// The position of the materialization; nil before the snapshot's end.
    public fileprivate(set) var position: LogPosition?

    /// The progress before the first chunk.
    public init() {}
}

extension Materialization {
    private static let mark = "loading"

    /// Loads the next chunk of a snapshot into a fresh materialization, in a transaction of its own. Until
    /// the last one the store has no checkpoint and counts as half loaded, also after a crash. Throws
    /// `brokenLog` for chunks that are not a snapshot.
    public func load(_ chunk: [UInt8], _ loading: SnapshotLoading) throws -> SnapshotLoading {
        let records: [SnapshotRecord]
        do {
            records = try SnapshotChunk.records(in: chunk)
        } catch {
            throw ReplicaError(.brokenLog, "a chunk of the snapshot cannot be read: \(error)")
        }
        return try store.committing { database, state in
            guard state.logID == nil else {
                throw ReplicaError(.brokenLog, "a snapshot is for a store that has folded nothing")
            }
            var loading = loading
            var collections = Collections()
            for record in records {
                guard loading.position == nil else {
                    throw ReplicaError(.brokenLog, "the snapshot goes on behind its end")
                }
                guard (loading.start == nil) == Self.isBegin(record) else {
                    throw ReplicaError(.brokenLog, "the snapshot does not begin once")
                }
                switch record {
                case .begin(let start):
                    loading.start = start
                    try state.observe(start.clock)
                    try Self.mark(true, database)
                case .actor(let progress):
                    loading.actors += 1
                    try FoldedFrontier.put(progress, database)
                case .origin(let checksum): try FoldedHistory.put(origin: checksum, database)
                case .history(let run): try FoldedHistory.put(run, database)
                case .document(let document):
                    loading.documents += 1
                    let table = try collections.requireNumber(of: document.key.collection, database)
                    try DocumentRows.put(
                        table, document.key.id, live: document.isLive, position: document.offset.rawValue,
                        state: document.state, database)
                case .end(let actors, let documents):
                    try Self.finish(&loading, &state, actors: actors, documents: documents)
                    try Self.mark(false, database)
                }
            }
            return loading
        }
    }

    /// Returns whether a snapshot was begun and never finished: the store is unusable and must be
    /// discarded.
    public func isHalfLoaded() throws -> Bool {
        try read { transaction in
            try transaction.withDatabase { database in
                let statement = try RawStatement(
                    cached: "SELECT 1 FROM setting WHERE key = '\(Self.mark)'", database)
                return try statement.step()
            }
        }
    }

    private static func isBegin(_ record: SnapshotRecord) -> Bool {
        if case .begin = record { true } else { false }
    }

    private static func finish(
        _ loading: inout SnapshotLoading, _ state: inout StoreState, actors: UInt64, documents: UInt64
    ) throws {
        guard loading.actors == actors, loading.documents == documents, let start = loading.start else {
            throw ReplicaError(.brokenLog, "the snapshot lacks actors or documents")
        }
        state.loaded(start.position, reapFloor: start.reapFloor)
        loading.position = start.position
    }

    private static func mark(_ isLoading: Bool, _ database: Database) throws {
        let sql =
            isLoading
            ? "INSERT OR REPLACE INTO setting (key, value) VALUES ('\(mark)', x'01')"
            : "DELETE FROM setting WHERE key = '\(mark)'"
        try RawStatement(cached: sql, database).run()
    }
}
