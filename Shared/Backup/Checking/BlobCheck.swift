import Foundation

/// Compares the blobs of a place with their names, beside a running store. Damaged ones stay where they are.
public struct BlobCheck {
    private let origin: any BlobOrigin
    private let bytesPerSecond: Int?
    private let progress: BackupProgress

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
    public init(folder: String, bytesPerSecond: Int? = nil, progress: BackupProgress = .unwatched) {
        self.init(BlobFolder(folder: folder), bytesPerSecond: bytesPerSecond, progress: progress)
    }

    /// A check of any place.
    public init(
        _ origin: any BlobOrigin, bytesPerSecond: Int? = nil, progress: BackupProgress = .unwatched
    ) {
        (self.origin, self.bytesPerSecond, self.progress) = (origin, bytesPerSecond, progress)
    }

    /// Reads all blobs, or those of one database.
    /// - Throws: `BAK-0101`, and the place's errors.
    public func run(only: String? = nil) async throws -> Report {
        var report = Report()
        let start = ContinuousClock.now
        for database in try await origin.databases() where only == nil || database == only {
            let shelves = try await origin.shelves(of: database)
            for (index, shelf) in shelves.enumerated() {
                progress.tell("attachments of \(database)", UInt64(index), of: UInt64(shelves.count))
                for id in try await origin.ids(on: shelf, of: database) {
                    var digest = FileDigest()
                    let before = report.bytes
                    let isThere = try await origin.read(id, of: database) { part in
                        digest.update(part)
                        report.bytes += Int64(part.count)
                        if let bytesPerSecond { Self.keepPace(start, report.bytes, bytesPerSecond) }
                    }
                    guard isThere else {
                        report.bytes = before
                        continue
                    }
                    report.count += 1
                    guard BlobCopies.id(digest.text) != id, report.damaged.count < Limits.namedBlobs else {
                        continue
                    }
                    report.damaged.append("\(database)/\(id)")
                }
            }
        }
        return report
    }

    private static func keepPace(_ start: ContinuousClock.Instant, _ bytes: Int64, _ most: Int) {
        let due = start + .milliseconds(bytes * 1_000 / Int64(max(1, most)))
        let wait = ContinuousClock.now.duration(to: due)
        if wait > .zero { Thread.sleep(forTimeInterval: wait / .seconds(1)) }
    }
}
