import CRDT
import Foundation
import Logging
import OperationLog

/// Checks that a backup, with all that it continues, can be restored: sizes and digests of all files, the
/// chain of hashes, that everything decodes and folds, and that the documents are those of the manifest.
public struct BackupVerifier: Sendable {
    private let folder: BackupFolder
    private let scratch: String
    private let bucket: (any BackupBucket)?
    private let logger: Logger
    private let progress: BackupProgress

    /// The result for one database.
    public struct Verified: Sendable {
        /// The database.
        public let database: DatabaseID
        /// The offset of its last operation.
        public let through: Offset
        /// Its documents there.
        public let digest: FoldDigest
        /// True if the manifest has a digest to compare with.
        public let isCompared: Bool
    }

    /// - Parameter scratch: the folder for temporary files; they may be as large as all documents.
    public init(
        _ folder: BackupFolder, scratch: String? = nil, logger: Logger, progress: BackupProgress = .unwatched
    ) {
        self.init(folder, scratch: scratch, bucket: nil, logger: logger, progress: progress)
    }

    /// - Parameter bucket: the place of the blobs; nil for the folder.
    init(
        _ folder: BackupFolder, scratch: String? = nil, bucket: (any BackupBucket)?, logger: Logger,
        progress: BackupProgress
    ) {
        (self.folder, self.scratch, self.logger) = (folder, scratch ?? folder.path, logger)
        (self.bucket, self.progress) = (bucket, progress)
    }

    /// Checks one backup and its chain.
    /// - Parameter whenDone: called after each database.
    /// - Throws: `BAK-0201` to `BAK-0205` with the first thing that is wrong.
    public func verify(
        _ name: String, whenDone: (Verified) -> Void = { _ in }
    ) async throws -> [Verified] {
        let chain = try folder.chain(to: name).map {
            ChainedBackup(manifest: $0, path: "\(folder.path)/\($0.name)")
        }
        for link in chain { try await Self.checkRest(of: link, in: bucket) }
        var names: [DatabaseID] = []
        for part in chain.flatMap(\.manifest.databases) where !names.contains(part.id) {
            names.append(part.id)
        }
        var results: [Verified] = []
        for database in names {
            for run in try Runs(of: database, in: chain).all {
                let result = try verify(run, database)
                whenDone(result)
                results.append(result)
            }
        }
        return results
    }

    private func verify(_ run: Run, _ database: DatabaseID) throws -> Verified {
        let fold = try BackupFold(scratchIn: scratch, logger: logger, progress: progress)
        defer { fold.close() }
        var isCompared = false
        try fold.read(run) { piece in
            guard let known = piece.part.digest else { return }
            let digest = try fold.digest()
            guard digest.text == known else {
                throw BackupError(
                    .digestDiffers,
                    "the documents of database \(database) in \(piece.backup) have the digest "
                        + "\(digest.text), and the manifest names \(known)")
            }
            isCompared = true
        }
        return Verified(
            database: database, through: Offset(run.last.through), digest: try fold.digest(),
            isCompared: isCompared)
    }

    /// The files that no fold reads: blobs and the sealed key.
    static func checkRest(of link: ChainedBackup, in bucket: (any BackupBucket)?) async throws {
        if let key = link.manifest.key {
            let path = "\(link.path)/\(key.name)"
            let file = try InputFile(path)
            while try file.read() != nil {}
            guard file.digestText == key.sha256 else { throw BackupError.damaged(path, "is altered") }
        }
        guard let blobs = link.manifest.attachments else { return }
        let store = BackedBlobs(folder: link.path, bucket: bucket)
        try await BlobCopies.lines(of: blobs, in: link.path) { try await store.check($0) }
    }
}
