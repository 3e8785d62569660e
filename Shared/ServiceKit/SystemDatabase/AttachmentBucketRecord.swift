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
            for id in known.keys where id != bucket?.id {
                try writer.remove(id, AttachmentBucketRecord.self)
            }
            if let bucket { try writer.put(bucket) }
        }
    }
}

extension SystemDirectory {
    /// Reads the directory of a log as its servers do, for a tool that is none of them. Nothing is written
    /// into the log.
    /// - Returns: nil for a log without servers.
    public static func read(from log: any OperationLog, logger: Logger) async throws -> SystemDirectory? {
        guard try await log.databaseExists(SystemDatabase.id) else { return nil }
        let folder = "\(NSTemporaryDirectory())/mimeo-directory-\(UUID().uuidString)"
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
}
