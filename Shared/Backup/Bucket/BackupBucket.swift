/// A bucket of a service that speaks S3, as backups use it. Keys count from the prefix that was given.
///
/// Every call is repeated within bounds, and throws `BAK-0103` when that does not help. An object appears
/// whole or not at all, and a listing has everything that was stored before it.
public protocol BackupBucket: Sendable {
    /// Stores a file as an object.
    func store(_ path: String, as key: String) async throws

    /// Reads an object from its beginning to its end.
    /// - Returns: false if there is none.
    func read(_ key: String, _ body: (_ part: [UInt8]) throws -> Void) async throws -> Bool

    /// Removes an object; one that is not there counts as removed.
    func remove(_ key: String) async throws

    /// Visits the objects of a prefix in the order of their keys.
    func forEach(_ prefix: String, _ body: (BackupObject) async throws -> Void) async throws
}

/// An object in a listing.
public struct BackupObject: Sendable, Equatable {
    /// Without the prefix that was given for the bucket.
    public var key: String
    /// Its size.
    public var bytes: Int64
    /// The bucket's time of its storing, in seconds since 1970.
    public var storedAtSeconds: Int64

    /// An object that was listed.
    public init(key: String, bytes: Int64, storedAtSeconds: Int64) {
        (self.key, self.bytes, self.storedAtSeconds) = (key, bytes, storedAtSeconds)
    }
}

/// The blobs of a backup: in its folder, or in the bucket that the folder was brought from.
struct BackedBlobs {
    let folder: String
    let bucket: (any BackupBucket)?

    /// The beginning of the keys of blobs. All backups of a bucket share them.
    static let prefix = "blobs/"

    /// Copies a blob durably.
    /// - Returns: the id by its content; nil if the backup lacks it.
    func copy(_ line: BlobCopies.Line, to target: String) async throws -> String? {
        guard let bucket else {
            let source = "\(folder)/\(BlobCopies.folderName)/\(line.path)"
            guard Folder.exists(source) else { return nil }
            return try BlobCopies.copy(source, to: target).id
        }
        let output = try OutputFile(target)
        guard try await bucket.read(Self.prefix + line.path, { try output.write($0) }) else {
            try Folder.remove(target)
            return nil
        }
        return BlobCopies.id(try output.finish())
    }

    /// Reads a blob and compares it with its name.
    /// - Throws: `BAK-0202`.
    func check(_ line: BlobCopies.Line) async throws {
        var digest = FileDigest()
        var isThere = true
        if let bucket {
            isThere = try await bucket.read(Self.prefix + line.path) { digest.update($0) }
        } else {
            let file = try InputFile("\(folder)/\(BlobCopies.folderName)/\(line.path)")
            while let part = try file.read() { digest.update(part) }
        }
        let path = "\(bucket == nil ? folder + "/\(BlobCopies.folderName)" : "blobs")/\(line.path)"
        guard isThere else { throw BackupError.damaged(path, "is missing") }
        guard BlobCopies.id(digest.text) == line.id else { throw BackupError.damaged(path, "is altered") }
    }
}
