import Foundation
import Logging
import OperationLog

/// Backups in a bucket.
///
/// `backup-TIME/…` has the files of a backup, the same as in a folder, and `blobs/DATABASE/xx/ID` the blobs
/// of all backups, each once. A backup's `manifest.json` is stored last: without it nobody lists the backup,
/// and the next one removes what an interrupted one has left. The files of the log pass through a folder on
/// this machine; blobs do not.
public struct BucketBackups: Sendable {
    private let bucket: any BackupBucket
    private let scratch: String
    private let logger: Logger
    private let progress: BackupProgress

    /// Backups in this bucket.
    /// - Parameter scratch: a folder in which a hidden one is made for the time of each call.
    public init(
        _ bucket: any BackupBucket, scratch: String, logger: Logger, progress: BackupProgress = .unwatched
    ) {
        (self.bucket, self.scratch, self.logger, self.progress) = (bucket, scratch, logger, progress)
    }

    // MARK: Reading

    /// All backups, oldest first.
    /// - Throws: `BAK-0103`.
    public func list() async throws -> [BackupFolder.Listed] {
        try await inFolder { folder in
            for name in try await names().whole { try await bringManifest(name, to: folder) }
            return try folder.list()
        }
    }

    /// Checks a backup with all that it continues, as `BackupVerifier` does.
    /// - Parameter name: nil for the newest.
    /// - Returns: its name too.
    public func verify(_ name: String?) async throws -> (name: String, databases: [BackupVerifier.Verified]) {
        try await inFolder { folder in
            let whole = try await names().whole
            guard let name = name ?? whole.last, whole.contains(name) else { throw Self.unknown(name) }
            try await bringChain(name, to: folder)
            let verifier = BackupVerifier(folder, bucket: bucket, logger: logger, progress: progress)
            return (name, try await verifier.verify(name))
        }
    }

    /// Restores as `Restorer` does.
    /// - Parameter name: nil for the newest, or the first after the point.
    public func restore(
        _ name: String?, _ options: Restorer.Options, into log: (any RestorableLog)?
    ) async throws -> Restorer.Report {
        try await inFolder { folder in
            let whole = try await names().whole
            guard !whole.isEmpty, name.map(whole.contains) ?? true else { throw Self.unknown(name) }
            for name in whole { try await bringManifest(name, to: folder) }
            let path = name.map { "\(folder.path)/\($0)" } ?? folder.path
            let chosen = try Restorer(path, options, logger: logger).choose().1
            try await bringChain(chosen, to: folder)
            return try await Restorer(
                "\(folder.path)/\(chosen)", options, bucket: bucket, logger: logger, progress: progress
            ).restore(into: log)
        }
    }

    private static func unknown(_ name: String?) -> BackupError {
        BackupError(.unknownBackup, "the bucket has no backup\(name.map { " \($0)" } ?? "")")
    }

    // MARK: Writing

    /// Makes a backup.
    /// - Parameter onlyIfGrown: true to make none that continues another one and would be empty.
    /// - Throws: `BackupError`, the log's errors.
    public func make(
        _ log: any OperationLog, _ options: BackupMaker.Options, onlyIfGrown: Bool = false
    ) async throws -> Manifest? {
        try await changing { folder in
            let known = try await names()
            for key in known.leftOver { try await bucket.remove(key) }
            if let newest = known.whole.last {
                // A name that is there makes the new one later, whatever the clock says.
                try Folder.make("\(folder.path)/\(newest)")
            }
            if options.isIncremental { try await bringParent(of: known.whole, options, to: folder) }
            var options = options
            options.bucket = bucket
            let maker = BackupMaker(log, into: folder, options, logger: logger, progress: progress)
            guard let manifest = onlyIfGrown ? try await maker.makeIfGrown() : try await maker.make() else {
                return nil
            }
            let path = "\(folder.path)/\(manifest.name)"
            for name in manifest.files.map(\.name) + [Manifest.sumFile, Manifest.file] {
                try await bucket.store("\(path)/\(name)", as: "\(manifest.name)/\(name)")
            }
            return manifest
        }
    }

    /// Brings the newest backup that can be read, and if digests are taken the files that it needs.
    private func bringParent(
        of names: [String], _ options: BackupMaker.Options, to folder: BackupFolder
    ) async throws {
        for name in names.reversed() {
            try await bringManifest(name, to: folder)
            guard (try? folder.manifest(name)) != nil else { continue }
            if options.takesDigests { try await bringChain(name, to: folder) }
            return
        }
    }

    /// Removes old backups, newest first, and then the blobs that none has any more.
    /// - Returns: the names of those removed.
    public func prune(_ pruning: Pruning, isDry: Bool) async throws -> [String] {
        try await changing { folder in
            let known = try await names()
            for name in known.whole { try await bringManifest(name, to: folder) }
            let readable = try folder.list().compactMap { try? $0.content.get() }
            let removed = pruning.removed(from: readable).sorted().reversed()
            guard !isDry, !removed.isEmpty else { return Array(removed) }
            for name in removed {
                try await bucket.remove("\(name)/\(Manifest.file)")
                var rest: [String] = []
                try await bucket.forEach("\(name)/") { rest.append($0.key) }
                for key in rest { try await bucket.remove(key) }
            }
            try await removeBlobs(
                exceptOf: readable.filter { !removed.contains($0.name) },
                isComplete: readable.count == known.whole.count, folder)
            return Array(removed)
        }
    }

    /// - Parameter isComplete: false if a backup cannot be read: it may have any blob, and all stay.
    private func removeBlobs(exceptOf kept: [Manifest], isComplete: Bool, _ folder: BackupFolder) async throws
    {
        guard isComplete else {
            return logger.notice("a backup cannot be read, so no blob is removed")
        }
        var mentioned: Set<String> = []
        for manifest in kept {
            guard let blobs = manifest.attachments else { continue }
            try await bring(manifest.name, blobs.list.name, to: folder)
            try await BlobCopies.lines(of: blobs, in: "\(folder.path)/\(manifest.name)") {
                mentioned.insert($0.path)
            }
        }
        var surplus: [String] = []
        try await bucket.forEach(BackedBlobs.prefix) { object in
            if !mentioned.contains(String(object.key.dropFirst(BackedBlobs.prefix.count))) {
                surplus.append(object.key)
            }
        }
        for key in surplus { try await bucket.remove(key) }
    }

    // MARK: The folder on this machine

    private func inFolder<Result>(_ body: (BackupFolder) async throws -> Result) async throws -> Result {
        let name = BackupFolder.scratch + hexadecimal(UInt64.random(in: .min ... .max))
        let folder = BackupFolder("\(scratch)/\(name)")
        try Folder.make(folder.path)
        defer { try? Folder.remove(folder.path) }
        return try await body(folder)
    }

    private func changing<Result: Sendable>(
        _ body: @escaping @Sendable (BackupFolder) async throws -> Result
    ) async throws -> Result {
        try await inFolder { folder in
            try await BucketTurn(bucket: bucket, scratch: folder.path).hold { try await body(folder) }
        }
    }

    /// The names of backups, oldest first, and the objects of interrupted ones.
    private func names() async throws -> (whole: [String], leftOver: [String]) {
        var whole: Set<String> = []
        var objects: [(name: String, key: String)] = []
        try await bucket.forEach(BackupFolder.prefix) { object in
            let parts = object.key.split(separator: "/", maxSplits: 1).map(String.init)
            guard parts.count == 2, BackupFolder.isName(parts[0]) else { return }
            if parts[1] == Manifest.file { whole.insert(parts[0]) }
            objects.append((parts[0], object.key))
        }
        return (whole.sorted(), objects.filter { !whole.contains($0.name) }.map(\.key))
    }

    private func bringManifest(_ name: String, to folder: BackupFolder) async throws {
        for file in [Manifest.file, Manifest.sumFile] { try await bring(name, file, to: folder) }
    }

    /// Brings a backup and all that it continues. A file that is missing is found by whoever reads it.
    private func bringChain(_ name: String, to folder: BackupFolder) async throws {
        var next: String? = name
        var count = 0
        while let name = next, count < Limits.chainLength {
            count += 1
            try await bringManifest(name, to: folder)
            let manifest = try folder.manifest(name)
            for file in manifest.files { try await bring(name, file.name, to: folder) }
            next = manifest.parent?.name
            guard let parent = next, try await !hasManifest(parent) else { continue }
            throw BackupError(.chainBroken, "\(name) continues \(parent), which is missing")
        }
    }

    private func hasManifest(_ name: String) async throws -> Bool {
        var isThere = false
        try await bucket.forEach("\(name)/\(Manifest.file)") { _ in isThere = true }
        return isThere
    }

    /// Brings a file, unless it is here or the bucket lacks it.
    private func bring(_ name: String, _ file: String, to folder: BackupFolder) async throws {
        let target = "\(folder.path)/\(name)/\(file)"
        guard !Folder.exists(target) else { return }
        if !Folder.exists("\(folder.path)/\(name)") { try Folder.make("\(folder.path)/\(name)") }
        let output = try OutputFile(target)
        guard try await bucket.read("\(name)/\(file)", { try output.write($0) }) else {
            return try Folder.remove(target)
        }
        _ = try output.finish()
    }
}
