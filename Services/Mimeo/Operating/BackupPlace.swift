import ArgumentParser
import AttachmentStore
import Backup
import Foundation
import Logging
import ServiceKit

/// The options that lead to a bucket, for places like `s3://BUCKET/PREFIX`.
struct BucketOptions: ParsableArguments {
    @Option(
        help: ArgumentHelp(
            "The service of s3://BUCKET. Default: https://s3.REGION.amazonaws.com.", valueName: "origin"),
        transform: GivenText.of("--endpoint"))
    var endpoint: String?
    @Option(help: ArgumentHelp("The bucket's region. Default: us-east-1.", valueName: "name"))
    var region: String?
    @Option(
        help: ArgumentHelp(
            "File with the bucket's credentials: the access key's id and the secret, each on a line.",
            valueName: "file"), transform: GivenText.of("--credentials"))
    var credentials: String?
}

/// A place of backups: a folder, or a bucket.
enum BackupPlace {
    case folder(String)
    /// A bucket, and the one backup in it that the text names.
    case bucket(BucketBackups, name: String?)

    private static let scheme = "s3://"

    /// - Parameters:
    ///   - scratch: the folder for temporary files of a bucket's backups; nil for the system's.
    ///   - progress: the watcher of work on a bucket's backups.
    /// - Throws: `CLI-0101` for an address of another form.
    init(
        _ text: String, _ options: BucketOptions, scratch: String?, logger: Logger,
        progress: BackupProgress = .unwatched
    ) throws {
        guard text.hasPrefix(Self.scheme) else {
            guard options.endpoint == nil, options.credentials == nil, options.region == nil else {
                throw MimeoError(
                    .usage, "--endpoint, --region and --credentials are for a place like s3://BUCKET/PREFIX")
            }
            self = .folder(text)
            return
        }
        guard let credentials = options.credentials else {
            throw MimeoError(.usage, "\(text) needs --credentials, a file with an access key's id and secret")
        }
        var parts = text.dropFirst(Self.scheme.count).split(separator: "/").map(String.init)
        let name = parts.last.flatMap { BackupFolder.isName($0) ? $0 : nil }
        if name != nil { parts.removeLast() }
        let origin = options.endpoint ?? "https://s3.\(options.region ?? "us-east-1").amazonaws.com"
        let end = origin.hasSuffix("/") ? "" : "/"
        let address: BucketAddress
        do {
            address = try BucketAddress(
                url: origin + end + parts.joined(separator: "/"), region: options.region,
                credentialsFile: credentials)
        } catch {
            throw MimeoError(
                .usage,
                "the place is like s3://BUCKET/PREFIX, with letters, digits, '.', '-' and '_' in its names; "
                    + "--endpoint is like https://HOST[:PORT], --region like eu-central-1")
        }
        self = .bucket(
            BucketBackups(
                BucketOfBackups(address), scratch: scratch ?? NSTemporaryDirectory(), logger: logger,
                progress: progress),
            name: name)
    }
}

/// A bucket as backups use it, with their codes.
struct BucketOfBackups: BackupBucket {
    private let files: BucketFiles

    init(_ address: BucketAddress) { files = BucketFiles(address) }

    func store(_ path: String, as key: String) async throws {
        try await coded { try await files.store(path, as: key) }
    }

    func read(_ key: String, _ body: (_ part: [UInt8]) throws -> Void) async throws -> Bool {
        try await coded { try await files.read(key, body) }
    }

    func remove(_ key: String) async throws { try await coded { try await files.remove(key) } }

    func forEach(_ prefix: String, _ body: (BackupObject) async throws -> Void) async throws {
        try await coded {
            try await files.forEach(prefix) { object in
                try await body(
                    BackupObject(
                        key: object.key, bytes: object.length, storedAtSeconds: object.storedAtSeconds))
            }
        }
    }

    private func coded<Result>(_ body: () async throws -> Result) async throws -> Result {
        do {
            return try await body()
        } catch let error as AttachmentStoreError {
            throw BackupError(.bucketUnusable, error.message)
        }
    }
}
