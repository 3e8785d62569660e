import CRDT
import Logging

/// A stored fold of one database's log at an offset, in chunks that this module never looks into.
///
/// `checksum` chains over the position, every chunk and their number, so a missing or damaged part is found
/// at the latest at the end.
public struct LogSnapshot: Hashable, Sendable {
    /// Its identity in the log; later ones have greater numbers.
    public let number: UInt64
    /// The position that it is the fold of.
    public let position: LogPosition
    /// The number of chunks.
    public let chunks: Int
    /// The sum of the chunks' sizes.
    public let bytes: Int
    /// The checksum after the last chunk.
    public let checksum: UInt64

    /// A snapshot as a driver has stored it.
    package init(number: UInt64, position: LogPosition, chunks: Int, bytes: Int, checksum: UInt64) {
        self.number = number
        self.position = position
        self.chunks = chunks
        self.bytes = bytes
        self.checksum = checksum
    }
}

/// A snapshot that is being written, and invisible until it is finished.
public struct SnapshotDraft: Hashable, Sendable {
    /// The number of the finished snapshot.
    public let number: UInt64
    /// The position that it becomes the fold of.
    public let position: LogPosition

    /// A draft as a driver has begun it.
    package init(number: UInt64, position: LogPosition) {
        self.number = number
        self.position = position
    }
}

/// The checksums of a snapshot.
package enum SnapshotSum {
    /// The sum before the first chunk.
    package static func start(_ position: LogPosition) -> UInt64 {
        ChainHash.next(after: position.hash, digest: position.offset.rawValue)
    }

    /// The sum after another chunk, whose hash is `chunk(_:)` of its bytes.
    package static func next(after sum: UInt64, chunk hash: UInt64) -> UInt64 {
        ChainHash.next(after: sum, digest: hash)
    }

    /// The hash of one chunk alone.
    package static func chunk(_ bytes: [UInt8]) -> UInt64 { hash64(bytes, seed: 0) }
}

extension OperationLog {
    /// Reads a snapshot chunk by chunk, verified. Chunks handed to the closure count only when this
    /// returns.
    /// - Throws: `LOG-0106` when a newer snapshot has replaced it meanwhile, `LOG-0402` when it is damaged,
    ///   and the closure's errors.
    public func readSnapshot(
        _ snapshot: LogSnapshot, of database: DatabaseID, _ body: (_ chunk: [UInt8]) async throws -> Void
    ) async throws {
        var sum = SnapshotSum.start(snapshot.position)
        for index in 0..<snapshot.chunks {
            let chunk = try await chunk(index, of: snapshot, in: database)
            sum = SnapshotSum.next(after: sum, chunk: SnapshotSum.chunk(chunk))
            try await body(chunk)
        }
        guard sum == snapshot.checksum else {
            throw OperationLogError.damagedSnapshot(database, snapshot.position.offset)
        }
    }

    /// Begins a fold with the database's snapshot. The whole snapshot is verified before anything is
    /// loaded, so that no fold begins with damaged data.
    ///
    /// A newer snapshot may replace the one that is being read. The loaded part is void then, and loading
    /// starts again with the newer one.
    /// - Parameters:
    ///   - begin: makes an empty place; `isAgain` says to drop the previous one, which is half loaded.
    ///   - verifying: called for every chunk read before anything is loaded.
    ///   - load: takes the next chunk.
    ///   - position: the position of a place that has taken every chunk.
    /// - Returns: the place; nil when there is no snapshot, or only a damaged one while the log is whole.
    /// - Throws: `LOG-0402` for a damaged snapshot whose entries were removed, `LOG-0106` when newer ones
    ///   came at every attempt, and the closures' errors.
    public func beginWithSnapshot<Place>(
        of database: DatabaseID, logger: Logger, begin: (_ isAgain: Bool) async throws -> Place,
        verifying: () async throws -> Void = {},
        load: (_ place: inout Place, _ chunk: [UInt8]) async throws -> Void,
        position: (Place) -> LogPosition?
    ) async throws -> Place? {
        var attempts = 0
        var hasBegun = false
        while true {
            attempts += 1
            do {
                guard let snapshot = try await verifiedSnapshot(of: database, logger, verifying) else {
                    return nil
                }
                var place = try await begin(hasBegun)
                hasBegun = true
                try await readSnapshot(snapshot, of: database) { try await load(&place, $0) }
                guard position(place) == snapshot.position else {
                    throw OperationLogError(
                        .corruptSnapshot, "the snapshot is of another position than its record says",
                        database: database, offset: snapshot.position.offset)
                }
                logger.info(
                    "starting a fold from the log's snapshot",
                    metadata: ["database": "\(database)", "offset": "\(snapshot.position.offset)"])
                return place
            } catch let error as OperationLogError where error.code == .noSnapshot {
                guard attempts < LogLimits.snapshotAttempts else { throw error }
            }
        }
    }

    /// The snapshot, read to its end and verified once.
    private func verifiedSnapshot(
        of database: DatabaseID, _ logger: Logger, _ pulse: () async throws -> Void
    ) async throws -> LogSnapshot? {
        guard let snapshot = try await snapshot(of: database) else { return nil }
        do {
            try await readSnapshot(snapshot, of: database) { _ in try await pulse() }
            return snapshot
        } catch let error as OperationLogError where error.code == .corruptSnapshot {
            guard try await truncation(of: database).offset == 0 else { throw error }
            logger.error(
                "the snapshot is damaged; folding the log from its beginning instead",
                metadata: ["database": "\(database)"])
            return nil
        }
    }
}

extension OperationLogError {
    package static func damagedSnapshot(_ database: DatabaseID, _ offset: Offset) -> OperationLogError {
        OperationLogError(
            .corruptSnapshot, "the snapshot at this offset is damaged", database: database, offset: offset)
    }

    package static func noSnapshot(_ database: DatabaseID, _ number: UInt64) -> OperationLogError {
        OperationLogError(
            .noSnapshot, "there is no snapshot \(number), or it was replaced", database: database)
    }

    package static func truncated(_ database: DatabaseID, _ through: Offset, snapshot: Offset?)
        -> OperationLogError
    {
        OperationLogError(
            .truncated,
            "entries up to \(through) were removed; begin with the snapshot at \(snapshot ?? through)",
            database: database, offset: snapshot ?? through)
    }
}
