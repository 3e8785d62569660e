import CRDT
import Logging
import OperationLog

extension WorkerLane {
    /// Begins a generation at the log's beginning, or with its snapshot if it has one, which is the fold of
    /// everything before.
    func beginGeneration(
        of database: DatabaseID, _ log: any OperationLog, _ logger: Logger
    ) async throws -> Generation {
        guard let start = try await log.position(at: 0, in: database) else {
            throw OperationLogError(.corrupt, "the log has no position at offset 0", database: database)
        }
        let begun = try await run { try $0.startBuilding(at: start) }
        let loaded = try await log.beginWithSnapshot(of: database, logger: logger) { isAgain in
            if isAgain { _ = try await self.run { try $0.startBuilding(at: start) } }
            return SnapshotStart?.none
        } verifying: {
            try await self.run { try $0.showLife() }
        } load: { place, chunk in
            let records = try Self.records(in: chunk)
            if case .begin(let begun)? = records.first { place = begun }
            let documents = records.compactMap { record in
                if case .document(let document) = record { document } else { SnapshotDocument?.none }
            }
            // A chunk of history hashes has no documents, and there may be gigabytes of them.
            try await self.run {
                try $0.showLife()
                try $0.load(documents)
            }
        } position: {
            $0?.position
        }
        guard let loaded, let loaded else { return begun }
        return try await run { try $0.finishLoading(loaded) }
    }

    private static func records(in chunk: [UInt8]) throws(ProjectionError) -> [SnapshotRecord] {
        do {
            return try SnapshotChunk.records(in: chunk)
        } catch {
            throw ProjectionError(.brokenLog, "a chunk of the snapshot cannot be read: \(error)")
        }
    }
}
