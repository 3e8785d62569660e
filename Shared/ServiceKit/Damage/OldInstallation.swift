import Foundation

/// Folders of services that followed a log before: copies of documents, and attachments.
///
/// A log that is empty, or missing, beside them is not the log that they belong to: a wrong `--log`, a disk
/// that is not mounted, a file that was removed. A service that began a new log there would answer as if
/// nothing had ever been stored. `--new-log` says that this is meant.
public struct OldInstallation: Sendable, Equatable {
    /// The log, for a person; without a password.
    let log: String
    /// Folders with content, below the data folder.
    let folders: [String]

    /// The error of a service that was about to begin a new log.
    public var refusal: ServiceError {
        ServiceError(
            .logMissing,
            "\(log) is empty or missing, but \(folders.joined(separator: ", ")) followed a log before: "
                + "check --log and its disk, restore the log from a backup, or begin a new one with --new-log"
        )
    }

    /// The content of a data folder; nil if no service has stored anything there.
    public init?(log: String, dataFolder: String) {
        self.log = log
        folders = Self.names.map { "\(dataFolder)/\($0)" }.filter { Self.hasContent($0) }
        guard !folders.isEmpty else { return nil }
    }

    private static let names = [
        "system", "audit", "replicator", "query", "attachment-documents", "attachments",
    ]

    /// Returns whether a copy or an attachment lies in the folder or in a folder of a database in it.
    private static func hasContent(_ folder: String) -> Bool {
        let manager = FileManager.default
        func size(_ path: String) -> Int {
            ((try? manager.attributesOfItem(atPath: path))?[.size] as? Int) ?? 0
        }
        func names(_ path: String) -> [String] { (try? manager.contentsOfDirectory(atPath: path)) ?? [] }
        if size("\(folder)/replica.sqlite") > 0 { return true }
        return names(folder).contains { name in
            let inner = "\(folder)/\(name)"
            if size("\(inner)/replica.sqlite") > 0 { return true }
            // A shelf of attachments has two characters.
            return names(inner).contains { $0.utf8.count == 2 && !names("\(inner)/\($0)").isEmpty }
        }
    }
}
