import CRDT

/// A stored fold of one database's log at an offset, in chunks that this module never looks into.
///
/// `checksum` chains over the position, every chunk and their number, so that a snapshot of which anything is
/// missing or damaged is found out at the latest at its end.
public struct LogSnapshot: Hashable, Sendable {
    /// Its identity in the log; later ones have greater numbers.
    public let number: UInt64
    /// The place that it is the fold of.
    public let position: LogPosition
    /// How many chunks it has.
    public let chunks: Int
    /// Their bytes.
    public let bytes: Int
    /// The checksum behind the last chunk.
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

/// A snapshot that is being written. Nobody sees it before it is finished.
public struct SnapshotDraft: Hashable, Sendable {
    /// The number that it will have.
    public let number: UInt64
    /// The place that it will be the fold of.
    public let position: LogPosition

    /// A draft as a driver has begun it.
    package init(number: UInt64, position: LogPosition) {
        self.number = number
        self.position = position
    }
}

/// The checksums of a snapshot.
package enum SnapshotSum {
    /// Before the first chunk.
    package static func start(_ position: LogPosition) -> UInt64 {
        ChainHash.next(after: position.hash, digest: position.offset)
    }

    /// Behind another chunk, of which `hash` is `chunk(_:)`.
    package static func next(after sum: UInt64, chunk hash: UInt64) -> UInt64 {
        ChainHash.next(after: sum, digest: hash)
    }

    /// Of one chunk alone.
    package static func chunk(_ bytes: [UInt8]) -> UInt64 { hash64(bytes, seed: 0) }
}

extension OperationLog {
    /// Reads a snapshot chunk by chunk, verified. What the closure was handed counts only when this returns.
    /// - Throws: `LOG-0106` when a newer snapshot has taken its place meanwhile, `LOG-0402` when it is
    ///   damaged, and what the closure throws.
    public func readSnapshot(
        _ snapshot: LogSnapshot, of database: String, _ body: (_ chunk: [UInt8]) async throws -> Void
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
}

extension OperationLogError {
    package static func damagedSnapshot(_ database: String, _ offset: UInt64) -> OperationLogError {
        OperationLogError(
            .corruptSnapshot, "the snapshot at this offset is damaged", database: database, offset: offset)
    }

    package static func noSnapshot(_ database: String, _ number: UInt64) -> OperationLogError {
        OperationLogError(
            .noSnapshot, "snapshot \(number) is not there, or not any more", database: database)
    }

    package static func truncated(_ database: String, _ through: UInt64, snapshot: UInt64?)
        -> OperationLogError
    {
        OperationLogError(
            .truncated,
            "entries up to \(through) were removed; begin with the snapshot at \(snapshot ?? through)",
            database: database, offset: snapshot ?? through)
    }
}
