import ArgumentParser
import AttachmentStore
import Backup
import CRDT
import DQL
import Foundation
import Logging
import OperationLog
import ServiceKit

/// `mimeo backup`: backups of a server's log, keys and attachments.
struct BackupCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "backup", abstract: "Back up a server's log, keys and attachments; list, verify, prune.",
        discussion: """
            A folder of backups has a folder for each; a place like s3://BUCKET/PREFIX is a bucket. `create` \
            works while the server runs; `mimeo restore` puts a backup back. Answers are JSON \
            on standard output. Docs/backup.md has the whole story.
            """,
        subcommands: [Create.self, Follow.self, List.self, Verify.self, Prune.self])

    /// The wishes that `create` and `follow` share.
    struct Source: ParsableArguments {
        @OptionGroup var place: LogPlace
        @Option(setting: "secretsKey") var secretsKey: String?
        @Option(
            help: ArgumentHelp(
                "The folder of backups, made if it is missing; or s3://BUCKET/PREFIX.", valueName: "place"),
            transform: GivenText.of("--to"))
        var to: String?
        @Argument(
            help: ArgumentHelp("The same as --to.", valueName: "place"), transform: GivenText.of("PLACE"))
        var target: String?
        @OptionGroup var bucket: BucketOptions
        @Option(
            help: ArgumentHelp(
                "Time for which the log keeps what comes after the backup, for the next incremental one.",
                valueName: "hours"))
        var holdHours: UInt32?
        @Option(
            help: ArgumentHelp(
                "With a bucket, the folder for the files on their way; the system's if missing.",
                valueName: "dir"), transform: GivenText.of("--scratch"))
        var scratch: String?
        @Option(
            help: ArgumentHelp("Back up this database of the log only.", valueName: "id"),
            transform: GivenText.of("--database"))
        var database: String?
        @Option(
            help: ArgumentHelp(
                "The attachment-store's folder. Without it, and without a bucket, blobs are left out.",
                valueName: "dir"), transform: GivenText.of("--attachments"))
        var attachments: String?
        @OptionGroup var attachmentBucket: AttachmentBucketFlags
        @Flag(help: AttachmentPlace.flagHelp)
        var withAttachments = false
        @Option(
            help: ArgumentHelp("Seal the sealing key with the passphrase in this file.", valueName: "file"),
            transform: GivenText.of("--passphrase-file"))
        var passphraseFile: String?

        func validate() throws {
            guard (to == nil) != (target == nil) else {
                throw ValidationError("name one place for the backups: PLACE, or --to PLACE")
            }
        }

        /// Makes a backup.
        /// - Parameter onlyIfGrown: true to make none that continues another one and would be empty.
        func make(
            _ options: BackupMaker.Options, _ resolved: LogPlace.Resolved, onlyIfGrown: Bool,
            holdHours: UInt32 = 0, logger: Logger, progress: BackupProgress = .unwatched
        ) async throws -> Manifest? {
            let to = to ?? target ?? ""
            let place = try BackupPlace(to, bucket, scratch: scratch, logger: logger, progress: progress)
            return try await resolved.with(name: "mimeo-backup", logger: logger) { log in
                let notes = BackupNotes(log: log, place: to, logger: logger)
                let began = ContinuousClock.now
                let sign = Task { await notes.running(isQuiet: onlyIfGrown) }
                // A sign after the end would be one of a backup that runs.
                func endSigns() async {
                    sign.cancel()
                    await sign.value
                }
                do {
                    let made = try await make(
                        options, log, place, onlyIfGrown: onlyIfGrown, logger: logger, progress: progress)
                    await endSigns()
                    guard let made else {
                        if .now - began >= Limits.backupSign { await notes.unneeded() }
                        return nil
                    }
                    await notes.made(made, in: .now - began, holdHours: self.holdHours ?? holdHours)
                    return made
                } catch {
                    await endSigns()
                    await notes.failed(error)
                    throw error
                }
            }
        }

        private func make(
            _ options: BackupMaker.Options, _ log: any OperationLog, _ place: BackupPlace, onlyIfGrown: Bool,
            logger: Logger, progress: BackupProgress
        ) async throws -> Manifest? {
            switch place {
            case .folder(let path):
                let maker = BackupMaker(
                    log, into: BackupFolder(path), options, logger: logger, progress: progress)
                return onlyIfGrown ? try await maker.makeIfGrown() : try await maker.make()
            case .bucket(let backups, let name):
                guard name == nil else { throw MimeoError(.usage, "--to names a backup, not their place") }
                return try await backups.make(log, options, onlyIfGrown: onlyIfGrown)
            }
        }

        /// Says which bucket of the servers on the log is left out, because nothing here names it.
        /// - Throws: `CLI-0101`.
        func compare(_ resolved: LogPlace.Resolved, _ logger: Logger) async throws {
            let blobs = try AttachmentPlace(
                folder: attachments, attachmentBucket, followsSettings: withAttachments, resolved)
            try await resolved.with(name: "mimeo-backup", logger: logger) { log in
                try await blobs.compare(with: log, logger, what: "left out")
            }
        }

        /// - Throws: `BAK-0501`, `CLI-0101`, `CLI-0401`, and as `LogPlace.resolved`.
        func options(_ resolved: LogPlace.Resolved, _ logger: Logger) throws -> BackupMaker.Options {
            var options = BackupMaker.Options()
            options.version = BuildVersion.text
            options.notes = BackupRecord.collection.name
            options.database = database.map { DatabaseID($0) }
            let blobs = try AttachmentPlace(
                folder: attachments, attachmentBucket, followsSettings: withAttachments, resolved)
            options.attachments = blobs.folder
            options.blobs = blobs.bucket.map { BucketAttachments($0) }
            blobs.tell(logger, what: "left out", remedy: "--with-attachments, or name them")
            if let passphraseFile {
                options.key = (
                    resolved.secretsKey(secretsKey), try SealedKey.passphrase(file: passphraseFile)
                )
            }
            return options
        }
    }

    /// `mimeo backup create`.
    struct Create: AsyncParsableCommand {
        static let configuration = CommandConfiguration(
            commandName: "create", abstract: "Back up while the server runs.",
            discussion: """
                Copies every database of the log up to its present end; with --attachments or \
                --attachment-bucket the blobs; with \
                --passphrase-file the key that seals the server's secrets. Then it folds the copy and notes \
                the documents' digest, which takes time in proportion to the log: --quick leaves that to \
                `verify`. --incremental copies what is new since the newest backup in the folder.
                """)

        @OptionGroup var source: Source
        @Flag(help: "Copy what is new since the newest backup. The first one is full.")
        var incremental = false
        @Flag(help: "Do not fold the copy for the documents' digest.")
        var quick = false

        func run() async throws {
            let logger = Logger(label: "mimeo.backup")
            let resolved = try source.place.resolved()
            var options = try source.options(resolved, logger)
            options.isIncremental = incremental
            options.takesDigests = !quick
            try await source.compare(resolved, logger)
            if options.key == nil {
                logger.warning(
                    "the sealing key is left out, and secrets are lost without it: --passphrase-file")
            }
            let wishes = options
            let made = try await Progress.showing { progress in
                try await source.make(
                    wishes, resolved, onlyIfGrown: false, logger: logger, progress: progress)
            }
            guard let manifest = made else { preconditionFailure("a backup that is always made is made") }
            for blob in manifest.attachments?.damaged ?? [] {
                logger.error("a blob is damaged in the store and left out", metadata: ["blob": "\(blob)"])
            }
            LineWriter.standardOutput.write(BackupAnswer.value(manifest))
        }
    }

    /// `mimeo backup follow`.
    struct Follow: AsyncParsableCommand {
        static let configuration = CommandConfiguration(
            commandName: "follow", abstract: "Make incremental backups whenever there is something new.",
            discussion: """
                Looks every --every seconds, and makes a quick incremental backup if the log has grown; a \
                full one every --full-hours, with digests. So a disaster costs what was written in one \
                interval. Ends with a signal. A backup that fails is logged and tried again. For two hours \
                after each (--hold-hours) the log keeps what comes after it.
                """)

        @OptionGroup var source: Source
        @Option(help: "Seconds between two looks.")
        var every: UInt32 = 60
        @Option(help: "Hours between two full backups.")
        var fullHours: UInt32 = 24

        func validate() throws {
            guard every > 0, fullHours > 0 else {
                throw ValidationError("--every and --full-hours must be at least 1")
            }
        }

        func run() async throws {
            let logger = Logger(label: "mimeo.backup")
            let resolved = try source.place.resolved()
            var options = try source.options(resolved, logger)
            var lastFull: ContinuousClock.Instant?
            while true {
                let period = Duration.seconds(Int64(fullHours) * 3_600)
                let isFull = lastFull.map { $0.duration(to: .now) >= period } ?? true
                (options.isIncremental, options.takesDigests) = (!isFull, isFull)
                do {
                    // Again with each full one: servers may have been given another bucket since.
                    if isFull { try await source.compare(resolved, logger) }
                    let made = try await source.make(
                        options, resolved, onlyIfGrown: true, holdHours: 2, logger: logger)
                    if isFull { lastFull = .now }
                    if let made { LineWriter.standardOutput.write(BackupAnswer.value(made)) }
                } catch let error as MimeoError {
                    throw error
                } catch {
                    logger.error("no backup was made; trying again", metadata: ["error": "\(error)"])
                }
                try await Task.sleep(for: .seconds(Int64(every)))
            }
        }
    }

    /// `mimeo backup list`.
    struct List: AsyncParsableCommand {
        static let configuration = CommandConfiguration(
            commandName: "list", abstract: "List the backups of a folder, oldest first.",
            discussion: "One JSON object a line. A backup that cannot be read has an error instead.")

        @Argument(
            help: ArgumentHelp("The folder of backups, or s3://BUCKET/PREFIX.", valueName: "place"),
            transform: GivenText.of("PLACE"))
        var folder: String
        @OptionGroup var bucket: BucketOptions

        func run() async throws {
            let logger = Logger(label: "mimeo.backup")
            let all: [BackupFolder.Listed]
            switch try BackupPlace(folder, bucket, scratch: nil, logger: logger) {
            case .folder(let path): all = try BackupFolder(path).list()
            case .bucket(let backups, _): all = try await backups.list()
            }
            for listed in all {
                switch listed.content {
                case .success(let manifest): LineWriter.standardOutput.write(BackupAnswer.value(manifest))
                case .failure(let error):
                    LineWriter.standardOutput.write(["backup": .string(listed.name), "error": error.value])
                }
            }
        }
    }

    /// `mimeo backup verify`.
    struct Verify: AsyncParsableCommand {
        static let configuration = CommandConfiguration(
            commandName: "verify", abstract: "Check that a backup, with all it continues, can be restored.",
            discussion: """
                Compares sizes and SHA-256 of all files, follows the chain of hashes, decodes and folds \
                everything, and compares the documents' digest with the manifest's. Needs room for all \
                documents in --scratch. Ends with exit code 1 at the first thing that is wrong. \
                With --data or --log the servers on that log show the result as a metric.
                """)

        @Argument(
            help: ArgumentHelp(
                "A folder of backups (its newest), or one backup in it; or s3://BUCKET/PREFIX[/BACKUP].",
                valueName: "place"), transform: GivenText.of("PLACE"))
        var path: String
        @OptionGroup var bucket: BucketOptions
        @OptionGroup var server: LogPlace
        @Option(
            help: ArgumentHelp(
                "The folder for temporary files; if missing that of backups, with a bucket the system's.",
                valueName: "dir"), transform: GivenText.of("--scratch"))
        var scratch: String?

        func run() async throws {
            let (name, results) = try await noting { try await Progress.showing { try await verified($0) } }
            LineWriter.standardOutput.write([
                "backup": .string(name), "verified": true,
                "databases": .array(
                    results.map {
                        [
                            "database": .string($0.database.text),
                            "through": .int(Int64(clamping: $0.through.rawValue)),
                            "documents": .int(Int64($0.digest.documents)), "digest": .string($0.digest.text),
                            "compared": .bool($0.isCompared),
                        ]
                    }),
            ])
        }

        /// Tells the servers, where the command line names their log.
        private func noting<Result>(_ body: () async throws -> Result) async throws -> Result {
            guard server.data != nil || server.log != nil || server.config != nil else {
                return try await body()
            }
            let logger = Logger(label: "mimeo.backup")
            return try await server.resolved().with(name: "mimeo-backup", logger: logger) { log in
                let notes = BackupNotes(log: log, place: path, logger: logger)
                do {
                    let result = try await body()
                    await notes.verified()
                    return result
                } catch {
                    await notes.failed(error)
                    throw error
                }
            }
        }

        private func verified(
            _ progress: BackupProgress
        ) async throws -> (name: String, databases: [BackupVerifier.Verified]) {
            let logger = Logger(label: "mimeo.backup")
            switch try BackupPlace(path, bucket, scratch: scratch, logger: logger, progress: progress) {
            case .folder(let path):
                let (folder, given) = try BackupFolder.find(path)
                guard let name = try given ?? folder.list().last?.name else {
                    throw BackupError(.unknownBackup, "\(path) has no backup")
                }
                let verifier = BackupVerifier(
                    folder, scratch: scratch, logger: logger, progress: progress)
                return (name, try await verifier.verify(name))
            case .bucket(let backups, let name): return try await backups.verify(name)
            }
        }
    }

    /// `mimeo backup prune`.
    struct Prune: AsyncParsableCommand {
        static let configuration = CommandConfiguration(
            commandName: "prune", abstract: "Remove old backups, never one that a kept one continues.",
            discussion: """
                Keeps the newest backup, the newest --keep-last, and the newest of each of --keep-daily days \
                and --keep-weekly weeks that have one, by UTC. Backups that cannot be read are left alone.
                """)

        @Argument(
            help: ArgumentHelp("The folder of backups, or s3://BUCKET/PREFIX.", valueName: "place"),
            transform: GivenText.of("PLACE"))
        var folder: String
        @OptionGroup var bucket: BucketOptions
        @Option(help: "Backups that stay whatever their days.")
        var keepLast = 1
        @Option(help: "Days of which the newest backup stays.")
        var keepDaily = 0
        @Option(help: "Weeks of which the newest backup stays.")
        var keepWeekly = 0
        @Flag(help: "Only tell what would be removed.")
        var dryRun = false

        func validate() throws {
            guard keepLast >= 0, keepDaily >= 0, keepWeekly >= 0 else {
                throw ValidationError("--keep-last, --keep-daily and --keep-weekly must be 0 or more")
            }
        }

        func run() async throws {
            var pruning = Pruning()
            (pruning.keptLast, pruning.keptDays, pruning.keptWeeks) = (keepLast, keepDaily, keepWeekly)
            let logger = Logger(label: "mimeo.backup")
            let removed: [String]
            switch try BackupPlace(folder, bucket, scratch: nil, logger: logger) {
            case .folder(let path): removed = try pruning.run(in: BackupFolder(path), isDry: dryRun)
            case .bucket(let backups, _): removed = try await backups.prune(pruning, isDry: dryRun)
            }
            LineWriter.standardOutput.write([
                "removed": .array(removed.map { .string($0) }), "dryRun": .bool(dryRun),
            ])
        }
    }
}

extension BackupError {
    /// Code and message as commands print them.
    var value: Value { ["code": .string(code.rawValue), "message": .string(message)] }
}

/// A manifest as commands print it.
enum BackupAnswer {
    static func value(_ manifest: Manifest) -> Value {
        var answer = ObjectValue([
            (key: "backup", value: .string(manifest.name)),
            (key: "kind", value: .string(manifest.parent == nil ? "full" : "incremental")),
            (key: "continues", value: manifest.parent.map { .string($0.name) } ?? .null),
            (key: "createdAt", value: .string(RFC3339.text(clamping: manifest.createdAt))),
            (key: "bytes", value: .int(manifest.bytes)),
        ])
        answer["databases"] = .array(manifest.databases.map(value))
        answer["attachments"] =
            manifest.attachments.map { blobs in
                [
                    "count": .int(Int64(blobs.count)), "bytes": .int(blobs.bytes),
                    "damaged": .array(blobs.damaged.map { .string($0) }),
                ]
            } ?? .null
        answer["key"] = .bool(manifest.key != nil)
        let leftOut = [manifest.attachments == nil ? "attachments" : nil, manifest.key == nil ? "key" : nil]
        answer["leftOut"] = .array(leftOut.compactMap { $0.map { .string($0) } })
        return .object(answer)
    }

    private static func value(_ part: Manifest.Part) -> Value {
        [
            "database": .string(part.database), "base": .string(part.base.rawValue),
            "from": .int(Int64(clamping: part.from)), "through": .int(Int64(clamping: part.through)),
            "time": .string(RFC3339.text(clamping: part.throughTime)),
            "documents": part.documents.map { .int(Int64($0)) } ?? .null,
            "digest": part.digest.map { .string($0) } ?? .null,
        ]
    }
}
