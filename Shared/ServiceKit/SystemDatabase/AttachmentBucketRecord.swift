import CRDT
import Foundation
import Logging
import OperationLog
import Replica

/// The bucket in which the servers on a log keep attachments, as the attachment-store that started last has
/// noted it: for tools whose own settings do not name it. Without credentials.
public struct AttachmentBucketRecord: SystemRecord, Equatable {
    /// See `SystemRecord`.
    public static let collection = SystemCollectionName.attachmentBuckets
    /// `http(s)://HOST[:PORT]/BUCKET[/PREFIX]`.
    public var id: String
    /// The region that requests are signed for.
    public var region: String

    /// A bucket of these facts.
    public init(id: String, region: String) { (self.id, self.region) = (id, region) }
}

extension SystemDatabase {
    /// Notes the place of attachments; writes nothing if it is noted already.
    /// - Parameter bucket: nil for folders.
    public func note(attachments bucket: AttachmentBucketRecord?) async throws {
        let known = directory.attachmentBuckets
        guard known != bucket.map({ [$0.id: $0] }) ?? [:] else { return }
        try await write { writer in
            // Whatever the log has by now: another store may have started at the same moment.
            try writer.removeAll(but: bucket?.id, AttachmentBucketRecord.self)
            if let bucket { try writer.put(bucket) }
        }
    }
}

extension SystemDirectory {
    private static let copyPrefix = "mimeo-directory-"

    /// Reads the directory of a log as its servers do, for a tool that is none of them. Nothing is written
    /// into the log.
    /// - Parameter temporary: the folder in which the system database is folded for the time of the call.
    /// - Returns: nil for a log without servers.
    public static func read(
        from log: any OperationLog, in temporary: String = NSTemporaryDirectory(), logger: Logger
    ) async throws -> SystemDirectory? {
        guard try await log.databaseExists(SystemDatabase.id) else { return nil }
        removeOldCopies(in: temporary)
        let folder = "\(temporary)/\(copyPrefix)\(UUID().uuidString)"
        defer { try? FileManager.default.removeItem(atPath: folder) }
        try FileManager.default.createDirectory(
            atPath: folder, withIntermediateDirectories: true, attributes: [.posixPermissions: 0o700])
        let opened = try await Materializer.open(
            SystemDatabase.id, log: log, folder: "\(folder)/system", logger: logger)
        do {
            try await opened.advance()
            let replica = opened.replica
            let directory = try await opened.executor.run { try replica.read { try SystemDirectory($0) } }
            await opened.close()
            return directory
        } catch {
            await opened.close()
            throw error
        }
    }

    /// Returns whether an error of `read` means that the log is damaged in its system database.
    public static func isDamage(_ error: any Error) -> Bool {
        switch error {
        case let error as OperationLogError: error.code == .corrupt || error.code == .corruptSnapshot
        case let error as ReplicaError: error.code == .brokenLog
        default: false
        }
    }

    /// Removes what reads of this user have left that were interrupted.
    private static func removeOldCopies(in temporary: String) {
        let manager = FileManager.default
        let end = Date(timeIntervalSinceNow: -Double(Limits.directoryCopySeconds))
        for name in (try? manager.contentsOfDirectory(atPath: temporary)) ?? []
        where name.hasPrefix(copyPrefix) {
            let path = "\(temporary)/\(name)"
            var facts = stat()
            guard lstat(path, &facts) == 0, facts.st_uid == geteuid(),
                let changed = (try? manager.attributesOfItem(atPath: path))?[.modificationDate] as? Date,
                changed < end
            else { continue }
            try? manager.removeItem(atPath: path)
        }
    }
}
