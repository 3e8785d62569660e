import ArgumentParser
import AttachmentStore
import Backup
import Logging
import ServiceKit

/// The place of a server's attachments, for commands that read or fill it without the server.
///
/// A folder or a bucket counts only where a flag names it: a bucket may hold more than anybody wants to copy.
/// One that the server's own settings name is told, so that nobody takes a backup without it for a whole one.
struct AttachmentPlace {
    /// Nil where no flag names a bucket.
    let bucket: BucketAddress?
    /// The bucket of the server's settings that no flag names.
    let leftOut: BucketAddress?

    /// - Throws: `SRV-0104`; `CLI-0101` for a folder and a bucket.
    init(folder: String?, _ flags: AttachmentBucketFlags, _ resolved: LogPlace.Resolved) throws {
        let address = try flags.address { flag, name in flag ?? resolved.sources.text(name) }
        let isNamed = flags.attachmentBucket != nil
        guard !isNamed || folder == nil else {
            throw MimeoError(
                .usage, "--attachments names a folder and --attachment-bucket a bucket: give one of them")
        }
        bucket = isNamed ? address : nil
        leftOut = isNamed ? nil : address
    }

    /// Says which attachments a command leaves alone.
    func tell(_ logger: Logger, _ folder: String?, what: String) {
        if let leftOut {
            logger.warning(
                "the server's attachments are in a bucket and are \(what); give --attachment-bucket",
                metadata: ["bucket": "\(leftOut.text)"])
        } else if bucket == nil, folder == nil {
            logger.notice("attachments are \(what); give --attachments or --attachment-bucket")
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
