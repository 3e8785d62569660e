import Attachments
import ServiceKit

/// Where the uploads of one database arrive, and where they go when they are whole.
struct UploadShelf: Sendable {
    let uploads: PartialUploads
    /// Throws while an upload of so many further bytes is not accepted.
    let admit: @Sendable (Int64) async throws -> Void
    /// Throws if a whole upload has no room beside the attachments.
    let admitWhole: @Sendable (Int64) async throws -> Void
    /// Throws while the disk is nearly full.
    let requireRoom: @Sendable () throws -> Void
    /// Stores a file under its id, durably.
    let adopt: @Sendable (BlobInfo, String) async throws -> Void

    func open(_ name: UploadName) async throws -> Upload.Partial {
        try await BlobStore.onDisk { Upload.Partial(try uploads.open(name)) }
    }

    /// Makes a blob of a whole upload.
    func finish(_ session: Upload.Partial, _ name: UploadName) async throws {
        do {
            let (info, path) = try await session.prepare()
            try await admitWhole(info.length)
            try await adopt(info, path)
            try await session.finished()
        } catch let failure as BlobFailure where failure.error.code == .digestMismatch {
            // It can never become what the client announced.
            try await session.release()
            try await BlobStore.onDisk { try uploads.remove(name) }
            throw failure
        }
    }
}

extension Upload {
    /// An open upload in pieces. Safe although unchecked: one request owns it and awaits each call.
    final class Partial: @unchecked Sendable {
        private var session: UploadSession?

        init(_ session: UploadSession) { self.session = session }

        /// Offset, facts and time, once they are durable.
        struct Status: Sendable {
            var offset: Int64
            var record: UploadRecord
            var isFinished: Bool
            var changedAtSeconds: Int64
        }

        private func onDisk<Result: Sendable>(
            _ body: @escaping @Sendable (UploadSession) throws -> Result
        ) async throws -> Result {
            try await BlobStore.onDisk {
                guard let session = self.session else { throw AttachmentError.unknownUpload }
                return try body(session)
            }
        }

        var isWhole: Bool { get async { session?.isWhole ?? false } }

        func confirmed() async throws -> Status {
            try await onDisk { session in
                try session.confirm()
                return Status(
                    offset: session.offset, record: session.record, isFinished: session.isFinished,
                    changedAtSeconds: session.changedAtSeconds)
            }
        }

        func setLength(_ length: Int64, _ maximumBytes: Int64) async throws {
            try await onDisk { try $0.setLength(length, maximumBytes: maximumBytes) }
        }

        /// - Parameter announced: the bytes that the client wants to send; nil if it does not say.
        func begin(at offset: Int64, announced: Int64?, waitsForChecksum: Bool) async throws {
            try await onDisk { session in
                if let announced, let length = session.record.length, !session.isFinished,
                    announced > max(0, length - session.offset), offset == session.offset
                {
                    throw AttachmentError(.tooLarge, "more bytes are announced than the upload may have")
                }
                try session.begin(at: offset, waitsForChecksum: waitsForChecksum)
            }
        }

        func write(_ chunk: [UInt8], _ maximumBytes: Int64) async throws {
            guard !chunk.isEmpty else { return }
            try await onDisk { try $0.write(chunk, maximumBytes: maximumBytes) }
        }

        func confirm() async throws { try await onDisk { try $0.confirm() } }

        func rollBack() async throws { try await onDisk { try $0.rollBack() } }

        func prepare() async throws -> (BlobInfo, String) {
            try await onDisk { (try $0.prepare(), $0.path) }
        }

        func finished() async throws { try await onDisk { $0.finished() } }

        /// Gives up the lock.
        func release() async throws { try await BlobStore.onDisk { self.session = nil } }
    }
}
