import Attachments
import Dispatch

/// Runs blocking disk calls on its own threads: an fsync of a large file takes seconds, and the cooperative
/// pool has only one thread per core.
enum DiskThread {
    private static let queue = DispatchQueue(label: "attachments.disk", attributes: .concurrent)

    static func run<Result: Sendable>(_ work: @escaping @Sendable () throws -> Result) async throws -> Result
    {
        try await withCheckedThrowingContinuation { continuation in
            queue.async {
                do {
                    continuation.resume(returning: try work())
                } catch let error as AttachmentError {
                    continuation.resume(throwing: BlobFailure(error: error))
                } catch {
                    continuation.resume(throwing: error)
                }
            }
        }
    }
}

/// An upload in flight. Safe although unchecked: one request owns it and awaits each call before the next.
final class Upload: @unchecked Sendable {
    private let writer: BlobWriter

    private init(_ writer: BlobWriter) { self.writer = writer }

    static func begin(in store: BlobStore) async throws -> Upload {
        try await DiskThread.run { Upload(try store.writer()) }
    }

    func write(_ chunk: [UInt8]) async throws {
        guard !chunk.isEmpty else { return }
        try await DiskThread.run { try self.writer.write(chunk) }
    }

    func finish() async throws -> BlobInfo {
        try await DiskThread.run { try self.writer.finish() }
    }

    var length: Int64 { writer.length }
}
