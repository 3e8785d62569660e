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
    private let writer: BlobWriter

    private init(_ writer: BlobWriter) { self.writer = writer }

    static func begin(in store: BlobStore) async throws -> Upload {
        try await BlobStore.onDisk { Upload(try store.writer()) }
    }

    func write(_ chunk: [UInt8]) async throws {
        guard !chunk.isEmpty else { return }
        try await BlobStore.onDisk { try self.writer.write(chunk) }
    }

    func finish() async throws -> BlobInfo {
        try await BlobStore.onDisk { try self.writer.finish() }
    }

    var length: Int64 { writer.length }
}
