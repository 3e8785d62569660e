import ArgumentParser
import AttachmentStore
import Backup
import Foundation
import Logging
import OperationLog
import ServiceKit

/// The place of a server's attachments, for commands that read or fill it without the server.
///
/// A folder or a bucket counts only where a flag names it, or says that the server's settings do
/// (`--with-attachments`): a bucket may hold more than anybody wants to copy. One that only the settings name
/// is told, so that nobody takes a backup without it for a whole one.
struct AttachmentPlace {
    /// Nil where the attachments are left out, or in a bucket.
    let folder: String?
    /// Nil where the attachments are left out, or in a folder.
    let bucket: BucketAddress?
    /// The bucket of the server's settings that no flag names.
    let leftOut: BucketAddress?
    private let followsSettings: Bool

    /// The help of `--with-attachments`.
    static let flagHelp: ArgumentHelp =
        "Take the attachments from where the server's settings (--config, MIMEO_…) have them."

    /// - Parameter followsSettings: true to take the bucket of the server's settings, or else the data
    ///   folder's attachments, where no flag names another place.
    /// - Throws: `SRV-0104`; `CLI-0101` for a folder and a bucket, `CLI-0401` for a folder that is missing.
    init(
        folder: String?, _ flags: AttachmentBucketFlags, followsSettings: Bool = false,
        _ resolved: LogPlace.Resolved
    ) throws {
        let address = try flags.address { flag, name in flag ?? resolved.sources.text(name) }
        let isNamed = flags.attachmentBucket != nil
        guard !isNamed || folder == nil else { throw Self.both }
        bucket = isNamed || followsSettings && folder == nil ? address : nil
        self.folder = folder ?? (followsSettings && bucket == nil ? "\(resolved.data)/attachments" : nil)
        leftOut = bucket == nil ? address : nil
        self.followsSettings = followsSettings && folder == nil && !isNamed
        // Before the data folder's, a bucket that the servers have noted counts.
        if !self.followsSettings { try requireFolder() }
    }

    private func requireFolder() throws {
        if let folder, !FileManager.default.fileExists(atPath: folder) {
            throw MimeoError(.fileUnreadable, "there is no folder of attachments \(folder)")
        }
    }

    /// Compares with the bucket that the servers on a log have noted: it may be named by flags of another
    /// process only.
    /// - Parameter what: what happens to attachments that are not named.
    /// - Throws: `CLI-0101` where the settings were to be followed, and do not name that bucket; `CLI-0401`
    ///   for a folder that is missing. The errors of the log and of the temporary folder: then nobody knows.
    func compare(
        with log: any OperationLog, _ logger: Logger, what: String,
        temporary: String = NSTemporaryDirectory()
    ) async throws {
        let named = bucket ?? leftOut
        for noted in try await Self.noted(in: log, logger, temporary) where noted != named?.text {
            guard !followsSettings || named != nil else {
                throw MimeoError(
                    .usage,
                    "the servers keep attachments in the bucket \(noted), which these settings do not name: "
                        + "give --attachment-bucket and --attachment-bucket-credentials")
            }
            logger.warning(
                "the servers keep attachments in a bucket that is \(what); --attachment-bucket names it",
                metadata: ["bucket": "\(noted)"])
        }
        try requireFolder()
    }

    /// The buckets that the servers on a log have noted; none if the log is damaged there, which the command
    /// itself finds and tells.
    private static func noted(
        in log: any OperationLog, _ logger: Logger, _ temporary: String
    ) async throws -> [String] {
        do {
            let directory = try await SystemDirectory.read(from: log, in: temporary, logger: logger)
            return directory?.attachmentBuckets.keys.sorted() ?? []
        } catch let error where SystemDirectory.isDamage(error) {
            logger.warning(
                "whether the servers use another bucket cannot be read", metadata: ["error": "\(error)"])
            return []
        }
    }

    static let both = MimeoError(
        .usage, "--attachments names a folder and --attachment-bucket a bucket: give one of them")

    /// Says which attachments a command leaves alone.
    /// - Parameter remedy: the flags that name them.
    func tell(_ logger: Logger, what: String, remedy: String = "--attachments or --attachment-bucket") {
        if let leftOut {
            logger.warning(
                "the server's attachments are in a bucket and are \(what); give \(remedy)",
                metadata: ["bucket": "\(leftOut.text)"])
        } else if bucket == nil, folder == nil {
            logger.notice("attachments are \(what); give \(remedy)")
        }
    }
}

/// A bucket of attachments as backups use it, with their codes.
struct BucketAttachments: BlobOrigin, BlobTarget {
    private let blobs: BucketBlobs

    init(_ address: BucketAddress) { blobs = BucketBlobs(address) }

    func databases() async throws -> [String] { try await coded { try await blobs.databases() } }

    func shelves(of database: String) async throws -> [String] {
        try await coded { try await blobs.shelves(of: database) }
    }

    func ids(on shelf: String, of database: String) async throws -> [String] {
        try await coded { try await blobs.ids(on: shelf, of: database) }
    }

    func holds(_ id: String, of database: String) async throws -> Bool {
        try await coded { try await blobs.holds(id, of: database) }
    }

    func read(
        _ id: String, of database: String, _ body: (_ part: [UInt8]) throws -> Void
    ) async throws -> Bool {
        try await coded { try await blobs.read(id, of: database, body) }
    }

    func store(_ path: String, as id: String, of database: String) async throws {
        try await coded { try await blobs.store(path, as: id, of: database) }
    }

    private func coded<Result>(_ body: () async throws -> Result) async throws -> Result {
        do {
            return try await body()
        } catch let error as AttachmentStoreError {
            throw BackupError(.bucketUnusable, error.message)
        }
    }
}
