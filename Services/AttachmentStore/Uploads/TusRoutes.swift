import Attachments
import Foundation
import Hummingbird
import Identity
import Machine
import NIOCore
import ServiceKit

/// `/api/v5/attachments/uploads`: resumable uploads by tus 1.0.0, so that public clients work. Extensions:
/// creation, creation-with-upload, creation-defer-length, checksum, expiration and termination.
///
/// An upload belongs to the credential that began it; for any other it is not there. When its last byte has
/// arrived it becomes an attachment, whose id the answer names in `Mimeo-Attachment-Id`.
struct TusRoutes: Sendable {
    static let path = "/api/v5/attachments/uploads"
    static let extensions =
        "creation,creation-with-upload,creation-defer-length,checksum,expiration,termination"

    let authenticator: Authenticator
    let maximumBytes: Int64
    let turns = UploadTurns()
    /// Where a database's uploads and blobs are.
    let shelf: @Sendable (Identity) throws -> UploadShelf

    func mount(on mount: inout ServiceMount) {
        mount.on(.options, Self.path) { _, _ in
            let methods = "HEAD, OPTIONS, POST"
            return Response(status: .noContent, headers: about([.allow: methods]))
        }
        mount.on(.post, Self.path) { request, context in
            await answer(request, context) { identity in try await create(request, identity) }
        }
        for method in [HTTPRequest.Method.head, .patch, .delete, .post] {
            mount.on(method, "\(Self.path)/:upload") { request, context in
                await answer(request, context) { identity in
                    let name = try BlobFailure.from {
                        try UploadName(context.parameters.require("upload"), owner: identity.credential)
                    }
                    switch try Self.method(of: request) {
                    case .head: return try await look(name, identity)
                    case .patch: return try await append(request, name, identity)
                    default: return try await remove(name, identity)
                    }
                }
            }
        }
    }

    /// A client that can only send POST names the method in a field.
    private static func method(of request: Request) throws(AttachmentStoreError) -> HTTPRequest.Method {
        guard request.method == .post else { return request.method }
        guard let text = request.headers[TusField.override], let method = HTTPRequest.Method(text),
            [HTTPRequest.Method.head, .patch, .delete].contains(method)
        else {
            throw AttachmentStoreError(
                .tusFieldInvalid, "POST to an upload needs X-HTTP-Method-Override: PATCH, DELETE or HEAD")
        }
        return method
    }

    /// Fields that describe this server.
    private func about(_ fields: HTTPFields) -> HTTPFields {
        var fields = fields
        fields[TusField.resumable] = TusField.protocolVersion
        fields[TusField.version] = TusField.protocolVersion
        fields[TusField.extensions] = Self.extensions
        fields[TusField.maximumSize] = "\(maximumBytes)"
        fields[TusField.checksumAlgorithms] = TusChecksum.algorithms.joined(separator: ",")
        return fields
    }

    /// Adds `Tus-Resumable`, also to errors.
    private func answer(
        _ request: Request, _ context: ServiceContext, _ body: (Identity) async throws -> Response
    ) async -> Response {
        var response: Response
        do {
            let identity = try await authenticator.identity(for: request)
            guard identity.rights.write.allowsAnything else {
                throw IdentityError.notPermitted("write attachments")
            }
            try request.requireTus()
            response = try await body(identity)
        } catch {
            response = ErrorAnswer.response(for: error)
            if response.status.code >= 500 {
                context.logger.error("request failed", metadata: ["error": "\(error)"])
            }
        }
        response.headers[TusField.resumable] = TusField.protocolVersion
        response.headers[.cacheControl] = "no-store"
        return response
    }

    // MARK: Creation

    private func create(_ request: Request, _ identity: Identity) async throws -> Response {
        let length = try request.tusNumber(TusField.length)
        let deferred = request.headers[TusField.deferredLength]
        guard (length != nil) != (deferred != nil), deferred == nil || deferred == "1" else {
            throw AttachmentStoreError(
                .tusFieldInvalid, "an upload begins with Upload-Length, or with Upload-Defer-Length: 1")
        }
        let text = request.headers[TusField.metadata] ?? ""
        let metadata = try TusMetadata(text)
        let expected = try BlobFailure.from { try metadata.values["id"].map { try BlobID($0) } }
        let shelf = try shelf(identity)
        try await shelf.admit(length ?? 0)
        let drawn = (0..<16).map { _ in UInt8.random(in: .min ... .max) }
        let name = UploadName(owner: identity.credential, drawn: drawn)
        let record = UploadRecord(length: length, metadata: text, expected: expected)
        try await BlobStore.onDisk { try shelf.uploads.create(name, record) }
        var fields: HTTPFields = [.location: "\(Self.path)/\(name.text)"]
        guard length == 0 || request.headers[.contentType] == TusField.pieceType else {
            fields[TusField.expires] = Self.expiry(SystemClock.seconds())
            return Response(status: .created, headers: fields)
        }
        do {
            fields.append(contentsOf: try await write(request, name, identity, shelf, at: 0))
        } catch {
            // The client does not learn where the upload is.
            try? await BlobStore.onDisk { try shelf.uploads.remove(name) }
            throw error
        }
        return Response(status: .created, headers: fields)
    }

    // MARK: State

    private func look(_ name: UploadName, _ identity: Identity) async throws -> Response {
        let shelf = try shelf(identity)
        return try await having(name, shelf, interrupt: {}) { session in
            // All bytes are here, and a crash came before the blob.
            if await session.isWhole { try await shelf.finish(session, name) }
            return Response(status: .ok, headers: try await fields(of: session, withFacts: true))
        }
    }

    /// Runs `body` with the upload open for it alone, and gives it back afterwards.
    private func having<Result: Sendable>(
        _ name: UploadName, _ shelf: UploadShelf, interrupt: @escaping @Sendable () -> Void,
        _ body: (Upload.Partial) async throws -> Result
    ) async throws -> Result {
        try await turns.take(name, interrupt: interrupt) {
            let session = try await shelf.open(name)
            do {
                let result = try await body(session)
                try await session.release()
                return result
            } catch {
                try await session.release()
                throw error
            }
        }
    }

    /// Offset, expiry and blob of an upload; with length and metadata for whoever asks for its state.
    private func fields(of session: Upload.Partial, withFacts: Bool) async throws -> HTTPFields {
        let status = try await session.confirmed()
        var fields: HTTPFields = [TusField.offset: "\(status.offset)"]
        if let blob = status.record.blob, status.isFinished {
            fields[TusField.attachment] = blob
        } else {
            fields[TusField.expires] = Self.expiry(status.changedAtSeconds)
        }
        guard withFacts else { return fields }
        if let length = status.record.length {
            fields[TusField.length] = "\(length)"
        } else {
            fields[TusField.deferredLength] = "1"
        }
        if !status.record.metadata.isEmpty { fields[TusField.metadata] = status.record.metadata }
        return fields
    }

    /// RFC 9110's date, after which the upload may be gone.
    private static func expiry(_ changedAtSeconds: Int64) -> String {
        HTTPDate.text(changedAtSeconds + Limits.uploadLifeSeconds)
    }

    // MARK: Pieces

    private func append(
        _ request: Request, _ name: UploadName, _ identity: Identity
    ) async throws -> Response {
        guard let offset = try request.tusNumber(TusField.offset) else {
            throw AttachmentStoreError(.tusFieldInvalid, "a piece needs Upload-Offset")
        }
        guard request.headers[.contentType] == TusField.pieceType else {
            throw AttachmentStoreError(.tusContentType, "a piece has Content-Type: \(TusField.pieceType)")
        }
        let shelf = try shelf(identity)
        try shelf.requireRoom()
        return Response(
            status: .noContent, headers: try await write(request, name, identity, shelf, at: offset))
    }

    /// Appends the request's body. The part that arrived of a broken-off body counts, unless it has a
    /// checksum.
    private func write(
        _ sent: Request, _ name: UploadName, _ identity: Identity, _ shelf: UploadShelf, at offset: Int64
    ) async throws -> HTTPFields {
        let request = try sent.unpacked()
        let checksum = try request.headers[TusField.checksum].map { text in try TusChecksum(text) }
        let announced = request.headers[.contentLength].flatMap { Int64($0) }
        let length = try request.method == .post && offset == 0 ? nil : request.tusNumber(TusField.length)
        let interruptible = Interruptible()
        return try await having(name, shelf, interrupt: { interruptible.interrupt() }) { session in
            if let length { try await session.setLength(length, maximumBytes) }
            try await session.begin(at: offset, announced: announced, waitsForChecksum: checksum != nil)
            let piece = TusPiece(session: session, checksum: checksum, maximumBytes: maximumBytes) {
                try authenticator.requireStanding(of: identity)
                try shelf.requireRoom()
            }
            do {
                try await interruptible.run { try await piece.read(request.body) }
                // A cancelled body ends like a whole one.
                guard !interruptible.isInterrupted, announced ?? piece.bytes == piece.bytes else {
                    throw AttachmentStoreError(
                        .uploadIncomplete, "fewer bytes arrived than Content-Length says; ask where to go on")
                }
                try await piece.end()
            } catch {
                try await piece.breakOff(after: error)
                throw error
            }
            if await session.isWhole { try await shelf.finish(session, name) }
            return try await fields(of: session, withFacts: false)
        }
    }

    private func remove(_ name: UploadName, _ identity: Identity) async throws -> Response {
        let shelf = try shelf(identity)
        let interruptible = Interruptible()
        return try await turns.take(name, interrupt: { interruptible.interrupt() }) {
            try await BlobStore.onDisk { try shelf.uploads.remove(name) }
            return Response(status: .noContent)
        }
    }
}

/// One piece of an upload, as its bytes arrive.
///
/// Unchecked: one request owns it and awaits each call before the next.
final class TusPiece: @unchecked Sendable {
    private let session: Upload.Partial
    private var checksum: TusChecksum?
    private let maximumBytes: Int64
    private let standing: @Sendable () throws -> Void
    private(set) var bytes: Int64 = 0

    init(
        session: Upload.Partial, checksum: TusChecksum?, maximumBytes: Int64,
        standing: @escaping @Sendable () throws -> Void
    ) {
        (self.session, self.checksum, self.maximumBytes) = (session, checksum, maximumBytes)
        self.standing = standing
    }

    func read(_ body: RequestBody) async throws {
        for try await buffer in body {
            try standing()
            let chunk = Array(buffer.readableBytesView)
            try await session.write(chunk, maximumBytes)
            checksum?.update(chunk)
            bytes += Int64(chunk.count)
            Measured.count("mimeo_attachment_bytes_total", [("direction", "in")], by: Int64(chunk.count))
        }
    }

    /// - Throws: `ATT-0204` when the bytes have another checksum; then none of them counts.
    func end() async throws {
        guard checksum?.isRight ?? true else {
            throw AttachmentStoreError(
                .checksumMismatch, "the bytes do not have the announced checksum; send them again")
        }
        try await session.confirm()
    }

    /// Keeps what has arrived, so that the client goes on from there; nothing of a piece that lied about its
    /// length or checksum, or of one whose checksum cannot be compared any more.
    func breakOff(after error: any Error) async throws {
        let isLie =
            (error as? AttachmentStoreError)?.code == .checksumMismatch
            || (error as? BlobFailure)?.error.code == .tooLarge
        if checksum != nil || isLie { try await session.rollBack() } else { try await session.confirm() }
    }
}
