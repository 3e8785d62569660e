import ArgumentParser
import AttachmentStore
import Backup
import CRDT
import DQL
import Foundation
import Logging
import OperationLog
import ServiceKit

/// `mimeo restore`: puts a backup into a log.
struct RestoreCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "restore", abstract: "Restore a backup into an empty log, up to a time or offset.",
        discussion: """
            Everything that is needed is checked before anything is written, and the log shows the restored \
            databases all at once, under a new identity: peers and cursors notice. Stop the server first, \
            and start it afterwards as usual; Docs/backup.md says what peers then give back, and what an \
            operator has to confirm. --database with --as restores a copy beside the other databases, \
            also while the server runs. Prints a JSON object with the digest of each database's documents.
            """)

    @OptionGroup var place: LogPlace
    @Option(setting: "secretsKey") var secretsKey: String?
    @Argument(
        help: ArgumentHelp(
            "A folder of backups, or one backup in it; or s3://BUCKET/PREFIX[/BACKUP].", valueName: "place"),
        transform: GivenText.of("PLACE"))
    var path: String
    @OptionGroup var bucket: BucketOptions
    @Option(
        help: ArgumentHelp(
            "latest, a time (2026-11-26T08:30:00Z), or with --database an offset.", valueName: "point"))
    var to = "latest"
    @Option(
        help: ArgumentHelp("Restore this database only.", valueName: "id"),
        transform: GivenText.of("--database"))
    var database: String?
    @Option(
        name: .customLong("as"), help: ArgumentHelp("The database's new name.", valueName: "id"),
        transform: GivenText.of("--as"))
    var newName: String?
    @Flag(help: "Replace what is in the log. The server must be stopped.")
    var replace = false
    @Flag(help: "Check the backup and tell what would be restored; write nothing.")
    var dryRun = false
    @Option(
        help: ArgumentHelp("Put the blobs into this folder of an attachment-store.", valueName: "dir"),
        transform: GivenText.of("--attachments"))
    var attachments: String?
    @OptionGroup var attachmentBucket: AttachmentBucketFlags
    @Option(
        help: ArgumentHelp(
            "Put the sealing key back, opened with the passphrase in this file.", valueName: "file"),
        transform: GivenText.of("--passphrase-file"))
    var passphraseFile: String?
    @Option(
        help: ArgumentHelp(
            "The folder for temporary files; if missing that of backups, with a bucket the system's.",
            valueName: "dir"), transform: GivenText.of("--scratch"))
    var scratch: String?

    func validate() throws {
        guard newName == nil || database != nil else {
            throw ValidationError("--as renames one database: name it with --database")
        }
    }

    func run() async throws {
        let logger = Logger(label: "mimeo.restore")
        let resolved = try place.resolved()
        var options = Restorer.Options()
        options.point = try point()
        options.database = database.map { DatabaseID($0) }
        options.newName = newName.map { DatabaseID($0) }
        (options.replaces, options.isDry) = (replace, dryRun)
        options.attachments = attachments
        // The folder is made.
        let blobs = try AttachmentPlace(folder: nil, attachmentBucket, resolved)
        guard blobs.bucket == nil || attachments == nil else { throw AttachmentPlace.both }
        options.blobs = blobs.bucket.map { BucketAttachments($0) }
        if attachments == nil { blobs.tell(logger, what: "not put back") }
        if let passphraseFile {
            options.key = (resolved.secretsKey(secretsKey), try SealedKey.passphrase(file: passphraseFile))
        }
        let chosen = options
        let report = try await Progress.showing { progress in
            let place = try BackupPlace(path, bucket, scratch: scratch, logger: logger, progress: progress)
            let restore = { (log: (any RestorableLog)?) in
                switch place {
                case .folder(let path):
                    try await Restorer(path, chosen, scratch: scratch, logger: logger, progress: progress)
                        .restore(into: log)
                case .bucket(let backups, let name): try await backups.restore(name, chosen, into: log)
                }
            }
            guard !dryRun else { return try await restore(nil) }
            return try await resolved.with(creates: true, name: "mimeo-restore", logger: logger) { log in
                let entry = chosen.newName.map { RestoredEntry(name: $0, log: log, logger: logger) }
                try await entry?.check()
                let report = try await restore(log)
                try await entry?.make()
                return report
            }
        }
        LineWriter.standardOutput.write(answer(report))
    }

    private func point() throws -> RestorePoint {
        if to == "latest" { return .latest }
        if let number = UInt64(to) { return .offset(Offset(number)) }
        guard let time = RFC3339.read(to).flatMap({ UInt64(exactly: $0.milliseconds) }) else {
            throw MimeoError(
                .usage, "--to is latest, an offset, or a time like 2026-11-26T08:30:00Z, not '\(to)'")
        }
        return .time(time)
    }

    private func answer(_ report: Restorer.Report) -> Value {
        [
            "backup": .string(report.backup), "dryRun": .bool(dryRun),
            "databases": .array(
                report.databases.map {
                    [
                        "database": .string($0.database.text), "as": .string($0.name.text),
                        "offset": .int(Int64(clamping: $0.offset.rawValue)),
                        "time": .string(RFC3339.text(clamping: $0.time)),
                        "documents": $0.digest.map { .int(Int64($0.documents)) } ?? .null,
                        "digest": $0.digest.map { .string($0.text) } ?? .null,
                    ]
                }),
            "absent": .array(report.absent.map { .string($0.text) }),
            "attachments": [
                "written": .int(Int64(report.blobs.written)), "present": .int(Int64(report.blobs.present)),
                "missing": .array(report.missing.map { .string($0) }),
            ],
            "key": .bool(report.hasKey),
        ]
    }
}
