import CRDT

/// Every code this module raises; the raw value is stable and published.
public enum BackupErrorCode: String, Sendable, CaseIterable {
    /// The folder of backups, or a folder that is copied, cannot be read or written; also a full disk.
    case folderUnusable = "BAK-0101"
    /// Another process makes or removes backups in the folder or bucket.
    case folderBusy = "BAK-0102"
    /// The bucket of backups does not answer, or refuses the credentials. The message has its answer.
    case bucketUnusable = "BAK-0103"
    /// The folder has no such backup, or none at all.
    case unknownBackup = "BAK-0201"
    /// A file of a backup is missing, cut or altered, or the manifest is. The message has its name.
    case damaged = "BAK-0202"
    /// The backup was written by a newer version. It was left unchanged.
    case newerFormat = "BAK-0203"
    /// An incremental backup lacks the one that it continues, or does not continue it.
    case chainBroken = "BAK-0204"
    /// The documents that follow from a backup are not those that its manifest names.
    case digestDiffers = "BAK-0205"
    /// The log was truncated faster than it could be copied. Back up again, or keep more of the log.
    case overtaken = "BAK-0301"
    /// The log to restore into has databases, and `--replace` was not given.
    case targetNotEmpty = "BAK-0401"
    /// Another process has the log open. Stop the server first.
    case targetInUse = "BAK-0402"
    /// The backups do not reach to the wanted offset or time.
    case pointUnreachable = "BAK-0403"
    /// The backup has no such database.
    case unknownDatabase = "BAK-0404"
    /// The log refused an operation of the backup, or shows other documents than the backup.
    case restoreFailed = "BAK-0405"
    /// A move had begun a copy that the other log has neither shown nor kept. Find the log that shows the
    /// database; if none does, `--cancel --lost` opens the former one.
    case moveLost = "BAK-0406"
    /// The passphrase does not open the key, is too short, or is missing.
    case passphraseWrong = "BAK-0501"
    /// A key file cannot be read, or one is already where the key should go.
    case keyUnusable = "BAK-0502"
}

/// An error of backups and restores. It holds no secret and no document.
public struct BackupError: Error, Hashable, Sendable, CustomStringConvertible {
    /// The stable code.
    public let code: BackupErrorCode
    /// For a person: what, where, and what to do.
    public let message: String

    /// An error of this code.
    public init(_ code: BackupErrorCode, _ message: String) {
        (self.code, self.message) = (code, message)
    }

    /// `BAK-0202: message`.
    public var description: String { "\(code.rawValue): \(message)" }

    static func damaged(_ file: String, _ reason: String) -> BackupError {
        BackupError(.damaged, "\(file) \(reason); restore the backup's files, or use another backup")
    }
}
