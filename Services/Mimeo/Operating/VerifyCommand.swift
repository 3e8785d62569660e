import ArgumentParser
import AttachmentStore
import Backup
import CRDT
import DQL
import Foundation
import Logging
import OperationLog
import Postgres
import ServiceKit

/// `mimeo verify`: checks the storage of a server, also while it runs.
struct VerifyCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "verify", abstract: "Check a log, its snapshots, a projection and attachments.",
        discussion: """
            Reads every operation of every database and follows the chain of hashes; reads the snapshot, and \
            compares it with a fold of the operations while those are there; folds everything and compares \
            each collection of the projection with that; with --attachments or --attachment-bucket compares \
            each blob with its digest. Works beside a running server; --bytes-per-second holds it back. A \
            projection in a folder can only be read while no service has it open. Prints a JSON object for \
            each database, and ends with exit code 1 if anything is wrong.
            """)

    @OptionGroup var place: LogPlace
    @Option(setting: "projection") var projection: String?
    @Option(
        help: ArgumentHelp("Check the blobs of this attachment-store's folder.", valueName: "dir"),
        transform: GivenText.of("--attachments"))
    var attachments: String?
    @OptionGroup var attachmentBucket: AttachmentBucketFlags
    @Flag(help: AttachmentPlace.flagHelp)
    var withAttachments = false
    @Option(
        help: ArgumentHelp("Check this database only.", valueName: "id"),
        transform: GivenText.of("--database"))
    var database: String?
    @Option(
        help: ArgumentHelp("The most to read in a second, of the log and of blobs.", valueName: "bytes"))
    var bytesPerSecond: UInt32?
    @Option(
        help: ArgumentHelp("The folder for temporary files, as large as all documents.", valueName: "dir"),
        transform: GivenText.of("--scratch"))
    var scratch: String?

    func validate() throws {
        guard bytesPerSecond != 0 else { throw ValidationError("--bytes-per-second must be at least 1") }
    }

    func run() async throws {
        let logger = Logger(label: "mimeo.verify")
        let resolved = try place.resolved()
        let projected = try ProjectionCheck(projection ?? resolved.sources.text("projection"), resolved.data)
        let blobs = try AttachmentPlace(
            folder: attachments, attachmentBucket, followsSettings: withAttachments, resolved)
        blobs.tell(logger, what: "not compared", remedy: "--with-attachments, or name them")
        let pace = bytesPerSecond.map(Int.init)
        var isWell = true
        try await resolved.with(name: "mimeo-verify", logger: logger) { log in
            try await blobs.compare(with: log, logger, what: "not compared")
            let all = try await log.databases()
            if let database, !all.contains(DatabaseID(database)) {
                throw OperationLogError(
                    .unknownDatabase, "the log has no such database", database: DatabaseID(database))
            }
            for id in all where database == nil || id.text == database {
                let digests = projected.digests(of: id, logger)
                let result = try await Progress.showing { progress in
                    try await LogVerifier(
                        log, scratch: scratch ?? NSTemporaryDirectory(), bytesPerSecond: pace,
                        logger: logger, progress: progress
                    ).verify(id, projected: digests)
                }
                isWell = isWell && result.findings.isEmpty
                LineWriter.standardOutput.write(Self.answer(result))
            }
        }
        if let folder = blobs.folder {
            isWell =
                try await verifyBlobs(folder) { progress in
                    BlobCheck(folder: folder, bytesPerSecond: pace, progress: progress)
                } && isWell
        }
        if let bucket = blobs.bucket {
            isWell =
                try await verifyBlobs(bucket.text) { progress in
                    BlobCheck(BucketAttachments(bucket), bytesPerSecond: pace, progress: progress)
                } && isWell
        }
        if !isWell { throw ExitCode(1) }
    }

    private static func answer(_ result: LogVerifier.Result) -> Value {
        [
            "database": .string(result.database.text), "well": .bool(result.findings.isEmpty),
            "head": .int(Int64(clamping: result.head.rawValue)),
            "truncated": .int(Int64(clamping: result.truncated.rawValue)),
            "snapshot": result.snapshot.map { .int(Int64(clamping: $0.rawValue)) } ?? .null,
            "snapshotCompared": .bool(result.comparesSnapshot),
            "projectionAt": result.projection.map { .int(Int64(clamping: $0.rawValue)) } ?? .null,
            "documents": result.digest.map { .int(Int64($0.documents)) } ?? .null,
            "digest": result.digest.map { .string($0.text) } ?? .null,
            "findings": .array(
                result.findings.map { ["code": .string($0.code), "message": .string($0.message)] }),
        ]
    }

    /// Reads the blobs of each database. Damaged ones are named and stay where they are.
    private func verifyBlobs(
        _ place: String, _ check: (_ progress: BackupProgress) -> BlobCheck
    ) async throws -> Bool {
        let report = try await Progress.showing { try await check($0).run(only: database) }
        LineWriter.standardOutput.write([
            "attachments": .string(place), "well": .bool(report.damaged.isEmpty),
            "count": .int(Int64(report.count)), "bytes": .int(report.bytes),
            "damaged": .array(report.damaged.map { .string($0) }),
        ])
        return report.damaged.isEmpty
    }
}

/// Reads projections for a comparison with the log.
struct ProjectionCheck {
    /// Nil for the folder that a server chooses.
    private let storage: StorageURL?
    private let data: String

    init(_ text: String?, _ data: String) throws(ServiceError) {
        storage = try text.map { text throws(ServiceError) in try StorageURL(text, flag: "projection") }
        self.data = data
    }

    /// The documents of a database in the projection; nil, with a notice, if they cannot be read now.
    func digests(of database: DatabaseID, _ logger: Logger) -> ProjectedDigests? {
        do {
            switch storage {
            case .postgres(let url): return try inPostgres(database, url)
            case .sqlite(let folder): return try Self.inFolder("\(folder)/\(database.text)", logger)
            case nil:
                // `mimeo serve` has one fold for all services, a query-service one of its own.
                return try Self.inFolder("\(data)/query/\(database.text)", logger)
                    ?? Self.inFolder("\(data)/replicator/\(database.text)", logger)
            }
        } catch {
            logger.notice(
                "the projection is not compared", metadata: ["database": "\(database)", "reason": "\(error)"])
            return nil
        }
    }

    private static func inFolder(_ folder: String, _ logger: Logger) throws -> ProjectedDigests? {
        try ProjectedDigests(folder: folder, logger: logger)
    }

    private func inPostgres(_ database: DatabaseID, _ url: String) throws -> ProjectedDigests? {
        var digests: [CollectionName: FoldDigest] = [:]
        let position = try ProjectionSnapshot.readAll(database, url: url) { row in
            digests[row.key.collection, default: FoldDigest()].add(
                SnapshotDocument(key: row.key, isLive: row.isLive, offset: 0, state: row.state))
        }
        return position.map { ProjectedDigests(position: $0, collections: digests) }
    }
}
