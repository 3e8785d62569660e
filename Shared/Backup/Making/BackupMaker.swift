import CRDT
import Foundation
import Logging
import Machine
import OperationLog

/// Makes a backup of a log that is in use.
///
/// Steps: fix each database's end, the system database's last; copy the log up to there; copy the blobs, so
/// that every attachment that the copy names is there; seal the key; fold what was copied and note the
/// digest; write the manifest; give the folder its name. Until the last step nobody lists it.
public struct BackupMaker: Sendable {
    /// The wishes of one backup.
    public struct Options: Sendable {
        /// True to continue the newest backup of the folder. Without one a full backup is made.
        public var isIncremental = false
        /// The only database to copy; nil copies all.
        public var database: DatabaseID?
        /// The attachment-store's folder; nil leaves blobs out.
        public var attachments: String?
        /// Another place of blobs, instead of a folder.
        public var blobs: (any BlobOrigin)?
        /// The sealing key's file and the passphrase to seal it with; nil leaves it out.
        public var key: (path: String, passphrase: String)?
        /// The rounds that make a key of the passphrase.
        var keyRounds = Limits.keyRounds
        /// False to spare the fold that computes the documents' digests.
        public var takesDigests = true
        /// The bucket that has the blobs, each once; nil puts them into the backup's folder.
        var bucket: (any BackupBucket)?
        /// The collection of the system database whose changes are no reason for a backup: notes of backups.
        public var notes: CollectionName?
        /// The version to note.
        public var version = ""

        /// A full backup of everything in the log.
        public init() {}
    }

    private let log: any OperationLog
    private let folder: BackupFolder
    private let options: Options
    private let logger: Logger
    private let progress: BackupProgress
    /// Called with the name of each step as it begins; tests end a process in one.
    private let reached: @Sendable (_ step: String) -> Void

    /// A maker for one backup.
    public init(
        _ log: any OperationLog, into folder: BackupFolder, _ options: Options, logger: Logger,
        progress: BackupProgress = .unwatched,
        reached: @escaping @Sendable (_ step: String) -> Void = { _ in }
    ) {
        (self.log, self.folder, self.options, self.logger) = (log, folder, options, logger)
        (self.progress, self.reached) = (progress, reached)
    }

    /// The system database, which is copied last.
    static let systemDatabase: DatabaseID = "mimeo.system"

    /// Makes the backup.
    /// - Throws: `BackupError`, the log's errors. Nothing is left but a hidden folder, if anything.
    public func make() async throws -> Manifest {
        let lock = try folder.lock()
        defer { withExtendedLifetime(lock) {} }
        let now = SystemClock.milliseconds()
        let parent = options.isIncremental ? try folder.newest() : nil
        let name = try folder.newName(at: now)
        let making = "\(folder.path)/\(BackupFolder.making)\(name)"
        try Folder.make(making)
        do {
            var manifest = Manifest(
                format: Manifest.currentFormat, id: hexadecimal(UInt64.random(in: .min ... .max)), name: name,
                parent: parent.map { .init(name: $0.name, id: $0.id) }, createdAt: now,
                version: options.version, databases: [])
            reached("begun")
            try await copyLog(into: making, &manifest, parent)
            reached("log")
            if let source = options.blobs ?? options.attachments.map({ BlobFolder(folder: $0) }) {
                let copies = BlobCopies(
                    source: source, folder: making, parent: parent.map { "\(folder.path)/\($0.name)" },
                    bucket: options.bucket, progress: progress)
                manifest.attachments = try await copies.copy()
                reached("attachments")
            }
            if let key = options.key {
                manifest.key = try SealedKey.seal(
                    key.path, passphrase: key.passphrase, rounds: options.keyRounds, into: making)
                reached("key")
            }
            if options.takesDigests {
                try takeDigests(&manifest, making)
                reached("digests")
            }
            try manifest.write(to: making)
            reached("manifest")
            try folder.publish(manifest)
            reached("published")
            return manifest
        } catch {
            // The next backup removes a folder that cannot be removed now.
            try? Folder.remove(making)
            throw error
        }
    }

    /// Makes the backup unless it would continue one and nothing was written since.
    public func makeIfGrown() async throws -> Manifest? {
        guard options.isIncremental, let parent = try? folder.newest() else { return try await make() }
        for database in try await log.databases() {
            guard let part = parent.part(of: database) else { return try await make() }
            if try await log.head(of: database) == part.end() { continue }
            guard try await hasOnlyNotes(database, after: part.end()) else { return try await make() }
        }
        return nil
    }

    /// Returns whether nothing but notes of backups was written after a place.
    private func hasOnlyNotes(_ database: DatabaseID, after place: LogPosition) async throws -> Bool {
        guard let notes = options.notes, database == Self.systemDatabase,
            try await log.position(at: place.offset, in: database) == place,
            try await log.truncation(of: database).offset <= place.offset
        else { return false }
        let head = try await log.head(of: database)
        let entries = try await log.read(database, after: place.offset)
        // More than a page of notes is a reason too.
        guard entries.last?.offset == head.offset else { return false }
        return try entries.allSatisfy { entry in
            try CRDT.Operation(decoding: entry.bytes).changes.allSatisfy { $0.collection == notes }
        }
    }

    private func copyLog(
        into making: String, _ manifest: inout Manifest, _ parent: Manifest?
    ) async throws {
        let all = try await log.databases()
        if let only = options.database, !all.contains(only) {
            throw OperationLogError(.unknownDatabase, "the log has no such database", database: only)
        }
        let wanted = all.filter { options.database == nil || $0 == options.database }
        var ends: [(DatabaseID, LogPosition)] = []
        let system = Self.systemDatabase
        for database in wanted.filter({ $0 != system }) + wanted.filter({ $0 == system }) {
            do {
                ends.append((database, try await log.head(of: database)))
            } catch let error as OperationLogError where error.code == .unknownDatabase {
                continue
            }
        }
        for (database, end) in ends {
            let copy = DatabaseCopy(
                log: log, database: database, folder: making, progress: progress)
            let part = try await copy.part(through: end, continuing: parent?.part(of: database))
            if let part { manifest.databases.append(part) }
            reached("database")
        }
    }

    /// Folds the chain that ends with this backup, one database at a time.
    private func takeDigests(_ manifest: inout Manifest, _ making: String) throws {
        let earlier = try manifest.parent.map { try folder.chain(to: $0.name) } ?? []
        var chain = earlier.map { ChainedBackup(manifest: $0, path: "\(folder.path)/\($0.name)") }
        chain.append(ChainedBackup(manifest: manifest, path: making))
        for place in manifest.databases.indices {
            let database = manifest.databases[place].id
            guard let run = try Runs(of: database, in: chain).all.last else { continue }
            let fold = try BackupFold(scratchIn: folder.path, logger: logger, progress: progress)
            defer { fold.close() }
            try fold.read(run)
            let digest = try fold.digest()
            manifest.databases[place].digest = digest.text
            manifest.databases[place].documents = digest.documents
        }
    }
}
