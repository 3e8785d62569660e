import CRDT
import Logging
import OperationLog
import Replica

// Between a log's snapshot and a materialization, in both directions, chunk by chunk.

extension Materializer {
    /// Loads the log's snapshot into a fresh replica.
    /// - Returns: where the replica stands; nil when there is no snapshot, or only a damaged one beside a log
    ///   that is still whole.
    static func loadSnapshot(
        into replica: Replica, _ log: any OperationLog, _ database: String, _ executor: BlockingExecutor,
        _ logger: Logger
    ) async throws -> LogPosition? {
        guard let snapshot = try await log.snapshot(of: database) else { return nil }
        do {
            // The whole of it is verified first: the replica must not begin with what turns out damaged.
            try await log.readSnapshot(snapshot, of: database) { _ in }
        } catch let error as OperationLogError where error.code == .corruptSnapshot {
            guard try await log.truncation(of: database).offset == 0 else { throw error }
            logger.error(
                "the snapshot is damaged; the log is folded from its beginning",
                metadata: ["database": "\(database)"])
            return nil
        }
        var loading = SnapshotLoading()
        try await log.readSnapshot(snapshot, of: database) { chunk in
            let sofar = loading
            loading = try await executor.run { try replica.load(chunk, sofar) }
        }
        guard loading.position == snapshot.position else {
            throw OperationLogError(
                .corruptSnapshot, "the snapshot is not of the place it is kept for", database: database,
                offset: snapshot.position.offset)
        }
        logger.info(
            "a materialization begins with the log's snapshot",
            metadata: ["database": "\(database)", "offset": "\(snapshot.position.offset)"])
        return loading.position
    }

    /// Writes what is folded now into the log as its snapshot, while folding goes on; nil before the first
    /// operation. `pulse` is called between chunks; when it answers false the writing ends, and nothing of it
    /// is ever seen.
    public func writeSnapshot(pulse: () async throws -> Bool) async throws -> LogSnapshot? {
        let replica = replica
        guard let reader = try await executor.run({ try replica.snapshotReader() }) else { return nil }
        defer { reader.close() }
        let draft = try await log.beginSnapshot(of: database, at: reader.start.position)
        while let chunk = try await executor.run({ try reader.next() }) {
            try await log.add(chunk, to: draft, in: database)
            guard try await pulse() else { return nil }
        }
        return try await log.finish(draft, in: database)
    }
}
