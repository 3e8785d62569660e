import CRDT
import Logging
import Machine
import OperationLog
import Replica

/// A copy of one database's documents at a place of its log, as a projection has it.
public struct ProjectedDigests: Sendable {
    /// The place in the log.
    public let position: LogPosition
    /// The documents of each collection there.
    public let collections: [CollectionName: FoldDigest]

    /// A copy with these digests.
    public init(position: LogPosition, collections: [CollectionName: FoldDigest]) {
        (self.position, self.collections) = (position, collections)
    }

    /// The documents of a projection in a folder, which no service has open; nil if there are none.
    /// - Throws: the error of opening it, while a service has it.
    public init?(folder: String, logger: Logger) throws {
        guard Folder.exists(folder) else { return nil }
        let replica = try Materialization(directory: folder, environment: .system, logger: logger)
        defer { try? replica.close() }
        guard let position = try replica.checkpoint() else { return nil }
        self.init(position: position, collections: try replica.digests())
    }
}

/// Checks a log in use, one database after the other: every entry's hashes, the snapshot's checksums, the
/// snapshot against a fold of the operations while those are there, and a projection against the fold.
///
/// Reads are ordinary ones beside the server's. `rate` bounds them.
public struct LogVerifier: Sendable {
    private let log: any OperationLog
    private let scratch: String
    private let bytesPerSecond: Int?
    private let logger: Logger
    private let progress: BackupProgress

    /// Something that is wrong.
    public struct Finding: Sendable, Equatable {
        /// A stable code: `LOG-…` as the log throws it, or `BAK-0205`.
        public let code: String
        /// For a person: what and where.
        public let message: String
    }

    /// The result for one database.
    public struct Result: Sendable {
        /// The database.
        public let database: DatabaseID
        /// The offset up to which it was read.
        public internal(set) var head: Offset = 0
        /// The offset through which operations were removed before.
        public internal(set) var truncated: Offset = 0
        /// The snapshot's offset; nil without one.
        public internal(set) var snapshot: Offset?
        /// The documents at the head; nil if they could not be folded.
        public internal(set) var digest: FoldDigest?
        /// True if the snapshot was compared with a fold of the operations before it.
        public internal(set) var comparesSnapshot = false
        /// The place at which the projection was compared; nil if there was none to compare.
        public internal(set) var projection: Offset?
        /// Whatever is wrong; empty if all is well.
        public internal(set) var findings: [Finding] = []
    }

    /// - Parameters:
    ///   - scratch: a folder for temporary files, which may be as large as all documents.
    ///   - bytesPerSecond: the most to read of the log; nil reads as fast as it can.
    public init(
        _ log: any OperationLog, scratch: String, bytesPerSecond: Int? = nil, logger: Logger,
        progress: BackupProgress = .unwatched
    ) {
        (self.log, self.scratch, self.logger) = (log, scratch, logger)
        (self.bytesPerSecond, self.progress) = (bytesPerSecond, progress)
    }

    /// Checks one database.
    /// - Parameter projected: the documents of a projection, read shortly before; nil without one.
    public func verify(_ database: DatabaseID, projected: ProjectedDigests? = nil) async throws -> Result {
        var result = Result(database: database)
        do {
            try await check(&result, projected)
        } catch let error as OperationLogError where [.corrupt, .corruptSnapshot].contains(error.code) {
            result.findings.append(
                Finding(code: error.code.rawValue, message: "\(error); restore the log from a backup"))
        } catch let error as BackupError where [.damaged, .digestDiffers].contains(error.code) {
            result.findings.append(Finding(code: error.code.rawValue, message: error.message))
        }
        return result
    }

    private func check(_ result: inout Result, _ projected: ProjectedDigests?) async throws {
        let database = result.database
        let head = try await log.head(of: database)
        let truncated = try await log.truncation(of: database)
        let snapshot = try await log.snapshot(of: database)
        (result.head, result.truncated, result.snapshot) = (
            head.offset, truncated.offset, snapshot?.position.offset
        )
        var pace = Pace(bytesPerSecond)
        let fold = try BackupFold(scratchIn: scratch, logger: logger, progress: progress)
        defer { fold.close() }
        var place: Offset = 0
        if truncated.offset > 0 {
            guard let snapshot else {
                throw OperationLogError(
                    .corruptSnapshot, "operations were removed and there is no snapshot", database: database,
                    offset: truncated.offset)
            }
            try await load(snapshot, fold, database, &pace)
            // Operations that the snapshot covers are read for their hashes only.
            try await read(database, after: truncated.offset, through: snapshot.position.offset, nil, &pace)
            place = snapshot.position.offset
        }
        var stops: [Offset] = []
        if truncated.offset == 0, let snapshot { stops.append(snapshot.position.offset) }
        if let projected, projected.position.logID == head.logID, projected.position.offset >= place {
            stops.append(projected.position.offset)
        }
        for stop in Set(stops.filter { $0 <= head.offset }).sorted() {
            try await read(database, after: place, through: stop, fold, &pace)
            place = stop
            if let snapshot, truncated.offset == 0, stop == snapshot.position.offset {
                try await compare(snapshot, with: fold, database, &pace)
                result.comparesSnapshot = true
            }
            if let projected, stop == projected.position.offset {
                result.projection = stop
                result.findings += try Self.differences(projected, fold.digests(), database)
            }
        }
        try await read(database, after: place, through: head.offset, fold, &pace)
        result.digest = try fold.digest()
    }

    private func load(
        _ snapshot: LogSnapshot, _ fold: BackupFold, _ database: DatabaseID, _ pace: inout Pace
    ) async throws {
        var current = pace
        try await log.readSnapshot(snapshot, of: database) { chunk in
            try fold.load(chunk)
            try await current.read(chunk.count)
        }
        pace = current
    }

    /// Reads entries, which the log verifies, and folds them.
    private func read(
        _ database: DatabaseID, after start: Offset, through end: Offset, _ fold: BackupFold?,
        _ pace: inout Pace
    ) async throws {
        var place = start
        let logID = try await log.head(of: database).logID
        while place < end {
            let entries = try await log.read(database, after: place).filter { $0.offset <= end }
            guard let last = entries.last else { break }
            if let fold { for entry in entries { try fold.take(entry, logID) } }
            place = last.offset
            progress.tell("reading \(database)", place.rawValue, of: end.rawValue)
            try await pace.read(entries.reduce(0) { $0 + $1.bytes.count })
        }
        try fold?.fold()
    }

    private func compare(
        _ snapshot: LogSnapshot, with fold: BackupFold, _ database: DatabaseID, _ pace: inout Pace
    ) async throws {
        let loaded = try BackupFold(scratchIn: scratch, logger: logger, progress: progress)
        defer { loaded.close() }
        try await load(snapshot, loaded, database, &pace)
        guard try loaded.digest() == fold.digest() else {
            throw BackupError(
                .digestDiffers,
                "the snapshot of database \(database) at \(snapshot.position.offset) has other documents "
                    + "than the operations up to there; write a new one")
        }
    }

    private static func differences(
        _ projected: ProjectedDigests, _ folded: [CollectionName: FoldDigest], _ database: DatabaseID
    ) -> [Finding] {
        let names = Set(projected.collections.keys).union(folded.keys)
        return names.sorted().filter {
            projected.collections[$0] ?? FoldDigest() != folded[$0] ?? FoldDigest()
        }.map { name in
            Finding(
                code: BackupErrorCode.digestDiffers.rawValue,
                message: "collection \(name) of database \(database) in the projection at offset "
                    + "\(projected.position.offset) is not the log's; rebuild the projection")
        }
    }
}

/// Holds a reader back to a rate.
private struct Pace {
    private let bytesPerSecond: Int?
    private var bytes = 0
    private let start = ContinuousClock.now

    init(_ bytesPerSecond: Int?) { self.bytesPerSecond = bytesPerSecond }

    mutating func read(_ count: Int) async throws {
        try Task.checkCancellation()
        guard let bytesPerSecond else { return }
        bytes += count
        let due = start + .milliseconds(Int64(bytes) * 1_000 / Int64(max(1, bytesPerSecond)))
        if due > .now { try await Task.sleep(until: due) }
    }
}
