import CRDT
import Foundation
import Logging
import OperationLog

/// Restores backups into a log.
///
/// Everything that is needed is read and checked first. Then the databases are written as drafts, read back
/// and folded, and get their names all at once. A restore that is interrupted leaves a log as it was, but for
/// blobs, which are named after their content.
public struct Restorer: Sendable {
    /// The wishes of one restore.
    public struct Options: Sendable {
        /// The point to restore to.
        public var point = RestorePoint.latest
        /// The only database to restore; nil restores all.
        public var database: DatabaseID?
        /// The name that it gets; nil keeps its own.
        public var newName: DatabaseID?
        /// True to replace databases that are in the log.
        public var replaces = false
        /// True to check and tell, and to write nothing.
        public var isDry = false
        /// The attachment-store's folder; nil leaves blobs out.
        public var attachments: String?
        /// Another place for blobs, instead of a folder.
        public var blobs: (any BlobTarget)?
        /// The file for the sealing key, and the passphrase; nil leaves it out.
        public var key: (path: String, passphrase: String)?

        /// The latest state of everything.
        public init() {}
    }

    /// One restored database.
    public struct Restored: Sendable, Equatable {
        /// Its name in the backup.
        public let database: DatabaseID
        /// Its name in the log.
        public let name: DatabaseID
        /// The offset of its last operation.
        public let offset: Offset
        /// The greatest time of an operation, in milliseconds since 1970.
        public let time: UInt64
        /// The documents that the log has now; nil for a dry run.
        public let digest: FoldDigest?
    }

    /// The result of a restore.
    public struct Report: Sendable {
        /// The backup's name.
        public var backup = ""
        /// The databases.
        public var databases: [Restored] = []
        /// Databases of the backup that did not exist at that time.
        public var absent: [DatabaseID] = []
        /// The number of blobs that were written, and of those that were there.
        public var blobs = (written: 0, present: 0)
        /// Blobs that the backup lists and lacks, at most a hundred.
        public var missing: [String] = []
        /// True if the sealing key was written.
        public var hasKey = false
    }

    private let path: String
    private let options: Options
    private let scratch: String?
    private let bucket: (any BackupBucket)?
    private let logger: Logger
    private let progress: BackupProgress

    /// A restore from a folder of backups, or from one backup in it.
    /// - Parameter scratch: the folder for temporary files; nil for the folder of backups.
    public init(
        _ path: String, _ options: Options, scratch: String? = nil, logger: Logger,
        progress: BackupProgress = .unwatched
    ) {
        self.init(path, options, scratch: scratch, bucket: nil, logger: logger, progress: progress)
    }

    /// - Parameter bucket: the place of the blobs; nil for the backup's folder.
    init(
        _ path: String, _ options: Options, scratch: String? = nil, bucket: (any BackupBucket)?,
        logger: Logger, progress: BackupProgress
    ) {
        (self.path, self.options, self.scratch, self.logger) = (path, options, scratch, logger)
        (self.bucket, self.progress) = (bucket, progress)
    }

    /// Restores.
    /// - Parameter log: nil for a dry run that looks at the backup alone.
    /// - Throws: `BackupError`, the log's errors.
    public func restore(into log: (any RestorableLog)?) async throws -> Report {
        let (folder, name) = try choose()
        let chain = try folder.chain(to: name).map {
            ChainedBackup(manifest: $0, path: "\(folder.path)/\($0.name)")
        }
        var report = Report(backup: name)
        let plans = try plans(chain, &report)
        guard let log, !options.isDry else {
            if let last = chain.last { try await BackupVerifier.checkRest(of: last, in: bucket) }
            report.databases = plans.map {
                Restored(
                    database: $0.database, name: self.name(of: $0), offset: $0.through, time: $0.time,
                    digest: nil)
            }
            return report
        }
        let (scratch, begun) = (scratch ?? folder.path, report)
        return try await log.makingDrafts { try await write(plans, chain, into: log, scratch, begun) }
    }

    private func write(
        _ plans: [RestorePlan], _ chain: [ChainedBackup], into log: any RestorableLog, _ scratch: String,
        _ begun: Report
    ) async throws -> Report {
        var report = begun
        let replaced = try await checkTarget(log, plans)
        try await log.discardDrafts()
        do {
            var drafts: [DatabaseID] = []
            for plan in plans {
                let draft = try await DatabaseRestore(
                    log: log, plan: plan, name: self.name(of: plan), progress: progress
                ).run()
                drafts.append(draft)
                report.databases.append(try await check(log, draft, plan, scratch))
            }
            if let last = chain.last {
                try await restoreBlobs(last, &report)
                try await restoreBlobs(last, through: scratch, &report)
                try restoreKey(last, &report)
            }
            try await log.publish(drafts, replacing: replaced)
        } catch {
            try? await log.discardDrafts()
            throw error
        }
        return report
    }

    /// The backup: the one that is named, the first that was made after a time, or the newest.
    func choose() throws(BackupError) -> (BackupFolder, String) {
        let (folder, name) = try BackupFolder.find(path)
        if let name { return (folder, name) }
        let all = try folder.list()
        guard let newest = all.last else {
            throw BackupError(.unknownBackup, "\(path) has no backup")
        }
        guard case .time(let time) = options.point else { return (folder, newest.name) }
        let found = all.first { (try? $0.content.get())?.createdAt ?? 0 >= time }
        return (folder, (found ?? newest).name)
    }

    private func plans(_ chain: [ChainedBackup], _ report: inout Report) throws -> [RestorePlan] {
        guard let last = chain.last?.manifest else { preconditionFailure("a chain has an end") }
        if case .offset = options.point, options.database == nil {
            throw BackupError(.pointUnreachable, "an offset is one database's: name it with --database")
        }
        let wanted = last.databases.map(\.id).filter { options.database == nil || $0 == options.database }
        guard !wanted.isEmpty else {
            let name = options.database.map { "database \($0)" } ?? "databases"
            throw BackupError(.unknownDatabase, "the backup \(last.name) has no \(name)")
        }
        var plans: [RestorePlan] = []
        for database in wanted {
            if let plan = try RestorePlan.make(database, in: chain, to: options.point) {
                plans.append(plan)
            } else {
                report.absent.append(database)
            }
        }
        guard !plans.isEmpty else {
            throw BackupError(.pointUnreachable, "nothing in the backup is as old as that time")
        }
        return plans
    }

    private func name(of plan: RestorePlan) -> DatabaseID { options.newName ?? plan.database }

    /// - Returns: the databases to replace.
    private func checkTarget(
        _ log: any RestorableLog, _ plans: [RestorePlan]
    ) async throws -> [DatabaseID] {
        let present = try await log.databases()
        let names = plans.map { name(of: $0) }
        let inTheWay = options.database == nil ? present : present.filter { names.contains($0) }
        guard !inTheWay.isEmpty else { return [] }
        guard options.replaces else {
            throw BackupError(
                .targetNotEmpty,
                "the log has the databases \(inTheWay.map(\.text).joined(separator: ", ")); restore into an "
                    + "empty log, or stop the server and give --replace")
        }
        guard try await !isUsed(log) else {
            throw BackupError(.targetInUse, "another process has the log open; stop the server first")
        }
        return inTheWay
    }

    /// Returns whether another process uses the log. PostgreSQL has the connections of a process that has
    /// just ended for a moment more.
    private func isUsed(_ log: any RestorableLog) async throws -> Bool {
        let end = ContinuousClock.now + Limits.leavingPatience
        while try await log.hasOtherUsers() {
            guard ContinuousClock.now < end else { return true }
            try await Task.sleep(for: Limits.leavingPause)
        }
        return false
    }

    /// Reads a draft back and folds it.
    private func check(
        _ log: any RestorableLog, _ draft: DatabaseID, _ plan: RestorePlan, _ scratch: String
    ) async throws -> Restored {
        let fold = try BackupFold(scratchIn: scratch, logger: logger, progress: progress)
        defer { fold.close() }
        let head = try await log.head(of: draft)
        guard head.offset == plan.through else {
            throw BackupError(.restoreFailed, "the log ends at \(head.offset), not at \(plan.through)")
        }
        var offset: Offset = 0
        if let snapshot = try await log.snapshot(of: draft) {
            try await log.readSnapshot(snapshot, of: draft) { try fold.load($0) }
            offset = snapshot.position.offset
        }
        while offset < head.offset {
            let entries = try await log.read(draft, after: offset)
            for entry in entries { try fold.take(entry, head.logID) }
            offset = entries.last?.offset ?? head.offset
            progress.tell("checking \(name(of: plan))", offset.rawValue, of: head.offset.rawValue)
        }
        try fold.fold()
        let digest = try fold.digest()
        guard plan.knownDigest.map({ $0 == digest.text }) ?? true else {
            throw BackupError(
                .digestDiffers,
                "the restored documents of database \(plan.database) are not those of the backup")
        }
        return Restored(
            database: plan.database, name: name(of: plan), offset: plan.through, time: plan.time,
            digest: digest)
    }

    private func restoreBlobs(_ link: ChainedBackup, _ report: inout Report) async throws {
        guard let target = options.attachments, let blobs = link.manifest.attachments else { return }
        let store = BackedBlobs(folder: link.path, bucket: bucket)
        try await BlobCopies.lines(of: blobs, in: link.path) { line in
            guard options.database == nil || line.database == options.database?.text else { return }
            let database = options.newName?.text ?? line.database
            let shelf = "\(target)/\(database)/\(line.id.prefix(2))"
            guard !Folder.exists("\(shelf)/\(line.id)") else { return report.blobs.present += 1 }
            let isNew = !Folder.exists(shelf)
            try Folder.make(shelf)
            let arriving = "\(shelf)/.restoring"
            if Folder.exists(arriving) { try Folder.remove(arriving) }
            guard let id = try await store.copy(line, to: arriving) else {
                if isNew { try Folder.remove(shelf) }
                if report.missing.count < Limits.namedBlobs { report.missing.append(line.path) }
                return
            }
            guard id == line.id else {
                try Folder.remove(arriving)
                throw BackupError.damaged("the blob \(line.path) of \(link.path)", "is altered")
            }
            try Folder.rename(arriving, to: "\(shelf)/\(line.id)")
            try Folder.sync(shelf)
            report.blobs.written += 1
        }
    }

    /// Puts the blobs into a place that is no folder, each through a file.
    private func restoreBlobs(_ link: ChainedBackup, through folder: String, _ report: inout Report)
        async throws
    {
        guard let target = options.blobs, let blobs = link.manifest.attachments else { return }
        let store = BackedBlobs(folder: link.path, bucket: bucket)
        let passing = "\(folder)/.restoring"
        defer { try? Folder.remove(passing) }
        try await BlobCopies.lines(of: blobs, in: link.path) { line in
            guard options.database == nil || line.database == options.database?.text else { return }
            let database = options.newName?.text ?? line.database
            guard try await !target.holds(line.id, of: database) else { return report.blobs.present += 1 }
            if Folder.exists(passing) { try Folder.remove(passing) }
            guard let id = try await store.copy(line, to: passing) else {
                if report.missing.count < Limits.namedBlobs { report.missing.append(line.path) }
                return
            }
            guard id == line.id else {
                throw BackupError.damaged("the blob \(line.path) of \(link.path)", "is altered")
            }
            try await target.store(passing, as: line.id, of: database)
            report.blobs.written += 1
        }
    }

    private func restoreKey(_ link: ChainedBackup, _ report: inout Report) throws {
        guard let key = options.key else { return }
        guard let file = link.manifest.key else {
            throw BackupError(.keyUnusable, "the backup \(link.manifest.name) has no sealing key")
        }
        try SealedKey.open(file, in: link.path, passphrase: key.passphrase, to: key.path)
        report.hasKey = true
    }
}
