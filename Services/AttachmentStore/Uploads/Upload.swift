import Attachments
import Machine

extension BlobStore {
    /// Runs blocking disk calls on its own threads: an fsync of a large file takes seconds, and the
    /// cooperative pool has only one thread per core.
    private static let disk = BlockingExecutor(label: "attachments.disk", isSerial: false)

    /// Runs `work` on these threads. Throws the blob store's errors as answers (`BlobFailure`).
    static func onDisk<Result: Sendable>(
        _ work: @escaping @Sendable () throws -> Result
    ) async throws -> Result {
        try await disk.run { try BlobFailure.from(work) }
    }
}

/// An upload in flight. Safe although unchecked: one request owns it and awaits each call before the next.
final class Upload: @unchecked Sendable {
    private let place: any BlobPlace
    private var writer: BlobWriter?
    private(set) var length: Int64 = 0

    private init(_ place: any BlobPlace, _ writer: BlobWriter) {
        (self.place, self.writer) = (place, writer)
    }

    static func begin(in place: any BlobPlace) async throws -> Upload {
        try await BlobStore.onDisk { Upload(place, try place.arrivals.writer()) }
    }

    func write(_ chunk: [UInt8]) async throws {
        guard !chunk.isEmpty else { return }
        try await BlobStore.onDisk {
            try self.writer?.write(chunk)
            self.length += Int64(chunk.count)
        }
    }

    /// Stores the blob. It is durable, and its file is gone, when this returns.
    func finish() async throws -> BlobInfo {
        let (info, path) = try await BlobStore.onDisk {
            guard let writer = self.writer else { preconditionFailure("an upload is finished once") }
            return (try writer.seal(), writer.path)
        }
        try await place.adopt(info, path)
        try await BlobStore.onDisk { self.writer = nil }
        return info
    }
}
