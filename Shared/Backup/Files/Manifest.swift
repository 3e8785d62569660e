import CRDT
import Crypto
import Foundation
import OperationLog

/// The content of one backup: `manifest.json`, whose own digest is in `manifest.sha256`.
public struct Manifest: Codable, Sendable, Equatable {
    /// The format that this build writes.
    public static let currentFormat = 1

    /// The format of the whole backup.
    public var format: Int
    /// Random; an incremental backup names its parent's.
    public var id: String
    /// The folder's name, by the time at which the backup began.
    public var name: String
    /// The backup that this one continues; nil for a full one.
    public var parent: Parent?
    /// Milliseconds since 1970, at the beginning.
    public var createdAt: UInt64
    /// The version that wrote it.
    public var version: String
    /// One part per database, the system database last.
    public var databases: [Part]
    /// The blobs; nil if they were left out.
    public var attachments: Blobs?
    /// The sealing key under a passphrase; nil if it was left out.
    public var key: FileRecord?

    /// The earlier backup of a chain.
    public struct Parent: Codable, Sendable, Equatable {
        /// Its folder's name.
        public var name: String
        /// Its id.
        public var id: String
    }

    /// The blobs of a backup.
    public struct Blobs: Codable, Sendable, Equatable {
        /// The file that lists them: a line each with database, id and size.
        public var list: FileRecord
        /// Their number.
        public var count: Int
        /// Their size together.
        public var bytes: Int64
        /// Blobs that were damaged in the store and could not be copied, at most a hundred.
        public var damaged: [String]
    }

    /// A part of one database's log.
    public struct Part: Codable, Sendable, Equatable {
        /// The database.
        public var database: String
        /// The identity of its log, in hexadecimal digits.
        public var logID: String
        /// The kind of its beginning.
        public var base: Base
        /// The offset before its first operation: of the snapshot, or of the earlier part's end.
        public var from: UInt64
        /// The chain hash there.
        public var fromHash: String
        /// The greatest time before it, in milliseconds since 1970; 0 at a log's beginning.
        public var fromTime: UInt64
        /// The offset of its last operation.
        public var through: UInt64
        /// The chain hash there.
        public var hash: String
        /// The greatest time of an operation up to there, in milliseconds since 1970.
        public var throughTime: UInt64
        /// The digest of the documents there; nil for a quick backup.
        public var digest: String?
        /// The number of documents there, without deleted ones.
        public var documents: Int?
        /// Its data files: the snapshot if there is one, then the operations.
        public var files: [FileRecord]
    }

    /// The beginnings of parts.
    public enum Base: String, Codable, Sendable {
        /// The log's first operation.
        case beginning
        /// The log's snapshot.
        case snapshot
        /// The end of the same database's part in the parent.
        case parent
    }

    /// The part of a database; nil if there is none.
    func part(of database: DatabaseID) -> Part? { databases.first { $0.database == database.text } }

    /// All files but the manifest's own and the blobs.
    var files: [FileRecord] {
        databases.flatMap(\.files) + [attachments?.list, key].compactMap { $0 }
    }

    /// The size of the files of the log and the list of blobs.
    public var bytes: Int64 { files.reduce(0) { $0 + $1.bytes } }
}

extension Manifest {
    static let file = "manifest.json"
    static let sumFile = "manifest.sha256"

    /// Writes it into a backup's folder, durably.
    func write(to folder: String) throws(BackupError) {
        let encoder = JSONEncoder()
        encoder.outputFormatting = [.prettyPrinted, .sortedKeys, .withoutEscapingSlashes]
        guard let content = try? encoder.encode(self) else { preconditionFailure("a manifest is encodable") }
        let sum = hexadecimal(Array(SHA256.hash(data: content)))
        try Folder.write([UInt8](content), to: "\(folder)/\(Self.file)")
        try Folder.write(Array("\(sum)\n".utf8), to: "\(folder)/\(Self.sumFile)")
    }

    private struct Format: Decodable { var format: Int }

    /// Reads it from a backup's folder.
    /// - Throws: `BAK-0202`, `BAK-0203`.
    init(folder: String) throws(BackupError) {
        let path = "\(folder)/\(Self.file)"
        let content = try Folder.read(path, limit: Limits.manifestBytes)
        let sum = String(
            decoding: try Folder.read("\(folder)/\(Self.sumFile)", limit: 1_024), as: UTF8.self)
        guard sum == hexadecimal(Array(SHA256.hash(data: content))) + "\n" else {
            throw .damaged(path, "does not have the digest in \(Self.sumFile)")
        }
        let decoder = JSONDecoder()
        guard let format = try? decoder.decode(Format.self, from: Data(content)) else {
            throw .damaged(path, "is no manifest")
        }
        guard format.format <= Self.currentFormat else {
            throw BackupError(
                .newerFormat,
                "\(path) has format \(format.format); this build reads formats up to \(Self.currentFormat)")
        }
        guard let manifest = try? decoder.decode(Manifest.self, from: Data(content)) else {
            throw .damaged(path, "is no manifest")
        }
        self = manifest
    }
}

extension Manifest.Part {
    var id: DatabaseID { DatabaseID(database) }

    /// The position before its first operation.
    func start() throws(BackupError) -> LogPosition { try position(from, fromHash) }

    /// The position after its last operation.
    func end() throws(BackupError) -> LogPosition { try position(through, hash) }

    private func position(_ offset: UInt64, _ hash: String) throws(BackupError) -> LogPosition {
        guard let number = UInt64(hash, radix: 16), hash.utf8.count == 16,
            let id = bytes(hexadecimal: logID).flatMap({ LogID(bytes: $0) })
        else { throw .damaged("the manifest's part of database \(database)", "is malformed") }
        return LogPosition(logID: id, offset: Offset(offset), hash: number)
    }
}
