import Foundation

/// Compares the blobs of an attachment-store's folder with their names, beside a running store.
public struct BlobCheck {
    private let folder: String
    private let bytesPerSecond: Int?

    /// The result.
    public struct Report: Sendable {
        /// The number of blobs read.
        public var count = 0
        /// Their size.
        public var bytes: Int64 = 0
        /// Blobs whose content is another, at most a hundred.
        public var damaged: [String] = []
    }

    /// - Parameter bytesPerSecond: the most to read; nil reads as fast as it can.
    public init(folder: String, bytesPerSecond: Int? = nil) {
        (self.folder, self.bytesPerSecond) = (folder, bytesPerSecond)
    }

    /// Reads all blobs, or those of one database.
    /// - Throws: `BAK-0101`.
    public func run(only: String? = nil) throws(BackupError) -> Report {
        var report = Report()
        let start = ContinuousClock.now
        for database in try Folder.names(folder) where only == nil || database == only {
            try BlobCopies.forEach(in: "\(folder)/\(database)") { path, id throws(BackupError) in
                guard let input = try? InputFile("\(folder)/\(database)/\(path)") else { return }
                while let part = try input.read() {
                    report.bytes += Int64(part.count)
                    guard let bytesPerSecond else { continue }
                    let due = start + .milliseconds(report.bytes * 1_000 / Int64(max(1, bytesPerSecond)))
                    let wait = ContinuousClock.now.duration(to: due)
                    if wait > .zero { Thread.sleep(forTimeInterval: wait / .seconds(1)) }
                }
                report.count += 1
                guard BlobCopies.id(input.digestText) != id, report.damaged.count < Limits.namedBlobs else {
                    return
                }
                report.damaged.append("\(database)/\(id)")
            }
        }
        return report
    }
}
