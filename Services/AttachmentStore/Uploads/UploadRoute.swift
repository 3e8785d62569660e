import Attachments
import Foundation
import Hummingbird
import Identity
import NIOCore
import ServiceKit

/// `POST /api/v4|v5/attachments/upload`: a form with one file, or the bytes themselves under any other
/// content type. Streams to disk; a failed upload leaves no file.
struct UploadRoute {
    let place: any BlobPlace
    let maximumBytes: Int64
    /// Throws when the client's credential is revoked, or may be; called with each chunk and at the end.
    let standing: @Sendable () throws -> Void
    /// Throws if an attachment of so many bytes has no room; called with what is announced or has arrived.
    var admit: @Sendable (Int64) async throws -> Void = { _ in }
    /// Called with an attachment that was stored.
    var whenStored: @Sendable (BlobInfo) -> Void = { _ in }

    private struct Answer: Encodable {
        var id: String
        var len: Int64
    }

    func respond(to sent: Request) async throws -> Response {
        let request = try sent.unpacked()
        let announced = request.headers[.contentLength].flatMap { Int64($0) }
        let contentType = request.headers[.contentType] ?? ""
        let isForm = HeaderParameters(contentType).value == "multipart/form-data"
        // A form is larger than its file, so its length alone cannot show that the file is too large.
        if let announced, !isForm, announced > maximumBytes {
            throw BlobFailure(
                error: AttachmentError(.tooLarge, "an attachment may have at most \(maximumBytes) bytes"))
        }
        if let announced { try await admit(min(announced, maximumBytes)) }
        let info = try await isForm ? form(request, contentType) : raw(request, announced)
        whenStored(info)
        Measured.count("mimeo_attachment_bytes_total", [("direction", "in")], by: info.length)
        let encoder = JSONEncoder()
        encoder.outputFormatting = [.sortedKeys]
        return .json(try encoder.encode(Answer(id: info.id.text, len: info.length)))
    }

    private func raw(_ request: Request, _ announced: Int64?) async throws -> BlobInfo {
        let upload = try await Upload.begin(in: place)
        for try await chunk in request.body {
            try standing()
            try await upload.write(Array(chunk.readableBytesView))
        }
        try standing()
        guard announced == nil || announced == upload.length else {
            throw AttachmentStoreError(
                .uploadIncomplete, "fewer bytes arrived than Content-Length says; upload again")
        }
        if announced == nil { try await admit(upload.length) }
        return try await upload.finish()
    }

    private func form(_ request: Request, _ contentType: String) async throws -> BlobInfo {
        var parser = try MultipartParser(contentType: contentType)
        var reader = FormReader(place: place)
        for try await chunk in request.body {
            try standing()
            for event in try parser.push(chunk.readableBytesView) { try await reader.take(event) }
        }
        try standing()
        guard parser.isFinished else {
            throw AttachmentStoreError(.formMalformed, "the form ends before its closing boundary")
        }
        return try await reader.finish()
    }
}

/// Stores the one file of a form. A part with a file name is the file, and so is one named `file`. Other
/// fields are ignored.
private struct FormReader {
    let place: any BlobPlace
    private var upload: Upload?
    private var isInFile = false
    private var parts = 0
    private var fieldBytes = 0

    init(place: any BlobPlace) { self.place = place }

    mutating func take(_ event: MultipartParser.Event) async throws {
        switch event {
        case .partBegins(let headers): try await begin(HeaderParameters(headers["content-disposition"] ?? ""))
        case .data(let bytes) where isInFile: try await upload?.write(bytes)
        case .data(let bytes):
            fieldBytes += bytes.count
            guard fieldBytes <= Limits.fieldBytes else {
                throw AttachmentStoreError(
                    .formMalformed, "the form's fields are larger than \(Limits.fieldBytes) bytes")
            }
        case .partEnds: isInFile = false
        case .finished: break
        }
    }

    private mutating func begin(_ disposition: HeaderParameters) async throws {
        parts += 1
        guard parts <= Limits.parts else {
            throw AttachmentStoreError(.formMalformed, "the form has more than \(Limits.parts) parts")
        }
        guard
            disposition["filename"] != nil || disposition["filename*"] != nil || disposition["name"] == "file"
        else {
            return
        }
        guard upload == nil else {
            throw AttachmentStoreError(
                .formFileCount, "the form has more than one file; upload them one at a time")
        }
        upload = try await Upload.begin(in: place)
        isInFile = true
    }

    func finish() async throws -> BlobInfo {
        guard let upload else {
            throw AttachmentStoreError(
                .formFileCount, "the form has no file: send a part with a file name, or one named 'file'")
        }
        return try await upload.finish()
    }
}
