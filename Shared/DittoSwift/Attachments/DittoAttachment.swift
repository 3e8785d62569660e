import Attachments
import CRDT
import Foundation

/// A file that belongs to documents: a document holds its token, and this is the file on this device.
///
/// As a value in a statement's arguments it becomes its token, an ATTACHMENT.
public final class DittoAttachment: Hashable, Sendable {
    let token: AttachmentToken
    private let folder: AttachmentFolder

    init(_ token: AttachmentToken, _ folder: AttachmentFolder) {
        self.token = token
        self.folder = folder
        folder.hold(token.id)
    }

    deinit { folder.release(token.id) }

    /// The digest of its bytes: the same bytes have the same id everywhere.
    public var id: String { token.id }
    /// Its length in bytes.
    public var len: Int { Int(token.length) }
    /// The application's metadata for it.
    public var metadata: [String: String] {
        Dictionary(token.metadata.map { ($0.key, $0.value) }, uniquingKeysWith: { $1 })
    }

    /// All its bytes. Waits for the disk.
    /// - Throws: `storeError`: `.attachmentNotFound` when it is no longer on this device,
    ///   `.failedToFetchAttachment` when it cannot be read.
    public func data() throws -> Data {
        var data = Data()
        try forEachChunk { data.append(contentsOf: $0) }
        return data
    }

    /// The name of `data()` up to 4.x.
    public func getData() throws -> Data { try data() }

    /// Copies it to a file that does not exist yet. Waits for the disk. If it fails, no file is left.
    /// - Throws: `ioError`: `.alreadyExists`, `.notFound` for a directory that does not exist,
    ///   `.permissionDenied`, `.operationFailed`; and what `data()` throws.
    public func copy(toPath path: String) throws {
        do {
            // Exclusively: of two that copy to one path, one fails.
            let descriptor = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0o666)
            guard descriptor >= 0 else { throw Self.copyFailure(errno, path) }
            let handle = FileHandle(fileDescriptor: descriptor, closeOnDealloc: true)
            do {
                try forEachChunk { chunk in
                    do {
                        try handle.write(contentsOf: chunk)
                    } catch {
                        throw SDKError(
                            .attachmentCopyFailed,
                            "\(path) cannot be written: \(error.localizedDescription)")
                    }
                }
                try handle.close()
            } catch {
                // Remove the incomplete file.
                try? FileManager.default.removeItem(atPath: path)
                throw error
            }
        } catch {
            throw DittoSwiftError.translated(error)
        }
    }

    /// The error for a copy that cannot be created, by the system's reason.
    private static func copyFailure(_ reason: Int32, _ path: String) -> SDKError {
        switch reason {
        case EEXIST: SDKError(.attachmentCopyExists, "\(path) already exists")
        case ENOENT, ENOTDIR:
            SDKError(.attachmentCopyFolderMissing, "the directory of \(path) does not exist")
        case EACCES, EPERM, EROFS: SDKError(.attachmentCopyForbidden, "\(path) cannot be created: no right")
        default:
            SDKError(
                .attachmentCopyFailed, "\(path) cannot be created: \(String(cString: strerror(reason)))")
        }
    }

    private func forEachChunk(_ body: ([UInt8]) throws -> Void) throws {
        do {
            let reader = try folder.store().reader(BlobID(token.id))
            var offset: Int64 = 0
            while offset < reader.length {
                let chunk = try reader.read(at: offset)
                guard !chunk.isEmpty else {
                    throw AttachmentError(.corrupt, "the file of \(token.id) is too short")
                }
                try body(chunk)
                offset += Int64(chunk.count)
            }
        } catch let error as AttachmentError {
            throw Failure(reading: error).publicError
        } catch {
            throw DittoSwiftError.translated(error)
        }
    }

    /// Same bytes and same metadata.
    public static func == (left: DittoAttachment, right: DittoAttachment) -> Bool {
        left.token == right.token
    }
    /// Hashes the id.
    public func hash(into hasher: inout Hasher) { hasher.combine(token.id) }
}

/// An event of a fetch. At most one of `completed` and `deleted` is delivered, and no event follows it.
public enum DittoAttachmentFetchEvent: Sendable {
    /// The attachment is on this device.
    case completed(DittoAttachment)
    /// The bytes received so far.
    case progress(downloadedBytes: UInt64, totalBytes: UInt64)
    /// The attachment will not come: the server has removed it, or the documents here that named it are
    /// deleted or name it no more, and nobody who is connected brings it. The received part is removed.
    case deleted
}

/// A reason why a fetch does not go on at the moment. It goes on by itself when the reason is gone.
public struct DittoAttachmentFetchProblem: Error, Sendable, Equatable, CustomStringConvertible {
    /// Kinds of reasons.
    public enum Kind: Sendable, Equatable {
        /// Nobody who is connected has sent a byte for some time.
        case noSource
        /// Bytes came that are not the attachment's; they are asked for again.
        case wrongBytes
        /// The bytes cannot be stored on this device.
        case storage
    }

    /// The kind.
    public let kind: Kind
    /// For a person.
    public let description: String

    init(_ problem: Download.Problem) {
        switch problem {
        case .noSource(let time):
            kind = .noSource
            description = "nobody has sent a byte of the attachment for \(time.components.seconds) s"
        case .wrongBytes(let source):
            kind = .wrongBytes
            description = "\(source) has sent bytes that are not the attachment's"
        case .storage:
            kind = .storage
            description = "the attachment cannot be stored on this device; its log says why"
        }
    }
}

extension DittoStore {
    /// Creates an attachment from a file, which is copied. It is uploaded to the server as soon as sync is
    /// connected.
    /// - Throws: `storeError`: `.attachmentFileNotFound`, `.attachmentFilePermissionDenied`,
    ///   `.failedToCreateAttachment`: also for a file that changes meanwhile (`SDK-0707`), and for what is no
    ///   file. Then nothing is stored.
    public func newAttachment(
        path: String, metadata: [String: String] = [:]
    ) async throws -> DittoAttachment {
        do {
            _ = try engine.replica()
            let folder = engine.attachments
            let texts = metadata.map { (key: $0.key, value: $0.value) }
            let token = try await AttachmentFolder.disk.run { try folder.take(path, texts) }
            transfers.current?.wake()
            return DittoAttachment(token, folder)
        } catch {
            throw DittoSwiftError.translated(error)
        }
    }

    /// Creates an attachment from bytes. It is uploaded to the server as soon as sync is connected.
    /// - Throws: `storeError(.failedToCreateAttachment)`.
    public func newAttachment(data: Data, metadata: [String: String] = [:]) async throws -> DittoAttachment {
        do {
            _ = try engine.replica()
            let folder = engine.attachments
            let texts = metadata.map { (key: $0.key, value: $0.value) }
            let token = try await AttachmentFolder.disk.run { try folder.take(data, texts) }
            transfers.current?.wake()
            return DittoAttachment(token, folder)
        } catch {
            throw DittoSwiftError.translated(error)
        }
    }

    /// As `newAttachment`, for the 4.x API: blocks the calling thread.
    func newAttachmentBlocking(_ path: String, _ metadata: [String: String]) throws -> DittoAttachment {
        _ = try engine.replica()
        let token = try engine.attachments.take(path, metadata.map { (key: $0.key, value: $0.value) })
        transfers.current?.wake()
        return DittoAttachment(token, engine.attachments)
    }

    /// Fetches an attachment by the token in a document: from this device, a linked peer or the server. After
    /// a lost connection it resumes where it stopped, until the attachment is complete or the fetcher is
    /// stopped.
    /// - Throws: `storeError(.attachmentTokenInvalid)` for a dictionary that is not a token.
    @discardableResult
    public func fetchAttachment(
        token: [String: Any?], deliverOn queue: DispatchQueue = DittoStore.defaultDeliveryQueue,
        onFetchEvent: @escaping (DittoAttachmentFetchEvent) -> Void
    ) throws -> DittoAttachmentFetcher {
        try fetch(token, queue, nil, onFetchEvent)
    }

    /// As above, and tells when the fetch does not go on: `onProblem` is called when nobody has sent a byte
    /// for 30 s, and again after each further 30 s; when wrong bytes came; when the disk is full.
    @discardableResult
    public func fetchAttachment(
        token: [String: Any?], deliverOn queue: DispatchQueue = DittoStore.defaultDeliveryQueue,
        onProblem: @escaping (DittoAttachmentFetchProblem) -> Void,
        onFetchEvent: @escaping (DittoAttachmentFetchEvent) -> Void
    ) throws -> DittoAttachmentFetcher {
        try fetch(token, queue, onProblem, onFetchEvent)
    }

    private func fetch(
        _ token: [String: Any?], _ queue: DispatchQueue,
        _ onProblem: ((DittoAttachmentFetchProblem) -> Void)?,
        _ onFetchEvent: @escaping (DittoAttachmentFetchEvent) -> Void
    ) throws -> DittoAttachmentFetcher {
        do {
            _ = try engine.replica()
            guard let transfers = transfers.current,
                let token = AttachmentToken(try Arguments.value(token, path: "token", depth: 0))
            else {
                throw SDKError(
                    .attachmentTokenInvalid, "an attachment token must be a dictionary of id, len, metadata")
            }
            let id = try BlobID(token.id)
            let fetcher = DittoAttachmentFetcher(
                id, DittoAttachment(token, engine.attachments), transfers, queue, onFetchEvent, onProblem)
            transfers.add(fetcher)
            return fetcher
        } catch {
            throw DittoSwiftError.translated(error)
        }
    }

    /// The fetchers that are active.
    public var attachmentFetchers: Set<DittoAttachmentFetcher> { transfers.current?.fetchers ?? [] }
}
