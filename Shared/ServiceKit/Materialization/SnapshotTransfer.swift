import CRDT
import Logging
import Machine
import OperationLog
import Replica

// Transfer between a log's snapshot and a materialization, in both directions, chunk by chunk.

/// Runs a step of loading a snapshot, which blocks: for the service itself on threads of its own, for a
/// client in a turn of its evaluation.
protocol LoadingPlace: Sendable {
    func load<Result: Sendable>(_ step: @escaping @Sendable () throws -> Result) async throws -> Result
}

extension BlockingExecutor: LoadingPlace {
    func load<Result: Sendable>(_ step: @escaping @Sendable () throws -> Result) async throws -> Result {
        try await run(step)
    }
}

extension Materializer {
    /// Loads the log's snapshot into a fresh replica. If a newer snapshot appears meanwhile, starts again
    /// with another replica that `renew` makes in its place.
    /// - Parameter place: where the replica is written.
    /// - Returns: the replica now in place, and its position; the position is nil without a snapshot.
    static func loadSnapshot(
        into replica: Materialization, _ log: any OperationLog, _ database: DatabaseID,
        _ place: some LoadingPlace, _ logger: Logger,
        renew: @escaping @Sendable (Materialization) throws -> Materialization
    ) async throws -> (Materialization, LogPosition?) {
        var replica = replica
        let loaded = try await log.beginWithSnapshot(of: database, logger: logger) { isAgain in
            let current = replica
            if isAgain { replica = try await place.load { try renew(current) } }
            return SnapshotLoading()
        } load: { loading, chunk in
            let (current, sofar) = (replica, loading)
            loading = try await place.load { try current.load(chunk, sofar) }
        } position: {
            $0.position
        }
        return (replica, loaded?.position)
    }

    /// Writes the folded state into the log as its snapshot, while folding goes on; nil before the first
    /// operation. `pulse` is called between chunks; if it returns false the writing ends, returns nil, and no
    /// reader sees any of it. The snapshot is read back before it replaces the previous one.
    public func writeSnapshot(pulse: () async throws -> Bool) async throws -> LogSnapshot? {
        let replica = replica
        guard let reader = try await executor.run({ try replica.snapshotReader() }) else { return nil }
        defer { reader.close() }
        let draft = try await log.beginSnapshot(of: database, at: reader.start.position)
        var (chunks, bytes, sum) = (0, 0, SnapshotSum.start(draft.position))
        while let chunk = try await executor.run({ try reader.next() }) {
            try await log.add(chunk, to: draft, in: database)
            sum = SnapshotSum.next(after: sum, chunk: SnapshotSum.chunk(chunk))
            (chunks, bytes) = (chunks + 1, bytes + chunk.count)
            guard try await pulse() else { return nil }
        }
        let written = LogSnapshot(
            number: draft.number, position: draft.position, chunks: chunks, bytes: bytes, checksum: sum)
        var readBack = SnapshotSum.start(written.position)
        for index in 0..<written.chunks {
            let chunk = try await log.chunk(index, of: written, in: database)
            readBack = SnapshotSum.next(after: readBack, chunk: SnapshotSum.chunk(chunk))
            guard try await pulse() else { return nil }
        }
        guard readBack == written.checksum else {
            throw OperationLogError.damagedSnapshot(database, written.position.offset)
        }
        return try await log.finish(draft, in: database)
    }
}
